"""What ended since the last pass, and whom that may help.

The ideal: whoever waits is asked again after every end. What is done instead: ends are noted as they are told, and before the
next pass it is asked once, for all of them together, what they may change: room for a shape, a limit on the way of a queue, whom
higher priority could evict, whom a queue that is owed something could. Room that ends leave only adds up, so that together they
help whom they would help one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING

from jobs.scheduling.evictable import takes_more
from jobs.scheduling.gangs import RoleAsk
from jobs.scheduling.ranking import ranking_of
from jobs.scheduling.turn import REFUSED

if TYPE_CHECKING:
    from jobs.scheduling.core import Core
    from jobs.scheduling.turn import Group


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
        core = self.core
        if not self._queues and not self._machines:
            return
        machines, self._machines = self._machines, set()
        queues, self._queues = self._queues, {}
        for pool, there in core.room_grew(machines).items():
            core.wake_booked(pool, there)
            help_of = _Help(core, pool, there)
            core.wake([one for one in core.claimers.get(pool, ()) if _is_put_aside(one) and help_of.may_be_for(one)])
            for near, others in core.preempters.get(pool, {}).items():
                able = self.who_could_preempt(pool, near, others)
                core.wake([one for one in able if help_of.may_be_for(one) and not self._is_in_vain(one, pool)])
        for pool, ended in sorted(queues.items()):
            core.wake_reserved(pool)
            for node in sorted({node for queue in ended for node in core.shares.path[queue]}):
                core.wake(core.by_limit.get((pool, node), ()))
            able = [one for one in core.by_pool.get(pool, ()) if core.may_have_room(one, pool)]
            core.wake_for_room(able, pool, core.freed)
            if core.policy.reclaims:
                self._wake_claimers(pool, ended)

    def who_could_preempt(self, pool: int, queue: int, groups: Iterable[Group]) -> list[Group]:
        """Those who might have room if all work of lower priority in their queue were gone: most would not. What is hidden for
        booked starts may be theirs."""
        core = self.core
        free = core.machines.free(pool).gpu_millis + core.promises.hidden_gpus(pool)
        most: dict[int, int] = {}
        able = []
        for group in groups:  # There are many, at every end.
            if group.phase != REFUSED and not group.is_for_room:
                continue
            priority = group.priority
            bound = most.get(priority)
            if bound is None:
                lower = core.evictable.lower_gpus(pool, queue, priority)
                bound = most[priority] = -1 if lower is None else free + lower
            if group.shape.inside.get(pool, _NOTHING)[2] <= bound:
                able.append(group)
        return able

    def _is_in_vain(self, group: Group, pool: int) -> bool:
        """Whether the search of one that may only evict in its own queue would find nobody, by the bounds that it begins with.
        Then it is not made: the group is taken to have made it."""
        core, shape = self.core, group.shape
        if core.promises or len(shape.pools) > 1 or group in core.claimers.get(pool, ()):
            return False
        need, free = shape.inside.get(pool, _NOTHING), core.machines.free(pool)
        if core.policy.reclaims and core.shares.reach(group.queue, pool, need) >= 0:
            return False
        leavers = core.evictable.leavers(pool, group.queue, group.priority)
        cpu, memory, gpu = leavers.sums
        if need[0] <= free.cpu_millis + cpu and need[1] <= free.memory_bytes + memory and need[2] <= free.gpu_millis + gpu:
            known = core.unplaced.get((pool, shape.number))
            if known is None or not shape.is_counted:
                return False
            role = shape.gang.roles[0]
            if takes_more(core.machines, role, role.minimum - known.most(core.machines, pool), leavers.freed):
                return False
        group.hope = leavers.machines
        return True

    def _wake_claimers(self, pool: int, ended: Set[int]) -> None:
        """What its own tenant's queues deserve may cover by now who was not allowed to take room back."""
        core, claimers = self.core, self.core.claimers.get(pool, ())
        paths = (core.shares.path[queue] for queue in ended)
        tops = {path[-2] if len(path) > 1 else 0 for path in paths}
        for queue in sorted({near for top in tops for near in core.tree(top)}):
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
            core.wake(able)


class _Help:
    """Whom room on these machines may give what a search for victims lacked: some whom it may evict stand there, or a task of a
    gang of several goes there now."""

    def __init__(self, core: Core, pool: int, machines: Set[int]) -> None:
        self._core = core
        self._pool = pool
        self._machines = machines
        self._goes: dict[int, bool] = {}  # By number of shape.

    def may_be_for(self, group: Group) -> bool:
        if not group.hope.isdisjoint(self._machines):
            return True
        number = group.shape.number
        goes = self._goes.get(number)
        if goes is None:
            roles = group.shape.gang.roles
            several = sum(role.minimum for role in roles) > 1
            goes = self._goes[number] = several and any(self._takes_one(role) for role in roles)
        return goes

    def _takes_one(self, role: RoleAsk) -> bool:
        machines = self._core.machines
        ranking = ranking_of(machines, self._pool, role.ask) if role.pool in (None, self._pool) else None
        return ranking is not None and any(ranking.copies(machines.class_of[machine]) for machine in self._machines)


def _is_put_aside(group: Group) -> bool:
    """Whether waking it makes a difference."""
    return group.phase == REFUSED or group.is_for_room


_NOTHING = (0, 0, 0)
