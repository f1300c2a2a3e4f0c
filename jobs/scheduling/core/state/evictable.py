"""Who may be evicted, by pool and queue, with the sums by which most searches for victims end before they begin.

The ideal: each search goes through all that runs and sums up what there would be without it. What is done instead: for all
searches on behalf of one priority of a queue the same gangs come into question, so they are gathered once, and each that comes or
goes is counted in or out.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from jobs.scheduling.core.place.filters import copies
from jobs.scheduling.core.place.gangs import RoleAsk
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, MachineClass, Machines
from jobs.scheduling.core.place.ranking import Ranking
from jobs.scheduling.core.state.policy import Policy
from jobs.scheduling.core.state.work import Running

Amounts = tuple[int, int, int]
NOTHING: Mapping[str, Running] = MappingProxyType({})
NOTHING_HIDDEN: Mapping[int, Amounts] = MappingProxyType({})


class Leavers:
    """Gangs of one queue that some search may evict. `freed` is what they hold by machine, `sums` all of it in the pool."""

    __slots__ = ("_devices", "_gains", "_pool", "_without", "_without_at", "by_machine", "freed", "gangs", "sums")

    def __init__(self, pool: int, gangs: Iterable[Running]) -> None:
        self.gangs: dict[str, Running] = {}
        self.by_machine: dict[int, list[Running]] = {}
        self.freed: dict[int, Amounts] = {}
        self.sums: Amounts = (0, 0, 0)
        self._pool = pool
        self._without: dict[int, tuple[MachineClass, MachineClass]] = {}  # By machine: as it is, and without these gangs.
        self._devices: dict[int, list[int]] = {}  # What was left of each device then.
        self._without_at = -1  # The version of the machines at which that was found out.
        self._gains: dict[int, tuple[Ranking, int]] = {}  # By number of a shape.
        for one in gangs:
            self.add(one)

    def add(self, one: Running) -> None:
        """One more may be evicted."""
        self.gangs[one.job.id] = one
        self._count(one, 1)
        for machine in {task.machine for task in one.placed.tasks}:
            self.by_machine.setdefault(machine, []).append(one)

    def remove(self, one: Running) -> None:
        """One of them may be evicted no more."""
        del self.gangs[one.job.id]
        self._count(one, -1)
        for machine in {task.machine for task in one.placed.tasks}:
            here = self.by_machine[machine]
            here.remove(one)
            if not here:
                del self.by_machine[machine], self.freed[machine]
                self._devices.pop(machine, None)
                self._take_out(self._without.pop(machine, None))

    def _count(self, one: Running, sign: int) -> None:
        cpu, memory, gpu = self.sums
        for at, amount in one.need:
            if at == self._pool:
                cpu, memory, gpu = cpu + sign * amount[0], memory + sign * amount[1], gpu + sign * amount[2]
        self.sums = (cpu, memory, gpu)
        for task in one.placed.tasks:
            held, ask = self.freed.get(task.machine, (0, 0, 0)), task.ask
            self.freed[task.machine] = (
                held[0] + sign * ask.cpu_millis, held[1] + sign * ask.memory_bytes, held[2] + sign * ask.gpu_millis,
            )  # fmt: skip
            self._devices.pop(task.machine, None)  # What it would be like without these is to be found out again.
        self._without_at = -1

    def _take_out(self, known: tuple[MachineClass, MachineClass] | None) -> None:
        """The counts no more have what a machine brought."""
        for number, (ranking, gain) in self._gains.items() if known is not None else ():
            less = copies(known[1], ranking.shape) - copies(known[0], ranking.shape) if known is not None else 0
            self._gains[number] = ranking, gain - less

    def gain(self, machines: Machines, ranking: Ranking, number: int) -> int:
        """How many tasks of a shape more there would be room for without these gangs. Kept: what changed is counted again."""
        if self._without_at != machines.version:
            self._catch_up(machines)
        known = self._gains.get(number)
        if known is None or known[0] is not ranking:
            pairs = self._without.values()
            known = ranking, sum(copies(after, ranking.shape) - copies(before, ranking.shape) for before, after in pairs)
            self._gains[number] = known
        return known[1]

    def _catch_up(self, machines: Machines) -> None:
        self._without_at = machines.version
        class_of = machines.class_of
        for machine in self.freed:
            known = self._without.get(machine)
            if known is not None and known[0] is class_of[machine] and self._devices.get(machine) == machines.devices[machine]:
                continue
            self._take_out(known)
            self._devices[machine] = list(machines.devices[machine])
            found = self._without[machine] = class_of[machine], self._emptied(machines, machine)
            for number, (ranking, gain) in self._gains.items():
                self._gains[number] = ranking, gain + copies(found[1], ranking.shape) - copies(found[0], ranking.shape)

    def _emptied(self, machines: Machines, machine: int) -> MachineClass:
        """What a machine would be like without these gangs."""
        here, devices = machines.class_of[machine], list(machines.devices[machine])
        cpu, memory, _ = self.freed[machine]
        for one in self.by_machine[machine]:
            for task in one.placed.tasks:
                for device in task.devices if task.machine == machine else ():
                    devices[device] += min(task.ask.gpu_millis, WHOLE_MILLIS)
        return MachineClass(here.kind, here.kind_number, here.cpu + cpu, here.memory + memory, tuple(sorted(devices)))


class Ages:
    """Gangs that run, and from when on each has run for long enough."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str, int, Running]] = []
        self._entered = 0  # Keeps the heap from comparing gangs; decides nothing.

    def enter(self, one: Running, at: int) -> None:
        """It has run for long enough from then on."""
        self._entered += 1
        heapq.heappush(self._heap, (at, one.job.id, self._entered, one))

    @property
    def first(self) -> tuple[int, Running] | None:
        """Who is next, and when."""
        while self._heap and not self._heap[0][3].is_counted:
            heapq.heappop(self._heap)
        return (self._heap[0][0], self._heap[0][3]) if self._heap else None

    def due(self, now: int) -> Iterable[Running]:
        """Those that have run for long enough by now, once each."""
        while self._heap and self._heap[0][0] <= now:
            *_, one = heapq.heappop(self._heap)
            if one.is_counted:
                yield one


