"""What if: a state with some of it changed, and what a pass would then do against what it does without.

A change is a value, and `apply` gives the changed state: the same `State` that the scheduler is built from, so the answer comes
from the code that schedules. Nothing is guessed: who has to leave a machine that is taken away waits again, with the place in
the order that it had; what a limit or a price of priority does to others shows in their decisions, too.

Changes may name what is not there, or add what is: `unknown` lists these, and `apply` passes over them. Whether a changed tree of
limits holds is judged by `tenants/quota/edits.py`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobs.scheduling.core.core import Core, Policy
from jobs.scheduling.core.place.gangs import GangAsk, Placed, PlacedTask, RoleAsk
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Machine, TaskAsk
from jobs.scheduling.core.snapshot import Held, State, build
from jobs.scheduling.core.state.decisions import Admit, Claim, Decision, Evict, Reason
from jobs.scheduling.core.state.work import HeldRoom, Job
from kernel.resources import Resources
from tenants.quota.bookings import Booked
from tenants.quota.caps import CAPPED, UserCap, UserCaps
from tenants.quota.edits import Change as SetLimits
from tenants.quota.edits import edited
from tenants.quota.limits import Capacity


@dataclass(frozen=True, slots=True)
class Submit:
    """These jobs wait, too. One whose id waits already takes its place: so an ask, a priority or an order is changed."""

    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """A waiting job asks for something else, would go to other pools, or ends sooner. What is None stays."""

    job_id: str
    gang: GangAsk | None = None
    pools: tuple[int, ...] | None = None
    max_runtime: int | None = None


@dataclass(frozen=True, slots=True)
class Rank:
    """A waiting job has another priority, or another place in its own queue (`order`: in seconds, see `Job`)."""

    job_id: str
    priority: int | None = None
    order: int | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """Nothing withholds a waiting job any more: no hold, dependency, image, budget, time or sibling of its array."""

    job_id: str


@dataclass(frozen=True, slots=True)
class End:
    """A job runs, or waits, no longer; what it held is free."""

    job_id: str


@dataclass(frozen=True, slots=True)
class AddMachines:
    """More machines, under names that their pools do not have yet."""

    machines: tuple[Machine, ...]


@dataclass(frozen=True, slots=True)
class RemoveMachine:
    """A machine is gone. Whoever ran on it, with any of its tasks, waits again."""

    pool: int
    name: str


@dataclass(frozen=True, slots=True)
class Block:
    """Nothing may start on a machine, for this reason; "": something may again. What runs there stays."""

    pool: int
    name: str
    blocked: str = ""


@dataclass(frozen=True, slots=True)
class SetPolicy:
    """Serve the queues by another policy."""

    policy: Policy


@dataclass(frozen=True, slots=True)
class Reserve:
    """A tenant has booked GPUs for a window, too."""

    window: Booked


@dataclass(frozen=True, slots=True)
class SetCap:
    """How much of `what` (see `UserCap`) one user, or all users of a tenant `TOGETHER`, may hold there; None: any amount. A user
    without a line of their own gets one, which begins as that of everybody."""

    tenant_id: uuid.UUID
    user_id: uuid.UUID
    what: str
    amount: int | None


Change = Submit | Reserve | Ask | Rank | Release | End | AddMachines | RemoveMachine | Block | SetLimits | SetCap | SetPolicy


@dataclass(frozen=True, slots=True)
class Start:
    """A job starts now, on these machines."""

    job_id: str
    placed: Placed
    machines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Waits:
    """A job waits and why. `clears`: it has been given room that these are told to leave, and starts when they have."""

    job_id: str
    reason: Reason | None
    clears: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass over a state decides."""

    starts: tuple[Start, ...]
    waits: tuple[Waits, ...]
    evicted: tuple[Evict, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Both passes, and in what they differ: ids, in order. `displaced`: ran on machines that were taken away."""

    before: Pass
    after: Pass
    starts: tuple[str, ...]  # Would start now, and would not without the change.
    starts_not: tuple[str, ...]  # Would start without it, and not with it.
    waits: tuple[str, ...]  # Would wait that did not, or for another reason, or clear other room.
    evicted: tuple[str, ...]
    spared: tuple[str, ...]  # Would be evicted without it only.
    displaced: tuple[str, ...]
    unknown: tuple[int, ...] = ()  # Indexes of changes that name what is not there.


def what_if(state: State, changes: Sequence[Change]) -> Answer:
    """One pass with these changes against one without."""
    changed = apply(state, changes)
    before, after = one_pass(state), one_pass(changed)
    started, starting = {one.job_id for one in before.starts}, {one.job_id for one in after.starts}
    still = {job.id for job in changed.waiting} | {one.job.id for one in changed.running}
    old = {one.job_id: one for one in before.waits}
    evicted, evicting = {one.id for one in before.evicted}, {one.id for one in after.evicted}
    ran = {one.job.id for one in state.running}
    return Answer(
        before,
        after,
        starts=tuple(sorted(starting - started)),
        starts_not=tuple(sorted((started - starting) & still)),
        waits=tuple(one.job_id for one in after.waits if _differs(old.get(one.job_id), one)),
        evicted=tuple(sorted(evicting - evicted)),
        spared=tuple(sorted((evicted - evicting) & still)),
        displaced=tuple(sorted(job.id for job in changed.waiting if job.id in ran)),
        unknown=unknown(state, changes),
    )


def one_pass(state: State) -> Pass:
    """What the next pass decides about a state."""
    core = build(state)
    return told(state, core, core.decide(state.at))


def told(state: State, core: Core, decisions: Iterable[Decision]) -> Pass:
    """The decisions of a pass with a reason for everybody who waits; one that has to leave in the same pass does not start."""
    decisions = tuple(decisions)
    evicted = {one.id for one in decisions if isinstance(one, Evict)}
    placed = {one.id: one.placed for one in decisions if isinstance(one, Admit) and one.id not in evicted}
    claims = {one.id: one.victims for one in decisions if isinstance(one, Claim)}
    return Pass(
        tuple(Start(job_id, placed[job_id], _names(core, placed[job_id])) for job_id in sorted(placed)),
        tuple(
            Waits(job.id, core.why(job.id), claims.get(job.id, ()))
            for job in sorted(state.waiting, key=lambda one: one.id)
            if job.id not in placed
        ),
        tuple(sorted((one for one in decisions if isinstance(one, Evict)), key=lambda one: one.id)),
    )


def _names(core: Core, placed: Placed) -> tuple[str, ...]:
    return tuple(core.machines.at[machine].name for machine in sorted({task.machine for task in placed.tasks}))


def after_pass(state: State, core: Core, decisions: Iterable[Decision]) -> State:
    """The state that a pass leaves behind: what it started runs, and who has to leave was told."""
    admitted = {one.id for one in decisions if isinstance(one, Admit)}
    leaving = {one.id: one.claimant for one in decisions if isinstance(one, Evict)}
    moving = {one.id for one in decisions if isinstance(one, Evict) and one.to is not None}
    state = replace(state, reserved=core.reservations.kept(), unplannable=core.reservations.unplannable(), claims=core.claims())
    if not admitted and not leaving:
        return state
    runs = [
        replace(one, leaving_for=leaving.get(one.job.id, one.leaving_for), moves=one.moves or one.job.id in moving)
        for one in state.running
    ]
    for job_id in sorted(admitted & core.running.keys()):
        one = core.running[job_id]
        runs.append(Held(one.job, one.placed, one.need, one.started_at, leaving_for=leaving.get(job_id, "")))
    waiting = tuple(job for job in state.waiting if job.id not in admitted)
    return replace(state, waiting=waiting, running=tuple(runs), evicted_at=tuple(core.evicted_at))


def apply(state: State, changes: Sequence[Change]) -> State:
    """The state with these changes made, in their order; what names nothing that is there changes nothing."""
    for change in changes:
        state = _plannable_again(_apply(state, change), state, change)
    return state


def _plannable_again(after: State, before: State, change: Change) -> State:
    """A start may be found now for those for whom none was, as in the core that is told of such a change."""
    match change:
        case Ask() | Rank() | Release():
            return replace(after, unplannable=tuple(one for one in after.unplannable if one != change.job_id))
        case End():
            ended = next((one.job for one in before.running if one.job.id == change.job_id), None)
            if ended is None or ended.max_runtime or ended.cautious or before.policy.assumed_runtime_seconds:
                return after
            return replace(after, unplannable=())
        case Submit() | SetCap() | SetPolicy():
            return after
        case _:
            return replace(after, unplannable=())


def unknown(state: State, changes: Sequence[Change]) -> tuple[int, ...]:
    """Which changes name a job, machine or queue that is not there when their turn comes."""
    found = []
    for index, change in enumerate(changes):
        if not _is_known(state, change):
            found.append(index)
        state = _apply(state, change)
    return tuple(found)


def _is_known(state: State, change: Change) -> bool:
    match change:
        case Ask() | Rank() | Release():
            return any(job.id == change.job_id for job in state.waiting)
        case End():
            return any(change.job_id == job.id for job in (*state.waiting, *(one.job for one in state.running)))
        case RemoveMachine() | Block():
            return any((one.pool, one.name) == (change.pool, change.name) for one in state.machines)
        case SetLimits():
            return any(queue.id == change.queue_id for queue in state.queues)
        case Reserve():
            return any(queue.id == change.window.queue_id for queue in state.queues)
        case AddMachines():
            return {(one.pool, one.name) for one in change.machines}.isdisjoint(_order(state.machines))
        case _:
            return True


def _apply(state: State, change: Change) -> State:
    match change:
        case Submit():
            ids = {job.id for job in change.jobs}
            return replace(state, waiting=(*(job for job in state.waiting if job.id not in ids), *change.jobs))
        case Ask():
            state = replace(state, reserved=tuple(one for one in state.reserved if one.id != change.job_id))
            return _edit(state, change.job_id, gang=change.gang, pools=change.pools, max_runtime=change.max_runtime)
        case Rank():
            return _edit(state, change.job_id, priority=change.priority, order=change.order)
        case Release():
            waiting = tuple(
                replace(job, withheld=None, not_before=0, array="", parallel=0) if job.id == change.job_id else job
                for job in state.waiting
            )
            return replace(state, waiting=waiting)
        case End():
            return _end(state, change.job_id)
        case AddMachines():
            return _with_machines(state, change.machines)
        case RemoveMachine():
            return _without_machine(state, change)
        case Block():
            machines = tuple(
                replace(one, blocked=change.blocked) if (one.pool, one.name) == (change.pool, change.name) else one
                for one in state.machines
            )
            return replace(state, machines=machines)
        case SetLimits():
            return replace(state, queues=edited(state.queues, (change,)))
        case SetCap():
            return replace(state, caps=_capped(state.caps, change))
        case SetPolicy():
            return replace(state, policy=change.policy)
        case Reserve():
            return replace(state, windows=(*state.windows, change.window))


def _capped(caps: tuple[UserCap, ...], change: SetCap) -> tuple[UserCap, ...]:
    """The caps with a line changed, or a new one where the user had only that of everybody."""
    mine = UserCaps(caps).cap_of(change.tenant_id, change.user_id) or UserCap(change.tenant_id, change.user_id)
    amounts = {what: getattr(mine, what) for what in CAPPED} | {change.what: change.amount}
    line = UserCap(change.tenant_id, change.user_id, **amounts)
    place = (change.tenant_id, change.user_id)
    return (*(one for one in caps if (one.tenant_id, one.user_id) != place), line)


def _edit(state: State, job_id: str, **values: Any) -> State:
    """Other values for fields of a waiting job; None leaves one as it is."""
    given = {name: value for name, value in values.items() if value is not None}
    return replace(state, waiting=tuple(replace(job, **given) if job.id == job_id else job for job in state.waiting))


def _end(state: State, job_id: str) -> State:
    """Who leaves for a job that gives up is still leaving; nobody gets the room meanwhile but by a new decision."""
    running = tuple(
        replace(one, leaving=True, leaving_for="") if one.leaving_for == job_id else one
        for one in state.running
        if one.job.id != job_id
    )
    return replace(state, running=running, waiting=tuple(job for job in state.waiting if job.id != job_id))


def _with_machines(state: State, machines: Sequence[Machine]) -> State:
    new = {(one.pool, one.name): one for one in machines}
    kept = {(one.pool, one.name): one for one in state.machines}
    return _renumbered(state, {**new, **kept}, state.running, state.waiting)


def _without_machine(state: State, change: RemoveMachine) -> State:
    kept = {(one.pool, one.name): one for one in state.machines}
    if kept.pop((change.pool, change.name), None) is None:
        return state
    number = _order(state.machines).index((change.pool, change.name))
    running, waiting = [], list(state.waiting)
    for held in state.running:
        if all(task.machine != number for task in held.placed.tasks):
            running.append(held)
        elif not held.leaving and not held.leaving_for and held.placed.tasks:
            waiting.append(replace(held.job, gang=gang_of(held)))
    return _renumbered(state, kept, running, waiting)


def gang_of(held: Held) -> GangAsk:
    """What one who runs asks for again: its own ask where that is known, else as many tasks as it has."""
    if held.job.gang.roles:
        return held.job.gang
    counts: dict[tuple[str, TaskAsk], int] = {}
    for task in held.placed.tasks:
        counts[task.role, task.ask] = counts.get((task.role, task.ask), 0) + 1
    roles = [
        RoleAsk(f"{role}-{number}" if number else role, ask, count, count)
        for number, ((role, ask), count) in enumerate(sorted(counts.items(), key=lambda item: (item[0][0], repr(item[0][1]))))
    ]
    return GangAsk(tuple(roles))


def _renumbered(
    state: State, machines: Mapping[tuple[int, str], Machine], running: Iterable[Held], waiting: Iterable[Job]
) -> State:
    """Machines are numbered by pool and name, so every placement is written anew; capacities grow and shrink with them. What was
    booked, claimed or kept on a machine that is gone is gone."""
    before = _order(state.machines)
    position = {key: index for index, key in enumerate(sorted(machines))}
    gone = {number for number, key in enumerate(before) if key not in position}

    def there(tasks: Iterable[PlacedTask]) -> tuple[PlacedTask, ...]:
        return tuple(replace(task, machine=position[before[task.machine]]) for task in tasks)

    def is_there(tasks: Iterable[PlacedTask | HeldRoom]) -> bool:
        return all(task.machine not in gone for task in tasks)

    moved = [replace(held, placed=replace(held.placed, tasks=there(held.placed.tasks))) for held in running]
    reserved = [one._replace(tasks=there(one.tasks)) for one in state.reserved if is_there(one.tasks)]
    seats = [
        replace(one, placed=replace(one.placed, tasks=there(one.placed.tasks)))
        for one in state.seats
        if is_there(one.placed.tasks)
    ]
    claims = [
        replace(
            one,
            tasks=there(one.tasks),
            left_over=tuple(held._replace(machine=position[before[held.machine]]) for held in one.left_over),
            seats=tuple(replace(seat, tasks=there(seat.tasks)) for seat in one.seats),
        )
        for one in state.claims
        if is_there(one.tasks) and is_there(one.left_over) and all(is_there(seat.tasks) for seat in one.seats)
    ]
    old: dict[int, Resources] = {}
    new: dict[int, Resources] = {}
    for sums, each in ((old, state.machines), (new, machines.values())):
        for one in each:
            sums[one.pool] = sums.get(one.pool, Resources()) + whole_of(one)
    capacities = tuple(
        _resized(capacity, old.get(pool, Resources()), new.get(pool, Resources()))
        for pool, capacity in enumerate(state.capacities)
    )
    return replace(
        state,
        machines=tuple(machines.values()),
        running=tuple(moved),
        waiting=tuple(waiting),
        capacities=capacities,
        reserved=tuple(reserved),
        seats=tuple(seats),
        claims=tuple(claims),
    )


def _order(machines: Iterable[Machine]) -> list[tuple[int, str]]:
    return sorted((one.pool, one.name) for one in machines)


def whole_of(one: Machine) -> Resources:
    """All that a machine has."""
    return Resources(one.cpu_millis, one.memory_bytes, one.gpus * WHOLE_MILLIS)


def _resized(capacity: Capacity, old: Resources, new: Resources) -> Capacity:
    total = capacity.total
    return replace(
        capacity,
        total=Resources(
            max(0, total.cpu_millis + new.cpu_millis - old.cpu_millis),
            max(0, total.memory_bytes + new.memory_bytes - old.memory_bytes),
            max(0, total.gpu_millis + new.gpu_millis - old.gpu_millis),
        ),
    )


def _differs(old: Waits | None, new: Waits) -> bool:
    """Whether a job waits for something else; amounts that only moved are no difference."""
    if old is None:
        return True
    was, now = old.reason, new.reason
    if was is None or now is None:
        return was is not now or old.clears != new.clears
    return (was.code, was.pool, was.queue) != (now.code, now.pool, now.queue) or old.clears != new.clears
