"""Which few running gangs to move so that a gang fits that fits in total but not in shape.

The caller names the gangs that may be restarted, with what each restart costs, and how many moves it would bear. The answer is
the fewest moves, and among as few the cheapest, after which the gang has its place and every gang that moved has one too. It is
found by doing: the moves are made on `machines`, everything is placed by the same `place` as ever, and all is undone again.

The ideal: every set of moves is tried, smaller ones first, cheaper ones before. The shortcut: a set helps only if it makes room
for more tasks of the gang on some machines. So per machine the sets are gathered of which no part makes as much room, and only
unions of these are tried, fewest and cheapest first. What that leaves out are moves that merely make room for other moves.
Everything is bounded, and a plan says whether a bound was met: then there may be a better one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

from jobs.scheduling.core.place.gangs import GangAsk, Placed, PlacedTask, RoleAsk, Unplaced
from jobs.scheduling.core.place.machines import Machines
from jobs.scheduling.core.place.placing import place
from jobs.scheduling.core.place.ranking import Ranking, ranking_of
from jobs.scheduling.core.place.topology import topology_of

MOVES_MAX = 4  # Of a set that is looked for by trying all: their number grows with it.
PER_MACHINE_MAX = 10  # Gangs of one machine that are considered, the cheapest.
PER_SET_MAX = 7  # Gangs that leave one machine: of eight GPUs, one each for a task that needs all.
SETS_MAX = 512  # Sets of one place, the smallest and cheapest.
TRIES_MAX = 4_000


@dataclass(frozen=True, slots=True)
class Movable:
    """A running gang that may be restarted elsewhere at a cost, whole numbers of whatever the caller counts in."""

    name: str
    cost: int
    gang: GangAsk
    tasks: tuple[PlacedTask, ...]
    pools: tuple[int, ...]

    @property
    def as_it_is(self) -> GangAsk:
        """The same gang at the size that it has now: a move makes nobody smaller."""
        sizes = {role.role: sum(task.role == role.role for task in self.tasks) for role in self.gang.roles}
        roles = tuple(
            replace(role, minimum=sizes[role.role], maximum=sizes[role.role]) for role in self.gang.roles if sizes[role.role]
        )
        return replace(self.gang, roles=roles)


@dataclass(frozen=True, slots=True)
class Move:
    name: str
    cost: int
    to: Placed


@dataclass(frozen=True, slots=True)
class Defragmented:
    """The gang's place once the moves are made, in this order. `is_best`: no bound was met, so no fewer or cheaper moves do."""

    moves: tuple[Move, ...]
    placed: Placed
    is_best: bool

    @property
    def cost(self) -> int:
        return sum(move.cost for move in self.moves)


def defragment(
    gang: GangAsk,
    machines: Machines,
    pools: Sequence[int],
    movables: Iterable[Movable],
    *,
    moves_max: int = MOVES_MAX,
    tries_max: int = TRIES_MAX,
) -> Defragmented | Unplaced:
    """The fewest and cheapest moves that let the gang start at its minimum; `machines` stay as they are.

    No move where it fits as it is. An `Unplaced` says what `place` says, when no set of moves helps. Where the bounds do not
    allow to try all sets, the one that takes the cheapest room machine by machine is tried, too, of up to `moves_max`.
    """
    least = replace(gang, roles=tuple(replace(role, maximum=role.minimum) for role in gang.roles))
    known = sorted(movables, key=lambda one: (one.cost, one.name))
    refused: Unplaced | None = None
    for pool in pools:
        search = _Search(least, machines, pool, known, moves_max, tries_max)
        found = search.run()
        if isinstance(found, Defragmented):
            return found
        if refused is None or found.stage > refused.stage:
            refused = found
    return refused or Unplaced("no_pool", -1, "", 0, 0)


class _Within(NamedTuple):
    """A place that has to take all of the gang, with the sets of moves that make room there. `now`: tasks that fit, by role."""

    members: Set[int]
    roles: list[tuple[RoleAsk, Ranking]]
    useful: list[tuple[int, ...]]
    now: list[int]


