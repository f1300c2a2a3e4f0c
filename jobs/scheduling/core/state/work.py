"""Waiting jobs and running gangs, as the core of scheduling sees them: plain values, and the shapes that many jobs share."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakValueDictionary

from jobs.scheduling.core.place.gangs import GangAsk, Placed, PlacedTask
from jobs.scheduling.core.state.decisions import WaitReason
from tenants.capacity.quota.limits import Amount
from tenants.capacity.quota.shares import Shares, Standing

Need = tuple[tuple[int, Amount], ...]
"""What a gang holds, by pool: mostly one entry."""


@dataclass(frozen=True, slots=True)
class JobAsk:
    """One attempt to run a gang. Times are whole seconds; `queue` and `pools` are numbers in `Shares` and `Machines`.

    `withheld`: why it may not start whatever there is room for: a hold, a dependency, an image, a budget, a time cap. The driver
    submits the job again without it. `order` moves it within its own queue, in seconds earlier (below 0) or later than it was
    submitted. `array` names siblings of which at most `parallel` run.
    """

    id: str
    queue: int
    gang: GangAsk
    pools: tuple[int, ...]
    submitted_at: int
    priority: int = 500
    order: int = 0
    max_runtime: int | None = None
    predicted: int | None = None  # Typical run time, by its kind's history; None: not known.
    cautious: int | None = None  # Run time that nine in ten of its kind kept within.
    not_before: int = 0
    withheld: WaitReason | None = None
    array: str = ""
    parallel: int = 0
    evictable: bool = True
    user: uuid.UUID | None = None  # The submitter; None where caps on users do not matter.
    tenants: tuple[uuid.UUID, ...] = ()  # Its tenant and all above, nearest first.
    checkpoint_seconds: int = 0  # Interval of its checkpoints; 0: none, all since its start is lost.
    grace_seconds: int | None = None  # How long it may take to leave once it is told to; None: `Policy.grace_seconds`.

    def runtime(self, *, trusted: bool) -> int | None:
        """How long it will hold its machines, in seconds: at most (`trusted`), or as predicted; None: not known."""
        if trusted or self.predicted is None:
            return self.max_runtime
        return self.predicted if self.max_runtime is None else min(self.predicted, self.max_runtime)


class Shape:
    """The properties of equal asks. `least` and `most`: what the gang holds at its smallest and largest, by pool in which it may
    start; `touches`: all pools in which it would hold something; `inside`: what of `least` it holds in that pool itself, where it
    holds any. `is_counted`: counting tells whether all tasks fit."""

    __slots__ = (
        "__weakref__",
        "gang",
        "gpu_millis",
        "inside",
        "is_counted",
        "is_elastic",
        "least",
        "most",
        "number",
        "pools",
        "touches",
    )

    def __init__(self, number: int, gang: GangAsk, pools: tuple[int, ...]) -> None:
        self.number = number
        self.gang = gang
        self.pools = pools
        self.is_counted = len(gang.roles) == 1 and not (gang.together or gang.roles[0].together)
        self.is_elastic = any(role.minimum < role.maximum for role in gang.roles)
        self.least = {pool: _need(gang, pool, largest=False) for pool in pools}
        self.inside = {pool: amount for pool, need in self.least.items() for at, amount in need if at == pool}
        self.most = {pool: _need(gang, pool, largest=True) for pool in pools} if self.is_elastic else self.least
        self.gpu_millis = sum(role.ask.gpu_millis * role.minimum for role in gang.roles)
        self.touches = tuple(sorted({*pools, *(at for need in self.least.values() for at, _ in need)}))


class Shapes:
    """The shapes of waiting jobs: the same object for equal asks, for as long as a job is waiting with it."""

    def __init__(self) -> None:
        self._known = WeakValueDictionary[tuple[GangAsk, tuple[int, ...]], Shape]()
        self._by_identity = WeakValueDictionary[tuple[int, tuple[int, ...]], Shape]()
        self._number = 0  # Of the next shape; a number is never used again, so caches by number stay true.

    def of(self, gang: GangAsk, pools: tuple[int, ...]) -> Shape:
        """The shape of an ask. It is found fastest where equal gangs are the same object."""
        shape = self._by_identity.get((id(gang), pools))
        if shape is None or shape.gang is not gang:
            shape = self._known.get((gang, pools))
            if shape is None:
                shape = self._known[gang, pools] = Shape(self._number, gang, pools)
                self._number += 1
            if shape.gang is gang:
                self._by_identity[id(gang), pools] = shape
        return shape


class Running:
    """A gang that holds machines: it runs, claims room that others are leaving, or is leaving itself."""

    __slots__ = (
        "checkpoint_at",
        "claim",
        "gpu_millis",
        "is_counted",
        "is_leaving",
        "is_preemptible",
        "is_reclaimable",
        "job",
        "key",
        "need",
        "placed",
        "standing",
        "started_at",
    )

    def __init__(self, job: JobAsk, placed: Placed, need: Need, started_at: int, standing: Standing) -> None:
        self.job = job
        self.placed = placed
        self.need = need
        self.started_at = started_at
        self.checkpoint_at = 0  # As reported; without a report in this attempt, `checkpoint_seconds` of the job counts.
        self.standing = standing
        self.claim: Transfer | None = None  # The claim that it belongs to, as claimant or as victim.
        self.is_leaving = False
        self.is_counted = False  # Whether it may be evicted, now or later.
        self.is_preemptible = False  # Whether it has run for long enough to be preempted in its own queue.
        self.is_reclaimable = False  # Whether it has run for long enough to be evicted for another queue.
        self.gpu_millis = sum(amount[2] for _, amount in need)
        self.key = (job.submitted_at, job.id)

    def saved_at(self, now: int) -> int:
        """The moment since which its work would be lost."""
        saved = max(self.started_at, self.checkpoint_at)
        every = self.job.checkpoint_seconds
        if not every or self.checkpoint_at > self.started_at:  # A report counts more than the promised interval.
            return saved
        return self.started_at + (now - self.started_at) // every * every

    def cost(self, now: int) -> int:
        """What an eviction would lose, in thousandths of GPU-seconds; where there is no GPU, in seconds."""
        return max(0, now - self.saved_at(now)) * max(self.gpu_millis, 1)


class Transfer:
    """Room that victims leave and a claimant gets. `held_rooms`: what is left over, held until the victims are gone."""

    __slots__ = ("claimant", "held_rooms", "leaving", "victims")

    def __init__(self, claimant: Running, victims: tuple[Running, ...], held_rooms: tuple[HeldRoom, ...]) -> None:
        self.claimant = claimant
        self.victims = victims
        self.leaving = {victim.job.id for victim in victims}
        self.held_rooms = held_rooms


@dataclass(frozen=True, slots=True)
class Seat:
    """Room that is kept for a gang that migrates there so that `claimant` can start. `until`: when the room is freed unless the
    gang is back; 0 while it is leaving. `job` as it ran."""

    job: JobAsk
    placed: Placed
    need: Need
    claimant: str
    until: int = 0


class HeldRoom(NamedTuple):
    """Room on one machine that is held, but by no gang."""

    machine: int
    cpu_millis: int
    memory_bytes: int
    gpu_millis: int
    devices: tuple[int, ...]
    tasks: int = 0  # For how many tasks, where their number is bounded.


@dataclass(frozen=True, slots=True)
class ClaimedSeat:
    """The `Seat` of a gang that migrates for a claim under way, as a value. `until` is 0 while the gang is leaving."""

    id: str
    pool: int
    tasks: tuple[PlacedTask, ...]
    until: int


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claim under way as a value: where the gang will start, and what else is held until all its victims are gone."""

    id: str
    pool: int
    tasks: tuple[PlacedTask, ...]
    standing: Standing
    left_over: tuple[HeldRoom, ...]
    seats: tuple[ClaimedSeat, ...] = ()
    hops: int = 0
    since: int = 0  # When the victims were told to leave; 0: not known.


