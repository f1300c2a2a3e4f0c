"""A few threads for each cluster: an engine that hangs delays the work of its own cluster and of no other.

`run` hands work over to its lane and returns, where lanes are open in this process, which a worker does while it runs; else it
does the work at once. A lane has at most `LANE_THREADS` threads, and one kind of work at most `KIND_THREADS` of them, so that
starts that hang leave room for stops. Of one kind, one more waits at most: work is rows that are due, and a look takes all of
them, so that a caller who asks meanwhile is answered by the look that follows. What waits when a process ends is lost, as any
hint may be (design rule 1): duties ask again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import structlog
from django.db import connections

LANE_THREADS = 3  # Of each cluster: a start, a stop and a poll at once.
KIND_THREADS = 2  # The second begins what came due after the first had looked.
IDLE_SECONDS = 30.0  # A thread without work ends; the next one costs less than a millisecond.

log = structlog.get_logger("lanes")

Work = Callable[[], object]


class Lane:
    """The threads of one cluster in this process."""

    def __init__(self, name: str, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self.name = name
        self._idle_seconds = idle_seconds
        self._waiting: dict[str, Work] = {}  # By kind, oldest first.
        self._running: Counter[str] = Counter()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._is_ending = False
        self._changed = threading.Condition()

    def ask(self, kind: str, work: Work) -> None:
        """Have the work done soon; what already waits of its kind stands for it."""
        with self._changed:
            if self._is_ending:
                return
            self._waiting.setdefault(kind, work)
            # One that was told of other work is idle until it wakes.
            if len(self._waiting) > self._idle and len(self._threads) < LANE_THREADS:
                thread = threading.Thread(target=self._go, name=f"lane-{self.name}", daemon=True)
                self._threads.add(thread)
                thread.start()
            self._changed.notify()

    def ask_to_end(self) -> None:
        """Begin nothing more; threads end after what they have in hand."""
        with self._changed:
            self._is_ending = True
            self._waiting.clear()
            self._changed.notify_all()

    def finish(self, *, until: float) -> bool:
        """Wait for the threads until a moment of `time.monotonic`; whether all have ended."""
        self.ask_to_end()
        for thread in tuple(self._threads):
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in tuple(self._threads))

    def _go(self) -> None:
        try:
            while (found := self._next()) is not None:
                kind, work = found
                try:
                    work()
                except Exception:  # The outermost frame of this thread: say it, and go on with the next one.
                    log.exception("task_failed", task=kind, lane=self.name)
                finally:
                    _let_go()
                    with self._changed:
                        self._running[kind] -= 1
                        self._changed.notify()
        finally:
            connections.close_all()
            with self._changed:
                self._threads.discard(threading.current_thread())

    def _next(self) -> tuple[str, Work] | None:
        """Wait for work; None where there was none for a while, or the lane ends."""
        deadline = time.monotonic() + self._idle_seconds
        with self._changed:
            self._idle += 1
            try:
                while not self._is_ending:
                    kind = next((kind for kind in self._waiting if self._running[kind] < KIND_THREADS), None)
                    if kind is not None:
                        self._running[kind] += 1
                        return kind, self._waiting.pop(kind)
                    seconds = deadline - time.monotonic()
                    if seconds <= 0:
                        break
                    self._changed.wait(seconds)
                # Under the same lock: a caller that asks now sees no idle thread and starts one.
                self._threads.discard(threading.current_thread())
                return None
            finally:
                self._idle -= 1


class Lanes:
    """All lanes of a process."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}
        self._lock = threading.Lock()

    def ask(self, name: str, kind: str, work: Work) -> None:
        with self._lock:
            lane = self._lanes.setdefault(name, Lane(name))
        lane.ask(kind, work)

    def keep(self, names: set[str]) -> None:
        """Let lanes of other names end: their clusters are gone."""
        with self._lock:
            gone = [self._lanes.pop(name) for name in set(self._lanes) - names]
        for lane in gone:
            lane.ask_to_end()

    def finish(self, *, seconds: float) -> bool:
        """Let what is in hand end; whether all did in time. Threads that hang are left to die with the process."""
        until = time.monotonic() + seconds
        with self._lock:
            lanes = tuple(self._lanes.values())
        for lane in lanes:
            lane.ask_to_end()
        left = [lane.name for lane in lanes if not lane.finish(until=until)]
        return not left


_open: list[Lanes] = []  # Of this process; the last one counts.


@contextlib.contextmanager
def opened(lanes: Lanes) -> Iterator[None]:
    """Work of this process goes through these lanes while the block runs."""
    _open.append(lanes)
    try:
        yield
    finally:
        _open.remove(lanes)


def run(lane: str, kind: str, work: Work) -> None:
    """Hand work over to its lane, or do it at once where no lanes are open; only then its failure is raised."""
    if _open:
        _open[-1].ask(lane, kind, work)
    else:
        work()


def _let_go() -> None:
    """Give connections back to the pool. A file of SQLite stays open: opening it costs more than most looks do."""
    for connection in connections.all(initialized_only=True):
        if connection.vendor != "sqlite" or connection.errors_occurred:
            connection.close_if_unusable_or_obsolete()
