"""Where a gang fits best, and why it does not.

`place` holds the whole gang on `machines` when it fits and leaves them as they were when it does not; who decides against a
placement afterwards calls `undo`. The result depends on what is free, not on the order in which machines or roles were given.

The ideal: of all ways to place the gang, the one with its maximum of tasks, then with its tasks as near to one another (or as
far apart) as it wishes, then with the best scores. What is done instead, and why:

1. Pools in the order given; the first that takes the gang has it. Scores of different pools are not compared: their rules differ.
2. First all roles at their maximum, else all at their minimum and then one more of each in turn while there is room. For one role
   that is the largest number that fits, because equal tasks take room of one another only.
3. Largest tasks first, each on the best machine for it: what is hard to place sees the most room. Where roles of different shape
   get into one another's way, other orders of them are tried; still, a gang of several roles may be refused that a search of all
   ways would place (of those that just fit into two to four odd machines, one in a hundred; never a gang of one role).
4. Tasks that want to be near: one machine, else the fullest island that takes all of them, else switch, else rack, else the
   fewest places. What a place could take is counted before it is tried, so most are never tried.
5. Roles for which there is too little room by counting are remembered (`refusals.py`): most of a long queue is refused by that.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice, permutations, repeat

from jobs.scheduling.core.place.filters import Refusal
from jobs.scheduling.core.place.gangs import PACK, SPREAD, GangAsk, Placed, PlacedTask, RoleAsk, Unplaced
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Machines
from jobs.scheduling.core.place.ranking import Candidate, Local, Ranking, ScoreRow, ranking_of
from jobs.scheduling.core.place.refusals import Refused, RefusedAsks
from jobs.scheduling.core.place.topology import Place, Topology, topology_of

TRIES_MAX = 8  # Places of one level that are tried for who only wishes to be near; one that insists tries all.
ORDERS_MAX = 6  # Of roles: all orders of three.

__all__ = ["GangAsk", "Placed", "PlacedTask", "RoleAsk", "Unplaced", "has_place", "place", "recount", "undo"]


@dataclass(frozen=True, slots=True)
class _Part:
    """One role with where it has to go and how."""

    role: RoleAsk
    ranking: Ranking
    together: str
    local: Local | None


@dataclass(frozen=True, slots=True)
class _Short:
    """The role that did not get its tasks."""

    part: _Part
    fitting: int


def place(gang: GangAsk, machines: Machines, pools: Sequence[int]) -> Placed | Unplaced:
    """Hold the gang in the first of these pools that takes all of it, at its largest size there; else say why in none."""
    furthest: Unplaced | None = None
    for pool in pools:
        answer = _place_in(gang, machines, pool)
        if isinstance(answer, Placed):
            return answer
        if furthest is None or answer.stage > furthest.stage:
            furthest = answer
    return furthest or Unplaced("no_pool", -1, "", 0, 0)


def recount(gang: GangAsk, machines: Machines, pool: int) -> Unplaced | None:
    """Why a gang has too little room in a pool, with the amounts of this moment; None where that is not a matter of counting.

    `place` may answer with the amounts of the moment at which the same was refused first, for speed. Whoever shows a reason to
    people asks here.
    """
    parts = _parts(gang, machines, pool)
    return parts if isinstance(parts, Unplaced) else next(filter(None, (_lacking(part, machines) for part in parts)), None)


def has_place(gang: GangAsk, machines: Machines, pool: int) -> bool:
    """Whether `place` would place the gang, at its smallest: nothing is held, and nothing explained."""
    parts = _parts(gang, machines, pool)
    if isinstance(parts, Unplaced):
        return False
    counted = [part for part in parts if not part.ranking.shape.joining and not _is_guarded(part)]
    for part in counted:
        ranking, least = part.ranking, part.role.minimum
        if ranking.room_of_all(machines.classes(ranking.pool), enough=least) < least:
            return False
    if len(parts) == len(counted) == 1 and parts[0].together in ("", PACK, SPREAD):
        return True
    mark = machines.mark()
    answer = _place_in(gang, machines, pool)
    machines.rewind(mark)
    return isinstance(answer, Placed)


def undo(placed: Placed, machines: Machines) -> None:
    """Give back all that `place` took."""
    for task in placed.tasks:
        machines.give(task.machine, task.ask, task.devices)


def _place_in(gang: GangAsk, machines: Machines, pool: int) -> Placed | Unplaced:
    parts = _parts(gang, machines, pool)
    if isinstance(parts, Unplaced):
        return parts
    known = [_remembered(part, machines) for part in parts]
    if any(known):
        return next(one for one in map(_first_known, parts, known, repeat(machines)) if one is not None)
    return _Placing(machines, pool, parts).run()


def _parts(gang: GangAsk, machines: Machines, pool: int) -> list[_Part] | Unplaced:
    """The roles, largest first."""
    parts = []
    for role in sorted(gang.roles, key=_size):
        ranking = ranking_of(machines, pool if role.pool is None else role.pool, role.ask)
        if ranking is None:
            return Unplaced("no_pool", pool if role.pool is None else role.pool, role.role, role.minimum, 0)
        local = Local(role.image, role.data) if role.image or role.data else None
        parts.append(_Part(role, ranking, role.together or gang.together, local))
    return parts


def _size(role: RoleAsk) -> tuple[object, ...]:
    """Largest first; roles of equal size by what else they want, and by name."""
    ask = role.ask
    return (-ask.gpu_millis, -ask.cpu_millis, -ask.memory_bytes, -len(ask.needs), -role.maximum, role.role)


def _remembered(part: _Part, machines: Machines) -> Unplaced | None:
    """The refusal of this role by what was refused before."""
    state = machines.pools[part.ranking.pool]
    if state.refused is None:
        return None
    state.refused.catch_up(state.given, may_clear=not machines.is_marked)
    known = state.refused.find(part.role.ask, part.role.minimum, lambda: _counted(part, machines))
    return None if known is None else _unplaced(part, known.fitting, known.refusals)


def _first_known(part: _Part, known: Unplaced | None, machines: Machines) -> Unplaced | None:
    """The same role is blamed whatever happens to be remembered: the first for whose tasks alone there is too little room."""
    return known or _lacking(part, machines)


def _lacking(part: _Part, machines: Machines) -> Unplaced | None:
    """Whether a role alone has too little room in its pool; that is remembered."""
    if part.ranking.shape.joining or _is_guarded(part) or _room(part, machines) >= part.role.minimum:
        return None
    state = machines.pools[part.ranking.pool]
    if state.refused is None:
        state.refused = RefusedAsks()
    state.refused.catch_up(state.given, may_clear=not machines.is_marked)
    counted = _counted(part, machines)
    state.refused.remember(part.role.ask, counted)
    return _unplaced(part, counted.fitting, counted.refusals)


def _counted(part: _Part, machines: Machines) -> Refused:
    fitting = _room(part, machines)
    assert fitting < part.role.minimum, "what is refused by memory would fit"
    return Refused(part.ranking.shape, part.role.minimum, fitting, part.ranking.tally())


def _room(part: _Part, machines: Machines) -> int:
    """How many tasks of a role its pool takes, if nothing else goes there."""
    return part.ranking.room_of_all(machines.classes(part.ranking.pool))


def _unplaced(part: _Part, fitting: int, refusals: tuple[Refusal, ...], code: str = "") -> Unplaced:
    code = code or ("no_room" if part.ranking.fits_ever() else "no_machine")
    return Unplaced(code, part.ranking.pool, part.role.role, part.role.minimum, fitting, refusals)


class _Placing:
    """One try at one gang in one pool."""

    def __init__(self, machines: Machines, pool: int, parts: list[_Part]) -> None:
        self.machines = machines
        self.pool = pool
        self.parts = parts
        self.held: list[PlacedTask] = []
        self.tables: list[tuple[str, tuple[ScoreRow, ...]]] = []
        self.units = _units(parts)

    def run(self) -> Placed | Unplaced:
        least = {part.role.role: part.role.minimum for part in self.parts}
        short = self._all({part.role.role: part.role.maximum for part in self.parts})
        if short is not None and any(part.role.minimum < part.role.maximum for part in self.parts):
            short = self._all(least)
            if short is None:
                self._extend()
        if short is not None and not self._in_another_order(least):
            return self._refuse(short)
        return Placed(self.pool, tuple(self.held), self._hops(), tuple(self.tables))

    def _in_another_order(self, wanted: Mapping[str, int]) -> bool:
        """Hold so many tasks of each role with other roles first: where CPU is short, the largest by GPU may stand in the way."""
        if len(self.parts) == 1 or any(_room(part, self.machines) < part.role.minimum for part in self.parts):
            return False
        first = self.units
        for order in islice(permutations(self.parts), 1, ORDERS_MAX):
            self.units = _units(list(order))
            if self._all(wanted) is None:
                self._extend()
                return True
        self.units = first
        return False

    def _all(self, wanted: Mapping[str, int]) -> _Short | None:
        """Hold so many tasks of each role, or nothing."""
        for unit in self.units:
            asked = [(part, wanted[part.role.role]) for part in unit if wanted[part.role.role]]
            short = self._near(asked, unit[0].together) if asked else None
            if short is not None:
                self._drop(0)
                return short
        return None

    def _near(self, asked: list[tuple[_Part, int]], together: str) -> _Short | None:
        """Hold the tasks of one unit, as near to one another as it wants."""
        if together in ("", SPREAD):
            return self._hold(asked, None)
        short: _Short | None = None
        insists = together != PACK
        for within in self._nearest(asked, together):
            short = self._hold(asked, within)
            if short is None:
                return None
        if insists:
            return short or _Short(asked[0][0], -1)
        return self._hold(asked, None)

    def _nearest(self, asked: list[tuple[_Part, int]], together: str) -> Iterator[Set[int]]:
        """Sets of machines to try, nearest first; in a level the place with the least room that may do."""
        topology = self._topology(asked[0][0])
        if together not in (PACK, *topology.levels):
            return
        if sum(count for _, count in asked) > 1:
            alone = self._one_machine(asked)
            if alone is not None and (together == PACK or topology.at(alone, topology.levels.index(together)) is not None):
                yield {alone}
        for depth, level in enumerate(topology.levels):
            fitting = []
            for one in topology.places[depth]:
                room = [(one.copies(part.ranking, self.machines), count) for part, count in asked]
                if all(copies >= count for copies, count in room):
                    fitting.append((room[0][0], one.name, one))
            fitting.sort(key=lambda found: found[:2])
            for _, _, one in fitting[:TRIES_MAX] if together == PACK else fitting:
                yield from self._fewest(asked, one.members)
                yield one.members
            if level == together:
                return
        if together == PACK:
            yield from self._fewest_places(asked, topology.places[-1] if topology.places else ())
            yield from self._fewest(asked, None)

    def _one_machine(self, asked: list[tuple[_Part, int]]) -> int | None:
        """The best machine for all of these tasks as if they were one."""
        asks = {replace(part.role.ask, cpu_millis=0, memory_bytes=0, gpu_millis=0) for part, _ in asked}
        if len(asks) != 1 or any(part.role.ask.is_share for part, _ in asked):
            return None
        pool = asked[0][0].ranking.pool
        whole = replace(
            next(iter(asks)),
            cpu_millis=sum(part.role.ask.cpu_millis * count for part, count in asked),
            memory_bytes=sum(part.role.ask.memory_bytes * count for part, count in asked),
            gpu_millis=sum(part.role.ask.gpu_millis * count for part, count in asked),
        )
        if not whole.resources.fits_in(self.machines.pools[pool].largest):
            return None
        ranking = ranking_of(self.machines, pool, whole)
        best = ranking.best() if ranking is not None else None
        return best.machine if best is not None else None

    def _fewest(self, asked: list[tuple[_Part, int]], members: Set[int] | None) -> Iterator[Set[int]]:
        """As few machines as take all tasks of a role: those that take most, and for the rest the one with least to spare."""
        if len(asked) != 1:
            return
        part, count = asked[0]
        groups = part.ranking.by_copies(members)
        chosen: set[int] = set()
        for copies, machines in groups:
            if copies <= count:
                chosen.update(heapq.nsmallest(count // copies, machines))
                count -= copies * min(count // copies, len(machines))
        if count:
            spare = next((machines for copies, machines in reversed(groups) if copies >= count and not chosen >= machines), None)
            if spare is None:
                return
            chosen.add(min(spare - chosen))
        yield chosen

    def _fewest_places(self, asked: list[tuple[_Part, int]], places: Sequence[Place]) -> Iterator[Set[int]]:
        """The union of the places with the most room, as many as the largest role needs."""
        part, count = asked[0]
        chosen: set[int] = set()
        for copies, _, one in sorted((-one.copies(part.ranking, self.machines), one.name, one) for one in places if one.members):
            if count <= 0 or not copies:
                break
            chosen |= one.members
            count += copies
        if chosen and count <= 0:
            yield chosen

    def _hold(self, asked: list[tuple[_Part, int]], within: Set[int] | None) -> _Short | None:
        """Hold so many tasks of each, on these machines only where given, or none."""
        before, tables = len(self.held), len(self.tables)
        for part, count in asked:
            got = self._more(part, count, within)
            if got < count:
                self._drop(before)
                del self.tables[tables:]
                return _Short(part, got)
        return None

    def _more(self, part: _Part, count: int, within: Set[int] | None) -> int:
        """Hold up to so many more tasks of a role; how many it were."""
        role, take = part.role, self.machines.take
        apart = _Apart(self, part) if part.together == SPREAD else None
        index = sum(one.role == role.role for one in self.held)
        for got in range(count):
            ranking = ranking_of(self.machines, part.ranking.pool, role.ask) if part.ranking.shape.share else part.ranking
            assert ranking is not None
            without: Set[int] = frozenset()
            found = None
            if apart is None:
                found = ranking.best(within=within, local=part.local)
            else:
                found, without = apart.best(ranking)
            if found is None:
                return got
            if not index and not got:
                self._tabulate(part, ranking, found, within, without)
            devices = self.machines.with_left(found.machine, found.fit.remainder) if ranking.shape.share else None
            self.held.append(PlacedTask(role.role, index + got, found.machine, role.ask, take(found.machine, role.ask, devices)))
        return count

    def _extend(self) -> None:
        """One more task of each role in turn, while there is room and a role wants more."""
        growing = [part for part in self.parts if part.role.minimum < part.role.maximum]
        while growing:
            growing = [part for part in growing if self._count(part) < part.role.maximum and self._one_more(part)]

    def _one_more(self, part: _Part) -> bool:
        """Near those that are there, for whoever insists on it; first near, then anywhere, for whoever only wishes."""
        if part.together in ("", SPREAD):
            return bool(self._more(part, 1, None))
        topology = self._topology(part)
        mine = [one.machine for one in self.held if self._is_near(one.role, part)]
        for depth, level in enumerate(topology.levels):
            place_of = {topology.at(machine, depth) for machine in mine}
            place = place_of.pop() if len(place_of) == 1 else None
            if place is not None and self._more(part, 1, place.members):
                return True
            if level == part.together:
                return False
        return part.together == PACK and bool(self._more(part, 1, None))

    def _is_near(self, role: str, part: _Part) -> bool:
        unit = next(unit for unit in self.units if part in unit)
        return any(one.role.role == role for one in unit)

    def _count(self, part: _Part) -> int:
        return sum(one.role == part.role.role for one in self.held)

    def _tabulate(self, part: _Part, ranking: Ranking, found: Candidate, within: Set[int] | None, without: Set[int]) -> None:
        """Keep the scores of the machine chosen and of the next best, before anything is taken there."""
        if ranking.rules.runners_up <= 0:
            return
        leaders = ranking.leaders(ranking.rules.runners_up + 1, within=within, without=without)
        winner = (found.fit.score, found.one.tie)
        rows = [found, *(one for one in leaders if (one.fit.score, one.one.tie) != winner)][: ranking.rules.runners_up + 1]
        self.tables.append((part.role.role, tuple(ranking.row(one, part.local) for one in rows)))

    def _drop(self, position: int) -> None:
        """Undo what this try held; nothing that was refused before fits because of it."""
        while len(self.held) > position:
            task = self.held.pop()
            self.machines.take_back(task.machine, task.ask, task.devices)
        if not position:
            self.tables.clear()

    def _refuse(self, short: _Short) -> Unplaced:
        for part in self.parts:
            lacking = _lacking(part, self.machines)
            if lacking is not None:
                return lacking
        refusals = short.part.ranking.tally()
        if short.part.together not in ("", PACK, SPREAD):
            return _unplaced(short.part, self._nearest_room(short.part), refusals, "not_together")
        return _unplaced(short.part, max(0, short.fitting), refusals)

    def _nearest_room(self, part: _Part) -> int:
        """The most tasks of a role that any one place takes at the level that it insists on."""
        topology = self._topology(part)
        if part.together not in topology.levels:
            return 0
        places = topology.places[topology.levels.index(part.together)]
        return max((one.copies(part.ranking, self.machines) for one in places), default=0)

    def _hops(self) -> int:
        """Between the tasks in the gang's own pool; roles that named another are apart by their own wish."""
        mine = next((part for part in self.parts if part.ranking.pool == self.pool), None)
        inside = {one.machine for one in self.held if self.machines.at[one.machine].pool == self.pool}
        return self._topology(mine).hops(inside) if mine is not None and len(inside) > 1 else 0

    def _topology(self, part: _Part) -> Topology:
        return topology_of(self.machines, part.ranking.pool, part.ranking.rules.levels)


