"""Who may take room from work of lower priority in its own queue, and found too little of it so far.

They are kept by queue and priority, because for these the same work comes into question, and below that by shape, because equal
asks meet the same fate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobs.scheduling.core.state.work import Shape

if TYPE_CHECKING:
    from jobs.scheduling.core.state.ordering import Group

ByShape = dict[Shape, set["Group"]]


class Preempters:
    """The sets in which they stand, by pool. Groups enter and leave them by themselves (`Group.stand_in`)."""

    def __init__(self) -> None:
        self._by_pool: dict[int, dict[int, dict[int, ByShape]]] = {}  # Pool -> queue -> priority.

    def place(self, pool: int, group: Group) -> set[Group]:
        """Where a group belongs."""
        by_priority = self._by_pool.setdefault(pool, {}).setdefault(group.queue, {})
        return by_priority.setdefault(group.priority, {}).setdefault(group.shape, set())

    def of(self, pool: int) -> Iterator[tuple[int, int, ByShape]]:
        """All of a pool: queue, priority and the groups by shape; some sets may be empty."""
        for queue, by_priority in self._by_pool.get(pool, {}).items():
            for priority, shapes in by_priority.items():
                yield queue, priority, shapes

    def above(self, pool: int, queue: int, priority: int) -> Iterator[tuple[int, ByShape]]:
        """Those of a queue with a priority above this one: their priority, and the groups by shape."""
        for other, shapes in self._by_pool.get(pool, {}).get(queue, {}).items():
            if other > priority:
                yield other, shapes

    def has_above(self, pool: int, queue: int, priority: int) -> bool:
        return any(any(shapes.values()) for _, shapes in self.above(pool, queue, priority))

    def __bool__(self) -> bool:
        return any(any(shapes.values()) for pool in self._by_pool for _, _, shapes in self.of(pool))
