"""How a process of ours ends."""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
import threading
import time
from typing import NoReturn

import structlog

from controlplane.instance import CannotStart

log = structlog.get_logger("leaving")


def leave(code: int) -> None:
    """End the process. Threads of a pool would be waited for without a bound; what they have in hand is found again."""
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        logging.shutdown()
        os._exit(code)
    sys.exit(code)


def end_overdue(asked: threading.Event, *, seconds: float) -> None:
    """End this process if it is still there so long after it was asked to stop, and log where its threads stand.

    asyncio waits without a bound for the threads of its pool. A kill loses nothing; a stop that hangs keeps the next start away.
    """

    def watch() -> None:
        asked.wait()
        time.sleep(seconds)
        log.error("stop_overdue", seconds=seconds, threads=sorted(thread.name for thread in threading.enumerate()))
        faulthandler.dump_traceback(all_threads=True)  # To the end of the process's log, beside its lines.
        logging.shutdown()
        os._exit(1)

    threading.Thread(target=watch, name="overdue", daemon=True).start()


def refuse(reason: CannotStart) -> NoReturn:
    """Say why we do not start, each reason in a line of its own, and end."""
    for line in str(reason).splitlines():
        print(f"berth: {line}", file=sys.stderr)  # noqa: T201  (`make up` looks for these lines)
    sys.exit(reason.exit_code)