def held_by(placed: Placed, pool_of: Iterable[int]) -> Need:
    """What a placed gang holds, by pool. `pool_of` has the pool of each of its tasks."""
    sums: dict[int, list[int]] = {}
    for task, pool in zip(placed.tasks, pool_of, strict=True):
        here = sums.setdefault(pool, [0, 0, 0])
        here[0] += task.ask.cpu_millis
        here[1] += task.ask.memory_bytes
        here[2] += task.ask.gpu_millis
    return tuple((pool, (here[0], here[1], here[2])) for pool, here in sorted(sums.items()))


def take_shares(shares: Shares, queue: int, need: Need) -> None:
    for pool, amount in need:
        shares.take(queue, pool, amount)


def give_shares(shares: Shares, queue: int, need: Need) -> None:
    for pool, amount in need:
        shares.give(queue, pool, amount)


def held_together(gangs: Iterable[Running]) -> list[tuple[int, Need]]:
    """The sum of what gangs hold, by queue, so that many are given back and taken again at the price of few."""
    sums: dict[int, dict[int, list[int]]] = {}
    for running in gangs:
        of_queue = sums.setdefault(running.job.queue, {})
        for pool, (cpu, memory, gpu) in running.need:
            here = of_queue.setdefault(pool, [0, 0, 0])
            here[0] += cpu
            here[1] += memory
            here[2] += gpu
    return [
        (queue, tuple((pool, (held[0], held[1], held[2])) for pool, held in sorted(pools.items())))
        for queue, pools in sorted(sums.items())
    ]


def _need(gang: GangAsk, pool: int, *, largest: bool) -> Need:
    sums: dict[int, list[int]] = {}
    for role in gang.roles:
        count = role.maximum if largest else role.minimum
        here = sums.setdefault(pool if role.pool is None else role.pool, [0, 0, 0])
        here[0] += role.ask.cpu_millis * count
        here[1] += role.ask.memory_bytes * count
        here[2] += role.ask.gpu_millis * count
    return tuple((at, (here[0], here[1], here[2])) for at, here in sorted(sums.items()))
