"""The earliest start that can be promised to a gang: along the ends of what runs, on machines as they will be then."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from jobs.scheduling.core.advance import AdvanceReservations
from jobs.scheduling.core.place.gangs import GangAsk, Placed, PlacedTask, RoleAsk, at_least
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, MachineClass, Machines
from jobs.scheduling.core.place.placing import place
from jobs.scheduling.core.place.ranking import Ranking, ranking_of
from jobs.scheduling.core.state.held_room import hold, release
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.reservation import FOREVER, BackfillReservation, ends_if_started, held_rooms_of, reservation_of
from jobs.scheduling.core.state.work import HeldRoom, Job, Need, Running, Shape, give_shares, held_together, take_shares
from tenants.quota.shares import Standing

ENDS_MAX = 2048  # Ends that are looked at for one start; what has no place after so many has no booked start.
PLACES_MAX = 32  # How often a gang that is particular about where it goes is tried.


class Booked(NamedTuple):
    """What is booked already: the starts, what is hidden for them, and by pool when what runs ends, with its names."""

    starts: Collection[BackfillReservation]
    hidden: Collection[Sequence[HeldRoom]]
    ends: Mapping[int, Sequence[tuple[int, str]]]


class Plan:
    """The search for one start: the machines as they will be after each of the ends to come."""

    def __init__(self, live: Live, windows: AdvanceReservations, booked: Booked, job: Job, shape: Shape, pool: int) -> None:
        self.live = live
        self.windows = windows
        self.booked = booked
        self.machines: Machines = live.machines
        self.job = job
        self.shape = shape
        self.pool = pool
        self.gang: GangAsk = at_least(shape.gang)
        self.others = [one for one in booked.starts if one.job.id != job.id]
        self.gone: set[str] = set()  # Those of them that have ended by then.
        self.was: dict[int, tuple[MachineClass, tuple[int, ...]]] = {}  # What machines on which something ends are like now.
        self.held: dict[int, tuple[HeldRoom, ...]] = {}
        self.roles: list[tuple[RoleAsk, Ranking]] = []
        self.counts: list[int] = []

    def run(self, before: int) -> BackfillReservation | None:
        live, machines = self.live, self.machines
        for role in self.gang.roles:
            ranking = ranking_of(machines, self.pool if role.pool is None else role.pool, role.ask)
            if ranking is None:
                return None
            self.roles.append((role, ranking))
        mark = machines.mark()
        freed: list[tuple[int, Need]] = []
        for one in self.others:
            take_shares(live.shares, one.job.queue, one.need)
        try:
            for held_rooms in self.booked.hidden:
                release(machines, held_rooms)
            for machine in sorted({machine for one in self.others for machine in one.needs}):
                self._hold(machine, live.now)
            self.counts = [
                sum(ranking.copies(one) * len(one.members) for one in machines.classes(ranking.pool)) for _, ranking in self.roles
            ]
            return self._search(freed, before)
        finally:
            for queue, need in freed:
                take_shares(live.shares, queue, need)
            for one in self.others:
                if one.job.id not in self.gone:
                    give_shares(live.shares, one.job.queue, one.need)
            machines.rewind(mark)

    def _search(self, freed: list[tuple[int, Need]], before: int) -> BackfillReservation | None:
        live, windows, tries, is_sure = self.live, self.windows, PLACES_MAX, True
        for at, ended in self._moments():
            if at >= before:
                return None
            touched: set[int] = set()
            for other in self.others:
                if other.ends.planned == at:
                    self.gone.add(other.job.id)
                    give_shares(live.shares, other.job.queue, other.need)
                    touched.update(other.needs)
            for queue, need in held_together(ended):
                give_shares(live.shares, queue, need)
                freed.append((queue, need))
            for one in ended:
                is_sure = is_sure and one.job.max_runtime is not None
                touched.update(task.machine for task in one.placed.tasks)
            self._free(at, ended, touched)
            if any(count < role.minimum for (role, _), count in zip(self.roles, self.counts, strict=True)):
                continue
            standing = self._standing(at)
            if standing is None or (windows and not windows.may_promise(self.job, self.shape.least[self.pool], at)):
                continue
            tasks = self._tasks()
            if tasks is not None:
                gone = [one for one in self.others if one.job.id in self.gone]
                is_sure = is_sure and all(one.is_sure and one.job.max_runtime is not None for one in gone)
                ends = ends_if_started(self.job, at, live.policy)
                return reservation_of(self.job, self.shape, self.pool, at, ends, tasks, standing, is_sure=is_sure)
            tries -= 1
            if not tries:
                return None
        return None

    def _tasks(self) -> tuple[PlacedTask, ...] | None:
        """Where the gang will go: if it does not mind, where something ends rather than where others could go now."""
        machines, role = self.machines, self.roles[0][0]
        is_particular = len(self.roles) > 1 or role.together or self.gang.together or role.pool is not None or role.ask.is_share
        found: list[PlacedTask] = []
        mark = machines.mark()
        try:
            for machine in () if is_particular else sorted(self.was, key=self._free_before):
                while len(found) < role.minimum and self.roles[0][1].copies(machines.class_of[machine]):
                    devices = machines.take(machine, role.ask, self._devices(machine, role.ask.gpu_millis // WHOLE_MILLIS))
                    found.append(PlacedTask(role.role, len(found), machine, role.ask, devices))
            left = role.minimum - len(found)
            if is_particular or left:
                gang = self.gang if is_particular else replace(self.gang, roles=(replace(role, minimum=left, maximum=left),))
                placed = place(gang, machines, (self.pool,))
                if not isinstance(placed, Placed):
                    return None
                found += [replace(task, index=task.index + len(found)) for task in placed.tasks]
            return tuple(found)
        finally:
            machines.rewind(mark)

    def _free_before(self, machine: int) -> tuple[int, int]:
        return (self.roles[0][1].copies(self.was[machine][0]), machine)

    def _devices(self, machine: int, count: int) -> tuple[int, ...]:
        """Whole devices, those first that are not free now."""
        now, before = self.machines.devices[machine], self.was[machine][1]
        whole = [device for device, millis in enumerate(now) if millis == WHOLE_MILLIS]
        return tuple(sorted(sorted(whole, key=lambda device: (before[device], device))[:count]))

    def _moments(self) -> Iterator[tuple[int, list[Running]]]:
        """All moments at which something ends, with what does, in order."""
        overdue_at = self.live.now + max(1, self.live.policy.rebook_seconds)  # Of those who should be gone; asked again then.
        ends: dict[int, set[str]] = {one.ends.planned: set() for one in self.others if one.ends.planned < FOREVER}
        for pool, _ in self.shape.least[self.pool]:
            for end in self.windows.ends(pool):
                if end > self.live.now:
                    ends.setdefault(end, set())
            for end, name in self.booked.ends.get(pool, ())[:ENDS_MAX]:
                ends.setdefault(end if end > self.live.now else overdue_at, set()).add(name)
        for at in sorted(ends):
            yield at, [self.live.running[name] for name in sorted(ends[at])]

    def _free(self, at: int, ended: Sequence[Running], touched: set[int]) -> None:
        """Give back what ended, less what others who are booked will hold, and count anew."""
        machines = self.machines
        pool_of = {machine: machines.at[machine].pool for machine in touched}
        for machine in touched:
            if machine not in self.was and pool_of[machine] == self.pool:
                self.was[machine] = (machines.class_of[machine], tuple(machines.devices[machine]))
        for sign in (-1, 1):
            for position, (_, ranking) in enumerate(self.roles):
                self.counts[position] += sign * sum(
                    ranking.copies(machines.class_of[machine]) for machine in touched if pool_of[machine] == ranking.pool
                )
            if sign < 0:
                for one in ended:
                    for task in one.placed.tasks:
                        machines.give(task.machine, task.ask, task.devices)
                for machine in sorted(touched):
                    self._hold(machine, at)

    def _hold(self, machine: int, at: int) -> None:
        """Hold for others who are booked and not gone by then as much of what they need as is free."""
        mine = [one.needs[machine] for one in self.others if one.ends.planned > at and machine in one.needs]
        if not mine and machine not in self.held:
            return
        release(self.machines, self.held.pop(machine, ()))
        here, devices = self.machines.class_of[machine], self.machines.devices[machine]
        sums: dict[int, int] = {}
        for need in mine:
            for device, millis in need.devices.items():
                sums[device] = sums.get(device, 0) + millis
        free = {device: min(millis, devices[device]) for device, millis in sums.items() if device < len(devices)}
        cpu, memory = sum(need.cpu for need in mine), sum(need.memory for need in mine)
        self.held[machine] = held_rooms_of(machine, min(cpu, here.cpu), min(memory, here.memory), free)
        hold(self.machines, self.held[machine])

    def _standing(self, at: int) -> Standing | None:
        """What the gang would stand on then; None where a limit would refuse it."""
        found = self.live.room(self.job.queue, self.shape.least[self.pool])
        return found if isinstance(found, Standing) else None
