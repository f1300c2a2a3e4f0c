"""What if: a changed state, and what a pass would do with it compared to the state as it is.

A change is a value, and `apply` gives the changed state: the same `State` that the scheduler is built from, so the answer comes
from the code that schedules. Nothing is guessed: a job that has to leave a removed machine waits again, with the place in the
order that it had; what a limit or a priority does to other jobs shows in their decisions, too.

Changes may name objects that do not exist, or add objects that do: `unknown` lists these, and `apply` skips them. Whether a
changed tree of limits is valid is judged by `tenants/capacity/quota/edits.py`.
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
from jobs.scheduling.core.state.decisions import Admit, Claim, Decision, Evict, WaitReason
from jobs.scheduling.core.state.work import HeldRoom, JobAsk
from kernel.resources import Resources
from tenants.capacity.quota.bookings import Booked
from tenants.capacity.quota.caps import CAPPED, CapFacts, UserCaps
from tenants.capacity.quota.edits import Change as SetLimits
from tenants.capacity.quota.edits import edited
from tenants.capacity.quota.limits import Capacity


@dataclass(frozen=True, slots=True)
class Submit:
    """These jobs wait, too. A job whose id waits already replaces it, which changes its ask, priority or order."""

    jobs: tuple[JobAsk, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """A waiting job asks for something else, would go to other pools, or ends sooner. None: unchanged."""

    job_id: str
    gang: GangAsk | None = None
    pools: tuple[int, ...] | None = None
    max_runtime: int | None = None


@dataclass(frozen=True, slots=True)
class Rank:
    """A waiting job has another priority, or another place in its own queue (`order`: in seconds, see `JobAsk`)."""

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
    """A machine is gone. Jobs with a task on it wait again."""

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
class ReserveWindow:
    """A tenant has booked GPUs for a window, too."""

    booking: Booked


@dataclass(frozen=True, slots=True)
class SetCap:
    """How much of `what` (see `CapFacts`) one user, or all users of a tenant `TOGETHER`, may hold there; None: any amount. A
    user without a line of their own gets one, which begins as the line for all users."""

    tenant_id: uuid.UUID
    user_id: uuid.UUID
    what: str
    amount: int | None


Change = (
    Submit | ReserveWindow | Ask | Rank | Release | End | AddMachines | RemoveMachine | Block | SetLimits | SetCap | SetPolicy
)


@dataclass(frozen=True, slots=True)
class Start:
    """A job starts now, on these machines."""

    job_id: str
    placed: Placed
    machines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WaitResult:
    """A job waits, and why. `clears`: jobs that are told to leave room for it; it starts when they have left."""

    job_id: str
    reason: WaitReason | None
    clears: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PassResult:
    """What one pass over a state decides."""

    starts: tuple[Start, ...]
    waits: tuple[WaitResult, ...]
    evicted: tuple[Evict, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Both passes, and the jobs for which they differ: ids, in order. `displaced`: jobs that ran on removed machines."""

    before: PassResult
    after: PassResult
    starts: tuple[str, ...]  # Would start with the change only.
    starts_not: tuple[str, ...]  # Would start without the change only.
    waits: tuple[str, ...]  # Would wait with the change only, or for another reason, or would clear other room.
    evicted: tuple[str, ...]
    spared: tuple[str, ...]  # Would be evicted without the change only.
    displaced: tuple[str, ...]
    unknown: tuple[int, ...] = ()  # Indexes of changes that name objects that do not exist.


def what_if(state: State, changes: Sequence[Change]) -> Answer:
    """One pass with these changes against one without."""
    changed = apply(state, changes)
    before, after = one_pass(state), one_pass(changed)
    started, starting = {start.job_id for start in before.starts}, {start.job_id for start in after.starts}
    still = {job.id for job in changed.waiting} | {held.job.id for held in changed.running}
    old = {wait.job_id: wait for wait in before.waits}
    evicted, evicting = {eviction.id for eviction in before.evicted}, {eviction.id for eviction in after.evicted}
    ran = {held.job.id for held in state.running}
    return Answer(
        before,
        after,
        starts=tuple(sorted(starting - started)),
        starts_not=tuple(sorted((started - starting) & still)),
        waits=tuple(wait.job_id for wait in after.waits if _differs(old.get(wait.job_id), wait)),
        evicted=tuple(sorted(evicting - evicted)),
        spared=tuple(sorted((evicted - evicting) & still)),
        displaced=tuple(sorted(job.id for job in changed.waiting if job.id in ran)),
        unknown=unknown(state, changes),
    )


