"""Which gangs may be evicted, by pool and queue, with the sums by which most searches for victims end before they begin.

The ideal: each search goes through all that runs and sums up what there would be without it. What is done instead: for all
searches on behalf of one priority of a queue the same gangs come into question, so they are gathered once, and each that starts
or ends is counted in or out.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from jobs.scheduling.core.place.filters import copies
from jobs.scheduling.core.place.gangs import RoleAsk
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, MachineClass, Machines
from jobs.scheduling.core.place.ranking import Ranking
from jobs.scheduling.core.state.changes import Mark, Preemptible, Reclaimable
from jobs.scheduling.core.state.policy import Policy
from jobs.scheduling.core.state.work import Running

Amounts = tuple[int, int, int]
NOTHING: Mapping[str, Running] = MappingProxyType({})
NOTHING_HIDDEN: Mapping[int, Amounts] = MappingProxyType({})


class VictimCandidates:
    """Gangs of one queue that some search may evict. `freed` is what they hold by machine, `sums` all of it in the pool."""

    __slots__ = ("_changed", "_devices", "_gains", "_pool", "_without", "_without_at", "by_machine", "freed", "gangs", "sums")

    def __init__(self, pool: int, gangs: Iterable[Running]) -> None:
        self.gangs: dict[str, Running] = {}
        self.by_machine: dict[int, list[Running]] = {}
        self.freed: dict[int, Amounts] = {}
        self.sums: Amounts = (0, 0, 0)
        self._pool = pool
        self._without: dict[int, tuple[MachineClass, MachineClass]] = {}  # By machine: as it is, and without these gangs.
        self._devices: dict[int, list[int]] = {}  # What was left of each device then.
        self._without_at = -1  # The version of the machines at which that was found out.
        self._changed: set[int] = set()  # Machines where they hold more or less than then.
        self._gains: dict[int, tuple[Ranking, int]] = {}  # By number of a shape.
        for running in gangs:
            self.add(running)

    def add(self, running: Running) -> None:
        """A further gang may be evicted."""
        self.gangs[running.job.id] = running
        self._count(running, 1)
        for machine in {task.machine for task in running.placed.tasks}:
            self.by_machine.setdefault(machine, []).append(running)

    def remove(self, running: Running) -> None:
        """A gang may be evicted no more."""
        del self.gangs[running.job.id]
        self._count(running, -1)
        for machine in {task.machine for task in running.placed.tasks}:
            here = self.by_machine[machine]
            here.remove(running)
            if not here:
                del self.by_machine[machine], self.freed[machine]
                self._devices.pop(machine, None)
                self._take_out(self._without.pop(machine, None))

    def _count(self, running: Running, sign: int) -> None:
        cpu, memory, gpu = self.sums
        for at, amount in running.need:
            if at == self._pool:
                cpu, memory, gpu = cpu + sign * amount[0], memory + sign * amount[1], gpu + sign * amount[2]
        self.sums = (cpu, memory, gpu)
        for task in running.placed.tasks:
            held, ask = self.freed.get(task.machine, (0, 0, 0)), task.ask
            self.freed[task.machine] = (
                held[0] + sign * ask.cpu_millis, held[1] + sign * ask.memory_bytes, held[2] + sign * ask.gpu_millis,
            )  # fmt: skip
            self._devices.pop(task.machine, None)  # What it would be like without these is to be found out again.
            self._changed.add(task.machine)

    def _take_out(self, pair: tuple[MachineClass, MachineClass] | None) -> None:
        """The counts no more have what a machine brought."""
        for number, (ranking, gain) in self._gains.items() if pair is not None else ():
            less = copies(pair[1], ranking.shape) - copies(pair[0], ranking.shape) if pair is not None else 0
            self._gains[number] = ranking, gain - less

    def gain(self, machines: Machines, ranking: Ranking, number: int) -> int:
        """How many tasks of a shape more there would be room for without these gangs. Kept: what changed is counted again."""
        gain = self.gains(machines).get(number)
        if gain is None or gain[0] is not ranking:
            pairs = self._without.values()
            gain = ranking, sum(copies(after, ranking.shape) - copies(before, ranking.shape) for before, after in pairs)
            self._gains[number] = gain
        return gain[1]

    def gains(self, machines: Machines) -> Mapping[int, tuple[Ranking, int]]:
        """The same by number of a shape, of those for which it was asked."""
        if self._changed or self._without_at != machines.version:
            self._catch_up(machines)
        return self._gains

    def _catch_up(self, machines: Machines) -> None:
        moved = machines.moved_since(self._without_at)
        looked_at = self.freed.keys() if moved is None else self.freed.keys() & self._changed.union(moved)
        self._without_at = machines.version
        self._changed.clear()
        class_of = machines.class_of
        for machine in looked_at:
            kept = self._without.get(machine)
            if kept is not None and kept[0] is class_of[machine] and self._devices.get(machine) == machines.devices[machine]:
                continue
            self._take_out(kept)
            self._devices[machine] = list(machines.devices[machine])
            pair = self._without[machine] = class_of[machine], self._emptied(machines, machine)
            for number, (ranking, gain) in self._gains.items():
                self._gains[number] = ranking, gain + copies(pair[1], ranking.shape) - copies(pair[0], ranking.shape)

    def _emptied(self, machines: Machines, machine: int) -> MachineClass:
        """What a machine would be like without these gangs."""
        here, devices = machines.class_of[machine], list(machines.devices[machine])
        cpu, memory, _ = self.freed[machine]
        tasks = here.tasks
        for running in self.by_machine[machine]:
            for task in running.placed.tasks:
                tasks = tasks + 1 if tasks is not None and task.machine == machine else tasks
                for device in task.devices if task.machine == machine else ():
                    devices[device] += min(task.ask.gpu_millis, WHOLE_MILLIS)
        return MachineClass(here.kind, here.kind_number, here.cpu + cpu, here.memory + memory, tuple(sorted(devices)), tasks)


class ProtectedGangs:
    """Running gangs that have not run for long enough to be evicted, and from when on each has."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str, int, Running]] = []
        self._entered = 0  # Keeps the heap from comparing gangs; decides nothing.

    def enter(self, running: Running, at: int) -> None:
        """A gang has run for long enough from a moment on."""
        self._entered += 1
        heapq.heappush(self._heap, (at, running.job.id, self._entered, running))

    @property
    def first(self) -> tuple[int, Running] | None:
        """The gang that is next, and when."""
        while self._heap and not self._heap[0][3].is_counted:
            heapq.heappop(self._heap)
        return (self._heap[0][0], self._heap[0][3]) if self._heap else None

    @property
    def later(self) -> Iterable[tuple[int, Running]]:
        """All that have not run for long enough yet, in no order, and from when on each has."""
        return ((at, running) for at, _, _, running in self._heap if running.is_counted)

    def due(self, now: int) -> Iterable[Running]:
        """Those that have run for long enough by now, once each."""
        while self._heap and self._heap[0][0] <= now:
            *_, running = heapq.heappop(self._heap)
            if running.is_counted:
                yield running