class Evictable:
    """All that runs and may make room, now or once it has run for long enough: for other queues
    (`Policy.reclaim_least_runtime_seconds`), and for its own (`Policy.least_runtime_seconds`)."""

    def __init__(self) -> None:
        self.priorities: dict[tuple[int, int], dict[int, int]] = {}  # (pool, queue) -> priority -> how many of these.
        self.unclaimed = Ages()  # Who may not be evicted for other queues yet.
        self.young = Ages()  # Who may not be evicted for its own queue yet.
        self._there: dict[int, dict[int, dict[str, Running]]] = {}  # By pool and queue, all of them.
        self._leavers: dict[tuple[int, int], dict[int | None, Leavers]] = {}  # (pool, queue) -> below which priority.
        self._held: dict[int, list[int]] = {}  # By pool, what those hold together who may be reclaimed now.

    def enter(self, one: Running, policy: Policy, now: int) -> None:
        """It runs from now on: it may be evicted in a later moment than that of its start, and not before its least run time."""
        one.is_counted = True
        one.is_ripe = self._enters(one, policy.least_runtime_seconds, self.young, now)
        one.is_reclaimable = False
        for pool, _ in one.need:
            self._there.setdefault(pool, {}).setdefault(one.job.queue, {})[one.job.id] = one
            counts = self.priorities.setdefault((pool, one.job.queue), {})
            counts[one.job.priority] = counts.get(one.job.priority, 0) + 1
        if self._enters(one, policy.reclaim_least_runtime_seconds, self.unclaimed, now):
            self._settle(one)
        else:
            self._offer(one)

    @staticmethod
    def _enters(one: Running, seconds: int, ages: Ages, now: int) -> bool:
        at = one.started_at + max(1, seconds)
        if at > now:
            ages.enter(one, at)
        return at <= now

    def next_at(self, *, claims: bool) -> int | None:
        """When the next of those that run may be evicted for other queues, or for its own; None when all may."""
        found = (self.unclaimed if claims else self.young).first
        return None if found is None else found[0]

    def ripen(self, now: int) -> list[Running]:
        """Who may be evicted from now on for something for which it might not be before."""
        found = [one for one in self.unclaimed.due(now) if not one.is_reclaimable]
        for one in found:
            self._settle(one)
        for one in self.young.due(now):
            if not one.is_ripe:
                one.is_ripe = True
                self._offer(one)
                found.append(one)
        return found

    def _settle(self, one: Running) -> None:
        """It may be reclaimed from now on."""
        one.is_reclaimable = True
        self._offer(one)
        for pool, amount in one.need:
            _add(self._held.setdefault(pool, [0, 0, 0]), amount, 1)

    def _offer(self, one: Running) -> None:
        """Searches from now on may evict it."""
        for pool, _ in one.need:
            for below, leavers in self._leavers.get((pool, one.job.queue), {}).items():
                if one.job.id not in leavers.gangs and _may_leave(one, below):
                    leavers.add(one)

    def leave(self, one: Running) -> None:
        """It may be evicted no more."""
        for pool, amount in one.need:
            at = pool, one.job.queue
            if self._there.get(pool, {}).get(one.job.queue, {}).pop(one.job.id, None) is not None:
                for leavers in self._leavers.get(at, {}).values():
                    if one.job.id in leavers.gangs:
                        leavers.remove(one)
                if one.is_reclaimable:
                    _add(self._held[pool], amount, -1)
            if one.is_counted:
                counts = self.priorities[at]
                counts[one.job.priority] -= 1
                if not counts[one.job.priority]:
                    del counts[one.job.priority]
        one.is_counted = one.is_reclaimable = False

    def queues(self, pool: int) -> list[int]:
        """Those with work that may be reclaimed, now or later."""
        return [queue for queue, gangs in self._there.get(pool, {}).items() if gangs]

    def held(self, pool: int) -> Amounts:
        """What those hold together who may be reclaimed now, of all queues."""
        cpu, memory, gpu = self._held.get(pool, (0, 0, 0))
        return cpu, memory, gpu

    def leavers(self, pool: int, queue: int, below: int | None) -> Leavers:
        """Whom of a queue a search may evict; with a priority, those below it that have run for long enough."""
        known = self._leavers.setdefault((pool, queue), {})
        found = known.get(below)
        if found is None:
            there = self._there.get(pool, {}).get(queue, NOTHING).values()
            found = known[below] = Leavers(pool, (one for one in there if _may_leave(one, below)))
        return found


