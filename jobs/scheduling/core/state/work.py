"""What waits and what runs, as the core of scheduling sees it: plain values, and the shapes that many jobs share."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from jobs.scheduling.core.place.gangs import GangAsk, Placed, PlacedTask
from jobs.scheduling.core.state.decisions import Reason
from tenants.quota.limits import Amount
from tenants.quota.shares import Shares, Standing

Need = tuple[tuple[int, Amount], ...]
"""What a gang holds, by pool: mostly one entry."""


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt to run a gang. Times are whole seconds; `queue` and `pools` are numbers in `Shares` and `Machines`.

    `withheld` says why it may not start whatever there is room for: a hold, a dependency, an image, a budget, a time cap. It is
    the driver's business to submit the job again without it. `order` moves it within its own queue, in seconds earlier (below
    0) or later than it was submitted. `array` names siblings of which at most `parallel` run.
    """

    id: str
    queue: int
    gang: GangAsk
    pools: tuple[int, ...]
    submitted_at: int
    priority: int = 500
    order: int = 0
    max_runtime: int | None = None
    predicted: int | None = None  # How long it will typically run, by its kind's history; None where nothing is known.
    cautious: int | None = None  # How long at most, by nine in ten of its kind.
    not_before: int = 0
    withheld: Reason | None = None
    array: str = ""
    parallel: int = 0
    evictable: bool = True
    user: uuid.UUID | None = None  # Who submitted it; None where caps on users do not matter.
    tenants: tuple[uuid.UUID, ...] = ()  # Its tenant and all above, nearest first.
    checkpoint_seconds: int = 0  # How often it can be resumed from; 0: never, all since its start is lost.

    def runtime(self, *, trusted: bool) -> int | None:
        """How long it will hold its machines: at most (`trusted`), or as far as is known."""
        if trusted or self.predicted is None:
            return self.max_runtime
        return self.predicted if self.max_runtime is None else min(self.predicted, self.max_runtime)


class Shape:
    """What equal asks have in common; `least` and `most` are what the gang holds at its smallest and largest, by pool in which it
    may start; `touches` are all pools in which it would hold something. `inside` is what of `least` it holds in that pool itself,
    where it holds any."""

    __slots__ = (
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
        self.is_counted = len(gang.roles) == 1 and not (gang.together or gang.roles[0].together)  # Whether all fit, that is.
        self.is_elastic = any(role.minimum < role.maximum for role in gang.roles)
        self.least = {pool: _need(gang, pool, largest=False) for pool in pools}
        self.inside = {pool: amount for pool, need in self.least.items() for at, amount in need if at == pool}
        self.most = {pool: _need(gang, pool, largest=True) for pool in pools} if self.is_elastic else self.least
        self.gpu_millis = sum(role.ask.gpu_millis * role.minimum for role in gang.roles)
        self.touches = tuple(sorted({*pools, *(at for need in self.least.values() for at, _ in need)}))


class Shapes:
    """The one shape of equal asks."""

    def __init__(self) -> None:
        self._known: dict[tuple[GangAsk, tuple[int, ...]], Shape] = {}
        self._by_identity: dict[tuple[int, tuple[int, ...]], Shape] = {}

    def of(self, gang: GangAsk, pools: tuple[int, ...]) -> Shape:
        """Whoever submits many does well to hand in the same object for equal ones."""
        shape = self._by_identity.get((id(gang), pools))
        if shape is None or shape.gang is not gang:
            shape = self._known.get((gang, pools))
            if shape is None:
                shape = self._known[gang, pools] = Shape(len(self._known), gang, pools)
            if shape.gang is gang:
                self._by_identity[id(gang), pools] = shape
        return shape


class Running:
    """A gang that holds machines: because it runs, because it claims what others are leaving, or because it is leaving."""

    __slots__ = (
        "checkpoint_at",
        "claim",
        "gpu_millis",
        "is_counted",
        "is_leaving",
        "is_reclaimable",
        "is_ripe",
        "job",
        "key",
        "need",
        "placed",
        "standing",
        "started_at",
    )

    def __init__(self, job: Job, placed: Placed, need: Need, started_at: int, standing: Standing) -> None:
        self.job = job
        self.placed = placed
        self.need = need
        self.started_at = started_at
        self.checkpoint_at = 0  # As reported; without a report in this attempt, `checkpoint_seconds` of the job counts.
        self.standing = standing
        self.claim: Transfer | None = None  # The claim that it belongs to, as claimant or as one that leaves for it.
        self.is_leaving = False
        self.is_counted = False  # Among those who may be evicted, now or later.
        self.is_ripe = False  # Whether it has run for long enough to be preempted in its own queue.
        self.is_reclaimable = False  # Whether it has run for long enough to be evicted for another queue.
        self.gpu_millis = sum(amount[2] for _, amount in need)
        self.key = (job.submitted_at, job.id)

    def saved_at(self, now: int) -> int:
        """From when on its work would be lost."""
        saved = max(self.started_at, self.checkpoint_at)
        every = self.job.checkpoint_seconds
        if not every or self.checkpoint_at > self.started_at:  # What was seen counts more than what was promised.
            return saved
        return self.started_at + (now - self.started_at) // every * every

    def cost(self, now: int) -> int:
        """What an eviction would lose, in thousandths of GPU-seconds; where there is no GPU, in seconds."""
        return max(0, now - self.saved_at(now)) * max(self.gpu_millis, 1)


class Transfer:
    """Room that some leave and one claims. `held_rooms` are what is left over, held until those who leave are gone."""

    __slots__ = ("claimant", "held_rooms", "leaving", "victims")

    def __init__(self, claimant: Running, victims: tuple[Running, ...], held_rooms: tuple[HeldRoom, ...]) -> None:
        self.claimant = claimant
        self.victims = victims
        self.leaving = {victim.job.id for victim in victims}
        self.held_rooms = held_rooms


@dataclass(frozen=True, slots=True)
class Seat:
    """Room that is kept for a gang that moves there so that `claimant` can start. `until`: since it has left, when the room is
    given to others; 0 while it is leaving. `job` as it ran."""

    job: Job
    placed: Placed
    need: Need
    claimant: str
    until: int = 0


class HeldRoom(NamedTuple):
    """Room on one machine that is held for nobody."""

    machine: int
    cpu_millis: int
    memory_bytes: int
    gpu_millis: int
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClaimedSeat:
    """The `Seat` of one that moves for a claim under way, as it is kept beyond a core. `until` is 0 while it is leaving."""

    id: str
    pool: int
    tasks: tuple[PlacedTask, ...]
    until: int


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claim under way as it is kept beyond a core: where the gang will start, and what else is held until all who leave for it
    are gone."""

    id: str
    pool: int
    tasks: tuple[PlacedTask, ...]
    standing: Standing
    left_over: tuple[HeldRoom, ...]
    seats: tuple[ClaimedSeat, ...] = ()
    hops: int = 0


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
    """What gangs hold, by queue: many are given back, and taken again, at the price of few."""
    sums: dict[int, dict[int, list[int]]] = {}
    for one in gangs:
        of_queue = sums.setdefault(one.job.queue, {})
        for pool, (cpu, memory, gpu) in one.need:
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
