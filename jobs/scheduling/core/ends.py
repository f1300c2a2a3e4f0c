"""What ended since the last pass, and whom that may help.

The ideal: whoever waits is asked again after every end. What is done instead: ends are noted as they are told, and before the
next pass it is asked once, for all of them together, what they may change: room for a shape, a limit on the way of a queue, whom
higher priority could evict, whom a queue that is owed something could. Room that ends leave only adds up, so that together they
help whom they would help one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING

from jobs.scheduling.core.place.ranking import ranking_of
from jobs.scheduling.core.preempters import ByShape
from jobs.scheduling.core.state.evictable import Leavers, takes_more
from jobs.scheduling.core.state.gangs import RoleAsk
from jobs.scheduling.core.state.ordering import REFUSED
from jobs.scheduling.core.state.work import Shape

if TYPE_CHECKING:
    from jobs.scheduling.core.core import Core
    from jobs.scheduling.core.state.ordering import Group


class Ends:
    """The ends that nobody was asked about yet."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._machines: set[int] = set()
        self._queues: dict[int, set[int]] = {}  # By pool, of those that held something there.

    def note(self, machines: Iterable[int], queue: int, pools: Iterable[int]) -> None:
        """A gang of a queue ended that held these machines and something of these pools."""
        self._machines.update(machines)
        for pool in pools:
            self._queues.setdefault(pool, set()).add(queue)

    def tell(self) -> None:
        """Wake whom all that was noted may help."""
        core, waits = self.core, self.core.waits
        if not self._queues and not self._machines:
            return
        machines, self._machines = self._machines, set()
        queues, self._queues = self._queues, {}
        for pool, there in waits.room_grew(machines).items():
            waits.wake_booked(pool, there)
            help_of = _Help(core, pool, there)
            waits.wake([one for one in waits.claimers.get(pool, ()) if _is_put_aside(one) and help_of.may_be_for(one)])
            self._wake_above(pool, help_of)
        for pool, ended in sorted(queues.items()):
            waits.wake_reserved(pool)
            for node in sorted({node for queue in ended for node in core.shares.path[queue]}):
                waits.wake(waits.by_limit.get((pool, node), ()))
            waits.wake_for_amount(pool)
            if core.policy.reclaims:
                self._wake_claimers(pool, ended)

    def who_could_preempt(self, pool: int, queue: int, priority: int, shapes: ByShape) -> list[Group]:
        """Those who might have room if all work of lower priority in their queue were gone: most would not. What is hidden for
        booked starts may be theirs."""
        core = self.core
        lower = core.evictable.lower_gpus(pool, queue, priority)
        if lower is None:
            return []
        most = core.machines.free(pool).gpu_millis + core.promises.hidden_gpus(pool) + lower
        able = [groups for shape, groups in shapes.items() if shape.inside.get(pool, _NOTHING)[2] <= most]
        return [group for groups in able for group in groups if _is_put_aside(group)]

    def _wake_above(self, pool: int, help_of: _Help) -> None:
        """Wake those who may take room from work of lower priority in their queue, where the room that grew may be what lacked.

        What could be evicted where it grew and has ended by itself changes no search: it is free now, and was counted before. So
        a search may find what it did not where somebody is left to evict on these machines, or where a task of several goes now.
        """
        core = self.core
        free = core.machines.free(pool).gpu_millis + core.promises.hidden_gpus(pool)
        lowest = core.evictable.standing_on(pool, help_of.machines)
        for queue, priority, shapes in core.waits.preempters.of(pool):
            stands = lowest.get(queue, priority) < priority
            near = shapes if stands or core.promises else help_of.going()
            lower = core.evictable.lower_gpus(pool, queue, priority) if near else None
            if lower is None:
                continue
            may_claim = core.policy.reclaims and core.shares.may_reach(queue, pool)
            for shape in near:
                groups, need = shapes.get(shape), shape.inside.get(pool, _NOTHING)
                if not groups or need[2] > free + lower:
                    continue
                able = [group for group in groups if _is_put_aside(group)]
                is_claim = len(shape.pools) > 1 or (may_claim and core.shares.reach(queue, pool, need) >= 0)
                if core.promises:  # Booked starts may have to give way too: whoever hoped for these machines when it searched.
                    core.waits.wake([group for group in able if stands or help_of.may_be_for(group)])
                elif able and (is_claim or not self._is_in_vain(shape, pool, core.evictable.leavers(pool, queue, priority))):
                    core.waits.wake(able)

    def _is_in_vain(self, shape: Shape, pool: int, leavers: Leavers) -> bool:
        """Whether the search of one that may only evict in its own queue would find nobody, by the bounds that it begins with."""
        core = self.core
        need, free = shape.inside.get(pool, _NOTHING), core.machines.free(pool)
        cpu, memory, gpu = leavers.sums
        if need[0] > free.cpu_millis + cpu or need[1] > free.memory_bytes + memory or need[2] > free.gpu_millis + gpu:
            return True
        known = core.waits.unplaced.get((pool, shape.number))
        if known is None or not shape.is_counted:
            return False
        role = shape.gang.roles[0]
        lacking = role.minimum - known.most(core.machines, pool)
        if lacking > 0 and role.ask.gpu_millis > leavers.best(core.machines):
            return True
        return not takes_more(core.machines, role, lacking, leavers.freed)

    def _wake_claimers(self, pool: int, ended: Set[int]) -> None:
        """What its own tenant's queues deserve may cover by now who was not allowed to take room back."""
        core, claimers = self.core, self.core.waits.claimers.get(pool, ())
        paths = (core.shares.path[queue] for queue in ended)
        tops = {path[-2] if len(path) > 1 else 0 for path in paths}
        for queue in sorted({near for top in tops for near in core.tree(top)}):
            if not core.shares.may_reach(queue, pool):
                continue
            reaches: dict[int, bool] = {}
            able = []
            for group in core.lines.groups_of(queue):
                need = group.shape.inside.get(pool) if _is_put_aside(group) and group not in claimers else None
                if need is None:
                    continue
                number = group.shape.number
                if number not in reaches:
                    reaches[number] = core.shares.reach(queue, pool, need) >= 0
                if reaches[number]:
                    able.append(group)
            core.waits.wake(able)


