"""Booked starts: when and where the first of those who wait will start, and what others may still do before that.

The ideal: of each pool the first refused gangs in fair order (`Policy.booked` of them; one is EASY backfill, all is conservative)
have a start at the earliest moment at which, by the maximum run times of what runs, all of the gang has its place; whoever else
starts must not delay it. How that is kept without asking about the future at every placement:

- A gang whose maximum run time is not known never ends here. `Policy.overrun_seconds` are added to the others.
- What a booked gang will need of a machine and what does not become free there in time is *hidden*: held, as if it were
  taken. So all else sees only room that it may have for ever, and every memory of what does not fit stays true.
- Who surely ends before a booked start is asked a second time, with what it need not leave alone laid open (`lift`).
- A start is kept until it becomes earlier, or reality breaks it: a machine is lost, a limit lowered, or a gang of its own queue
  and higher priority, or one that is owed the room, takes it. Then it is told why (`Book.cause`), and booked anew.
- Limits are looked at on the side: what starts must leave the booked gang its room in them at the moment of its start.

`planning.py` walks along the ends of what runs, at most `ENDS_MAX` of them, and asks for a place only where there is one by
counting.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import NamedTuple

from jobs.scheduling.core.advance import AdvanceReservations
from jobs.scheduling.core.place.gangs import GangAsk, Placed, at_least
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, MachineClass, Mark
from jobs.scheduling.core.place.placing import has_place
from jobs.scheduling.core.placements import Placements
from jobs.scheduling.core.planning import Booked, Plan
from jobs.scheduling.core.state.decisions import Book
from jobs.scheduling.core.state.evictable import Amounts
from jobs.scheduling.core.state.held_room import hold, release
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.reservation import (
    FOREVER,
    NEVER,
    BackfillReservation,
    Ends,
    KeptReservation,
    Room,
    covers,
    ends_if_started,
    fits,
    held_rooms_of,
    order_of,
    reservation_of,
)
from jobs.scheduling.core.state.user_caps import least
from jobs.scheduling.core.state.work import HeldRoom, Job, Need, Running, Shape, give_shares, held_by, held_together, take_shares
from tenants.quota.caps import Held
from tenants.quota.shares import Standing

TRIES_MAX = 4  # Gangs per pass and pool for which a start is looked for, until the next in line may.


class Lifted(NamedTuple):
    """Room that was laid open for a try: by machine, what was hidden there and what is meanwhile."""

    mark: Mark
    held_rooms: tuple[tuple[int, tuple[HeldRoom, ...], tuple[HeldRoom, ...]], ...]


class BackfillReservations:
    """All booked starts, and the room that is hidden for them."""

    def __init__(self, live: Live, windows: AdvanceReservations, placements: Placements) -> None:
        self.live = live
        self.windows = windows
        self.placements = placements
        self.by_job: dict[str, BackfillReservation] = {}
        self.broken: list[Book] = []  # What is to be told of those that were not kept.
        self._by_machine: dict[int, list[BackfillReservation]] = {}
        self._held_rooms: dict[int, tuple[HeldRoom, ...]] = {}
        self._suspended: frozenset[str] = frozenset()
        self._open: dict[int, tuple[HeldRoom, ...]] = {}  # By machine laid open for what is being placed, what was hidden there.
        self._counts: dict[int, int] = {}
        self.known_ends = 0
        self._ends: dict[int, list[tuple[int, str]]] = {}  # By pool, of those whose end is known.
        self._planned: dict[str, int] = {}  # By job that runs, the end that is planned with.
        self._unsure: dict[int, int] = {}  # By pool, how many of these run.
        self._sizes: dict[int, dict[tuple[int, int], int]] = {}  # By pool, of these: GPUs of a task, and tasks.
        self._overdue: list[tuple[int, str]] = []  # The same of those without a longest time, the first on top.
        self._on: dict[int, dict[str, Running]] = {}  # By machine, of the same.
        self._vain: set[tuple[int, int, int, str]] = set()  # What was asked with room laid open, and refused.
        self._blocked: dict[tuple[int, int], int] = {}
        self.look_from: dict[int, int] = {}  # By pool with a vacant place, from when on there may be someone to have it.
        self._unplannable: set[str] = set()  # Jobs for which no start was found: nothing that ends changes that.

    def __bool__(self) -> bool:
        return bool(self.by_job)

    # --- What runs ----------------------------------------------------------------------------------------------------

    def ends_of(self, one: Running) -> Ends:
        """When a gang that runs holds nothing any more."""
        if one.claim is not None:
            return NEVER
        known = self._planned.get(one.job.id)
        if known is None or one.job.max_runtime is not None:
            return ends_if_started(one.job, one.started_at, self.live.policy)
        return Ends(FOREVER, known)

    def entered(self, one: Running) -> None:
        ends = ends_if_started(one.job, one.started_at, self.live.policy)
        if ends.planned == FOREVER or not self.live.policy.backfill_depth:
            return
        if len(self._planned) + 1 < len(self.live.running):  # Where not all ends are known, one more may be what a plan lacked.
            self._unplannable.clear()
        self.look_from.clear()
        self._enter(one, ends.planned if ends.sure < FOREVER else self._not_over(one, ends.planned))
        for task in one.placed.tasks:
            self._on.setdefault(task.machine, {})[one.job.id] = one

    def _enter(self, one: Running, end: int) -> None:
        self._planned[one.job.id] = end
        for pool, _ in one.need:
            insort(self._ends.setdefault(pool, []), (end, one.job.id))
            self.known_ends += 1
            self._unsure[pool] = self._unsure.get(pool, 0) + (one.job.max_runtime is None)
            sizes = self._sizes.setdefault(pool, {})
            sizes[_size_of(one)] = sizes.get(_size_of(one), 0) + 1
        if one.job.max_runtime is None:
            heappush(self._overdue, (end, one.job.id))

    def _not_over(self, one: Running, end: int) -> int:
        """An end to come of one that runs longer than was planned: as far ahead again as it has run, as often as it takes."""
        while end <= self.live.now:
            end += end - one.started_at
        return end

    def plan_overdue(self) -> None:
        """Ends that were planned and did not come are planned anew."""
        touched: set[int] = set()
        while self._overdue and self._overdue[0][0] <= self.live.now:
            end, name = heappop(self._overdue)
            one = self.live.running.get(name)
            if one is not None and self._planned.get(name) == end:
                self._forget_end(one)
                self._enter(one, self._not_over(one, end))
                touched.update(task.machine for task in one.placed.tasks)
        if touched:
            self.settle(touched, "overrun")

    def left(self, one: Running) -> None:
        """It holds nothing any more, or others claim what it holds."""
        self._forget_end(one)
        for task in one.placed.tasks:
            self._on.get(task.machine, {}).pop(one.job.id, None)

    def _forget_end(self, one: Running) -> None:
        end = self._planned.pop(one.job.id, None)
        for pool, _ in one.need if end is not None else ():
            ends = self._ends[pool]
            place_of = bisect_left(ends, (end, one.job.id))
            assert ends[place_of] == (end, one.job.id)
            del ends[place_of]
            self.known_ends -= 1
            self._unsure[pool] -= one.job.max_runtime is None
            self._sizes[pool][_size_of(one)] -= 1
            self.look_from.pop(pool, None)

    def plans_from(self, job: Job) -> int:
        """From when on a start is looked for: at once where all ends are sure. Else room held for it may be idle for long:
        so it has to have waited for a while, and never is it looked for where the end of one that runs makes room enough."""
        if not any(self._unsure.get(pool) for pool in job.pools):
            return 0
        if self.is_made_room_for(job.gang, job.pools):
            return FOREVER
        return job.submitted_at + self.live.policy.plans_after_seconds

    def is_made_room_for(self, gang: GangAsk, pools: Sequence[int]) -> bool:
        """Whether ends are not all sure there, and a gang runs with as many tasks, of as many GPUs, or more."""
        if len(gang.roles) != 1 or gang.together or not any(self._unsure.get(pool) for pool in pools):
            return False
        each, tasks = gang.roles[0].ask.gpu_millis, gang.roles[0].minimum
        sizes = (at for pool in pools for at, many in self._sizes.get(pool, {}).items() if many)
        return any(gpu >= each and count >= tasks for gpu, count in sizes)

    def may_plan(self, pool: int) -> bool:
        """Whether anything in the pool has a known end."""
        return bool(self._ends.get(pool))

    # --- What is booked -----------------------------------------------------------------------------------------------

    def count(self, pool: int) -> int:
        return self._counts.get(pool, 0)

    def of(self, pool: int) -> list[BackfillReservation]:
        return sorted((one for one in self.by_job.values() if one.pool == pool), key=order_of)

    def due(self, now: int) -> list[BackfillReservation]:
        return sorted((one for one in self.by_job.values() if one.at <= now), key=order_of)

    def is_any_on(self, machines: Collection[int]) -> bool:
        return any(machine in self._by_machine for machine in machines)

    @property
    def next_at(self) -> int | None:
        return min((one.at for one in self.by_job.values()), default=None)

    def add(self, one: BackfillReservation) -> None:
        self.by_job[one.job.id] = one
        self._counts[one.pool] = self._counts.get(one.pool, 0) + 1
        if self.windows:
            self.windows.reserved(one)
        for machine in one.needs:
            insort(self._by_machine.setdefault(machine, []), one, key=order_of)
        self.settle(one.needs)

    @contextmanager
    def coming(self, job_id: str) -> Iterator[None]:
        """A start that may be booked comes; what was kept for it is there again once it is done."""
        one = self._remove(job_id)
        yield
        if one is not None:
            self.settle(one.needs)

    def drop(self, job_id: str, cause: str = "") -> None:
        """A start is booked no more, with a cause to tell where there is one."""
        one = self._remove(job_id)
        if one is None:
            return
        if cause:
            self.broken.append(Book(job_id, 0, (), cause))
        self.settle(one.needs)

    def _remove(self, job_id: str) -> BackfillReservation | None:
        one = self.by_job.pop(job_id, None)
        if one is None:
            return None
        self.forget_unplannable()
        self._counts[one.pool] -= 1
        for machine in one.needs:
            left = [other for other in self._by_machine[machine] if other is not one]
            if left:
                self._by_machine[machine] = left
            else:
                del self._by_machine[machine]
        if self.windows:
            self.windows.left(job_id, [pool for pool, _ in one.need])
        # Its room in limits is others' now, and in caps on users, which hold in all pools.
        self.live.changes.mark(self.live.machines.pools if self.live.holdings else (pool for pool, _ in one.need))
        return one

    def restore(self, kept: KeptReservation) -> None:
        """Book a start again that was booked before."""
        job = self.live.ordering.job(kept.id)
        if job is None or kept.pool not in job.pools or not self.live.policy.backfill_depth:
            return
        if any(task.machine >= len(self.live.machines.at) for task in kept.tasks):
            return
        shape, machines = self.live.shapes.of(job.gang, job.pools), self.live.machines.at
        placed = Placed(kept.pool, kept.tasks)
        if held_by(placed, (machines[task.machine].pool for task in kept.tasks)) != shape.least[kept.pool]:
            return  # It asks for something else by now.
        ends = ends_if_started(job, kept.at, self.live.policy)
        one = reservation_of(job, shape, kept.pool, kept.at, ends, kept.tasks, kept.standing, is_sure=kept.is_sure)
        one.planned_at, one.may_be_earlier = kept.planned_at, kept.may_be_earlier
        self.add(one)

    def kept(self) -> tuple[KeptReservation, ...]:
        """All of them, as values."""
        return tuple(
            KeptReservation(
                one.job.id, one.pool, one.at, one.tasks, one.standing, one.is_sure, one.planned_at, one.may_be_earlier
            )
            for one in sorted(self.by_job.values(), key=order_of)
        )

    # --- What is hidden -----------------------------------------------------------------------------------------------

    def settle(self, machines: Iterable[int], cause: str = "yielded") -> None:
        """Hide on these machines what has to be hidden now; a start that cannot be kept any more is dropped."""
        grown: set[int] = set()
        lost: list[BackfillReservation] = []
        for machine in sorted(set(machines)):
            if machine not in self._by_machine and machine not in self._held_rooms:
                continue
            before = self._held_rooms.pop(machine, ())
            release(self.live.machines, before)
            before = self._open.pop(machine, before)
            after = self._hidden(machine, NEVER, "")
            lost += [one for one in self._by_machine.get(machine, ()) if not self._is_kept(one, machine)]
            hold(self.live.machines, after)
            if after:
                self._held_rooms[machine] = after
            if before != after:
                self._vain.clear()
                self._blocked.clear()
                if not covers(after, before):
                    grown.add(machine)
        if grown:
            pools = self.placements.room_grew(grown)
            if not self._suspended:
                self.live.changes.mark(pools)
        for one in sorted(lost, key=order_of):
            if one.job.id not in self._suspended:
                self.drop(one.job.id, cause)

    def hidden_on(self, pool: int) -> dict[int, Amounts]:
        """By machine of a pool what is hidden there: free for who may take it from those for whom it is."""
        at, found = self.live.machines.at, {}
        for machine, held in self._held_rooms.items():
            if at[machine].pool == pool:
                found[machine] = (
                    sum(held.cpu_millis for held in held),
                    sum(held.memory_bytes for held in held),
                    sum(held.gpu_millis for held in held),
                )
        return found

    def opened_class(self, machine: int) -> MachineClass:
        """What a machine would be like if nothing were hidden on it."""
        here, devices = self.live.machines.class_of[machine], list(self.live.machines.devices[machine])
        cpu, memory = here.cpu, here.memory
        for held in self._held_rooms[machine]:
            cpu, memory = cpu + held.cpu_millis, memory + held.memory_bytes
            for device in held.devices:
                devices[device] += min(held.gpu_millis, WHOLE_MILLIS)
        return MachineClass(here.kind, here.kind_number, cpu, memory, tuple(sorted(devices)))

    def freed(self, machines: Collection[int], need: Need) -> None:
        """Nobody holds any more what was held on these machines, and of these pools: starts that are booked may come earlier."""
        pools = [pool for pool, _ in need]
        self.live.changes.note(machines)
        self.live.changes.mark(pools)
        self.opened()
        for one in self.by_job.values():
            one.may_be_earlier = one.may_be_earlier or one.pool in pools

    def counts_on(self, one: Running, but: Job) -> bool:
        """Whether another's booked start counts on the end of a gang, or on where it stands."""
        if any(other.is_sure and other.job.id != but.id for other in self.by_job.values()) and one.job.max_runtime is not None:
            return True
        here = {task.machine for task in one.placed.tasks}
        return any(other.job.id != but.id for machine in here for other in self._by_machine.get(machine, ()))

    def suspend(self, names: Collection[str]) -> None:
        """Hide nothing for these until `resume`: somebody may take it from them."""
        self._suspended = frozenset(names)
        self.settle({machine for name in names if name in self.by_job for machine in self.by_job[name].needs})

    def resume(self) -> None:
        names, self._suspended = self._suspended, frozenset()
        self.settle({machine for name in names if name in self.by_job for machine in self.by_job[name].needs})

    def weaker(self, job: Job, pool: int, standing: Standing | None) -> list[str]:
        """Whose booked starts a gang may take, because it could evict them if they ran already."""
        policy = self.live.policy
        is_owner = bool(self.windows) and self.windows.is_owner(job, pool)
        is_owed = policy.reclaims and standing in (Standing.GUARANTEED, Standing.DESERVED)
        found = []
        for one in self.of(pool):
            if one.job.queue == job.queue:
                yields = policy.preempts and job.priority > one.job.priority
            else:
                yields = is_owed and one.standing is Standing.BORROWED
            if (yields or (is_owner and not self.windows.is_owner(one.job, pool))) and one.job.id != job.id:
                found.append(one.job.id)
        return found

    def lift(self, job: Job, pool: int) -> Lifted | None:
        """Lay open what a gang that starts now need not leave alone; None where that is nothing."""
        ends = ends_if_started(job, self.live.now, self.live.policy)
        machines = self.live.machines
        found = []
        for machine, before in self._held_rooms.items():
            if machines.at[machine].pool == pool:
                after = self._hidden_under(machine, before, ends, job.id)
                if after != before:
                    found.append((machine, before, after))
        if not found:
            return None
        mark = machines.mark()
        for _, before, after in sorted(found):
            release(machines, before)
            hold(machines, after)
        return Lifted(mark, tuple(found))

    def let_fall(self, lifted: Lifted, *, stands: bool) -> None:
        """Hide it again; `stands`: what was placed meanwhile stays."""
        machines = self.live.machines
        if not stands:
            machines.rewind(lifted.mark)
            return
        machines.settle(lifted.mark)
        for machine, before, after in lifted.held_rooms:
            self._held_rooms[machine] = after
            self._open.setdefault(machine, before)

    def settle_with(self, machines: Iterable[int]) -> None:
        """The same as `settle`, with all machines that were laid open for what has just been placed."""
        self.settle({*self._open, *machines})

    def is_vain(self, job: Job, shape: Shape, pool: int) -> bool:
        return self._vain_key(job, shape, pool) in self._vain

    def was_vain(self, job: Job, shape: Shape, pool: int) -> None:
        self._vain.add(self._vain_key(job, shape, pool))

    def opened(self) -> None:
        """Something became free, so what was asked in vain may be asked again."""
        self._vain.clear()
        self._blocked.clear()

    def blocked_until(self, shape: Shape, pool: int) -> int:
        """The first booked start without which, and those after it, a gang would have its place now; 0: that is not why."""
        known = self._blocked.get((shape.number, pool))
        if known is None:
            known = self._blocked[shape.number, pool] = self._find_blocked(shape, pool)
        return known

    def _find_blocked(self, shape: Shape, pool: int) -> int:
        machines = self.live.machines
        hidden = [
            (machine, held_rooms) for machine, held_rooms in sorted(self._held_rooms.items()) if machines.at[machine].pool == pool
        ]
        if not hidden:
            return 0
        mark = machines.mark()
        for _, held_rooms in hidden:
            release(machines, held_rooms)
        would_fit = has_place(at_least(shape.gang), machines, pool)
        machines.rewind(mark)
        return min((one.at for one in self.of(pool)), default=0) if would_fit else 0

    def _vain_key(self, job: Job, shape: Shape, pool: int) -> tuple[int, int, int, str]:
        ends = ends_if_started(job, self.live.now, self.live.policy)
        later = sum(one.at >= ends.until(one) for one in self.by_job.values())
        return (shape.number, pool, later, job.id if job.id in self.by_job else "")

    def _hidden(self, machine: int, ends: Ends, but: str) -> tuple[HeldRoom, ...]:
        """What must be left alone by a gang that would hold a machine until then; nothing is hidden on it now.

        At each booked start before that: what all need that hold the machine then, without what becomes free by then.
        """
        reservations = [
            one for one in self._by_machine.get(machine, ()) if one.job.id != but and one.job.id not in self._suspended
        ]
        most = Room(0, 0, {})
        for one in reservations:
            if one.at < ends.until(one):
                short = self._short(machine, one, reservations)
                most.cpu, most.memory = max(most.cpu, short.cpu), max(most.memory, short.memory)
                for device, millis in short.devices.items():
                    most.devices[device] = max(most.devices.get(device, 0), millis)
        here, devices = self.live.machines.class_of[machine], self.live.machines.devices[machine]
        free = {device: min(millis, devices[device]) for device, millis in most.devices.items() if device < len(devices)}
        return held_rooms_of(machine, min(most.cpu, here.cpu), min(most.memory, here.memory), free)

    def _hidden_under(self, machine: int, before: Sequence[HeldRoom], ends: Ends, but: str) -> tuple[HeldRoom, ...]:
        """The same while something is hidden; that is left as it is."""
        if all(one.at < ends.until(one) and one.job.id != but for one in self._by_machine.get(machine, ())):
            return tuple(before)
        mark = self.live.machines.mark()
        release(self.live.machines, before)
        found = self._hidden(machine, ends, but)
        self.live.machines.rewind(mark)
        return found

    def _short(self, machine: int, one: BackfillReservation, reservations: Sequence[BackfillReservation]) -> Room:
        """What is needed of a machine at a booked start beyond what becomes free there by then. A start that is sure counts on no
        other that is not: that one begins only where there is room beside it."""
        short = Room(0, 0, {})
        for other in reservations:
            if other.at <= one.at < other.ends.until(one) and (other.is_sure or not one.is_sure):
                need = other.needs[machine]
                short.cpu, short.memory = short.cpu + need.cpu, short.memory + need.memory
                for device, millis in need.devices.items():
                    short.devices[device] = short.devices.get(device, 0) + millis
        for running in self._on.get(machine, {}).values():
            if self.ends_of(running).until(one) <= one.at:
                for task in running.placed.tasks:
                    if task.machine == machine:
                        short.cpu, short.memory = short.cpu - task.ask.cpu_millis, short.memory - task.ask.memory_bytes
                        for device in task.devices:
                            if device in short.devices:
                                short.devices[device] -= min(task.ask.gpu_millis, WHOLE_MILLIS)
        return short

    def _is_kept(self, one: BackfillReservation, machine: int) -> bool:
        """Whether a machine, with nothing hidden on it, has what a booked start needs there by then."""
        machines = self.live.machines
        if machines.at[machine].blocked:
            return False
        reservations = [other for other in self._by_machine[machine] if other.job.id not in self._suspended]
        short = self._short(machine, one, reservations)
        here, devices = machines.class_of[machine], machines.devices[machine]
        if short.cpu > here.cpu or short.memory > here.memory:
            return False
        return all(device < len(devices) and millis <= devices[device] for device, millis in short.devices.items())

    # --- Limits -------------------------------------------------------------------------------------------------------

    def denies(self, job: Job, need: Need, tasks: int, but: Collection[str] = ()) -> BackfillReservation | None:
        """The booked start whose room in limits a gang would take that starts now; None when it delays nobody."""
        holdings, shares = self.live.holdings, self.live.shares
        ends = ends_if_started(job, self.live.now, self.live.policy)
        pools = {pool for pool, _ in need}
        for one in sorted(self.by_job.values(), key=order_of):
            if one.job.id == job.id or one.job.id in but or ends.until(one) <= one.at:
                continue
            if holdings:
                ask = Held(sum(amount[2] for _, amount in need), 1, tasks)
                if holdings.is_delayed(one.job, least(one.shape.gang), job, ask):
                    return one
            common = [pool for pool, _ in one.need if pool in pools and shares.may_bind(job.queue, one.job.queue, pool)]
            if not common:
                continue
            take_shares(shares, job.queue, need)
            leaves_room = self._has_limits(one)
            give_shares(shares, job.queue, need)
            if not leaves_room:
                return one
        return None

    def recheck_limits(self, cause: str = "limits") -> None:
        """After limits changed, or what is held by a right: what they do not allow any more is not booked."""
        for one in sorted(self.by_job.values(), key=order_of):
            if not self._has_limits(one):
                self.drop(one.job.id, cause)

    def recheck_windows(self) -> None:
        """After tenants booked something else for a time: what would be in the way is not booked any more."""
        for one in sorted(self.by_job.values(), key=order_of):
            if not self.windows.may_promise(one.job, one.need, one.at):
                self.drop(one.job.id, "limits")

    def _has_limits(self, one: BackfillReservation) -> bool:
        """Whether limits will have room for a booked start, with all others that are booked and hold something then."""
        shares = self.live.shares
        others = [
            other
            for other in self.by_job.values()
            if other is not one and other.at <= one.at < other.ends.until(one) and (other.is_sure or not one.is_sure)
        ]
        for other in others:
            take_shares(shares, other.job.queue, other.need)
        has_room = fits(shares, one)
        if not has_room:
            freed = held_together(self._freed_by(one))
            for queue, need in freed:
                give_shares(shares, queue, need)
            has_room = fits(shares, one)
            for queue, need in freed:
                take_shares(shares, queue, need)
        for other in others:
            give_shares(shares, other.job.queue, other.need)
        return has_room

    def _freed_by(self, one: BackfillReservation) -> list[Running]:
        """Those that end before a booked start, as far as it counts on them."""
        names = {name for pool, _ in one.need for end, name in self._ends.get(pool, ()) if end <= one.at}
        found = (self.live.running[name] for name in sorted(names))
        return [running for running in found if not one.is_sure or running.job.max_runtime is not None]

    # --- Planning -----------------------------------------------------------------------------------------------------

    def is_plannable(self, job: Job) -> bool:
        """Whether a start may be found for a job: not where none was, since machines and limits are as they are."""
        return job.id not in self._unplannable

    def unplannable(self) -> tuple[str, ...]:
        """The waiting jobs for which no start was found."""
        return tuple(sorted(name for name in self._unplannable if name in self.live.ordering))

    def restore_unplannable(self, job_ids: Iterable[str]) -> None:
        self._unplannable = set(job_ids)

    def comes(self, job: Job) -> None:
        """A job waits from now on, or is another than it was: there may be a start for it."""
        self._unplannable.discard(job.id)
        for pool in job.pools:
            if pool in self.look_from:
                self.look_from[pool] = min(self.look_from[pool], self.plans_from(job))

    def forget_unplannable(self) -> None:
        """Machines or limits are others: what had no start may have one."""
        self.look_from.clear()
        self._unplannable.clear()

    def plan(self, job: Job, shape: Shape) -> BackfillReservation | None:
        """The earliest start that can be promised to a gang that waits, in whichever of its pools it comes first."""
        best: BackfillReservation | None = None
        booked = Booked(self.by_job.values(), self._held_rooms.values(), self._ends)
        for pool in shape.pools:
            if self.may_plan(pool):
                found = Plan(self.live, self.windows, booked, job, shape, pool).run(before=FOREVER if best is None else best.at)
                best = found or best
        if best is None:
            self._unplannable.add(job.id)
        return best


def _size_of(one: Running) -> tuple[int, int]:
    """The GPUs of the smallest task of a gang, and how many tasks it has."""
    return min((task.ask.gpu_millis for task in one.placed.tasks), default=0), len(one.placed.tasks)
