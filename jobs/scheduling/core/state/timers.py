"""What only time brings, by the moment at which it does."""

from __future__ import annotations

import heapq
from enum import IntEnum
from typing import NamedTuple


class What(IntEnum):
    NOT_BEFORE = 0  # A job may start from now on.
    LOOK = 1  # More may be evicted in a pool.
    BOUNDARY = 2  # What tenants have reserved of a pool for a time begins or ends, or is about to.


class Timer(NamedTuple):
    at: int
    what: What
    pool: int = -1
    job_id: str = ""


class Timers:
    """All of them, each once."""

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._known: set[Timer] = set()

    def set(self, timer: Timer) -> None:
        if timer not in self._known:
            self._known.add(timer)
            heapq.heappush(self._heap, timer)

    @property
    def next_at(self) -> int | None:
        return self._heap[0].at if self._heap else None

    def due(self, now: int) -> list[Timer]:
        """Those that are due by now, in order; each is told once."""
        found = []
        while self._heap and self._heap[0].at <= now:
            timer = heapq.heappop(self._heap)
            self._known.discard(timer)
            found.append(timer)
        return found