class _Search:
    """One gang in one pool."""

    def __init__(
        self,
        gang: GangAsk,
        machines: Machines,
        pool: int,
        movables: Sequence[Movable],
        moves_max: int,
        tries_max: int,
    ) -> None:
        self.gang = gang
        self.machines = machines
        self.pool = pool
        self.movables = movables
        self.moves_max = moves_max
        self.tries_max = tries_max
        self.is_cut = False
        self._in_places: list[_Within] = []
        self._on: dict[int, list[int]] = {}
        for number, movable in enumerate(movables):
            for machine in sorted({task.machine for task in movable.tasks}):
                self._on.setdefault(machine, []).append(number)

    def run(self) -> Defragmented | Unplaced:
        answer = self._try(())
        if not isinstance(answer, Unplaced):
            return answer
        for tries, chosen in enumerate(self._sets()):
            if tries >= self.tries_max:
                self.is_cut = True
                break
            found = self._try(chosen)
            if isinstance(found, Defragmented):
                return found
        if self.is_cut or self.moves_max > MOVES_MAX:
            self.is_cut = True
            for chosen in self._greedy():
                found = self._try(chosen)
                if isinstance(found, Defragmented):
                    return found
        return answer

    def _greedy(self) -> Iterator[tuple[int, ...]]:
        """In each place the set that comes of taking what makes room by the fewest and cheapest moves, one after the other."""
        for place_of in self._in_places:
            chosen: tuple[int, ...] = ()
            for more in place_of.useful:
                union = tuple(sorted({*chosen, *more}))
                if len(union) > self.moves_max or self._sum(union, place_of) <= self._sum(chosen, place_of):
                    continue
                chosen = union
                if self._is_enough(chosen, place_of):
                    yield chosen
                    break

    def _sum(self, chosen: Sequence[int], there: _Within) -> int:
        """Tasks that have room, of each role no more than it needs."""
        counts = self._counts(chosen, there)
        return sum(min(count, role.minimum) for count, (role, _) in zip(counts, there.roles, strict=True))

    def _try(self, chosen: Sequence[int]) -> Defragmented | Unplaced:
        """Make the moves and place all; then undo everything."""
        mark = self.machines.mark()
        try:
            moved = [self.movables[number] for number in chosen]
            self._give(moved, None)
            placed = place(self.gang, self.machines, (self.pool,))
            if isinstance(placed, Unplaced):
                return placed
            moves = []
            for one in sorted(moved, key=lambda one: (-sum(task.ask.gpu_millis for task in one.tasks), one.name)):
                to = place(one.as_it_is, self.machines, one.pools)
                if isinstance(to, Unplaced):
                    return to
                moves.append(Move(one.name, one.cost, to))
            return Defragmented(tuple(moves), placed, not self.is_cut)
        finally:
            self.machines.rewind(mark)

    def _sets(self) -> Iterator[tuple[int, ...]]:
        """Sets of moves that make enough room by counting, fewest first, then cheapest."""
        heap: list[tuple[int, int, tuple[int, ...], int]] = []
        roles = [(role, ranking) for role in self.gang.roles if (ranking := self._ranking(role)) is not None]
        for members in self._places():
            useful = self._useful(members, roles)
            if useful:
                heap.append((0, 0, (), len(self._in_places)))
                class_of = self.machines.class_of
                now = [sum(ranking.copies(class_of[machine]) for machine in members) for _, ranking in roles]
                self._in_places.append(_Within(members, roles, useful, now))
        seen: set[tuple[tuple[int, ...], int]] = set()
        moves_max = min(self.moves_max, MOVES_MAX)
        pops = 0
        while heap:
            _, _, chosen, number = heapq.heappop(heap)
            there = self._in_places[number]
            pops += 1
            if pops > 4 * self.tries_max:
                self.is_cut = True
                return
            if chosen and self._is_enough(chosen, there):
                yield chosen
            for more in there.useful:
                union = tuple(sorted({*chosen, *more}))
                if len(chosen) < len(union) <= moves_max and (union, number) not in seen:
                    seen.add((union, number))
                    heapq.heappush(heap, (len(union), self._cost(union), union, number))

    def _places(self) -> list[Set[int]]:
        """Where all of the gang has to go: the places of the level on which it insists, else the pool."""
        rules = self.machines.rules.get(self.pool)
        levels = {self.gang.together, *(role.together for role in self.gang.roles)}
        state = self.machines.pools.get(self.pool)
        if state is None:
            return []
        for depth, level in enumerate(rules.levels if rules is not None else ()):
            if level in levels and rules is not None:
                return [one.members for one in topology_of(self.machines, self.pool, rules.levels).places[depth]]
        return [frozenset(state.members)]

    def _ranking(self, role: RoleAsk) -> Ranking | None:
        pool = self.pool if role.pool is None else role.pool
        return ranking_of(self.machines, pool, role.ask) if pool == self.pool else None

    def _useful(self, members: Set[int], roles: list[tuple[RoleAsk, Ranking]]) -> list[tuple[int, ...]]:
        """Per machine the sets of moves of which no part makes as much room there for some role."""
        found: set[tuple[int, ...]] = set()
        for machine in sorted(members & self._on.keys()):
            here = self._on[machine]
            if len(here) > PER_MACHINE_MAX:
                here, self.is_cut = here[:PER_MACHINE_MAX], True
            for _, ranking in roles:
                found.update(self._irreducible(machine, here, ranking))
        ordered = sorted(found, key=lambda one: (len(one), self._cost(one), one))
        if len(ordered) > SETS_MAX:
            self.is_cut = True
        return ordered[:SETS_MAX]

    def _irreducible(self, machine: int, here: Sequence[int], ranking: Ranking) -> Iterator[tuple[int, ...]]:
        before = ranking.copies(self.machines.class_of[machine])
        least = self._least_size(machine, here, ranking, before + 1)
        if least > self.moves_max or self._copies_without(machine, here, ranking) == before:
            return
        gained: dict[tuple[int, ...], int] = {}
        for size in range(least, min(len(here), self.moves_max, PER_SET_MAX) + 1):
            for chosen in combinations(here, size):
                copies = self._copies_without(machine, chosen, ranking)
                gained[chosen] = copies
                if copies > max(gained.get(chosen[:skip] + chosen[skip + 1 :], before) for skip in range(size)):
                    yield chosen

    def _least_size(self, machine: int, here: Sequence[int], ranking: Ranking, copies: int) -> int:
        """How many have to leave at least for so many tasks, by sums of what the largest hold: smaller sets are in vain."""
        ask, left = ranking.shape.ask, self.machines.left(machine)
        held = [[task.ask for task in self.movables[number].tasks if task.machine == machine] for number in here]
        least = 1
        for name in ("gpu_millis", "cpu_millis", "memory_bytes"):
            missing = copies * getattr(ask, name) - getattr(left, name)
            freed = sorted((sum(getattr(one, name) for one in asks) for asks in held), reverse=True)
            size = 0
            while missing > 0:
                if size == len(freed):
                    return self.moves_max + 1
                missing -= freed[size]
                size += 1
            least = max(least, size)
        return least

    def _copies_without(self, machine: int, chosen: Sequence[int], ranking: Ranking) -> int:
        """How many tasks a machine takes once these have left it."""
        mark = self.machines.mark()
        self._give([self.movables[number] for number in chosen], machine)
        copies = ranking.copies(self.machines.class_of[machine])
        self.machines.rewind(mark)
        return copies

    def _is_enough(self, chosen: Sequence[int], there: _Within) -> bool:
        """Whether, each role counted alone, all its tasks have room in a place."""
        counts = self._counts(chosen, there)
        return all(count >= role.minimum for count, (role, _) in zip(counts, there.roles, strict=True))

    def _counts(self, chosen: Sequence[int], there: _Within) -> list[int]:
        """By role, how many of its tasks a place takes once these have moved."""
        moved = [self.movables[number] for number in chosen]
        touched = {task.machine for one in moved for task in one.tasks} & there.members
        class_of, counts = self.machines.class_of, list(there.now)
        mark = self.machines.mark()
        for sign in (-1, 1):
            for at, (_, ranking) in enumerate(there.roles):
                counts[at] += sign * sum(ranking.copies(class_of[machine]) for machine in touched)
            if sign < 0:
                self._give(moved, None)
        self.machines.rewind(mark)
        return counts

    def _give(self, movables: Iterable[Movable], machine: int | None) -> None:
        for movable in movables:
            for task in movable.tasks:
                if machine is None or task.machine == machine:
                    self.machines.give(task.machine, task.ask, task.devices)

    def _cost(self, chosen: Iterable[int]) -> int:
        return sum(self.movables[number].cost for number in chosen)