class Evictable:
    """All that runs and may make room, now or once it has run for long enough: for other queues
    (`Policy.reclaim_least_runtime_seconds`), and for its own (`Policy.least_runtime_seconds`)."""

    def __init__(self) -> None:
        self.priorities: dict[tuple[int, int], dict[int, int]] = {}  # (pool, queue) -> priority -> how many of these.
        self.unreclaimable = ProtectedGangs()  # Gangs that may not be evicted for other queues yet.
        self.unpreemptible = ProtectedGangs()  # Gangs that may not be evicted for their own queue yet.
        self._running: dict[int, dict[int, dict[str, Running]]] = {}  # By pool and queue, all of them.
        self._candidates: dict[tuple[int, int], dict[int | None, VictimCandidates]] = {}  # (pool, queue) -> below which priority.
        self._held: dict[int, list[int]] = {}  # By pool, what the gangs that may be reclaimed now hold together.

    def enter(self, running: Running, policy: Policy, now: int) -> None:
        """A gang runs from now on: it may be evicted later than at the moment of its start, and not before its least run time."""
        running.is_counted = True
        running.is_preemptible = self._enters(running, policy.least_runtime_seconds, self.unpreemptible, now)
        running.is_reclaimable = False
        for pool, _ in running.need:
            self._running.setdefault(pool, {}).setdefault(running.job.queue, {})[running.job.id] = running
            counts = self.priorities.setdefault((pool, running.job.queue), {})
            counts[running.job.priority] = counts.get(running.job.priority, 0) + 1
        if self._enters(running, policy.reclaim_least_runtime_seconds, self.unreclaimable, now):
            self._make_reclaimable(running)
        else:
            self._add_candidate(running)

    @staticmethod
    def _enters(running: Running, seconds: int, protected: ProtectedGangs, now: int) -> bool:
        at = running.started_at + max(1, seconds)
        if at > now:
            protected.enter(running, at)
        return at <= now

    def next_at(self, *, claims: bool) -> int | None:
        """When the next of those that run may be evicted for other queues, or for its own; None when all may."""
        first = (self.unreclaimable if claims else self.unpreemptible).first
        return None if first is None else first[0]

    def later(self, pool: int, queue: int, below: int) -> list[tuple[int, Running]]:
        """The gangs of a pool that may make room once they have run for long enough, and from when on, the first first: of this
        queue those below a priority, for which its own least run time holds, and all of other queues."""
        own = (
            (at, running)
            for at, running in self.unpreemptible.later
            if running.job.queue == queue and running.job.priority < below
        )
        others = ((at, running) for at, running in self.unreclaimable.later if running.job.queue != queue)
        later = [
            (at, running)
            for at, running in (*own, *others)
            if running.job.evictable and any(needed == pool for needed, _ in running.need)
        ]
        return sorted(later, key=lambda entry: (entry[0], entry[1].job.id))

    def make_due_evictable(self, now: int) -> set[Mark]:
        """Make evictable what has run for long enough by now; the marks of what that may help."""
        marks: set[Mark] = set()
        for running in self.unreclaimable.due(now):
            if not running.is_reclaimable:
                self._make_reclaimable(running)
                marks.update(Reclaimable(pool) for pool, _ in running.need)
        for running in self.unpreemptible.due(now):
            if not running.is_preemptible:
                running.is_preemptible = True
                self._add_candidate(running)
                marks.update(Preemptible(pool, running.job.queue, running.job.priority) for pool, _ in running.need)
        return marks

    def _make_reclaimable(self, running: Running) -> None:
        """A gang may be reclaimed from now on."""
        running.is_reclaimable = True
        self._add_candidate(running)
        for pool, amount in running.need:
            _add(self._held.setdefault(pool, [0, 0, 0]), amount, 1)

    def _add_candidate(self, running: Running) -> None:
        """Searches from now on may evict a gang."""
        for pool, _ in running.need:
            for below, candidates in self._candidates.get((pool, running.job.queue), {}).items():
                if running.job.id not in candidates.gangs and _may_evict(running, below):
                    candidates.add(running)

    def leave(self, running: Running) -> None:
        """A gang may be evicted no more."""
        for pool, amount in running.need:
            at = pool, running.job.queue
            if self._running.get(pool, {}).get(running.job.queue, {}).pop(running.job.id, None) is not None:
                for candidates in self._candidates.get(at, {}).values():
                    if running.job.id in candidates.gangs:
                        candidates.remove(running)
                if running.is_reclaimable:
                    _add(self._held[pool], amount, -1)
            if running.is_counted:
                counts = self.priorities[at]
                counts[running.job.priority] -= 1
                if not counts[running.job.priority]:
                    del counts[running.job.priority]
        running.is_counted = running.is_reclaimable = False

    def queues(self, pool: int) -> list[int]:
        """The queues with work that may be reclaimed, now or later."""
        return [queue for queue, gangs in self._running.get(pool, {}).items() if gangs]

    def held(self, pool: int) -> Amounts:
        """What the gangs that may be reclaimed now hold together, of all queues."""
        cpu, memory, gpu = self._held.get(pool, (0, 0, 0))
        return cpu, memory, gpu

    def candidates(self, pool: int, queue: int, below: int | None) -> VictimCandidates:
        """The gangs of a queue that a search may evict; with a priority, those below it that have run for long enough."""
        by_priority = self._candidates.setdefault((pool, queue), {})
        candidates = by_priority.get(below)
        if candidates is None:
            there = self._running.get(pool, {}).get(queue, NOTHING).values()
            candidates = by_priority[below] = VictimCandidates(pool, (running for running in there if _may_evict(running, below)))
        return candidates


def _may_evict(running: Running, below: int | None) -> bool:
    is_old = running.is_reclaimable if below is None else running.is_preemptible and running.job.priority < below
    return running.job.evictable and is_old


def takes_more(
    machines: Machines,
    ranking: Ranking,
    role: RoleAsk,
    wanted: int,
    freed: Mapping[int, Amounts],
    hidden: Mapping[int, Amounts] = NOTHING_HIDDEN,
) -> bool:
    """Whether the wanted tasks might go where `freed` would become free, by what would be left there of each. `hidden`: what is
    held on machines for reserved starts, and may be had as well."""
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
    for at, quantity in enumerate(amount):
        held[at] += sign * quantity
