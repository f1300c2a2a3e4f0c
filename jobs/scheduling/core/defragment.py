"""The fewest running gangs to migrate so that a gang fits that fits in total but not in shape.

The caller names the gangs that may be restarted, with what each restart costs, and how many migrations are allowed. The answer is
the fewest migrations, and among as few the cheapest, after which the gang has its place and every migrated gang has a place, too.
It is found by trial: the migrations are made on `machines`, everything is placed by `place`, and all is undone again.

The ideal: every set of migrations is tried, smaller sets first, then cheaper ones. The shortcut: a set helps only if it makes
room for more tasks of the gang on some machine. So per machine the sets are gathered of which no part makes as much room, and
only unions of these are tried, fewest and cheapest first. That leaves out migrations that only make room for other migrations.
Everything is bounded, and the answer says whether a bound was met: then there may be a better one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

from jobs.scheduling.core.place.gangs import GangAsk, Placed, PlacedTask, RoleAsk, Unplaced, at_least
from jobs.scheduling.core.place.machines import Machines
from jobs.scheduling.core.place.placing import place
from jobs.scheduling.core.place.ranking import Ranking, ranking_of
from jobs.scheduling.core.place.topology import insisted_domains
from kernel.wait_codes import WaitCode

MIGRATIONS_MAX = 4  # Migrations of a set, where all sets are tried: their number grows with it.
PER_MACHINE_MAX = 10  # Gangs of one machine that are considered, the cheapest.
PER_SET_MAX = 7  # Gangs that leave one machine: with eight GPUs and one free, seven of one GPU each.
SETS_MAX = 512  # Sets of one domain, the smallest and cheapest.
TRIES_MAX = 4_000


@dataclass(frozen=True, slots=True)
class Migratable:
    """A running gang that may be restarted elsewhere at a cost, a whole number in a unit of the caller."""

    name: str
    cost: int
    gang: GangAsk
    tasks: tuple[PlacedTask, ...]
    pools: tuple[int, ...]

    @property
    def as_it_is(self) -> GangAsk:
        """The same gang at the size that it has now: a migration makes no gang smaller."""
        sizes = {role.role: sum(task.role == role.role for task in self.tasks) for role in self.gang.roles}
        roles = tuple(
            replace(role, minimum=sizes[role.role], maximum=sizes[role.role]) for role in self.gang.roles if sizes[role.role]
        )
        return replace(self.gang, roles=roles)


@dataclass(frozen=True, slots=True)
class GangMigration:
    name: str
    cost: int
    to: Placed


@dataclass(frozen=True, slots=True)
class Defragmented:
    """The gang's place once the migrations are made, in this order. `is_best`: no bound was met, so no fewer or cheaper
    migrations are enough."""

    migrations: tuple[GangMigration, ...]
    placed: Placed
    is_best: bool

    @property
    def cost(self) -> int:
        return sum(migration.cost for migration in self.migrations)


def defragment(
    gang: GangAsk,
    machines: Machines,
    pools: Sequence[int],
    migratables: Iterable[Migratable],
    *,
    migrations_max: int = MIGRATIONS_MAX,
    tries_max: int = TRIES_MAX,
) -> Defragmented | Unplaced:
    """The fewest and cheapest migrations that let the gang start at its minimum; `machines` stay as they are.

    There is no migration where the gang fits as things are. `Unplaced` is the answer of `place`, when no set of migrations helps.
    Where the bounds do not allow to try all sets, the set that takes the cheapest room machine by machine is tried, too, of up to
    `migrations_max` migrations.
    """
    least = at_least(gang)
    known = sorted(migratables, key=lambda migratable: (migratable.cost, migratable.name))
    refused: Unplaced | None = None
    for pool in pools:
        search = _Search(least, machines, pool, known, migrations_max, tries_max)
        found = search.run()
        if isinstance(found, Defragmented):
            return found
        if refused is None or found.stage > refused.stage:
            refused = found
    return refused or Unplaced(WaitCode.NO_POOL, -1, "", 0, 0)


class _Within(NamedTuple):
    """A domain that has to take all of the gang, with the sets of migrations that make room there. `now`: by role, how many tasks
    fit now."""

    members: Set[int]
    roles: list[tuple[RoleAsk, Ranking]]
    useful: list[tuple[int, ...]]
    now: list[int]


class _Search:
    """The search for one gang in one pool."""

    def __init__(
        self,
        gang: GangAsk,
        machines: Machines,
        pool: int,
        migratables: Sequence[Migratable],
        migrations_max: int,
        tries_max: int,
    ) -> None:
        self.gang = gang
        self.machines = machines
        self.pool = pool
        self.migratables = migratables
        self.migrations_max = migrations_max
        self.tries_max = tries_max
        self.is_cut = False
        self._in_places: list[_Within] = []
        self._on: dict[int, list[int]] = {}
        for number, migratable in enumerate(migratables):
            for machine in sorted({task.machine for task in migratable.tasks}):
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
        if self.is_cut or self.migrations_max > MIGRATIONS_MAX:
            self.is_cut = True
            for chosen in self._greedy():
                found = self._try(chosen)
                if isinstance(found, Defragmented):
                    return found
        return answer

    def _greedy(self) -> Iterator[tuple[int, ...]]:
        """In each domain the union of the sets that make room, fewest and cheapest migrations first, until it is enough."""
        for place_of in self._in_places:
            chosen: tuple[int, ...] = ()
            for more in place_of.useful:
                union = tuple(sorted({*chosen, *more}))
                if len(union) > self.migrations_max or self._sum(union, place_of) <= self._sum(chosen, place_of):
                    continue
                chosen = union
                if self._is_enough(chosen, place_of):
                    yield chosen
                    break

    def _sum(self, chosen: Sequence[int], there: _Within) -> int:
        """How many tasks have room, of each role no more than it needs."""
        counts = self._counts(chosen, there)
        return sum(min(count, role.minimum) for count, (role, _) in zip(counts, there.roles, strict=True))

    def _try(self, chosen: Sequence[int]) -> Defragmented | Unplaced:
        """Make the migrations and place all; then undo everything."""
        mark = self.machines.mark()
        try:
            migrated = [self.migratables[number] for number in chosen]
            self._give(migrated, None)
            placed = place(self.gang, self.machines, (self.pool,))
            if isinstance(placed, Unplaced):
                return placed
            migrations = []
            for migratable in sorted(
                migrated, key=lambda migratable: (-sum(task.ask.gpu_millis for task in migratable.tasks), migratable.name)
            ):
                to = place(migratable.as_it_is, self.machines, migratable.pools)
                if isinstance(to, Unplaced):
                    return to
                migrations.append(GangMigration(migratable.name, migratable.cost, to))
            return Defragmented(tuple(migrations), placed, not self.is_cut)
        finally:
            self.machines.rewind(mark)

    def _sets(self) -> Iterator[tuple[int, ...]]:
        """Sets of migrations that make enough room by counting, fewest first, then cheapest."""
        heap: list[tuple[int, int, tuple[int, ...], int]] = []
        roles = [(role, ranking) for role in self.gang.roles if (ranking := self._ranking(role)) is not None]
        for members in self._places():
            useful = self._useful(members, roles)
            if useful:
                heap.append((0, 0, (), len(self._in_places)))
                now = [ranking.room_on(members) for _, ranking in roles]
                self._in_places.append(_Within(members, roles, useful, now))
        seen: set[tuple[tuple[int, ...], int]] = set()
        migrations_max = min(self.migrations_max, MIGRATIONS_MAX)
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
                if len(chosen) < len(union) <= migrations_max and (union, number) not in seen:
                    seen.add((union, number))
                    heapq.heappush(heap, (len(union), self._cost(union), union, number))

    def _places(self) -> list[Set[int]]:
        """The domains one of which has to take all of the gang: those of the level on which it insists, else the pool."""
        state = self.machines.pools.get(self.pool)
        if state is None:
            return []
        domains = insisted_domains(self.gang, self.machines, self.pool)
        return [frozenset(state.members)] if domains is None else [domain.members for domain in domains]

    def _ranking(self, role: RoleAsk) -> Ranking | None:
        pool = self.pool if role.pool is None else role.pool
        return ranking_of(self.machines, pool, role.ask) if pool == self.pool else None

    def _useful(self, members: Set[int], roles: list[tuple[RoleAsk, Ranking]]) -> list[tuple[int, ...]]:
        """Per machine the sets of migrations no part of which makes as much room there for some role."""
        found: set[tuple[int, ...]] = set()
        for machine in sorted(members & self._on.keys()):
            here = self._on[machine]
            if len(here) > PER_MACHINE_MAX:
                here, self.is_cut = here[:PER_MACHINE_MAX], True
            for _, ranking in roles:
                found.update(self._irreducible(machine, here, ranking))
        ordered = sorted(found, key=lambda numbers: (len(numbers), self._cost(numbers), numbers))
        if len(ordered) > SETS_MAX:
            self.is_cut = True
        return ordered[:SETS_MAX]

    def _irreducible(self, machine: int, here: Sequence[int], ranking: Ranking) -> Iterator[tuple[int, ...]]:
        before = ranking.copies(self.machines.class_of[machine])
        least = self._least_size(machine, here, ranking, before + 1)
        if least > self.migrations_max or self._copies_without(machine, here, ranking) == before:
            return
        gained: dict[tuple[int, ...], int] = {}
        for size in range(least, min(len(here), self.migrations_max, PER_SET_MAX) + 1):
            for chosen in combinations(here, size):
                copies = self._copies_without(machine, chosen, ranking)
                gained[chosen] = copies
                if copies > max(gained.get(chosen[:skip] + chosen[skip + 1 :], before) for skip in range(size)):
                    yield chosen

    def _least_size(self, machine: int, here: Sequence[int], ranking: Ranking, copies: int) -> int:
        """How many gangs at least have to leave until `copies` tasks fit, by sums of what the largest hold."""
        ask, left = ranking.shape.ask, self.machines.left(machine)
        held = [[task.ask for task in self.migratables[number].tasks if task.machine == machine] for number in here]
        least = 1
        for name in ("gpu_millis", "cpu_millis", "memory_bytes"):
            missing = copies * getattr(ask, name) - getattr(left, name)
            freed = sorted((sum(getattr(held_ask, name) for held_ask in asks) for asks in held), reverse=True)
            size = 0
            while missing > 0:
                if size == len(freed):
                    return self.migrations_max + 1
                missing -= freed[size]
                size += 1
            least = max(least, size)
        return least

    def _copies_without(self, machine: int, chosen: Sequence[int], ranking: Ranking) -> int:
        """How many tasks a machine takes once the chosen gangs have left it."""
        mark = self.machines.mark()
        self._give([self.migratables[number] for number in chosen], machine)
        copies = ranking.copies(self.machines.class_of[machine])
        self.machines.rewind(mark)
        return copies

    def _is_enough(self, chosen: Sequence[int], there: _Within) -> bool:
        """Whether, each role counted alone, all its tasks have room in a domain."""
        counts = self._counts(chosen, there)
        return all(count >= role.minimum for count, (role, _) in zip(counts, there.roles, strict=True))

    def _counts(self, chosen: Sequence[int], there: _Within) -> list[int]:
        """By role, how many of its tasks a domain takes once the chosen gangs have migrated."""
        migrated = [self.migratables[number] for number in chosen]
        touched = {task.machine for migratable in migrated for task in migratable.tasks} & there.members
        counts = list(there.now)
        mark = self.machines.mark()
        for sign in (-1, 1):
            for at, (_, ranking) in enumerate(there.roles):
                counts[at] += sign * ranking.room_on(touched)
            if sign < 0:
                self._give(migrated, None)
        self.machines.rewind(mark)
        return counts

    def _give(self, migratables: Iterable[Migratable], machine: int | None) -> None:
        for migratable in migratables:
            for task in migratable.tasks:
                if machine is None or task.machine == machine:
                    self.machines.give(task.machine, task.ask, task.devices)

    def _cost(self, chosen: Iterable[int]) -> int:
        return sum(self.migratables[number].cost for number in chosen)
