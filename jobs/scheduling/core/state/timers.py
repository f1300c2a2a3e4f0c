"""Timers: changes that come with time alone, by their moment."""

from __future__ import annotations

import heapq
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NotBefore:
    """A job may start from `at` on."""

    at: int
    job_id: str


@dataclass(frozen=True, slots=True)
class EvictionsAllowed:
    """The limit of evictions allows more in a pool from `at` on."""

    at: int
    pool: int


@dataclass(frozen=True, slots=True)
class BookingBoundary:
    """A booking of a pool begins or ends at `at`, or gangs have to leave for it then."""

    at: int
    pool: int


Timer = NotBefore | EvictionsAllowed | BookingBoundary


class Timers:
    """All timers, each once."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str, int, Timer]] = []  # By moment and job; the number keeps it from comparing timers.
        self._known: set[Timer] = set()
        self._sequence = 0

    def set(self, timer: Timer) -> None:
        if timer not in self._known:
            self._known.add(timer)
            self._sequence += 1
            job_id = timer.job_id if isinstance(timer, NotBefore) else ""
            heapq.heappush(self._heap, (timer.at, job_id, self._sequence, timer))

    @property
    def next_at(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def due(self, now: int) -> list[Timer]:
        """The timers that are due by now, in order; each is returned once."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            *_, timer = heapq.heappop(self._heap)
            self._known.discard(timer)
            found.append(timer)
        return found
