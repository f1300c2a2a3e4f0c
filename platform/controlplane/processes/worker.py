"""The worker: Celery tasks in a pool of threads, the ticker that fires periodic duties, and hints turned into messages.

There is no beat process. A duty is a row that any worker may claim when it is due; a hint only makes it run sooner.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import uuid
from typing import Any

import structlog
from celery.worker import WorkController

from activity import hints
from clusters.selectors import observed_clusters
from controlplane import duties
from controlplane.celery import app, broker
from controlplane.processes.loops import Loop
from kernel.clock import database_now
from reconciling import ticks

log = structlog.get_logger("worker")

THREADS = 4  # Tasks are short and mostly wait for the database or an engine.
CLUSTERS_SECONDS = 5.0  # How soon hints of a cluster that was added are passed on; duties look at it without any.
GATHER_SECONDS = 0.05  # Hints that come this close together become one message.

Message = tuple[str, tuple[tuple[str, str], ...]]


class Worker:
    """Runs inside the embedded platform, or alone in a worker process."""

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
        self._consumes = threading.Event()
        self._ticker = Loop("ticker", self._tick)
        self._sender = Loop("hints", self._send_hinted)
        self._looker = Loop("worker-clusters", self._look_for_clusters)
        self._clusters: set[uuid.UUID] = set()
        self._listening = contextlib.ExitStack()
        self._hinted: set[Message] = set()
        self._lock = threading.Lock()

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
            ready_callback=lambda consumer: self._consumes.set(),
        )
        self._thread = threading.Thread(target=self._controller.start, name="celery", daemon=True)
        self._thread.start()
        duties.register()
        ticks.install(database_now())
        self._take_up_clusters()
        for topic, task in duties.PLAIN_HINTS.items():
            self._pass_on(topic, (task, ()))
        self._sender.start()
        self._ticker.start()
        self._looker.start()

    @property
    def is_ready(self) -> bool:
        """Whether it takes messages, or has said that it cannot."""
        return self._consumes.is_set()

    @property
    def is_alive(self) -> bool:
        """False once the thread that takes messages has ended by itself: a new process would do better."""
        return self._thread is not None and self._thread.is_alive()

    def finish(self, *, seconds: float = 5.0) -> bool:
        """Take no more messages and let tasks in hand end; whether all did in time. What is left is taken up by the sweep."""
        deadline = time.monotonic() + seconds
        self._listening.close()
        loops = (self._ticker, self._sender, self._looker)
        for loop in loops:
            loop.ask_to_end()
        ended = [loop.finish(seconds=max(0.0, deadline - time.monotonic())) for loop in loops]
        if self._controller is None or self._thread is None:
            return all(ended)
        stopper = threading.Thread(target=self._stop_controller, args=(deadline,), name="celery-stop", daemon=True)
        stopper.start()
        for thread in (stopper, self._thread):
            thread.join(max(0.0, deadline - time.monotonic()))
            ended.append(not thread.is_alive())
        hub = getattr(self._controller, "hub", None)
        if hub is not None and not self._thread.is_alive():
            hub.close()  # Once more: stopped before its loop began, it made the sockets that wake it afterwards.
        return all(ended)

    def _stop_controller(self, deadline: float) -> None:
        """Celery cannot stop what has not wholly started: it would go on starting."""
        self._consumes.wait(max(0.0, deadline - time.monotonic()))
        self._controller.stop()

    def _tick(self, stop: threading.Event) -> float:
        return ticks.run_due(database_now(), holder=self.holder, fire=send)

    def _look_for_clusters(self, stop: threading.Event) -> float:
        self._take_up_clusters()
        return CLUSTERS_SECONDS

    def _take_up_clusters(self) -> None:
        """Pass on the hints of clusters that are new. One that is gone gets no hints any more."""
        for cluster_id in set(observed_clusters()) - self._clusters:
            self._clusters.add(cluster_id)
            for prefix, task in duties.CLUSTER_HINTS.items():
                self._pass_on(f"{prefix}.{cluster_id}", (task, (("cluster_id", str(cluster_id)),)))

    def _pass_on(self, topic: str, message: Message) -> None:
        def remember() -> None:
            with self._lock:
                self._hinted.add(message)
            self._sender.wake.set()

        self._listening.enter_context(hints.listen(topic, remember))

    def _send_hinted(self, stop: threading.Event) -> float:
        """Send each hinted task once, however often it was hinted at."""
        with self._lock:
            messages, self._hinted = self._hinted, set()
        for task, arguments in messages:
            send(task, **dict(arguments))
        if messages:
            stop.wait(GATHER_SECONDS)
            return 0.0
        return 60.0


def send(name: str, **arguments: Any) -> None:
    """Hint at a task. Where no broker carries the hint, its work is done here and now: it is due, whoever does it."""
    if broker.answers():
        try:
            app.send_task(name, kwargs=arguments, ignore_result=True, retry=False)
        except Exception as error:  # A broker that went away in this moment must not fail the caller.
            broker.is_away()
            log.warning("hint_not_sent", task=name, error=repr(error))
        else:
            return
    try:
        app.tasks[name].run(**arguments)
    except Exception:  # As the pool does with a task: say it, and go on with the next one.
        log.exception("task_failed", task=name)
