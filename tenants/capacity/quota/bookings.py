"""Bookings of capacity for a window: whether one more fits, and what is held from when to when.

Times are whole seconds, a window reaches from its start up to, and without, its end. Amounts are thousandths of GPUs. A booking
is of a queue: its own jobs and those of queues below it may use what it holds, all other queues keep off.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Booked:
    """One booking that holds, or will."""

    id: uuid.UUID
    queue_id: uuid.UUID
    pool_id: uuid.UUID
    gpu_millis: int
    starts_at: int
    ends_at: int

    def meets(self, starts_at: int, ends_at: int) -> bool:
        """Whether the booking holds anything at some moment of a window."""
        return self.starts_at < ends_at and starts_at < self.ends_at


@dataclass(frozen=True, slots=True)
class Step:
    """An amount that is held from one moment up to another."""

    starts_at: int
    ends_at: int
    gpu_millis: int


@dataclass(frozen=True, slots=True)
class Clash:
    """Why a booking does not fit: at `at`, of `capacity`, others have booked `booked` already. `others` are those bookings."""

    at: int
    capacity: int
    booked: int
    need: int
    others: tuple[Booked, ...]

    @property
    def free(self) -> int:
        """What could be booked at that moment, and so in the whole window."""
        return max(0, self.capacity - self.booked)


class Bookings:
    """All bookings that hold or will, by pool. The order of input does not matter."""

    def __init__(self, booked: Iterable[Booked]) -> None:
        self._by_pool: dict[uuid.UUID, list[Booked]] = {}
        for booking in booked:
            self._by_pool.setdefault(booking.pool_id, []).append(booking)
        for own in self._by_pool.values():
            own.sort(key=lambda booking: (booking.starts_at, booking.ends_at, booking.id))

    def __bool__(self) -> bool:
        return bool(self._by_pool)

    def of(self, pool_id: uuid.UUID) -> tuple[Booked, ...]:
        """A pool's bookings, earliest first."""
        return tuple(self._by_pool.get(pool_id, ()))

    def steps(self, pool_id: uuid.UUID, *, but: Collection[uuid.UUID] = ()) -> tuple[Step, ...]:
        """What is held of a pool from when to when, without what queues in `but` hold; nothing held is left out."""
        return steps_of(booking for booking in self.of(pool_id) if booking.queue_id not in but)

    def held(self, pool_id: uuid.UUID, at: int, *, but: Collection[uuid.UUID] = ()) -> int:
        """What is held of a pool at one moment. `but`: the asker's queue and all above it, whose bookings are its own."""
        return sum(
            booking.gpu_millis
            for booking in self.of(pool_id)
            if booking.starts_at <= at < booking.ends_at and booking.queue_id not in but
        )

    def most_held(self, pool_id: uuid.UUID, starts_at: int, ends_at: int | None, *, but: Collection[uuid.UUID] = ()) -> int:
        """The most that is held at any moment of a window: what a job of that length has to leave alone. No end: for ever."""
        return max(
            (
                step.gpu_millis
                for step in self.steps(pool_id, but=but)
                if step.ends_at > starts_at and (ends_at is None or step.starts_at < ends_at)
            ),
            default=0,
        )

    def next_start(self, pool_id: uuid.UUID, after: int, *, but: Collection[uuid.UUID] = ()) -> int | None:
        """When the next booking of others begins: a job that ends by then disturbs none."""
        return min(
            (booking.starts_at for booking in self.of(pool_id) if booking.starts_at >= after and booking.queue_id not in but),
            default=None,
        )

    def clash(self, asked: Booked, capacity: int) -> Clash | None:
        """The moment at which most is booked, if the new booking does not fit there; the earliest of equals."""
        others = tuple(
            booking
            for booking in self.of(asked.pool_id)
            if booking.id != asked.id and booking.meets(asked.starts_at, asked.ends_at)
        )
        worst: Step | None = None
        for step in steps_of(others):
            meets = step.starts_at < asked.ends_at and asked.starts_at < step.ends_at
            if meets and (worst is None or step.gpu_millis > worst.gpu_millis):
                worst = step
        booked = 0 if worst is None else worst.gpu_millis
        if booked + asked.gpu_millis <= capacity:
            return None
        at = asked.starts_at if worst is None else max(asked.starts_at, worst.starts_at)
        there = tuple(booking for booking in others if booking.starts_at <= at < booking.ends_at)
        return Clash(at, capacity, booked, asked.gpu_millis, there)


def steps_of(booked: Iterable[Booked]) -> tuple[Step, ...]:
    """The sum of bookings over time, as steps that meet without overlap."""
    changes: dict[int, int] = {}
    for booking in booked:
        changes[booking.starts_at] = changes.get(booking.starts_at, 0) + booking.gpu_millis
        changes[booking.ends_at] = changes.get(booking.ends_at, 0) - booking.gpu_millis
    steps: list[Step] = []
    moments = sorted(moment for moment, change in changes.items() if change)
    level = 0
    for start, end in itertools.pairwise(moments):
        level += changes[start]
        if level:
            steps.append(Step(start, end, level))
    return tuple(steps)


def unclaimed(booked: Sequence[Booked], claimed: Collection[uuid.UUID], now: int, grace_seconds: int) -> tuple[Booked, ...]:
    """Bookings that nobody came for: begun for longer than the grace, and without a job since."""
    return tuple(
        booking
        for booking in booked
        if booking.id not in claimed and booking.starts_at + grace_seconds <= now and now < booking.ends_at
    )