def one_pass(state: State) -> PassResult:
    """What the next pass decides about a state."""
    core = build(state)
    return told(state, core, core.decide(state.at))


def told(state: State, core: Core, decisions: Iterable[Decision]) -> PassResult:
    """The decisions of a pass, with a reason for each waiting job; a job that has to leave in the same pass does not start."""
    decisions = tuple(decisions)
    evicted = {decision.id for decision in decisions if isinstance(decision, Evict)}
    placed = {
        decision.id: decision.placed for decision in decisions if isinstance(decision, Admit) and decision.id not in evicted
    }
    claims = {decision.id: decision.victims for decision in decisions if isinstance(decision, Claim)}
    return PassResult(
        tuple(Start(job_id, placed[job_id], _names(core, placed[job_id])) for job_id in sorted(placed)),
        tuple(
            WaitResult(job.id, core.why(job.id), claims.get(job.id, ()))
            for job in sorted(state.waiting, key=lambda job: job.id)
            if job.id not in placed
        ),
        tuple(sorted((decision for decision in decisions if isinstance(decision, Evict)), key=lambda eviction: eviction.id)),
    )


def _names(core: Core, placed: Placed) -> tuple[str, ...]:
    return tuple(core.machines.at[machine].name for machine in sorted({task.machine for task in placed.tasks}))


def after_pass(state: State, core: Core, decisions: Iterable[Decision]) -> State:
    """The state after a pass: what it started runs, and jobs that have to leave were told."""
    admitted = {decision.id for decision in decisions if isinstance(decision, Admit)}
    leaving = {decision.id: decision.claimant for decision in decisions if isinstance(decision, Evict)}
    migrating = {decision.id for decision in decisions if isinstance(decision, Evict) and decision.to is not None}
    state = replace(state, reserved=core.reservations.kept(), claims=core.claims())
    if not admitted and not leaving:
        return state
    runs = [
        replace(held, leaving_for=leaving.get(held.job.id, held.leaving_for), migrates=held.migrates or held.job.id in migrating)
        for held in state.running
    ]
    for job_id in sorted(admitted & core.running.keys()):
        started = core.running[job_id]
        runs.append(Held(started.job, started.placed, started.need, started.started_at, leaving_for=leaving.get(job_id, "")))
    waiting = tuple(job for job in state.waiting if job.id not in admitted)
    return replace(state, waiting=waiting, running=tuple(runs), evicted_at=tuple(core.evicted_at))


def apply(state: State, changes: Sequence[Change]) -> State:
    """The state with these changes made, in their order; a change that names an object that does not exist is skipped."""
    for change in changes:
        state = _apply(state, change)
    return state


def unknown(state: State, changes: Sequence[Change]) -> tuple[int, ...]:
    """Indexes of the changes that name a job, machine or queue that does not exist when their turn comes."""
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
            return any(change.job_id == job.id for job in (*state.waiting, *(held.job for held in state.running)))
        case RemoveMachine() | Block():
            return any((machine.pool, machine.name) == (change.pool, change.name) for machine in state.machines)
        case SetLimits():
            return any(queue.id == change.queue_id for queue in state.queues)
        case ReserveWindow():
            return any(queue.id == change.booking.queue_id for queue in state.queues)
        case AddMachines():
            return {(machine.pool, machine.name) for machine in change.machines}.isdisjoint(_order(state.machines))
        case _:
            return True


def _apply(state: State, change: Change) -> State:
    match change:
        case Submit():
            ids = {job.id for job in change.jobs}
            return replace(state, waiting=(*(job for job in state.waiting if job.id not in ids), *change.jobs))
        case Ask():
            state = replace(
                state, reserved=tuple(reservation for reservation in state.reserved if reservation.id != change.job_id)
            )
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
                replace(machine, blocked=change.blocked)
                if (machine.pool, machine.name) == (change.pool, change.name)
                else machine
                for machine in state.machines
            )
            return replace(state, machines=machines)
        case SetLimits():
            return replace(state, queues=edited(state.queues, (change,)))
        case SetCap():
            return replace(state, caps=_capped(state.caps, change))
        case SetPolicy():
            return replace(state, policy=change.policy)
        case ReserveWindow():
            return replace(state, bookings=(*state.bookings, change.booking))