class _Apart:
    """For tasks that want to be apart: the least used machine, and among these the least used place."""

    def __init__(self, placing: _Placing, part: _Part) -> None:
        self._topology = topology_of(placing.machines, part.ranking.pool, part.ranking.rules.levels)
        self._machines: set[int] = set()
        self._places: set[int] = set()
        self._local = part.local
        for task in placing.held:
            if task.role == part.role.role:
                self._use(task.machine)

    def best(self, ranking: Ranking) -> tuple[Candidate | None, Set[int]]:
        """The best machine of a place without a task of the role, else one without, else any; and which it was kept from."""
        for without in (self._places, self._machines, frozenset[int]()):
            found = ranking.best(without=without, local=self._local)
            if found is not None:
                kept = frozenset(without)
                if not without:  # All have one: the next round begins.
                    self._machines.clear()
                    self._places.clear()
                elif without is self._machines:
                    self._places = set(self._machines)
                self._use(found.machine)
                return found, kept
        return None, frozenset()

    def _use(self, machine: int) -> None:
        self._machines.add(machine)
        self._places |= self._topology.farthest(machine)


def _units(parts: list[_Part]) -> list[list[_Part]]:
    """Roles that are placed near one another: those of one pool that say nothing of their own; each other role is alone."""
    units: dict[tuple[int, str], list[_Part]] = {}
    for part in parts:
        units.setdefault((part.ranking.pool, part.role.role if part.role.together else ""), []).append(part)
    return list(units.values())


def _is_guarded(part: _Part) -> bool:
    """Whether how many shares fit depends on how many devices may be shared, which is not a matter of counting alone."""
    return part.role.ask.gpu_millis % WHOLE_MILLIS != 0 and part.ranking.rules.shared_devices_max is not None
