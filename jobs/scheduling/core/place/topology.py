"""Where machines stand: islands within switches within racks, from labels of the nodes.

A place at a level is named by its own label and those of all levels above it, so `island 0` of two racks are two islands. A
machine without the label of a level is at no place of that level, and whoever insists on one cannot use it.

`hops` is how far two tasks are apart: 0 on one machine, 1 within the nearest level, one more for each level, and one beyond the
last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from jobs.scheduling.core.place.machines import Machine, Machines

if TYPE_CHECKING:
    from jobs.scheduling.core.place.ranking import Ranking

_KEPT_MAX = 256


class Place:
    """One island, switch or rack. `version` counts the changes of its machines, so that what was counted can be kept."""

    __slots__ = ("_counted", "members", "name", "version")

    def __init__(self, name: tuple[str, ...], members: frozenset[int]) -> None:
        self.name = name
        self.members = members
        self.version = 0
        self._counted: dict[Ranking, tuple[int, int]] = {}

    def copies(self, ranking: Ranking, machines: Machines) -> int:
        """How many tasks of an ask its machines take together."""
        known = self._counted.get(ranking)
        if known is not None and known[0] == self.version:
            return known[1]
        class_of, copies = machines.class_of, ranking.copies
        count = sum(copies(class_of[machine]) for machine in self.members)
        if len(self._counted) >= _KEPT_MAX:
            self._counted.clear()
        self._counted[ranking] = (self.version, count)
        return count


class Topology:
    """The places of one pool, by level, nearest first."""

    def __init__(self, at: Sequence[Machine], members: Iterable[int], levels: tuple[str, ...]) -> None:
        self.levels = levels
        grouped: list[dict[tuple[str, ...], list[int]]] = [{} for _ in levels]
        self._names: dict[int, tuple[tuple[str, ...] | None, ...]] = {}
        for machine in members:
            labels = at[machine].labels
            names: list[tuple[str, ...] | None] = []
            for depth, level in enumerate(levels):
                name = tuple(labels.get(one, "") for one in levels[depth:]) if labels.get(level) else None
                names.append(name)
                if name is not None:
                    grouped[depth].setdefault(name, []).append(machine)
            self._names[machine] = tuple(names)
        self.places = tuple(tuple(Place(name, frozenset(inside)) for name, inside in sorted(level.items())) for level in grouped)
        by_name = [{place.name: place for place in level} for level in self.places]
        self.of = {
            machine: tuple(by_name[depth][name] for depth, name in enumerate(names) if name is not None)
            for machine, names in self._names.items()
        }
        self._by_name = by_name

    def at(self, machine: int, depth: int) -> Place | None:
        """The place of a machine at one level."""
        name = self._names[machine][depth]
        return self._by_name[depth][name] if name is not None else None

    def changed(self, machine: int) -> None:
        for place in self.of[machine]:
            place.version += 1

    def hops(self, machines: Iterable[int]) -> int:
        """The longest way between any two of these machines."""
        chosen = set(machines)
        if len(chosen) <= 1:
            return 0
        for depth in range(len(self.levels)):
            names = {self._names[machine][depth] for machine in chosen}
            if len(names) == 1 and None not in names:
                return depth + 1
        return len(self.levels) + 1

    def farthest(self, machine: int) -> frozenset[int]:
        """The machines of the same place at the farthest level that the machine has one of; itself where it has none."""
        places = self.of[machine]
        return places[-1].members if places else frozenset({machine})


def topology_of(machines: Machines, pool: int, levels: tuple[str, ...]) -> Topology:
    """The places of a pool, read from the labels at the first question."""
    state = machines.pools[pool]
    if state.topology is None:
        state.topology = Topology(machines.at, state.members, levels)
    return state.topology