def _capped(caps: tuple[CapFacts, ...], change: SetCap) -> tuple[CapFacts, ...]:
    """The caps with a line changed, or a new line where the user had only the line for all users."""
    mine = UserCaps(caps).cap_of(change.tenant_id, change.user_id) or CapFacts(change.tenant_id, change.user_id)
    amounts = {what: getattr(mine, what) for what in CAPPED} | {change.what: change.amount}
    line = CapFacts(change.tenant_id, change.user_id, **amounts)
    place = (change.tenant_id, change.user_id)
    return (*(cap for cap in caps if (cap.tenant_id, cap.user_id) != place), line)


def _edit(state: State, job_id: str, **values: Any) -> State:
    """The state with other values for fields of a waiting job; None: unchanged."""
    given = {name: value for name, value in values.items() if value is not None}
    return replace(state, waiting=tuple(replace(job, **given) if job.id == job_id else job for job in state.waiting))


def _end(state: State, job_id: str) -> State:
    """The state without a job. Jobs that leave for it still leave; only a new decision gives their room to another job."""
    running = tuple(
        replace(held, leaving=True, leaving_for="") if held.leaving_for == job_id else held
        for held in state.running
        if held.job.id != job_id
    )
    return replace(state, running=running, waiting=tuple(job for job in state.waiting if job.id != job_id))


def _with_machines(state: State, machines: Sequence[Machine]) -> State:
    new = {(machine.pool, machine.name): machine for machine in machines}
    kept = {(machine.pool, machine.name): machine for machine in state.machines}
    return _renumbered(state, {**new, **kept}, state.running, state.waiting)


def _without_machine(state: State, change: RemoveMachine) -> State:
    kept = {(machine.pool, machine.name): machine for machine in state.machines}
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
    """What a running job asks for when it waits again: its own ask where that is known, else the tasks that it has."""
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
    state: State, machines: Mapping[tuple[int, str], Machine], running: Iterable[Held], waiting: Iterable[JobAsk]
) -> State:
    """The state with these machines. They are numbered by pool and name, so every placement is renumbered; capacities change by
    their difference. Reserved starts, claims and seats on a machine that is gone are dropped."""
    before = _order(state.machines)
    position = {key: index for index, key in enumerate(sorted(machines))}
    gone = {number for number, key in enumerate(before) if key not in position}

    def there(tasks: Iterable[PlacedTask]) -> tuple[PlacedTask, ...]:
        return tuple(replace(task, machine=position[before[task.machine]]) for task in tasks)

    def is_there(tasks: Iterable[PlacedTask | HeldRoom]) -> bool:
        return all(task.machine not in gone for task in tasks)

    moved = [replace(held, placed=replace(held.placed, tasks=there(held.placed.tasks))) for held in running]
    reserved = [
        reservation._replace(tasks=there(reservation.tasks)) for reservation in state.reserved if is_there(reservation.tasks)
    ]
    seats = [
        replace(seat, placed=replace(seat.placed, tasks=there(seat.placed.tasks)))
        for seat in state.seats
        if is_there(seat.placed.tasks)
    ]
    claims = [
        replace(
            claim,
            tasks=there(claim.tasks),
            left_over=tuple(held._replace(machine=position[before[held.machine]]) for held in claim.left_over),
            seats=tuple(replace(seat, tasks=there(seat.tasks)) for seat in claim.seats),
        )
        for claim in state.claims
        if is_there(claim.tasks) and is_there(claim.left_over) and all(is_there(seat.tasks) for seat in claim.seats)
    ]
    old: dict[int, Resources] = {}
    new: dict[int, Resources] = {}
    for sums, each in ((old, state.machines), (new, machines.values())):
        for machine in each:
            sums[machine.pool] = sums.get(machine.pool, Resources()) + whole_of(machine)
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
    return sorted((machine.pool, machine.name) for machine in machines)


def whole_of(machine: Machine) -> Resources:
    """All that a machine has."""
    return Resources(machine.cpu_millis, machine.memory_bytes, machine.gpus * WHOLE_MILLIS)


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


def _differs(old: WaitResult | None, new: WaitResult) -> bool:
    """Whether a job waits for something else; other amounts of the same reason are no difference."""
    if old is None:
        return True
    was, now = old.reason, new.reason
    if was is None or now is None:
        return was is not now or old.clears != new.clears
    return (was.code, was.pool, was.queue) != (now.code, now.pool, now.queue) or old.clears != new.clears