class _Help:
    """Whom room on these machines may give what a search for victims lacked: some whom it may evict stand there, or a task of a
    gang of several goes there now."""

    def __init__(self, core: Core, pool: int, machines: Set[int]) -> None:
        self._core = core
        self._pool = pool
        self.machines = machines
        self._goes: dict[int, bool] = {}  # By number of shape.
        self._going: list[Shape] | None = None

    def may_be_for(self, group: Group) -> bool:
        """By whom its last search might have evicted."""
        return not group.hope.isdisjoint(self.machines) or self.goes(group.shape)

    def goes(self, shape: Shape) -> bool:
        """Whether a shape has several tasks, and one of them goes there."""
        found = self._goes.get(shape.number)
        if found is None:
            roles = shape.gang.roles
            several = sum(role.minimum for role in roles) > 1
            found = self._goes[shape.number] = several and any(self._takes_one(role) for role in roles)
        return found

    def going(self) -> list[Shape]:
        """The shapes of several tasks of which one goes there."""
        if self._going is None:
            self._going = [shape for shape in self._core.several if self.goes(shape)]
        return self._going

    def _takes_one(self, role: RoleAsk) -> bool:
        machines = self._core.machines
        ranking = ranking_of(machines, self._pool, role.ask) if role.pool in (None, self._pool) else None
        return ranking is not None and any(ranking.copies(machines.class_of[machine]) for machine in self.machines)


def _is_put_aside(group: Group) -> bool:
    """Whether waking it makes a difference."""
    return group.phase == REFUSED or group.is_for_room


_NOTHING = (0, 0, 0)
