"""The worker: Celery tasks in a pool of threads, and the ticker that fires periodic duties. There is no beat process."""

from __future__ import annotations

import os
import socket
import threading
from typing import Any

import structlog
from celery.worker import WorkController

from activity import hints
from controlplane.celery import app
from controlplane.processes.loops import Loop
from kernel.clock import database_now
from reconciling import ticks

log = structlog.get_logger("worker")

THREADS = 4  # Tasks are short and mostly wait for the database or an engine.


class Worker:
    """Runs inside a thread of the embedded platform, or alone in a worker process."""

    def __init__(self, *, queues: tuple[str, ...], threads: int = THREADS) -> None:
        self.holder = f"{socket.gethostname()}:{os.getpid()}"
        # Pool threads would otherwise fall back to an empty default application and accept tasks that never run.
        app.finalize()
        app.set_default()
        app.set_current()
        self._queues = queues
        self._threads = threads
        self._controller: Any = None
        self._thread: threading.Thread | None = None
        self._ticker = Loop("ticker", self._tick)
        self._relays: list[Any] = []

    def start(self) -> None:
        self._controller = WorkController(
            app=app,
            hostname=f"worker@{self.holder}",
            pool_cls="threads",
            concurrency=self._threads,
            queues=list(self._queues),
            without_heartbeat=True,
            without_mingle=True,
            without_gossip=True,
            loglevel="WARNING",
        )
        self._thread = threading.Thread(target=self._controller.start, name="celery", daemon=True)
        self._thread.start()
        ticks.install(database_now())
        self._ticker.start()

    def finish(self) -> None:
        """Stop taking messages; tasks in hand end. What they leave is taken up by the sweep."""
        self._ticker.finish()
        if self._controller is not None:
            self._controller.stop()
        if self._thread is not None:
            self._thread.join(5)

    def _tick(self, stop: threading.Event) -> float:
        return ticks.run_due(database_now(), holder=self.holder, fire=send)


def send(name: str, **arguments: Any) -> None:
    """Hint at a task. A broker that does not answer must not fail the caller: the next tick comes anyway."""
    try:
        app.send_task(name, kwargs=arguments, ignore_result=True, retry=False)
    except Exception as error:  # Any transport error; kombu has no common base class for them.
        log.warning("hint_not_sent", task=name, error=repr(error))


def hint_on_wake(topic: str, task: str) -> Any:
    """Turn in-process hints of `topic` into messages for `task`; at most one is outstanding."""
    return hints.listen(topic, lambda: send(task))
