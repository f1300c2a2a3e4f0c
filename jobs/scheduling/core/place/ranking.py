"""For one ask in one pool: which machine is best now.

The ideal: every machine is filtered and scored at every question, and the best score wins; among equal scores the tie of the
class decides, among equal ties the lowest number. The shortcut: a class is scored once, when the ranking first sees it, and goes
into a heap; a question reads the classes that arrived since the last question, drops from the top what has no machines any more,
and looks at the top. A class is a value, so its score never changes, and a class that comes back is entered again: the top is
what a search of all machines would find. What it costs depends on what changed, not on how many machines there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

from jobs.scheduling.core.place.filters import Kept, Refusal, TaskShape, copies, refusal, refusal_of_kind, tally
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, MachineClass, MachineKind, Machines, PoolState, TaskAsk
from jobs.scheduling.core.place.scores import SCALE, Fit, PoolRules, Scorer


class Candidate(NamedTuple):
    """One machine for one task; `extra` is what this machine has beyond its class (image and data that are there already)."""

    machine: int
    machine_class: MachineClass
    fit: Fit
    extra: int = 0

    @property
    def order(self) -> tuple[int, int, int]:
        """The best is the least."""
        return -(self.fit.score + self.extra), self.machine_class.tie, self.machine


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One line of the table kept with a placement: (term, value, weight) for each term, and their sum."""

    machine: str
    total: int
    terms: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Local:
    """What a task would rather find in place."""

    image: str = ""
    data: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.image or self.data)


