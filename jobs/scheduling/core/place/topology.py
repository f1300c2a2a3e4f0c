"""The topology of machines: islands within switches within racks, from labels of the nodes.

A domain of a level is named by its own label and those of all levels above it, so `island 0` of two racks are two islands. A
machine without the label of a level is in no domain of that level, and a gang that insists on the level cannot use it.

`hops` is the distance of two tasks: 0 on one machine, 1 within a domain of the nearest level, one more for each further level,
and one more beyond the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from jobs.scheduling.core.place.gangs import GangAsk
from jobs.scheduling.core.place.machines import Machine, Machines

if TYPE_CHECKING:
    from jobs.scheduling.core.place.ranking import Ranking

_KEPT_MAX = 256


class TopologyDomain:
    """An island, switch or rack. `version` counts the changes of its machines, so that counts can be cached."""

    __slots__ = ("_counted", "members", "name", "version")

    def __init__(self, name: tuple[str, ...], members: frozenset[int]) -> None:
        self.name = name
        self.members = members
        self.version = 0
        self._counted: dict[Ranking, tuple[int, int]] = {}

    def copies(self, ranking: Ranking, machines: Machines) -> int:
        """How many tasks of an ask its machines can take in all."""
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
    """The domains of one pool, by level, nearest first."""

    def __init__(self, at: Sequence[Machine], members: Iterable[int], levels: tuple[str, ...]) -> None:
        self.levels = levels
        grouped: list[dict[tuple[str, ...], list[int]]] = [{} for _ in levels]
        self._names: dict[int, tuple[tuple[str, ...] | None, ...]] = {}
        for machine in members:
            labels = at[machine].labels
            names: list[tuple[str, ...] | None] = []
            for depth, level in enumerate(levels):
                name = tuple(labels.get(label, "") for label in levels[depth:]) if labels.get(level) else None
                names.append(name)
                if name is not None:
                    grouped[depth].setdefault(name, []).append(machine)
            self._names[machine] = tuple(names)
        self.places = tuple(
            tuple(TopologyDomain(name, frozenset(inside)) for name, inside in sorted(level.items())) for level in grouped
        )
        by_name = [{place.name: place for place in level} for level in self.places]
        self.of = {
            machine: tuple(by_name[depth][name] for depth, name in enumerate(names) if name is not None)
            for machine, names in self._names.items()
        }
        self._by_name = by_name

    def at(self, machine: int, depth: int) -> TopologyDomain | None:
        """The domain of a machine at a level; None: it has none."""
        name = self._names[machine][depth]
        return self._by_name[depth][name] if name is not None else None

    def changed(self, machine: int) -> None:
        for place in self.of[machine]:
            place.version += 1

    def hops(self, machines: Iterable[int]) -> int:
        """The largest distance between any two of these machines, in hops."""
        chosen = set(machines)
        if len(chosen) <= 1:
            return 0
        for depth in range(len(self.levels)):
            names = {self._names[machine][depth] for machine in chosen}
            if len(names) == 1 and None not in names:
                return depth + 1
        return len(self.levels) + 1

    def farthest(self, machine: int) -> frozenset[int]:
        """The machines of the machine's domain at the outermost level; itself where it has no domain."""
        places = self.of[machine]
        return places[-1].members if places else frozenset({machine})


def topology_of(machines: Machines, pool: int, levels: tuple[str, ...]) -> Topology:
    """The topology of a pool, read from the labels at the first call."""
    state = machines.pools[pool]
    if state.topology is None:
        state.topology = Topology(machines.at, state.members, levels)
    return state.topology


def insisted_domains(gang: GangAsk, machines: Machines, pool: int) -> tuple[TopologyDomain, ...] | None:
    """The domains of the nearest level on which a gang insists, one of which has to take all of it; None: it insists on none."""
    rules = machines.rules.get(pool)
    levels = {gang.together, *(role.together for role in gang.roles)}
    for depth, level in enumerate(rules.levels if rules is not None else ()):
        if level in levels and rules is not None:
            return topology_of(machines, pool, rules.levels).places[depth]
    return None
