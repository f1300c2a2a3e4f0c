"""A cache of refusals by `place`, by shape, for as long as they are true: most refused jobs need not be placed again."""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakKeyDictionary

from jobs.lifecycle.wait_reasons import WAITS
from jobs.scheduling.core.place.gangs import Unplaced
from jobs.scheduling.core.place.machines import Machines
from jobs.scheduling.core.place.ranking import Ranking, ranking_of
from jobs.scheduling.core.state.work import Shape

GROWN_MAX = 64  # Machines that are counted again; beyond that it costs less to place anew.


class CachedRefusal:
    """The refusal of a shape by `place`, and the machines that got room since.

    Room on all other machines only shrank. So at most as many tasks fit as did then, plus those that fit now on the machines that
    grew. `_bound` is as many or more, and need not be counted anew when room shrinks: a machine that grew counts as it was then.
    """

    __slots__ = ("_ask", "_bound", "_counted_at", "_grown", "_is_share", "_least", "_most", "_ranking", "_uncounted", "answer")

    def __init__(self, shape: Shape, answer: Unplaced) -> None:
        role = shape.gang.roles[0]
        self.answer = answer
        self._ask = role.ask
        self._least = role.minimum
        self._is_share = role.ask.is_share  # What parts of GPUs fit goes with how many devices are shared anywhere.
        self._grown: dict[int, int] = {}  # By machine, how many tasks it took when it was counted.
        self._uncounted: set[int] = set()  # Those of them that grew since.
        self._ranking: Ranking | None = None  # By which they were counted.
        self._most = self._bound = answer.fitting
        self._counted_at = -1  # The version of the machines at which `_most` was counted.

    @staticmethod
    def may_keep(shape: Shape, answer: Unplaced) -> bool:
        """Whether counting tells how many tasks fit: one role whose tasks may go to any machine."""
        roles = shape.gang.roles
        return len(roles) == 1 and roles[0].pool is None and WAITS[answer.code].is_counted

    def grow(self, machines: set[int], all_machines: Machines, pool: int) -> bool:
        """These machines have more room. False when there are so many that it costs less to place anew."""
        more = self._least if self._is_share else self._room_on(machines, all_machines, pool)
        if not more:
            return True
        self._bound += more
        self._grown.update(dict.fromkeys(machines, 0))
        self._uncounted |= machines
        return len(self._grown) <= GROWN_MAX

    def is_true(self, machines: Machines, pool: int) -> bool:
        return self._bound < self._least or self.most(machines, pool) < self._least

    def most(self, machines: Machines, pool: int) -> int:
        """How many tasks fit at most. Of the machines that grew, those are counted again that changed."""
        if self._uncounted or (self._grown and self._counted_at != machines.version):
            ranking = ranking_of(machines, pool, self._ask)
            assert ranking is not None
            moved = machines.moved_since(self._counted_at) if ranking is self._ranking else None
            changed = self._grown.keys() if moved is None else self._uncounted.union(self._grown.keys() & moved)
            for machine in changed:
                self._grown[machine] = ranking.room_on((machine,))
            self._uncounted.clear()
            self._ranking, self._counted_at = ranking, machines.version
            self._most = self._bound = self.answer.fitting + sum(self._grown.values())
        return self._most

    def _room_on(self, chosen: set[int], machines: Machines, pool: int) -> int:
        ranking = ranking_of(machines, pool, self._ask)
        assert ranking is not None
        return ranking.room_on(chosen)


class Placements:
    """The cached refusals of shapes of waiting jobs, by pool."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._known: dict[int, WeakKeyDictionary[Shape, CachedRefusal]] = {}

    def get(self, pool: int, shape: Shape) -> CachedRefusal | None:
        known = self._known.get(pool)
        return None if known is None else known.get(shape)

    def remember(self, pool: int, shape: Shape, answer: Unplaced) -> CachedRefusal:
        """Keep a refusal by `place`."""
        known = CachedRefusal(shape, answer)
        self._known.setdefault(pool, WeakKeyDictionary())[shape] = known
        return known

    def unplaced(self, pool: int, shape: Shape) -> Unplaced | None:
        """The cached refusal of a shape, where it is still true after what became free since."""
        known = self.get(pool, shape)
        return known.answer if known is not None and known.is_true(self._machines, pool) else None

    def room_grew(self, machines: Iterable[int]) -> dict[int, set[int]]:
        """These machines have more room. Returns them by pool."""
        by_pool: dict[int, set[int]] = {}
        at = self._machines.at
        for machine in machines:
            by_pool.setdefault(at[machine].pool, set()).add(machine)
        for pool, grown in by_pool.items():
            for shape, known in list(self._known.get(pool, {}).items()):
                if not known.grow(grown, self._machines, pool):
                    del self._known[pool][shape]
        return by_pool

    def forget(self, pool: int) -> None:
        """The machines of a pool have changed: its refusals are dropped."""
        self._known.pop(pool, None)
