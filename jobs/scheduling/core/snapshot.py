"""The state of scheduling at one moment, as values.

`build` makes the `Core` that decides about it. A live installation is read into a `State`, a what-if edits one, an exported
window begins with one: so every question is answered by the code that schedules.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from jobs.scheduling.core.core import Core, Policy
from jobs.scheduling.core.place.gangs import Placed
from jobs.scheduling.core.place.machines import Machine, Machines
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.state.reservation import KeptReservation
from jobs.scheduling.core.state.work import Claimed, JobAsk, Need, Seat
from tenants.capacity.quota.bookings import Booked
from tenants.capacity.quota.caps import CapFacts
from tenants.capacity.quota.limits import Capacity, LimitedQueue
from tenants.capacity.quota.shares import Shares


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool; its number is its place in `State.pools`. `rules` None: defaults by its machines."""

    id: uuid.UUID
    name: str
    rules: PoolRules | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A gang that holds machines. `need` is what it counts for in quotas, by pool, and may be more than `placed` shows: a
    machine that is not known any more is not in `placed`. `leaving`: it was told to leave, and cannot be told again.
    `leaving_for`: the waiting job that gets its room; `migrates`: it goes on elsewhere then.
    """

    job: JobAsk
    placed: Placed
    need: Need
    started_at: int
    checkpoint_at: int = 0
    leaving: bool = False
    leaving_for: str = ""
    migrates: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """All that a core decides by. Numbers refer to pools as listed here, to queues as in `Shares.queue_ids`, to machines as in
    `Machines.at`, by (pool, name). `history` is what `Shares.history` gave at `history_at`.
    """

    at: int
    pools: tuple[Pool, ...]
    machines: tuple[Machine, ...]
    queues: tuple[LimitedQueue, ...]
    capacities: tuple[Capacity, ...]  # In the order of the pools.
    waiting: tuple[JobAsk, ...] = ()
    running: tuple[Held, ...] = ()
    policy: Policy = field(default_factory=Policy)
    history: Mapping[tuple[int, int, int], int] = field(default_factory=dict)
    history_at: int = 0
    evicted_at: tuple[tuple[int, int], ...] = ()  # (when, how many): recent evictions, for their limit.
    caps: tuple[CapFacts, ...] = ()
    bookings: tuple[Booked, ...] = ()  # Without those that are over or were given up.
    reserved: tuple[KeptReservation, ...] = ()  # Reserved starts that are sure.
    seats: tuple[Seat, ...] = ()  # Kept for jobs that migrated and have not started again.
    claims: tuple[Claimed, ...] = ()  # Claims under way: where claimants will start once their victims have left.


def build(state: State) -> Core:
    """The core that schedules from this state on. Equal states make equal cores, in whatever order they list things."""
    machines = Machines(state.machines, {index: pool.rules for index, pool in enumerate(state.pools) if pool.rules is not None})
    shares = Shares(state.queues, state.capacities)
    if state.history_at:
        shares.recall(state.history, state.history_at)
    core = Core(machines, shares, state.policy, caps=state.caps)
    core.live.now = state.at
    core.live.history_at = state.history_at or None
    core.bookings_changed(state.bookings)
    core.evicted_at.extend(sorted(state.evicted_at))
    for held in sorted(state.running, key=lambda held: held.job.id):
        core.started(held.job, held.placed, held.started_at, held.need)
        core.checkpointed(held.job.id, held.checkpoint_at)
        if held.leaving or held.leaving_for:
            core.told_to_leave(held.job.id)
    for seat in sorted(state.seats, key=lambda seat: seat.job.id):
        core.seats.restore(seat)
    for job in sorted(state.waiting, key=lambda job: (job.submitted_at, job.id)):
        core.submit(job)
    resume(core, state.running, state.reserved, state.claims)
    return core


def resume(core: Core, running: Iterable[Held], reserved: Iterable[KeptReservation], claims: Iterable[Claimed]) -> None:
    """Restore what is under way for waiting jobs: claims of the room of leaving gangs (those in `running` that leave for a job),
    and reserved starts.

    Claims with a known place come first, because another claim could be given that place.
    """
    leaving = [held for held in running if held.leaving_for]
    migrating = frozenset(held.job.id for held in leaving if held.migrates)
    kept = {claim.id: claim for claim in claims}
    victims: dict[str, list[str]] = {name: [] for name in kept}
    for held in leaving:
        victims.setdefault(held.leaving_for, []).append(held.job.id)
    for claimant in sorted(victims, key=lambda name: (name not in kept, name)):
        core.occupancy.claim_again(claimant, sorted(victims[claimant]), migrating, kept=kept.get(claimant))
    for reservation in sorted(reserved, key=lambda reservation: (reservation.at, reservation.id)):
        core.reservations.restore(reservation)


def export(core: Core, state: State) -> State:
    """The present state of a core, from which `build` makes a core that decides the same. `state`: the state that it was built
    from, for what never changes in a core: pools, queues and bookings."""
    claims = core.transfers.values()
    claimants = {transfer.claimant.job.id for transfer in claims}
    leaving_for = {name: transfer.claimant.job.id for transfer in claims for name in transfer.leaving}
    running = tuple(
        Held(
            running_gang.job,
            running_gang.placed,
            running_gang.need,
            running_gang.started_at,
            running_gang.checkpoint_at,
            running_gang.is_leaving,
            leaving_for.get(running_gang.job.id, ""),
            running_gang.job.id in core.seats.by_job,
        )
        for running_gang in sorted(core.running.values(), key=lambda running_gang: running_gang.key)
        if running_gang.job.id not in claimants
    )
    return replace(
        state,
        at=core.now,
        machines=tuple(core.machines.at),
        pools=tuple(replace(pool, rules=core.machines.rules.get(number)) for number, pool in enumerate(state.pools)),
        waiting=tuple(core.waiting()),
        running=running,
        policy=core.policy,
        history=core.shares.history(),
        history_at=core.live.history_at or 0,
        evicted_at=tuple(core.evicted_at),
        reserved=core.reservations.kept(),
        seats=core.seats.kept(),
        claims=core.claims(),
    )
