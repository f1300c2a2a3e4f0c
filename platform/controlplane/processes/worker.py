"""The worker: Celery tasks in a pool of threads, the ticker that fires periodic duties, and hints turned into messages.

There is no beat process. A duty is a row that any worker may claim when it is due; a hint only makes it run sooner. What asks the
engine of a cluster has a queue (`cluster.<id>`) and threads (`reconciling.lanes`) of its own for each cluster, so that one that
is slow or hangs delays no other. Clusters that come and go are noticed every few seconds.
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
from clusters.services import CHANGED, refresh_engines
from controlplane import duties
from controlplane.celery import DEFAULT_QUEUE, app, broker, cluster_queue, consumed_clusters, forget_cluster_queue
from controlplane.processes.loops import Loop
from kernel.clock import database_now
from reconciling import lanes, ticks
from upstream.celery import close_hub

log = structlog.get_logger("worker")

THREADS = 4  # Tasks are short and mostly wait for the database; what asks an engine is handed to the cluster's lane.
CLUSTERS_SECONDS = 5.0  # How soon the queue of a cluster that was added is consumed; its messages wait meanwhile.
GATHER_SECONDS = 0.05  # Hints that come this close together become one message.

Message = tuple[str, tuple[tuple[str, str], ...]]


class Worker:
    """Runs inside the embedded platform, or alone in a worker process."""

    def __init__(self, *, threads: int = THREADS) -> None:
        self.holder = f"{socket.gethostname()}:{os.getpid()}"
        # Pool threads would otherwise fall back to an empty default application and accept tasks that never run.
        app.finalize()
        app.set_default()
        app.set_current()
        self._name = f"worker@{self.holder}"
        self._threads = threads
        self._controller: Any = None
        self._thread: threading.Thread | None = None
        self._consumes = threading.Event()
        self._ticker = Loop("ticker", self._tick)
        self._sender = Loop("hints", self._send_hinted)
        self._looker = Loop("worker-clusters", self._look_for_clusters, topics=(CHANGED,))
        self._clusters: dict[uuid.UUID, contextlib.ExitStack] = {}  # Each with its listeners.
        self._listening = contextlib.ExitStack()
        self._lanes = lanes.Lanes()
        self._hinted: set[Message] = set()
        self._lock = threading.Lock()

    def start(self) -> None:
        self._listening.enter_context(lanes.opened(self._lanes))
        self._controller = WorkController(
            app=app,
            hostname=self._name,
            pool_cls="threads",
            concurrency=self._threads,
            queues=[DEFAULT_QUEUE, *(cluster_queue(str(each)) for each in observed_clusters())],
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
        for topic, task in duties.plain_hints().items():
            self._pass_on(topic, (task, ()), self._listening)
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
        loops = (self._ticker, self._sender, self._looker)
        for loop in loops:
            loop.ask_to_end()
        ended = [loop.finish(seconds=max(0.0, deadline - time.monotonic())) for loop in loops]
        for listening in self._clusters.values():
            listening.close()
        if self._controller is None or self._thread is None:
            self._listening.close()
            return all(ended)
        stopper = threading.Thread(target=self._stop_controller, args=(deadline,), name="celery-stop", daemon=True)
        stopper.start()
        for thread in (stopper, self._thread):
            thread.join(max(0.0, deadline - time.monotonic()))
            ended.append(not thread.is_alive())
        self._listening.close()
        ended.append(self._lanes.finish(seconds=max(0.0, deadline - time.monotonic())))
        if not self._thread.is_alive():
            close_hub(self._controller)
        return all(ended)

    def _stop_controller(self, deadline: float) -> None:
        """Celery cannot stop what has not wholly started: it would go on starting."""
        self._consumes.wait(max(0.0, deadline - time.monotonic()))
        self._controller.stop()

    def _tick(self, stop: threading.Event) -> float:
        return ticks.run_due(database_now(), holder=self.holder, fire=fire)

    def _look_for_clusters(self, stop: threading.Event) -> float:
        self._take_up_clusters()
        return CLUSTERS_SECONDS

    def _take_up_clusters(self) -> None:
        """Pass on hints of clusters that are new and take their messages; forget those that are gone, with their messages."""
        refresh_engines()
        observed = set(observed_clusters())
        for cluster_id in observed - set(self._clusters):
            listening = self._clusters[cluster_id] = contextlib.ExitStack()
            for prefix, task in duties.cluster_hints().items():
                message = (task, (("cluster_id", str(cluster_id)),))
                self._pass_on(f"{prefix}.{cluster_id}", message, listening)
        for cluster_id in set(self._clusters) - observed:
            self._clusters.pop(cluster_id).close()
        wanted = {str(each) for each in observed}
        self._lanes.keep(wanted)
        if self.is_ready and broker.answers():
            try:
                self._consume(wanted)
            except Exception as error:  # A broker that went away in this moment: looked at again in seconds.
                broker.is_away()
                log.warning("queues_not_changed", error=repr(error))

    def _consume(self, wanted: set[str]) -> None:
        """Tell our own consumer which queues there are: in its thread, as Celery has it, by a message. One that is lost is sent
        again at the next look."""
        consumed = consumed_clusters()
        for cluster_id in wanted - consumed:
            app.control.add_consumer(cluster_queue(cluster_id), destination=[self._name], reply=False)
        for cluster_id in consumed - wanted:
            app.control.cancel_consumer(cluster_queue(cluster_id), destination=[self._name], reply=False)
            forget_cluster_queue(cluster_id)

    def _pass_on(self, topic: str, message: Message, listening: contextlib.ExitStack) -> None:
        def remember() -> None:
            with self._lock:
                self._hinted.add(message)
            self._sender.wake.set()

        listening.enter_context(hints.listen(topic, remember))

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


def fire(name: str) -> None:
    """Hint at a duty that is due; at one that asks engines once for each cluster."""
    if not duties.asks_engines(name):
        send(name)
        return
    for cluster_id in observed_clusters():
        send(name, cluster_id=str(cluster_id))


def send(name: str, **arguments: Any) -> None:
    """Hint at a task. Where no broker carries the hint, its work is done here and now: it is due, whichever process does it."""
    if broker.answers():
        try:
            queue = cluster_queue(arguments["cluster_id"]) if "cluster_id" in arguments else DEFAULT_QUEUE
            app.send_task(name, kwargs=arguments, queue=queue, ignore_result=True, retry=False)
        except Exception as error:  # A broker that went away in this moment must not fail the caller.
            broker.is_away()
            log.warning("hint_not_sent", task=name, error=repr(error))
        else:
            return
    try:
        app.tasks[name].run(**arguments)
    except Exception:  # As the pool does with a task: say it, and go on with the next one.
        log.exception("task_failed", task=name)