class Ranking:
    """The classes of a pool in the order in which an ask prefers them. `epoch` is the pool's when it was last read."""

    __slots__ = (
        "_copies",
        "_ever",
        "_fits",
        "_heap",
        "_inside",
        "_kept",
        "_kinds",
        "_machines",
        "_scorer",
        "_seen",
        "_sequence",
        "epoch",
        "pool",
        "rules",
        "shape",
    )

    def __init__(self, machines: Machines, pool: int, shape: TaskShape) -> None:
        self._machines = machines
        self.pool = pool
        self.shape = shape
        self.rules = machines.rules.get(pool) or PoolRules()
        self._scorer = Scorer(shape, self.rules, machines.pools[pool].largest)
        self._fits: dict[MachineClass, Fit | None] = {}
        self._copies: dict[MachineClass, int] = {}
        self._kept: dict[MachineClass, Kept | None] = {}
        self._kinds: dict[int, bool] = {}
        self._heap: list[tuple[int, int, int, MachineClass]] = []
        self._inside: set[MachineClass] = set()
        self._sequence = 0  # Keeps the heap from comparing classes; decides nothing.
        self._seen = 0
        self._ever: bool | None = None
        self.epoch = -1

    def best(
        self, *, within: Set[int] | None = None, without: Set[int] = frozenset(), local: Local | None = None
    ) -> Candidate | None:
        """The best machine, of these only and not of those, where given."""
        if within is not None:
            if not local:
                return self._best_within(within - without if without else within)
            return min(self._among(within - without, local), key=lambda candidate: candidate.order, default=None)
        best = self._top(without)
        if local:
            near = min(self._among(self._holding(local) - without, local), key=lambda candidate: candidate.order, default=None)
            if near is not None and (best is None or near.order < best.order):
                return near
        return best

    def leaders(self, count: int, *, within: Set[int] | None = None, without: Set[int] = frozenset()) -> list[Candidate]:
        """The best machine of each of the best groups of equals, best first."""
        best_of: dict[tuple[int, int], Candidate] = {}
        if within is not None:
            for candidate in sorted(self._among(within - without, None), key=lambda candidate: candidate.order):
                best_of.setdefault(candidate.order[:2], candidate)
            return list(best_of.values())[:count]
        self._catch_up()
        aside: list[tuple[int, int, int, MachineClass]] = []
        while self._heap and (len(best_of) < count or self._heap[0][:2] in best_of):
            entry = heapq.heappop(self._heap)
            if not entry[3].members:
                self._inside.discard(entry[3])
                continue
            aside.append(entry)
            leader = self._candidate(entry[3], without)
            if leader is not None and (entry[:2] not in best_of or leader.machine < best_of[entry[:2]].machine):
                best_of[entry[:2]] = leader
        for entry in aside:
            heapq.heappush(self._heap, entry)
        return list(best_of.values())

    def fit(self, machine_class: MachineClass) -> Fit | None:
        """What a class is worth; None when a filter keeps the task out."""
        try:
            return self._fits[machine_class]
        except KeyError:
            fit = self._fits[machine_class] = None if refusal(machine_class, self.shape) else self._scorer.fit(machine_class)
            return fit

    def copies(self, machine_class: MachineClass) -> int:
        """How many such tasks a machine of the class takes."""
        count = self._copies.get(machine_class)
        if count is None:
            count = self._copies[machine_class] = copies(machine_class, self.shape)
        return count

    def takes_kind(self, machine_class: MachineClass) -> bool:
        """Whether machines of its kind take such a task when nothing is taken of them that it needs."""
        takes = self._kinds.get(machine_class.kind_number)
        if takes is None:
            takes = self._kinds[machine_class.kind_number] = not refusal_of_kind(machine_class.kind, self.shape)
        return takes

    def room_on(self, chosen: Iterable[int]) -> int:
        """How many such tasks these machines take."""
        cache, class_of, total = self._copies, self._machines.class_of, 0
        for machine in chosen:
            machine_class = class_of[machine]
            many = cache.get(machine_class)
            total += self.copies(machine_class) if many is None else many
        return total

    def room_of_all(self, classes: Iterable[MachineClass], enough: int = 1 << 62) -> int:
        """How many such tasks all machines of these classes take; counted no further than to what is enough."""
        cache, total = self._copies, 0
        for machine_class in classes:
            many = cache.get(machine_class)
            if many is None:
                many = self.copies(machine_class)
            if many:
                total += many * len(machine_class.members)
                if total >= enough:
                    break
        return total

    def fits_ever(self) -> bool:
        """Whether some machine of the pool, as it is now but empty, takes one such task. Found out once."""
        if self._ever is None:
            shape = replace(self.shape, joining=False)
            kinds = {machine_class.kind_number: machine_class.kind for machine_class in self._machines.classes(self.pool)}
            self._ever = any(not refusal(_empty(kind, number), shape) for number, kind in kinds.items())
        return self._ever

    def by_copies(self, members: Set[int] | None) -> list[tuple[int, set[int]]]:
        """The machines of the pool (or these of it) that take some tasks, in groups: how many each, most and then best first."""
        groups: dict[tuple[int, int, int], set[int]] = {}
        for machine_class in self._machines.classes(self.pool):
            inside = machine_class.members if members is None else machine_class.members & members
            fit = self.fit(machine_class) if inside else None
            if fit is not None:
                groups.setdefault((-self.copies(machine_class), -fit.score, machine_class.tie), set()).update(inside)
        return [(-key[0], groups[key]) for key in sorted(groups)]

    def tally(self) -> tuple[Refusal, ...]:
        """Which filter keeps the task out of how many machines."""
        return tally(self._machines.classes(self.pool), self.shape, self._kept)

    def row(self, candidate: Candidate, local: Local | None) -> ScoreRow:
        terms = self._scorer.terms(candidate.fit)
        if local:
            terms += self._local_terms(candidate.machine, local)
        return ScoreRow(self._machines.at[candidate.machine].name, sum(value * weight for _, value, weight in terms), terms)

    def _top(self, without: Set[int]) -> Candidate | None:
        self._catch_up()
        heap = self._heap
        aside = []
        best: Candidate | None = None
        while heap:
            top = heap[0]
            if best is not None and (-best.fit.score, best.machine_class.tie) != top[:2]:
                break
            if not top[3].members:
                self._inside.discard(heapq.heappop(heap)[3])
                continue
            candidate = self._candidate(top[3], without)
            if candidate is not None and (best is None or candidate.machine < best.machine):
                best = candidate
            if candidate is not None and not self._has_equals():
                break
            aside.append(heapq.heappop(heap))
        for entry in aside:
            heapq.heappush(heap, entry)
        return best

    def _best_within(self, chosen: Set[int]) -> Candidate | None:
        """The same among these only: each class once, and the lowest number of those that are worth the same and tie."""
        class_of = self._machines.class_of
        best: list[tuple[MachineClass, Fit]] = []
        for machine_class in {class_of[machine] for machine in chosen}:
            fit = self.fit(machine_class) if machine_class.kind.pool == self.pool else None
            if fit is None:
                continue
            order = (-fit.score, machine_class.tie)
            best_order = (-best[0][1].score, best[0][0].tie) if best else order
            if order < best_order:
                best.clear()
            if order <= best_order:
                best.append((machine_class, fit))
        return min(
            (Candidate(min(machine_class.members & chosen), machine_class, fit) for machine_class, fit in best),
            key=lambda candidate: candidate.machine,
            default=None,
        )

    def _has_equals(self) -> bool:
        """Whether the second of the heap, a child of its top, is worth the same and ties with it."""
        heap = self._heap
        top = heap[0]
        return any(other[1] == top[1] and other[0] == top[0] for other in heap[1:3])

    def _candidate(self, machine_class: MachineClass, without: Set[int]) -> Candidate | None:
        fit = self._fits[machine_class]
        assert fit is not None
        if not without or without.isdisjoint(machine_class.members):
            return Candidate(machine_class.first(), machine_class, fit)
        left = machine_class.members - without
        return Candidate(min(left), machine_class, fit) if left else None

    def _among(self, chosen: Iterable[int], local: Local | None) -> Iterable[Candidate]:
        class_of = self._machines.class_of
        for machine in chosen:
            machine_class = class_of[machine]
            if machine_class.kind.pool == self.pool:
                fit = self.fit(machine_class)
                if fit is not None:
                    extra = sum(value * weight for _, value, weight in self._local_terms(machine, local)) if local else 0
                    yield Candidate(machine, machine_class, fit, extra)

    def _local_terms(self, machine: int, local: Local) -> tuple[tuple[str, int, int], ...]:
        here = self._machines.at[machine]
        terms = []
        if local.image:
            terms.append(("image", SCALE if local.image in here.images else 0, self.rules.weight("image")))
        if local.data:
            terms.append(("data", SCALE * len(local.data & here.data) // len(local.data), self.rules.weight("data")))
        return tuple(terms)

    def _holding(self, local: Local) -> set[int]:
        holders = self._machines.holders
        return set().union(*(holders[digest] for digest in (local.image, *local.data) if digest in holders))

    def _catch_up(self) -> None:
        state = self._machines.pools[self.pool]
        if self.epoch != state.epoch:
            self._start_over(state)
        arrivals = state.arrivals
        if self._seen == len(arrivals):
            return
        heap, inside, fits, fit_of = self._heap, self._inside, self._fits, self.fit
        first = not heap
        for index in range(self._seen, len(arrivals)):
            machine_class = arrivals[index]
            if not machine_class.members or machine_class in inside:
                continue
            fit = fits[machine_class] if machine_class in fits else fit_of(machine_class)
            if fit is not None:
                self._sequence += 1
                inside.add(machine_class)
                entry = (-fit.score, machine_class.tie, self._sequence, machine_class)
                if first:
                    heap.append(entry)
                else:
                    heapq.heappush(heap, entry)
        if first:
            heapq.heapify(heap)
        self._seen = len(arrivals)

    def _start_over(self, state: PoolState) -> None:
        """Forget classes that are gone for good; those that live keep their scores."""
        self._fits = {machine_class: fit for machine_class, fit in self._fits.items() if machine_class.members}
        self._copies.clear()
        self._kept.clear()
        self._heap.clear()
        self._inside.clear()
        self._seen = 0
        self.epoch = state.epoch


def ranking_of(machines: Machines, pool: int, ask: TaskAsk) -> Ranking | None:
    """The ranking kept for this ask in this pool, made at the first question; None when there is no such pool."""
    state = machines.pools.get(pool)
    if state is None:
        return None
    rules = machines.rules.get(pool) or PoolRules()
    joining = ask.is_share and rules.shared_devices_max is not None and state.shared >= rules.shared_devices_max
    rankings = state.joining if joining else state.rankings
    ranking = rankings.get(ask)
    if ranking is None:
        bits = 0
        for need in ask.needs:
            bits |= machines.condition(need)
        ranking = rankings[ask] = Ranking(machines, pool, TaskShape.of(ask, bits=bits, shares=rules.shares, joining=joining))
    return ranking


def _empty(kind: MachineKind, number: int) -> MachineClass:
    """Machines of a kind of which nothing is taken."""
    return MachineClass(kind, number, kind.cpu_millis, kind.memory_bytes, (WHOLE_MILLIS,) * kind.gpus, kind.tasks_max)
