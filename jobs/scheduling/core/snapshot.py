"""All that a scheduler goes by at one moment, as values: what a live installation has, what a question changes, what is kept.

`build` makes the `Core` that decides about it. A live installation is read into one, a what-if edits one, a window that was
exported begins with one: so every question is answered by the code that schedules.
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
from jobs.scheduling.core.state.work import Claimed, Job, Need, Seat
from tenants.quota.bookings import Booked
from tenants.quota.caps import UserCap
from tenants.quota.limits import Capacity, LimitedQueue
from tenants.quota.shares import Shares


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool as the scheduler numbers it: its place in `State.pools`. `rules` None: by what its machines are."""

    id: uuid.UUID
    name: str
    rules: PoolRules | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A gang that holds machines. `need` is what it counts for in quotas, by pool, and may be more than `placed` shows: a
    machine that is not known any more is not in `placed`. `leaving`: it was told to go, and cannot be told again.
    `leaving_for`: the waiting job that gets its room; `moves`: it goes on elsewhere then.
    """

    job: Job
    placed: Placed
    need: Need
    started_at: int
    checkpoint_at: int = 0
    leaving: bool = False
    leaving_for: str = ""
    moves: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """Numbers refer to what they number in `build`'s order: pools as listed here, queues as in `Shares.queue_ids`, machines as in
    `Machines.at`, by (pool, name). `history` is what `Shares.history` gave at `history_at`.
    """

    at: int
    pools: tuple[Pool, ...]
    machines: tuple[Machine, ...]
    queues: tuple[LimitedQueue, ...]
    capacities: tuple[Capacity, ...]  # In the order of the pools.
    waiting: tuple[Job, ...] = ()
    running: tuple[Held, ...] = ()
    policy: Policy = field(default_factory=Policy)
    history: Mapping[tuple[int, int, int], int] = field(default_factory=dict)
    history_at: int = 0
    evicted_at: tuple[tuple[int, int], ...] = ()  # (when, how many) of late, for the brake.
    caps: tuple[UserCap, ...] = ()
    windows: tuple[Booked, ...] = ()  # What tenants have booked for a time; what is over or was given up is left out.
    reserved: tuple[KeptReservation, ...] = ()  # Starts that are booked already.
    unplannable: tuple[str, ...] = ()  # Jobs for which none was found, as machines and limits are.
    seats: tuple[Seat, ...] = ()  # Kept for jobs that moved and have not started again.
    claims: tuple[Claimed, ...] = ()  # Where those will start who wait until others have left for them.


def build(state: State) -> Core:
    """The core that schedules from here on. The same state makes the same core, in whatever order it lists things."""
    machines = Machines(state.machines, {index: pool.rules for index, pool in enumerate(state.pools) if pool.rules is not None})
    shares = Shares(state.queues, state.capacities)
    if state.history_at:
        shares.recall(state.history, state.history_at)
    core = Core(machines, shares, state.policy, caps=state.caps)
    core.live.now = state.at
    core.live.history_at = state.history_at or None
    core.windows_changed(state.windows)
    core.evicted_at.extend(sorted(state.evicted_at))
    for held in sorted(state.running, key=lambda one: one.job.id):
        core.started(held.job, held.placed, held.started_at, held.need)
        core.checkpointed(held.job.id, held.checkpoint_at)
        if held.leaving or held.leaving_for:
            core.told_to_leave(held.job.id)
    for seat in sorted(state.seats, key=lambda one: one.job.id):
        core.seats.restore(seat)
    for job in sorted(state.waiting, key=lambda one: (one.submitted_at, one.id)):
        core.submit(job)
    resume(core, state.running, state.reserved, state.claims)
    core.reservations.restore_unplannable(state.unplannable)
    return core


def resume(core: Core, running: Iterable[Held], reserved: Iterable[KeptReservation], claims: Iterable[Claimed]) -> None:
    """Go on with what is under way for those who wait: claims of the room of others who leave (`running` has them, maybe beside
    others), and starts that are booked.

    First come the claims whose place is known, which no other may be given then.
    """
    leaving = [held for held in running if held.leaving_for]
    moving = frozenset(held.job.id for held in leaving if held.moves)
    kept = {one.id: one for one in claims}
    victims: dict[str, list[str]] = {name: [] for name in kept}
    for held in leaving:
        victims.setdefault(held.leaving_for, []).append(held.job.id)
    for claimant in sorted(victims, key=lambda name: (name not in kept, name)):
        core.claim_again(claimant, sorted(victims[claimant]), moving, kept=kept.get(claimant))
    for one in sorted(reserved, key=lambda one: (one.at, one.id)):
        core.reservations.restore(one)


def export(core: Core, state: State) -> State:
    """The state that a core is in by now, from which `build` makes one that decides the same. `state` is what it was built from,
    for what never changes in a core: pools, queues and what tenants have booked."""
    claims = core.transfers.values()
    claimants = {made.claimant.job.id for made in claims}
    leaving_for = {name: made.claimant.job.id for made in claims for name in made.leaving}
    running = tuple(
        Held(
            one.job,
            one.placed,
            one.need,
            one.started_at,
            one.checkpoint_at,
            one.is_leaving,
            leaving_for.get(one.job.id, ""),
            one.job.id in core.seats.by_job,
        )
        for one in sorted(core.running.values(), key=lambda one: one.key)
        if one.job.id not in claimants
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
        unplannable=core.reservations.unplannable(),
        seats=core.seats.kept(),
        claims=core.claims(),
    )
