"""What `place` said of a shape, for as long as it is true: most of those who were refused need not ask again."""

from __future__ import annotations

from collections.abc import Iterable

from jobs.scheduling.core.place.gangs import Unplaced
from jobs.scheduling.core.place.machines import Machines
from jobs.scheduling.core.place.ranking import ranking_of
from jobs.scheduling.core.state.work import Shape

GROWN_MAX = 64  # Machines that are counted again before one does better to ask anew.


class Known:
    """What `place` said of a shape, and the machines that got room since.

    Room on all others only shrank. So as many tasks fit at most as did then, and as fit now on those that grew. `_bound` is as
    many or more, and need not be counted anew when room shrinks: what grew is added as it was then.
    """

    __slots__ = ("_bound", "_counted_at", "_grown", "_is_share", "_least", "_most", "answer", "shape")

    def __init__(self, shape: Shape, answer: Unplaced) -> None:
        role = shape.gang.roles[0]
        self.shape = shape
        self.answer = answer
        self._least = role.minimum
        self._is_share = role.ask.is_share  # What parts of GPUs fit goes with how many devices are shared anywhere.
        self._grown: set[int] = set()
        self._most = self._bound = answer.fitting
        self._counted_at = -1  # The version of the machines at which `_most` was counted.

    @staticmethod
    def may_keep(shape: Shape, answer: Unplaced) -> bool:
        """Whether how many fit is a matter of counting: one role whose tasks may stand anywhere."""
        roles = shape.gang.roles
        return len(roles) == 1 and roles[0].pool is None and answer.code in ("no_room", "no_machine")

    def grow(self, machines: set[int], all_machines: Machines, pool: int) -> bool:
        """These have more room; False when there are so many that one does better to ask anew."""
        more = self._least if self._is_share else self._room_on(machines, all_machines, pool)
        if not more:
            return True
        self._bound += more
        self._grown |= machines
        self._counted_at = -1
        return len(self._grown) <= GROWN_MAX

    def is_true(self, machines: Machines, pool: int) -> bool:
        return self._bound < self._least or self.most(machines, pool) < self._least

    def most(self, machines: Machines, pool: int) -> int:
        """How many tasks fit at most."""
        if self._grown and self._counted_at != machines.version:
            self._most = self._bound = self.answer.fitting + self._room_on(self._grown, machines, pool)
            self._counted_at = machines.version
        return self._most

    def _room_on(self, chosen: set[int], machines: Machines, pool: int) -> int:
        ranking = ranking_of(machines, pool, self.shape.gang.roles[0].ask)
        assert ranking is not None
        return ranking.room_on(chosen)


class Placements:
    """What is known of all shapes, by pool."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._known: dict[tuple[int, int], Known] = {}  # (pool, number of shape)

    def get(self, pool: int, number: int) -> Known | None:
        return self._known.get((pool, number))

    def remember(self, pool: int, shape: Shape, answer: Unplaced) -> Known:
        """Keep what `place` said of a shape."""
        known = self._known[pool, shape.number] = Known(shape, answer)
        return known

    def unplaced(self, pool: int, number: int) -> Unplaced | None:
        """The answer of `place` for this shape, where it is still true whatever became free since."""
        known = self._known.get((pool, number))
        return known.answer if known is not None and known.is_true(self._machines, pool) else None

    def room_grew(self, machines: Iterable[int]) -> dict[int, set[int]]:
        """There is more room on these machines; gives them by pool."""
        by_pool: dict[int, set[int]] = {}
        at = self._machines.at
        for machine in machines:
            by_pool.setdefault(at[machine].pool, set()).add(machine)
        for (pool, number), known in list(self._known.items()):
            if pool in by_pool and not known.grow(by_pool[pool], self._machines, pool):
                del self._known[pool, number]
        return by_pool

    def forget(self, pool: int) -> None:
        """The machines of a pool are others: what was said of them holds no more."""
        self._known = {at: known for at, known in self._known.items() if at[0] != pool}
