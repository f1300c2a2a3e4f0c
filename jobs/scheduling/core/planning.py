"""The earliest start that can be reserved for a gang: along the ends of what runs, on machines as they will be then.

The ideal: after each end the gang is placed on machines and within limits as they are then. What is done instead: how many tasks
there would be room for is counted beside `Machines`, end by end, for the machines on which something ends. Only where that is
enough is what has ended so far given back, to the limits first, and a place looked for. The count only grows and is what
`Machines` would say, so the start is the same; what costs most is not done for the ends before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from jobs.scheduling.core.advance import AdvanceReservations
from jobs.scheduling.core.place.filters import TaskShape, copies
from jobs.scheduling.core.place.gangs import GangAsk, Placed, PlacedTask, RoleAsk, at_least
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, MachineClass, Machines
from jobs.scheduling.core.place.placing import place
from jobs.scheduling.core.place.ranking import Ranking, ranking_of
from jobs.scheduling.core.state.held_room import hold, release
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.reservation import FOREVER, BackfillReservation, ends_if_started, held_rooms_of, reservation_of
from jobs.scheduling.core.state.work import HeldRoom, JobAsk, Need, Running, Shape, give_shares, held_together, take_shares
from tenants.capacity.quota.shares import Standing

ENDS_MAX = 2048  # Ends that are looked at for one start; what has no place after so many has no reserved start.
PLACES_MAX = 32  # How often a gang that is particular about where it goes is tried.


class Reserved(NamedTuple):
    """What is reserved already: the starts, what is hidden for them, and by pool when what runs ends, with its names."""

    starts: Collection[BackfillReservation]
    hidden: Collection[Sequence[HeldRoom]]
    ends: Mapping[int, Sequence[tuple[int, str]]]


class Left:
    """What will be left of a machine once the gangs that end by then are gone, beside what others with a reserved start hold, and
    how many tasks of each role it takes; `shapes` has the roles that may go there, by their number."""

    __slots__ = ("bound", "cpu", "devices", "memory", "shapes", "tasks")

    def __init__(self, here: MachineClass, devices: Sequence[int], shapes: Mapping[int, TaskShape]) -> None:
        self.cpu = here.cpu
        self.memory = here.memory
        self.bound = here.tasks
        self.devices = list(devices)
        self.shapes = shapes
        self.tasks = {position: copies(here, shape) for position, shape in shapes.items()}

    def add(self, cpu: int, memory: int, each: int, devices: Sequence[int], tasks: int) -> None:
        """So much more is left; `each`: of each of these devices."""
        self.cpu += cpu
        self.memory += memory
        self.bound = None if self.bound is None else self.bound + tasks
        for device in devices:
            self.devices[device] += each


class Plan:
    """The search for one start: the machines as they will be after each of the ends to come."""

    def __init__(
        self, live: Live, advance: AdvanceReservations, reserved: Reserved, job: JobAsk, shape: Shape, pool: int
    ) -> None:
        self.live = live
        self.advance = advance
        self.reserved = reserved
        self.machines: Machines = live.machines
        self.job = job
        self.shape = shape
        self.pool = pool
        self.gang: GangAsk = at_least(shape.gang)
        self.others = [reservation for reservation in reserved.starts if reservation.job.id != job.id]
        self.gone: set[str] = set()  # Those of them that have ended by then.
        self.was: dict[int, tuple[MachineClass, tuple[int, ...]]] = {}  # What machines on which something ends are like now.
        self.left: dict[int, Left] = {}  # And will be like.
        self.held: dict[int, tuple[HeldRoom, ...]] = {}
        self.roles: list[tuple[RoleAsk, Ranking]] = []
        self.counts: list[int] = []
        self.ended: list[Running] = []  # All that end by then: limits and machines get them back when they are asked.
        self.of_limits = 0  # How many of them the limits have back.
        self.ended_on: dict[int, list[PlacedTask]] = {}  # And which of their tasks the machines have not.
        self.touched: set[int] = set()  # Machines that are to change.

    def run(self, before: int) -> BackfillReservation | None:
        live, machines = self.live, self.machines
        for role in self.gang.roles:
            ranking = ranking_of(machines, self.pool if role.pool is None else role.pool, role.ask)
            if ranking is None:
                return None
            self.roles.append((role, ranking))
        mark = machines.mark()
        freed: list[tuple[int, Need]] = []
        for reservation in self.others:
            take_shares(live.shares, reservation.job.queue, reservation.need)
        try:
            for held_rooms in self.reserved.hidden:
                release(machines, held_rooms)
            for machine in sorted({machine for reservation in self.others for machine in reservation.needs}):
                self._hold(machine, live.now)
            self.counts = [ranking.room_of_all(machines.classes(ranking.pool)) for _, ranking in self.roles]
            return self._search(freed, before)
        finally:
            for queue, need in freed:
                take_shares(live.shares, queue, need)
            for reservation in self.others:
                if reservation.job.id not in self.gone:
                    give_shares(live.shares, reservation.job.queue, reservation.need)
            machines.rewind(mark)

    def _search(self, freed: list[tuple[int, Need]], before: int) -> BackfillReservation | None:
        live, advance, tries = self.live, self.advance, PLACES_MAX
        for at, ended in self._moments():
            if at >= before:
                return None
            self._pass(at, ended)
            if any(count < role.minimum for (role, _), count in zip(self.roles, self.counts, strict=True)):
                continue
            for queue, need in held_together(self.ended[self.of_limits :]):
                give_shares(live.shares, queue, need)
                freed.append((queue, need))
            self.of_limits = len(self.ended)
            standing = self._standing(at)
            if standing is None or (advance and not advance.may_reserve(self.job, self.shape.least[self.pool], at)):
                continue
            tasks = self._tasks(at)
            if tasks is not None:
                gone = [reservation for reservation in self.others if reservation.job.id in self.gone]
                is_sure = all(reservation.is_sure and reservation.job.max_runtime is not None for reservation in gone)
                is_sure = is_sure and all(running.job.max_runtime is not None for running in self.ended)
                ends = ends_if_started(self.job, at, live.policy)
                return reservation_of(self.job, self.shape, self.pool, at, ends, tasks, standing, is_sure=is_sure)
            tries -= 1
            if not tries:
                return None
        return None

    def _tasks(self, at: int) -> tuple[PlacedTask, ...] | None:
        """Where the gang will go: if it does not mind, where something ends rather than where others could go now. What has ended
        is given back to machines as they are looked at, and taken again by `run`."""
        machines, role = self.machines, self.roles[0][0]
        is_particular = len(self.roles) > 1 or role.together or self.gang.together or role.pool is not None or role.ask.is_share
        tasks: list[PlacedTask] = []
        for machine in () if is_particular else sorted(self.was, key=self._free_before):
            if len(tasks) == role.minimum:
                break
            self._free(machine, at)
            while len(tasks) < role.minimum and self.roles[0][1].copies(machines.class_of[machine]):
                devices = machines.take(machine, role.ask, self._devices(machine, role.ask.gpu_millis // WHOLE_MILLIS))
                tasks.append(PlacedTask(role.role, len(tasks), machine, role.ask, devices))
        left = role.minimum - len(tasks)
        if is_particular or left:
            for machine in sorted(self.touched):
                self._free(machine, at)
            gang = self.gang if is_particular else replace(self.gang, roles=(replace(role, minimum=left, maximum=left),))
            placed = place(gang, machines, (self.pool,))
            if not isinstance(placed, Placed):
                for task in tasks:
                    machines.give(task.machine, task.ask, task.devices)
                return None
            tasks += [replace(task, index=task.index + len(tasks)) for task in placed.tasks]
        return tuple(tasks)

    def _free_before(self, machine: int) -> tuple[int, int]:
        return (self.roles[0][1].copies(self.was[machine][0]), machine)

    def _devices(self, machine: int, count: int) -> tuple[int, ...]:
        """Whole devices, those first that are not free now."""
        now, before = self.machines.devices[machine], self.was[machine][1]
        whole = [device for device, millis in enumerate(now) if millis == WHOLE_MILLIS]
        return tuple(sorted(sorted(whole, key=lambda device: (before[device], device))[:count]))

    def _moments(self) -> Iterator[tuple[int, list[Running]]]:
        """All moments at which something ends, with what does, in order."""
        overdue_at = self.live.now + max(1, self.live.policy.replan_seconds)  # Of gangs that should have ended; asked again then.
        ends: dict[int, set[str]] = {
            reservation.ends.planned: set() for reservation in self.others if reservation.ends.planned < FOREVER
        }
        for pool, _ in self.shape.least[self.pool]:
            for end in self.advance.ends(pool):
                if end > self.live.now:
                    ends.setdefault(end, set())
            for end, name in self.reserved.ends.get(pool, ())[:ENDS_MAX]:
                ends.setdefault(end if end > self.live.now else overdue_at, set()).add(name)
        for at in sorted(ends):
            yield at, [self.live.running[name] for name in sorted(ends[at])]

    def _pass(self, at: int, ended: Sequence[Running]) -> None:
        """Count what there will be room for once these have ended, too."""
        touched: set[int] = set()
        for other in self.others:
            if other.ends.planned == at:
                self.gone.add(other.job.id)
                give_shares(self.live.shares, other.job.queue, other.need)
                touched.update(other.needs)
        for running in ended:
            for task in running.placed.tasks:
                ask = task.ask
                each = min(ask.gpu_millis, WHOLE_MILLIS)
                self._left(task.machine).add(ask.cpu_millis, ask.memory_bytes, each, task.devices, 1)
                self.ended_on.setdefault(task.machine, []).append(task)
                touched.add(task.machine)
        for machine in touched:
            left, here = self._left(machine), self.machines.class_of[machine]
            if not left.shapes:
                continue
            cpu, memory, devices, tasks = left.cpu, left.memory, left.devices, left.bound
            for held in self._held_at(machine, at, cpu, memory, devices, tasks):
                cpu, memory, devices = cpu - held.cpu_millis, memory - held.memory_bytes, list(devices)
                tasks = None if tasks is None else tasks - held.tasks
                for device in held.devices:
                    devices[device] -= min(held.gpu_millis, WHOLE_MILLIS)
            then = MachineClass(here.kind, here.kind_number, cpu, memory, tuple(sorted(devices)), tasks)
            for position, shape in left.shapes.items():
                many = copies(then, shape)
                self.counts[position] += many - left.tasks[position]
                left.tasks[position] = many
        self.ended += ended
        self.touched |= touched

    def _left(self, machine: int) -> Left:
        left = self.left.get(machine)
        if left is None:
            here, devices = self.machines.class_of[machine], self.machines.devices[machine]
            if here.kind.pool == self.pool:
                self.was[machine] = (here, tuple(devices))
            roles = enumerate(ranking for _, ranking in self.roles)
            shapes = {at: each.shape for at, each in roles if each.pool == here.kind.pool and each.takes_kind(here)}
            left = self.left[machine] = Left(here, devices, shapes)
            for held in self.held.get(machine, ()):
                each = min(held.gpu_millis, WHOLE_MILLIS)
                left.add(held.cpu_millis, held.memory_bytes, each, held.devices, held.tasks)
        return left

    def _free(self, machine: int, at: int) -> None:
        """Give back to a machine what has ended there, less what others with a reserved start will hold."""
        for task in self.ended_on.pop(machine, ()):
            self.machines.give(machine, task.ask, task.devices)
        self.touched.discard(machine)
        self._hold(machine, at)

    def _hold(self, machine: int, at: int) -> None:
        """Hold for others with a reserved start and not gone by then as much of what they need as is free."""
        release(self.machines, self.held.pop(machine, ()))
        here = self.machines.class_of[machine]
        held = self._held_at(machine, at, here.cpu, here.memory, self.machines.devices[machine], here.tasks)
        if held:
            self.held[machine] = held
            hold(self.machines, held)

    def _held_at(
        self, machine: int, at: int, cpu: int, memory: int, devices: Sequence[int], tasks: int | None
    ) -> tuple[HeldRoom, ...]:
        """What of so much is held then for others with a reserved start."""
        mine = [
            reservation.needs[machine]
            for reservation in self.others
            if reservation.ends.planned > at and machine in reservation.needs
        ]
        if not mine:
            return ()
        sums: dict[int, int] = {}
        for need in mine:
            for device, millis in need.devices.items():
                sums[device] = sums.get(device, 0) + millis
        free = {device: min(millis, devices[device]) for device, millis in sums.items() if device < len(devices)}
        cpu, memory = min(cpu, sum(need.cpu for need in mine)), min(memory, sum(need.memory for need in mine))
        held_tasks = 0 if tasks is None else min(tasks, sum(need.tasks for need in mine))
        return held_rooms_of(machine, cpu, memory, free, held_tasks)

    def _standing(self, at: int) -> Standing | None:
        """What the gang would stand on then; None where a limit would refuse it."""
        room = self.live.room(self.job.queue, self.shape.least[self.pool])
        return room if isinstance(room, Standing) else None
