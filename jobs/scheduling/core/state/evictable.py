"""Who may be evicted, by pool and queue, with the sums by which most searches for victims end before they begin.

The ideal: each search goes through all that runs and sums up what there would be without it. What is done instead: for all
searches on behalf of one priority of a queue the same gangs come into question, so they are gathered once and kept until one of
the queue's comes or goes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from jobs.scheduling.core.state.gangs import RoleAsk
from jobs.scheduling.core.state.machines import Machines
from jobs.scheduling.core.state.work import Running

Amounts = tuple[int, int, int]
NOTHING: Mapping[str, Running] = MappingProxyType({})


class Leavers:
    """Gangs of one queue that some search may evict. `freed` is what they hold by machine, `sums` all of it in the pool."""

    __slots__ = ("_best", "_best_at", "by_machine", "freed", "gangs", "machines", "sums")

    def __init__(self, pool: int, gangs: tuple[Running, ...]) -> None:
        self.gangs = gangs
        self.by_machine: dict[int, list[Running]] = {}
        self.freed: dict[int, Amounts] = {}
        cpu = memory = gpu = 0
        for one in gangs:
            for at, amount in one.need:
                if at == pool:
                    cpu, memory, gpu = cpu + amount[0], memory + amount[1], gpu + amount[2]
            for task in one.placed.tasks:
                here = self.by_machine.setdefault(task.machine, [])
                if not here or here[-1] is not one:  # Its tasks are gone through in one go, so it can only be the last.
                    here.append(one)
                held = self.freed.get(task.machine, (0, 0, 0))
                ask = task.ask
                self.freed[task.machine] = (held[0] + ask.cpu_millis, held[1] + ask.memory_bytes, held[2] + ask.gpu_millis)
        self.machines = frozenset(self.by_machine)
        self.sums: Amounts = (cpu, memory, gpu)
        self._best = 0
        self._best_at = -1  # The version of the machines at which that was found out.

    def best(self, machines: Machines) -> int:
        """The most thousandths of GPUs that any machine would have left without these gangs: a task of more goes nowhere."""
        if self._best_at != machines.version:
            class_of, best = machines.class_of, 0
            for machine, (_, _, gpu) in self.freed.items():
                left = class_of[machine].gpu + gpu
                if left > best:
                    best = left
            self._best, self._best_at = best, machines.version
        return self._best


class Evictable:
    """All that runs and may make room, now or once it has run for long enough."""

    def __init__(self) -> None:
        self.priorities: dict[tuple[int, int], dict[int, int]] = {}  # (pool, queue) -> priority -> how many of these.
        self._gpus: dict[tuple[int, int], dict[int, int]] = {}  # (pool, queue) -> priority -> thousandths of GPUs they hold.
        self._ripe: dict[int, dict[int, dict[str, Running]]] = {}  # By pool and queue, who may be evicted now.
        self._leavers: dict[tuple[int, int], dict[int | None, Leavers]] = {}  # (pool, queue) -> below which priority.
        self._on: dict[tuple[int, int], Counter[tuple[int, int]]] = {}  # (pool, machine) -> queue and priority of tasks there.

    def enter(self, one: Running) -> None:
        """It runs from now on."""
        one.is_counted = True
        for pool, amount in one.need:
            counts = self.priorities.setdefault((pool, one.job.queue), {})
            counts[one.job.priority] = counts.get(one.job.priority, 0) + 1
            gpus = self._gpus.setdefault((pool, one.job.queue), {})
            gpus[one.job.priority] = gpus.get(one.job.priority, 0) + amount[2]

    def ripen(self, one: Running) -> None:
        """It has run for as long as everybody may."""
        for pool, _ in one.need:
            ripe = self._ripe.setdefault(pool, {}).setdefault(one.job.queue, {})
            if one.job.id in ripe:
                continue
            ripe[one.job.id] = one
            self._leavers.pop((pool, one.job.queue), None)
            for task in one.placed.tasks:
                self._on.setdefault((pool, task.machine), Counter())[one.job.queue, one.job.priority] += 1

    def leave(self, one: Running) -> None:
        """It may be evicted no more."""
        for pool, amount in one.need:
            at = pool, one.job.queue
            if self._ripe.get(pool, {}).get(one.job.queue, {}).pop(one.job.id, None) is not None:
                self._leavers.pop(at, None)
                for task in one.placed.tasks:
                    here = self._on[pool, task.machine]
                    here[one.job.queue, one.job.priority] -= 1
                    if not here[one.job.queue, one.job.priority]:
                        del here[one.job.queue, one.job.priority]
            if one.is_counted:
                self._gpus[at][one.job.priority] -= amount[2]
                counts = self.priorities[at]
                counts[one.job.priority] -= 1
                if not counts[one.job.priority]:
                    del counts[one.job.priority]
                    del self._gpus[at][one.job.priority]
        one.is_counted = False

    def queues(self, pool: int) -> list[int]:
        """Those with work that may be evicted now."""
        return [queue for queue, gangs in self._ripe.get(pool, {}).items() if gangs]

    def standing_on(self, pool: int, machines: Iterable[int]) -> dict[int, int]:
        """Whose work may be evicted from these machines: by queue, the lowest priority of it."""
        lowest: dict[int, int] = {}
        for machine in machines:
            for queue, priority in self._on.get((pool, machine), ()):
                lowest[queue] = min(priority, lowest.get(queue, priority))
        return lowest

    def leavers(self, pool: int, queue: int, below: int | None) -> Leavers:
        """Whom of a queue a search may evict, of lower priority than this where one is given."""
        known = self._leavers.setdefault((pool, queue), {})
        found = known.get(below)
        if found is None:
            ripe = self._ripe.get(pool, {}).get(queue, NOTHING).values()
            gangs = tuple(one for one in ripe if one.job.evictable and (below is None or one.job.priority < below))
            found = known[below] = Leavers(pool, gangs)
        return found

    def lower_gpus(self, pool: int, queue: int, priority: int) -> int | None:
        """The GPUs that work of lower priority in a queue holds, young or not; None where there is no such work."""
        lower = [gpus for other, gpus in self._gpus.get((pool, queue), {}).items() if other < priority]
        return sum(lower) if lower else None


def takes_more(machines: Machines, role: RoleAsk, wanted: int, freed: Mapping[int, Amounts]) -> bool:
    """Whether so many tasks more might go where so much would become free, by what would be left there of each."""
    if wanted <= 0:
        return True
    class_of, ask = machines.class_of, role.ask
    for machine, (cpu, memory, gpu) in freed.items():
        left = class_of[machine]
        many = (left.gpu + gpu) // ask.gpu_millis if ask.gpu_millis else role.minimum
        if many and ask.cpu_millis:
            many = min(many, (left.cpu + cpu) // ask.cpu_millis)
        if many and ask.memory_bytes:
            many = min(many, (left.memory + memory) // ask.memory_bytes)
        wanted -= many
        if wanted <= 0:
            return True
    return False
