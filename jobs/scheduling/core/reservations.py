"""Booked starts: when and where the first of those who wait will start, and what others may still do before that.

The ideal: of each pool the first refused gangs in fair order (`Policy.booked` of them; one is EASY backfill, all is conservative)
have a start at the earliest moment at which, by the maximum run times of what runs, all of the gang has its place; whoever else
starts must not delay it. How that is kept without asking about the future at every placement:

- A gang whose maximum run time is not known never ends here. `Policy.overrun_seconds` are added to the others.
- What a booked gang will need of a machine and what does not become free there in time is *hidden*: held by ghosts, as if it were
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
from typing import TYPE_CHECKING, NamedTuple

from jobs.scheduling.core.place.placing import has_place
from jobs.scheduling.core.planning import Plan
from jobs.scheduling.core.reclaim import at_least, exorcise, haunt
from jobs.scheduling.core.state.decisions import Book
from jobs.scheduling.core.state.gangs import Placed
from jobs.scheduling.core.state.machines import WHOLE_MILLIS, Mark
from jobs.scheduling.core.state.reservation import FOREVER, Promise, Promised, Room, covers, fits, ghosts_of, order_of, promise_of
from jobs.scheduling.core.state.user_caps import least
from jobs.scheduling.core.state.work import Ghost, Job, Need, Running, Shape, give_shares, held_by, take_shares
from tenants.quota.caps import Held
from tenants.quota.shares import Standing

if TYPE_CHECKING:
    from jobs.scheduling.core.core import Core

TRIES_MAX = 4  # Gangs per pass and pool for which a start is looked for, until the next in line may.


class Lifted(NamedTuple):
    """Room that was laid open for a try: by machine, what was hidden there and what is meanwhile."""

    mark: Mark
    ghosts: tuple[tuple[int, tuple[Ghost, ...], tuple[Ghost, ...]], ...]


class Promises:
    """All booked starts of a core, and the room that is hidden for them."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.by_job: dict[str, Promise] = {}
        self.broken: list[Book] = []  # What is to be told of those that were not kept.
        self._by_machine: dict[int, list[Promise]] = {}
        self._ghosts: dict[int, tuple[Ghost, ...]] = {}
        self._suspended: frozenset[str] = frozenset()
        self._open: dict[int, tuple[Ghost, ...]] = {}  # By machine laid open for what is being placed, what was hidden there.
        self._counts: dict[int, int] = {}
        self.known_ends = 0
        self._ends: dict[int, list[tuple[int, str]]] = {}  # By pool, of those whose end is known.
        self._on: dict[int, dict[str, Running]] = {}  # By machine, of the same.
        self._vain: set[tuple[int, int, int, str]] = set()  # What was asked with room laid open, and refused.
        self._blocked: dict[tuple[int, int], int] = {}

    def __bool__(self) -> bool:
        return bool(self.by_job)

    # --- What runs ----------------------------------------------------------------------------------------------------

    def end_of(self, one: Running) -> int:
        """When a gang surely holds nothing any more."""
        if one.job.max_runtime is None or one.claim is not None:
            return FOREVER
        return one.started_at + one.job.max_runtime + self.core.policy.overrun_seconds

    def end_if_started(self, job: Job, at: int) -> int:
        return FOREVER if job.max_runtime is None else at + job.max_runtime + self.core.policy.overrun_seconds

    def entered(self, one: Running) -> None:
        end = self.end_of(one)
        if end == FOREVER or not self.core.policy.booked:
            return
        for pool, _ in one.need:
            insort(self._ends.setdefault(pool, []), (end, one.job.id))
            self.known_ends += 1
        for task in one.placed.tasks:
            self._on.setdefault(task.machine, {})[one.job.id] = one

    def left(self, one: Running) -> None:
        """It holds nothing any more, or others claim what it holds."""
        end = one.started_at + (one.job.max_runtime or 0) + self.core.policy.overrun_seconds
        for pool, _ in one.need:
            ends = self._ends.get(pool, [])
            place_of = bisect_left(ends, (end, one.job.id))
            if place_of < len(ends) and ends[place_of] == (end, one.job.id):
                del ends[place_of]
                self.known_ends -= 1
        for task in one.placed.tasks:
            self._on.get(task.machine, {}).pop(one.job.id, None)

    def may_plan(self, pool: int) -> bool:
        """Whether anything in the pool has a known end."""
        return bool(self._ends.get(pool))

    # --- What is booked -----------------------------------------------------------------------------------------------

    def count(self, pool: int) -> int:
        return self._counts.get(pool, 0)

    def of(self, pool: int) -> list[Promise]:
        return sorted((one for one in self.by_job.values() if one.pool == pool), key=order_of)

    def due(self, now: int) -> list[Promise]:
        return sorted((one for one in self.by_job.values() if one.at <= now), key=order_of)

    def is_any_on(self, machines: Collection[int]) -> bool:
        return any(machine in self._by_machine for machine in machines)

    @property
    def next_at(self) -> int | None:
        return min((one.at for one in self.by_job.values()), default=None)

    def add(self, one: Promise) -> None:
        self.by_job[one.job.id] = one
        self._counts[one.pool] = self._counts.get(one.pool, 0) + 1
        if self.core.windows:
            self.core.windows.promised(one)
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
        if cause:
            self.core.waits.lose_patience(job_id)

    def _remove(self, job_id: str) -> Promise | None:
        one = self.by_job.pop(job_id, None)
        if one is None:
            return None
        self._counts[one.pool] -= 1
        for machine in one.needs:
            left = [other for other in self._by_machine[machine] if other is not one]
            if left:
                self._by_machine[machine] = left
            else:
                del self._by_machine[machine]
        if self.core.windows:
            self.core.windows.left(job_id, [pool for pool, _ in one.need])
        refused = self.core.waits.by_booked.get(one.pool, ())
        self.core.waits.wake_for_room(
            [group for group in refused if group.reason is not None and group.reason.code == "booked"], one.pool
        )
        return one

    def restore(self, kept: Promised) -> None:
        """Book a start again that was booked before."""
        job = self.core.lines.job(kept.id)
        if job is None or kept.pool not in job.pools or not self.core.policy.booked:
            return
        if any(task.machine >= len(self.core.machines.at) for task in kept.tasks):
            return
        shape, machines = self.core.shape_of(job.gang, job.pools), self.core.machines.at
        placed = Placed(kept.pool, kept.tasks)
        if held_by(placed, (machines[task.machine].pool for task in kept.tasks)) != shape.least[kept.pool]:
            return  # It asks for something else by now.
        self.add(promise_of(job, shape, kept.pool, kept.at, self.end_if_started(job, kept.at), kept.tasks, kept.standing))

    def kept(self) -> tuple[Promised, ...]:
        """All of them, as values."""
        return tuple(
            Promised(one.job.id, one.pool, one.at, one.tasks, one.standing) for one in sorted(self.by_job.values(), key=order_of)
        )

    # --- What is hidden -----------------------------------------------------------------------------------------------

    def settle(self, machines: Iterable[int], cause: str = "yielded") -> None:
        """Hide on these machines what has to be hidden now; a start that cannot be kept any more is dropped."""
        grown: set[int] = set()
        lost: list[Promise] = []
        for machine in sorted(set(machines)):
            if machine not in self._by_machine and machine not in self._ghosts:
                continue
            before = self._ghosts.pop(machine, ())
            exorcise(self.core.machines, before)
            before = self._open.pop(machine, before)
            after = self._hidden(machine, FOREVER, "")
            lost += [one for one in self._by_machine.get(machine, ()) if not self._is_kept(one, machine)]
            haunt(self.core.machines, after)
            if after:
                self._ghosts[machine] = after
            if before != after:
                self._vain.clear()
                self._blocked.clear()
                if not covers(after, before):
                    grown.add(machine)
        if grown:
            self.core.waits.room_grew(grown, for_a_try=bool(self._suspended))
        for one in sorted(lost, key=order_of):
            if one.job.id not in self._suspended:
                self.drop(one.job.id, cause)

    def hidden_gpus(self, pool: int) -> int:
        """Thousandths of GPUs of a pool that are hidden: free for whom may take them from those for whom they are."""
        at = self.core.machines.at
        return sum(ghost.gpu_millis for machine, held in self._ghosts.items() if at[machine].pool == pool for ghost in held)

    def suspend(self, names: Collection[str]) -> None:
        """Hide nothing for these until `resume`: somebody may take it from them."""
        self._suspended = frozenset(names)
        self.settle({machine for name in names if name in self.by_job for machine in self.by_job[name].needs})

    def resume(self) -> None:
        names, self._suspended = self._suspended, frozenset()
        self.settle({machine for name in names if name in self.by_job for machine in self.by_job[name].needs})

    def weaker(self, job: Job, pool: int, standing: Standing | None) -> list[str]:
        """Whose booked starts a gang may take, because it could evict them if they ran already."""
        policy = self.core.policy
        is_owner = bool(self.core.windows) and self.core.windows.is_owner(job, pool)
        is_owed = policy.reclaims and standing in (Standing.GUARANTEED, Standing.DESERVED)
        found = []
        for one in self.of(pool):
            if one.job.queue == job.queue:
                yields = policy.preempts and job.priority > one.job.priority
            else:
                yields = is_owed and one.standing is Standing.BORROWED
            if (yields or (is_owner and not self.core.windows.is_owner(one.job, pool))) and one.job.id != job.id:
                found.append(one.job.id)
        return found

    def lift(self, job: Job, pool: int) -> Lifted | None:
        """Lay open what a gang that starts now need not leave alone; None where that is nothing."""
        end = self.end_if_started(job, self.core.now)
        machines = self.core.machines
        found = []
        for machine, before in self._ghosts.items():
            if machines.at[machine].pool == pool:
                after = self._hidden_under(machine, before, end, job.id)
                if after != before:
                    found.append((machine, before, after))
        if not found:
            return None
        mark = machines.mark()
        for _, before, after in sorted(found):
            exorcise(machines, before)
            haunt(machines, after)
        return Lifted(mark, tuple(found))

    def let_fall(self, lifted: Lifted, *, stands: bool) -> None:
        """Hide it again; `stands`: what was placed meanwhile stays."""
        machines = self.core.machines
        if not stands:
            machines.rewind(lifted.mark)
            return
        machines.settle(lifted.mark)
        for machine, before, after in lifted.ghosts:
            self._ghosts[machine] = after
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
        machines = self.core.machines
        hidden = [(machine, ghosts) for machine, ghosts in sorted(self._ghosts.items()) if machines.at[machine].pool == pool]
        if not hidden:
            return 0
        mark = machines.mark()
        for _, ghosts in hidden:
            exorcise(machines, ghosts)
        would_fit = has_place(at_least(shape.gang), machines, pool)
        machines.rewind(mark)
        return min((one.at for one in self.of(pool)), default=0) if would_fit else 0

    def _vain_key(self, job: Job, shape: Shape, pool: int) -> tuple[int, int, int, str]:
        end = self.end_if_started(job, self.core.now)
        later = sum(one.at >= end for one in self.by_job.values())
        return (shape.number, pool, later, job.id if job.id in self.by_job else "")

    def _hidden(self, machine: int, end: int, but: str) -> tuple[Ghost, ...]:
        """What must be left alone by a gang that would hold a machine until then; nothing is hidden on it now.

        At each booked start before that: what all need that hold the machine then, without what becomes free by then.
        """
        promises = [one for one in self._by_machine.get(machine, ()) if one.job.id != but and one.job.id not in self._suspended]
        most = Room(0, 0, {})
        for one in promises:
            if one.at < end:
                short = self._short(machine, one, promises)
                most.cpu, most.memory = max(most.cpu, short.cpu), max(most.memory, short.memory)
                for device, millis in short.devices.items():
                    most.devices[device] = max(most.devices.get(device, 0), millis)
        here, devices = self.core.machines.class_of[machine], self.core.machines.devices[machine]
        free = {device: min(millis, devices[device]) for device, millis in most.devices.items() if device < len(devices)}
        return ghosts_of(machine, min(most.cpu, here.cpu), min(most.memory, here.memory), free)

    def _hidden_under(self, machine: int, before: Sequence[Ghost], end: int, but: str) -> tuple[Ghost, ...]:
        """The same while something is hidden; that is left as it is."""
        if all(one.at < end and one.job.id != but for one in self._by_machine.get(machine, ())):
            return tuple(before)
        mark = self.core.machines.mark()
        exorcise(self.core.machines, before)
        found = self._hidden(machine, end, but)
        self.core.machines.rewind(mark)
        return found

    def _short(self, machine: int, one: Promise, promises: Sequence[Promise]) -> Room:
        """What is needed of a machine at a booked start beyond what becomes free there by then."""
        short = Room(0, 0, {})
        for other in promises:
            if other.at <= one.at < other.ends_at:
                need = other.needs[machine]
                short.cpu, short.memory = short.cpu + need.cpu, short.memory + need.memory
                for device, millis in need.devices.items():
                    short.devices[device] = short.devices.get(device, 0) + millis
        for running in self._on.get(machine, {}).values():
            if self.end_of(running) <= one.at:
                for task in running.placed.tasks:
                    if task.machine == machine:
                        short.cpu, short.memory = short.cpu - task.ask.cpu_millis, short.memory - task.ask.memory_bytes
                        for device in task.devices:
                            if device in short.devices:
                                short.devices[device] -= min(task.ask.gpu_millis, WHOLE_MILLIS)
        return short

    def _is_kept(self, one: Promise, machine: int) -> bool:
        """Whether a machine, with nothing hidden on it, has what a booked start needs there by then."""
        machines = self.core.machines
        if machines.at[machine].blocked:
            return False
        promises = [other for other in self._by_machine[machine] if other.job.id not in self._suspended]
        short = self._short(machine, one, promises)
        here, devices = machines.class_of[machine], machines.devices[machine]
        if short.cpu > here.cpu or short.memory > here.memory:
            return False
        return all(device < len(devices) and millis <= devices[device] for device, millis in short.devices.items())

    # --- Limits -------------------------------------------------------------------------------------------------------

    def denies(self, job: Job, need: Need, tasks: int, but: Collection[str] = ()) -> Promise | None:
        """The booked start whose room in limits a gang would take that starts now; None when it delays nobody."""
        core, shares = self.core, self.core.shares
        end = self.end_if_started(job, core.now)
        pools = {pool for pool, _ in need}
        for one in sorted(self.by_job.values(), key=order_of):
            if one.job.id == job.id or one.job.id in but or end <= one.at:
                continue
            if core.people:
                ask = Held(sum(amount[2] for _, amount in need), 1, tasks)
                if core.people.is_delayed(one.job, least(one.shape.gang), job, ask):
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
            if not self.core.windows.may_promise(one.job, one.need, one.at):
                self.drop(one.job.id, "limits")

    def _has_limits(self, one: Promise) -> bool:
        """Whether limits will have room for a booked start, with all others that are booked and hold something then."""
        shares = self.core.shares
        others = [other for other in self.by_job.values() if other is not one and other.at <= one.at < other.ends_at]
        for other in others:
            take_shares(shares, other.job.queue, other.need)
        has_room = fits(shares, one)
        if not has_room:
            freed = self._freed_by(one.at, [pool for pool, _ in one.need])
            for running in freed:
                give_shares(shares, running.job.queue, running.need)
            has_room = fits(shares, one)
            for running in freed:
                take_shares(shares, running.job.queue, running.need)
        for other in others:
            give_shares(shares, other.job.queue, other.need)
        return has_room

    def _freed_by(self, at: int, pools: Iterable[int]) -> list[Running]:
        names = {name for pool in pools for end, name in self._ends.get(pool, ()) if end <= at}
        return [self.core.running[name] for name in sorted(names)]

    # --- Planning -----------------------------------------------------------------------------------------------------

    def plan(self, job: Job, shape: Shape) -> Promise | None:
        """The earliest start that can be promised to a gang that waits, in whichever of its pools it comes first."""
        best: Promise | None = None
        for pool in shape.pools:
            if self.may_plan(pool):
                found = Plan(self, job, shape, pool).run(before=FOREVER if best is None else best.at)
                best = found or best
        return best
