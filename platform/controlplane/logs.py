"""Logs are events with fields, one JSON object a line; never a token, a secret or a user's text inside a message."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import structlog

LOG_FILE_BYTES = 64 * 1024**2  # Weeks of a quiet installation; a noisy one must not fill the disk.


def set_up(*, debug: bool = False) -> None:
    """Configure structlog and the standard library's logging for this process; may be called twice."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.DEBUG if debug else logging.INFO)
    for noisy in ("uvicorn.access", "kombu", "amqp", "celery.worker.strategy", "celery.app.trace", "httpx2", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    logging.getLogger("django.request").setLevel(logging.ERROR)  # Refusals have a line already: that of their request.


def bound_file(path: Path, descriptor: int = 2, *, bytes_max: int = LOG_FILE_BYTES) -> int:
    """Keep the file that this process logs to below `bytes_max`: past it, its older half goes. Returns the bytes dropped.

    The file stays the same one, so that its followers and the descriptor that everything writes to go on. Does nothing
    where `descriptor` is not that file: the service manager keeps the log then.
    """
    try:
        if not os.path.samestat(path.stat(), os.fstat(descriptor)):
            return 0
        size = path.stat().st_size
        if size <= bytes_max:
            return 0
        with path.open("rb") as file:
            file.seek(size - bytes_max // 2)
            file.readline()  # A line that was cut.
            kept = file.read()
        os.ftruncate(descriptor, 0)
        os.write(descriptor, kept)
    except OSError:
        return 0
    return size - len(kept)