def _may_leave(one: Running, below: int | None) -> bool:
    is_old = one.is_reclaimable if below is None else one.is_ripe and one.job.priority < below
    return one.job.evictable and is_old


def takes_more(
    machines: Machines,
    ranking: Ranking,
    role: RoleAsk,
    wanted: int,
    freed: Mapping[int, Amounts],
    hidden: Mapping[int, Amounts] = NOTHING_HIDDEN,
) -> bool:
    """Whether so many tasks more might go where so much would become free, by what would be left there of each. `hidden`: what
    is held on machines for booked starts, and may be had as well."""
    if wanted <= 0:
        return True
    class_of, ask, takes_kind = machines.class_of, role.ask, ranking.takes_kind
    for machine, (cpu, memory, gpu) in freed.items():
        left = class_of[machine]
        if not takes_kind(left):
            continue
        if machine in hidden:
            more = hidden[machine]
            cpu, memory, gpu = cpu + more[0], memory + more[1], gpu + more[2]
        many = (left.gpu + gpu) // ask.gpu_millis if ask.gpu_millis else role.minimum
        if many and ask.cpu_millis:
            many = min(many, (left.cpu + cpu) // ask.cpu_millis)
        if many and ask.memory_bytes:
            many = min(many, (left.memory + memory) // ask.memory_bytes)
        wanted -= many
        if wanted <= 0:
            return True
    return False


def _add(held: list[int], amount: Amounts, sign: int) -> None:
    for at, one in enumerate(amount):
        held[at] += sign * one
