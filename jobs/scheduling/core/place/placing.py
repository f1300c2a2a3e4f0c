"""Where a gang fits best, and why it does not.

`place` holds the whole gang on `machines` when it fits and leaves them as they were when it does not; a caller that decides
against a placement afterwards calls `undo`. The result depends on what is free, not on the order of machines or roles.

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
5. Where there is too little room for the tasks of a role by counting, no place is tried.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice, permutations

from jobs.scheduling.core.place.filters import Refusal
from jobs.scheduling.core.place.gangs import PACK, SPREAD, GangAsk, Placed, PlacedTask, RoleAsk, Unplaced
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Machines
from jobs.scheduling.core.place.ranking import Candidate, Local, Ranking, ScoreRow, ranking_of
from jobs.scheduling.core.place.topology import Topology, TopologyDomain, topology_of
from kernel.wait_codes import WaitCode

TRIES_MAX = 8  # Places of one level that are tried for a role that prefers to be near; a role that requires it tries all.
ORDERS_MAX = 6  # Of roles: all orders of three.

__all__ = ["GangAsk", "Placed", "PlacedTask", "RoleAsk", "Unplaced", "has_place", "place", "recount", "redo", "undo"]


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
    return furthest or Unplaced(WaitCode.NO_POOL, -1, "", 0, 0)


def recount(gang: GangAsk, machines: Machines, pool: int) -> Unplaced | None:
    """Why a gang has too little room in a pool, with the amounts of this moment; None where that is not a matter of counting.

    A scheduler may keep an answer of `place` for longer, for speed. Callers that show a reason to people ask here.
    """
    parts = _parts(gang, machines, pool)
    return parts if isinstance(parts, Unplaced) else _lacking(parts, machines)


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


def redo(placed: Placed, machines: Machines) -> None:
    """Take all that `undo` gave back."""
    for task in placed.tasks:
        machines.take(task.machine, task.ask, task.devices)


def _place_in(gang: GangAsk, machines: Machines, pool: int) -> Placed | Unplaced:
    parts = _parts(gang, machines, pool)
    if isinstance(parts, Unplaced):
        return parts
    lacking = _lacking(parts, machines) if sum(part.role.minimum for part in parts) > 1 else None
    return lacking or _Placing(machines, pool, parts).run()


def _parts(gang: GangAsk, machines: Machines, pool: int) -> list[_Part] | Unplaced:
    """The roles, largest first."""
    parts = []
    for role in sorted(gang.roles, key=_size):
        ranking = ranking_of(machines, pool if role.pool is None else role.pool, role.ask)
        if ranking is None:
            return Unplaced(WaitCode.NO_POOL, pool if role.pool is None else role.pool, role.role, role.minimum, 0)
        local = Local(role.image, role.data) if role.image or role.data else None
        parts.append(_Part(role, ranking, role.together or gang.together, local))
    return parts


def _size(role: RoleAsk) -> tuple[object, ...]:
    """Largest first; roles of equal size by what else they want, and by name."""
    ask = role.ask
    return (-ask.gpu_millis, -ask.cpu_millis, -ask.memory_bytes, -len(ask.needs), -role.maximum, role.role)


def _lacking(parts: Sequence[_Part], machines: Machines) -> Unplaced | None:
    """The refusal of the first role for whose tasks alone there is too little room in its pool, by counting."""
    for part in parts:
        if part.ranking.shape.joining or _is_guarded(part):
            continue
        fitting = part.ranking.room_of_all(machines.classes(part.ranking.pool), enough=part.role.minimum)
        if fitting < part.role.minimum:
            return _unplaced(part, fitting, part.ranking.tally())
    return None


def _room(part: _Part, machines: Machines) -> int:
    """How many tasks of a role its pool takes, if nothing else goes there."""
    return part.ranking.room_of_all(machines.classes(part.ranking.pool))


def _unplaced(part: _Part, fitting: int, refusals: tuple[Refusal, ...], code: WaitCode | None = None) -> Unplaced:
    code = code or (WaitCode.NO_ROOM if part.ranking.fits_ever() else WaitCode.NO_MACHINE)
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
            for domain in topology.places[depth]:
                room = [(domain.copies(part.ranking, self.machines), count) for part, count in asked]
                if all(copies >= count for copies, count in room):
                    fitting.append((room[0][0], domain.name, domain))
            fitting.sort(key=lambda entry: entry[:2])
            for _, _, domain in fitting[:TRIES_MAX] if together == PACK else fitting:
                yield from self._fewest(asked, domain.members)
                yield domain.members
            if level == together:
                return
        if together == PACK:
            yield from self._fewest_places(asked, topology.places[-1] if topology.places else ())
            yield from self._fewest(asked, None)

    def _one_machine(self, asked: list[tuple[_Part, int]]) -> int | None:
        """The best machine for all of these tasks as if they were one task."""
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
        """As few machines as take all tasks of a role: those that take most, and for the rest the machine with least to spare."""
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

    def _fewest_places(self, asked: list[tuple[_Part, int]], places: Sequence[TopologyDomain]) -> Iterator[Set[int]]:
        """The union of the places with the most room, as many as the largest role needs."""
        part, count = asked[0]
        chosen: set[int] = set()
        for copies, _, domain in sorted(
            (-domain.copies(part.ranking, self.machines), domain.name, domain) for domain in places if domain.members
        ):
            if count <= 0 or not copies:
                break
            chosen |= domain.members
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
        index = sum(task.role == role.role for task in self.held)
        for got in range(count):
            ranking = ranking_of(self.machines, part.ranking.pool, role.ask) if part.ranking.shape.share else part.ranking
            assert ranking is not None
            without: Set[int] = frozenset()
            candidate = None
            if apart is None:
                candidate = ranking.best(within=within, local=part.local)
            else:
                candidate, without = apart.best(ranking)
            if candidate is None:
                return got
            if not index and not got:
                self._tabulate(part, ranking, candidate, within, without)
            devices = self.machines.with_left(candidate.machine, candidate.fit.remainder) if ranking.shape.share else None
            self.held.append(
                PlacedTask(role.role, index + got, candidate.machine, role.ask, take(candidate.machine, role.ask, devices))
            )
        return count

    def _extend(self) -> None:
        """One more task of each role in turn, while there is room and a role wants more."""
        growing = [part for part in self.parts if part.role.minimum < part.role.maximum]
        while growing:
            growing = [part for part in growing if self._count(part) < part.role.maximum and self._one_more(part)]

    def _one_more(self, part: _Part) -> bool:
        """Near the tasks that are held, for a role that requires it; first near, then anywhere, for a role that prefers it."""
        if part.together in ("", SPREAD):
            return bool(self._more(part, 1, None))
        topology = self._topology(part)
        mine = [task.machine for task in self.held if self._is_near(task.role, part)]
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
        return any(part_of_unit.role.role == role for part_of_unit in unit)

    def _count(self, part: _Part) -> int:
        return sum(task.role == part.role.role for task in self.held)

    def _tabulate(self, part: _Part, ranking: Ranking, chosen: Candidate, within: Set[int] | None, without: Set[int]) -> None:
        """Keep the scores of the machine chosen and of the next best, before anything is taken there."""
        if ranking.rules.runners_up <= 0:
            return
        leaders = ranking.leaders(ranking.rules.runners_up + 1, within=within, without=without)
        winner = (chosen.fit.score, chosen.machine_class.tie)
        runners_up = [leader for leader in leaders if (leader.fit.score, leader.machine_class.tie) != winner]
        rows = [chosen, *runners_up[: ranking.rules.runners_up]]
        self.tables.append((part.role.role, tuple(ranking.row(candidate, part.local) for candidate in rows)))

    def _drop(self, position: int) -> None:
        """Undo what this try held."""
        while len(self.held) > position:
            task = self.held.pop()
            self.machines.give(task.machine, task.ask, task.devices)
        if not position:
            self.tables.clear()

    def _refuse(self, short: _Short) -> Unplaced:
        lacking = _lacking(self.parts, self.machines)
        if lacking is not None:
            return lacking
        refusals = short.part.ranking.tally()
        if short.part.together not in ("", PACK, SPREAD):
            return _unplaced(short.part, self._nearest_room(short.part), refusals, WaitCode.NOT_TOGETHER)
        return _unplaced(short.part, max(0, short.fitting), refusals)

    def _nearest_room(self, part: _Part) -> int:
        """The most tasks of a role that any one place takes at the level that it insists on."""
        topology = self._topology(part)
        if part.together not in topology.levels:
            return 0
        places = topology.places[topology.levels.index(part.together)]
        return max((domain.copies(part.ranking, self.machines) for domain in places), default=0)

    def _hops(self) -> int:
        """Between the tasks in the gang's own pool; roles that named another are apart by their own wish."""
        mine = next((part for part in self.parts if part.ranking.pool == self.pool), None)
        inside = {task.machine for task in self.held if self.machines.at[task.machine].pool == self.pool}
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
        """The best machine of a place without a task of the role, else a machine without, else any; and the machines left out."""
        for without in (self._places, self._machines, frozenset[int]()):
            candidate = ranking.best(without=without, local=self._local)
            if candidate is not None:
                kept = frozenset(without)
                if not without:  # All have a task: the next round begins.
                    self._machines.clear()
                    self._places.clear()
                elif without is self._machines:
                    self._places = set(self._machines)
                self._use(candidate.machine)
                return candidate, kept
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
