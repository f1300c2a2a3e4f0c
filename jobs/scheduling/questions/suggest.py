"""The smallest change that would start a waiting job now. Every suggestion was tried: on a copy of the state the job starts.

The conditions that refuse the job (`explain.py`) say where to look; each candidate is screened on the core at hand, which costs
little, and then applied to a copy of the state, for which a new core decides. A candidate is suggested only if that core starts
the job, or clears room for it.

Cheapest first means this order: what only this job has to accept (any GPU model, another pool, a shorter time); less of the
resources other than GPUs; fewer tasks or GPUs; an earlier place in its own queue; a higher priority; ending work of its own
queue; other caps and limits; ending work of other queues; machines. Within one of these the fewest changes, then the smallest
amount.

What the job itself lacks (a hold, a dependency) is part of every suggestion, because nothing starts without it; where it is
enough, it is the only suggestion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

from jobs.lifecycle.wait_reasons import WAITS
from jobs.scheduling.core.place.filters import copies
from jobs.scheduling.core.place.gangs import GangAsk, Placed, RoleAsk, at_least, each_asking
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, MachineClass
from jobs.scheduling.core.place.placing import has_place
from jobs.scheduling.core.place.ranking import ranking_of
from jobs.scheduling.core.snapshot import State, build
from jobs.scheduling.core.state.decisions import Admit, Claim, Decision, Evict, Reserve
from jobs.scheduling.core.state.reservation import overrun_of
from jobs.scheduling.core.state.user_caps import held_by, least
from jobs.scheduling.core.state.work import JobAsk, Running, give_shares, take_shares
from jobs.scheduling.questions.ending import ChosenEnds, end_all, is_endable
from jobs.scheduling.questions.explain import Condition, Explanation, Settled, conditions, fair_order
from jobs.scheduling.questions.raising import Raising, merged
from jobs.scheduling.questions.variants import loosely, with_fewer
from jobs.scheduling.questions.whatif import (
    AddMachines,
    Ask,
    Block,
    Change,
    End,
    Rank,
    Release,
    SetCap,
    apply,
)
from kernel.wait_codes import WaitCode
from tenants.capacity.quota.caps import CapRefusal
from tenants.capacity.quota.edits import Change as SetLimits

SUGGESTIONS_MAX = 5
TRIES_MAX = 20  # Passes over a copy of the state, each a fraction of a second at its largest.
REFUSALS_MAX = 6  # Steps in which more of what refuses the job is taken away.
AHEAD_FROM = 2  # The step from which caps are raised for all jobs that stand before it.
LAST_MAX = 10  # Further passes for the change of all that refuses the job.
TRIES_LARGE, LAST_LARGE, LARGE = 6, 2, 3000  # Passes in all, and of these for that change, where more jobs than this wait or run.
PRIORITY_MAX = 1000
RUNTIME_MIN = 60  # Seconds: no shorter `max_runtime` is suggested.
PARTS = 8  # No less CPU or memory is suggested than an eighth of what was asked for.
GIB, CORE = 1 << 30, 1000
_NOT_RELEASED = frozenset({WaitCode.BEHIND, WaitCode.USER_CAP, WaitCode.TENANT_CAP})  # Own conditions that come from other jobs.
MACHINES_MAX = 64  # New machines in a suggestion.
STEPS_MAX = 5  # How often more is freed for jobs that would take the room first.
TAKERS_MAX = 8  # Jobs that would take the room first, for which as much is freed, too.

KINDS = (
    "release", "model", "pool", "runtime", "together", "label", "cores", "memory", "cpu", "tasks", "gpus", "bump", "priority",
    "end_own", "cap", "limit", "end", "unblock", "machines",
)  # fmt: skip


Make = Callable[[Sequence[str]], tuple[Change, ...]]
"""A function from the ids of jobs that would take the room first to changes that are enough for those jobs, too."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Changes after which the job starts, `kind` the main one. `clears`: jobs evicted for it; empty where it starts at once."""

    kind: str
    changes: tuple[Change, ...]
    clears: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Candidate:
    kind: str
    changes: tuple[Change, ...]
    make: Make | None = None  # The same changes, enough also for jobs that would take the room first.


class Suggested(NamedTuple):
    """What was found. `is_bounded`: the search ended at a bound, so there may be other changes."""

    suggestions: tuple[Suggestion, ...]
    is_bounded: bool


def suggest(settled: Settled, explanation: Explanation, *, also: Sequence[int] = ()) -> tuple[Suggestion, ...]:
    """Up to SUGGESTIONS_MAX changes after each of which the job would start now, cheapest first; none where it starts anyway,
    or its room is being cleared, or none was found. `also`: pools that the job did not name but could use."""
    return suggest_within_bounds(settled, explanation, also=also).suggestions


def suggest_within_bounds(settled: Settled, explanation: Explanation, *, also: Sequence[int] = ()) -> Suggested:
    """The same, and whether the search was complete."""
    job = settled.waiting.get(explanation.job_id)
    if job is None or any(WAITS[condition.reason.code].has_room_kept for condition in explanation.conditions):
        return Suggested((), False)
    finder = _Finder(settled, job, explanation.conditions, also)
    found = finder.run()
    return Suggested(found, finder.is_bounded and len(found) < SUGGESTIONS_MAX)


def outcome(state: State, changes: Sequence[Change], job_id: str) -> tuple[str, ...] | None:
    """The jobs that the next pass after these changes would evict for a job; None where the job does not start."""
    core = build(apply(state, changes))
    return starts_by(core.decide(state.at), job_id)


def starts_by(decisions: Iterable[Decision], job_id: str) -> tuple[str, ...] | None:
    """The jobs that a pass evicts so that a job starts; None where it does not start, or is evicted again by the same pass."""
    found: tuple[str, ...] | None = None
    for decision in decisions:
        if isinstance(decision, Admit | Claim) and decision.id == job_id:
            found = decision.victims if isinstance(decision, Claim) else ()
        elif isinstance(decision, Evict) and decision.id == job_id:
            found = None
    return found


class _Finder(Raising):
    """The search for changes that start one job."""

    def __init__(self, settled: Settled, job: JobAsk, found: Sequence[Condition], also: Sequence[int]) -> None:
        super().__init__(settled, job, found)
        self.also = [pool for pool in also if pool not in job.pools]
        large = len(settled.state.waiting) + len(settled.state.running) > LARGE
        self.tries, self.tries_last = (TRIES_LARGE - LAST_LARGE, LAST_LARGE) if large else (TRIES_MAX, LAST_MAX)
        own = [condition for condition in found if condition.is_own and condition.reason.code not in _NOT_RELEASED]
        self.base: tuple[Change, ...] = (Release(job.id),) if own else ()
        self.is_behind = any(condition.reason.code == WaitCode.BEHIND for condition in found)
        self.is_bounded = False

    def run(self) -> tuple[Suggestion, ...]:
        if self.base:
            freed = self._try(_Candidate("release", ()))
            if freed is not None:
                return (freed,)
        if self.is_behind:
            first = self._try(_Candidate("bump", tuple(self._bump())))
            self.base = (*self.base, *self._bump())
            if first is not None:
                return (first,)
        found = self._found(self._within_caps() if self.caps else self._candidates())
        found = found or self._found(self._beside_caps())
        found += self._all_that_refuses({suggestion.kind for suggestion in found}) if len(found) < SUGGESTIONS_MAX else []
        return tuple(
            sorted(found, key=lambda suggestion: (bool(suggestion.clears), KINDS.index(suggestion.kind), len(suggestion.changes)))
        )

    def _found(self, candidates: Iterable[_Candidate]) -> list[Suggestion]:
        """Suggestions from those candidates that start the job, of each kind the first."""
        suggestions: list[Suggestion] = []
        seen: list[tuple[Change, ...]] = []
        per_kind: dict[str, int] = {}
        for candidate in candidates:
            if len(suggestions) >= SUGGESTIONS_MAX or self._is_over():
                break
            if candidate.changes in seen or per_kind.get(candidate.kind, 0) >= 1:
                continue
            seen.append(candidate.changes)
            suggestion = self._try(candidate)
            if suggestion is not None:
                suggestions.append(suggestion)
                per_kind[candidate.kind] = 1
        return suggestions

    # --- Trying -------------------------------------------------------------------------------------------------------

    def _try(self, candidate: _Candidate) -> Suggestion | None:
        """Try the change as it stands; then with the job at the head of its queue, if another job of the queue took the room;
        then with enough freed for the jobs that took the room, too."""
        changes = (*self.base, *candidate.changes)
        bump: tuple[Change, ...] = ()
        takers: list[str] = []
        for step in range(STEPS_MAX):
            if self._is_over():
                return None
            clears, after = self._outcome(changes)
            if clears is not None:
                return Suggestion(candidate.kind, changes, clears)
            took = [
                decision.id
                for decision in after.decisions
                if isinstance(decision, Admit | Claim) and decision.id in self.settled.waiting
            ]
            if not took:
                return None
            if not bump and not self.is_behind and any(self.settled.waiting[job_id].queue == self.job.queue for job_id in took):
                bump = tuple(self._bump())
            if not bump or step:
                takers += [job_id for job_id in took if job_id not in takers]
            more = candidate.changes if candidate.make is None else candidate.make(takers)
            if not more or (*self.base, *more, *bump) == changes:
                return None
            changes = (*self.base, *more, *bump)
        self.is_bounded = True
        return None

    def _is_over(self) -> bool:
        """Whether no pass is left."""
        self.is_bounded = self.is_bounded or self.tries <= 0
        return self.tries <= 0

    def _outcome(self, changes: Sequence[Change]) -> tuple[tuple[str, ...] | None, Settled]:
        """The jobs that the next pass after these changes evicts for the job (None: it does not start), and the state after it.

        A suggestion has to hold whatever the core at work does meanwhile: it may look again at reserved starts or leave them
        where they are, and it may decide what the settled state has decided already before the change or after it.
        """
        settled = self.settled
        reserved = {reservation.id for reservation in settled.state.reserved}
        after, clears = self._pass(settled.state, changes, looks_again=bool(reserved))
        if clears is None:
            return None, after
        variations = []
        if any(
            isinstance(decision, Reserve | Admit | Claim) and decision.id in reserved for decision in after.decisions
        ):  # Else no reserved start moved.
            variations.append((settled.state, False))
        if settled.acts:
            variations.append((settled.before, True))
        for state, looks_again in variations:
            after, clears_again = self._pass(state, changes, looks_again=looks_again)
            if clears_again != clears:
                return None, after
        return clears, after

    def _pass(self, state: State, changes: Sequence[Change], *, looks_again: bool) -> tuple[Settled, tuple[str, ...] | None]:
        self.tries -= 1
        after = Settled(apply(state, changes), looks_again=looks_again)
        return after, starts_by(after.decisions, self.job.id)

    def _bump(self) -> list[Change]:
        """The change that brings the job to the head of its queue, by the queue's own order; [] where it is there."""
        lines = self.core.ordering
        mine = [
            waiting_job
            for waiting_job in self.settled.state.waiting
            if waiting_job.queue == self.job.queue and waiting_job.id != self.job.id
        ]
        first = min((lines.key(waiting_job) for waiting_job in mine if waiting_job.id in lines), default=None)
        if first is None or lines.key(self.job) < first:
            return []
        own = lines.key(self.job)
        if self.settled.state.policy.aging_seconds:
            return [Rank(self.job.id, order=self.job.order - (own[0] - first[0] + 1))]
        earlier = own[1] - first[1] + 1  # By times alone: at an equal priority only these decide.
        return [Rank(self.job.id, priority=max(-first[0], self.job.priority), order=self.job.order - earlier)]

    def _fits(self, gang: GangAsk, pool: int, *, limits: bool = True) -> bool:
        """Whether limits and machines, as they are now, have room for the gang at its smallest."""
        core, gang = self.core, at_least(gang)
        if limits:
            need = core.live.shapes.of(gang, (pool,)).least[pool]
            if not core.live.has_room(self.job.queue, need):
                return False
            if core.holdings and core.holdings.refusal(self.job, least(gang)) is not None:
                return False
        return has_place(gang, core.machines, pool)

    # --- Candidates ---------------------------------------------------------------------------------------------------

    def _candidates(self) -> Iterator[_Candidate]:
        """Candidates in the order of KINDS, so that the cheapest is tried first."""
        yield from self._other_conditions()
        yield from self._less()
        yield from self._earlier()
        yield from self._ends("end_own", lambda running: running.job.queue == self.job.queue)
        yield from self._limits()
        yield from self._ends("end", lambda running: True)
        yield from self._unblocked()

    def _asks(self, kind: str, gang: GangAsk, pools: Iterable[int]) -> Iterator[_Candidate]:
        if gang != self.job.gang and any(self._fits(gang, pool) for pool in pools):
            yield _Candidate(kind, (Ask(self.job.id, gang),))

    def _other_conditions(self) -> Iterator[_Candidate]:
        """The same amounts with fewer conditions on where and how long."""
        gang, pools = self.job.gang, self.job.pools
        yield from self._asks("model", each_asking(gang, models=frozenset()), pools)
        for pool in self.also:
            if self._fits(gang, pool):
                yield _Candidate("pool", (Ask(self.job.id, pools=(*pools, pool)),))
        ends = {WaitCode.BACKFILL_RESERVATION: "until", WaitCode.ADVANCE_RESERVATION: "since"}
        until = [
            getattr(condition.reason, ends[condition.reason.code]) for condition in self.found if condition.reason.code in ends
        ]
        policy = self.settled.state.policy
        for spare in (overrun_of(self.job, policy), overrun_of(self.job, policy) + policy.grace_seconds):
            seconds = max(until, default=0) - self.core.now - spare
            if seconds >= RUNTIME_MIN:
                yield _Candidate("runtime", (Ask(self.job.id, max_runtime=seconds),))
        loose = GangAsk(tuple(replace(role, together=loosely(role.together)) for role in gang.roles), loosely(gang.together))
        yield from self._asks("together", loose, pools)
        yield from self._asks("label", each_asking(gang, needs=()), pools)
        yield from self._asks("cores", each_asking(gang, exclusive=False), pools)

    def _less(self) -> Iterator[_Candidate]:
        """The largest ask that fits and is smaller in one respect."""
        for kind, column, unit in (("memory", "memory_bytes", GIB), ("cpu", "cpu_millis", CORE)):
            yield from self._largest(kind, lambda part, c=column, u=unit: self._smaller(c, u, part), PARTS * 16)  # type: ignore[misc]
        role = max(self.job.gang.roles, key=lambda role: (role.minimum, role.role))
        yield from self._largest("tasks", lambda count: self._with(role, with_fewer(role, count)), role.minimum)
        widest = max(self.job.gang.roles, key=lambda role: (role.ask.gpu_millis, role.role))
        gpus = widest.ask.gpu_millis // WHOLE_MILLIS
        yield from self._largest(
            "gpus", lambda n: self._with(widest, replace(widest, ask=replace(widest.ask, gpu_millis=n * WHOLE_MILLIS))), gpus
        )

    def _largest(self, kind: str, make: Callable[[int], GangAsk | None], end: int) -> Iterator[_Candidate]:
        """The gang of the largest number below `end` that fits, by bisection: a gang that is smaller in one respect fits
        wherever the larger one does."""
        for pool in self.job.pools:
            low, high = 0, end - 1
            best: GangAsk | None = None
            while low < high:
                middle = (low + high + 1) // 2
                gang = make(middle)
                if gang is not None and self._fits(gang, pool):
                    low, best = middle, gang
                else:
                    high = middle - 1
            if best is not None and best != self.job.gang:
                yield _Candidate(kind, (Ask(self.job.id, best),))
                return

    def _smaller(self, column: str, unit: int, part: int) -> GangAsk | None:
        """The gang with `part` parts (of PARTS * 16) of a resource for each task, in whole units; None below an eighth."""
        if part < 16:
            return None
        roles = []
        for role in self.job.gang.roles:
            asked = getattr(role.ask, column)
            amount = asked * part // (PARTS * 16)
            if asked > unit:
                amount = max(unit, amount // unit * unit)
            roles.append(replace(role, ask=replace(role.ask, **{column: amount})))
        return replace(self.job.gang, roles=tuple(roles))

    def _with(self, old: RoleAsk, new: RoleAsk) -> GangAsk:
        return replace(self.job.gang, roles=tuple(new if role is old else role for role in self.job.gang.roles))

    def _earlier(self) -> Iterator[_Candidate]:
        """The head of its queue, or a priority at which work of lower priority makes room."""
        job, core = self.job, self.core
        waits = any(condition.reason.code == WaitCode.BACKFILL_RESERVATION for condition in self.found)
        if waits:
            for change in self._bump():
                yield _Candidate("bump", (change,))
        wanted: set[int] = set()
        if self.settled.state.policy.preempts:
            below = {
                priority
                for pool in job.pools
                for priority in core.live.evictable.priorities.get((pool, job.queue), ())
                if priority >= job.priority
            }
            wanted |= {priority + 1 for priority in (min(below, default=0), max(below, default=0)) if priority}
        for priority in sorted(priority for priority in wanted if job.priority < priority <= PRIORITY_MAX):
            yield _Candidate("priority", (Rank(job.id, priority=priority),))

    def _ends(self, kind: str, may_end: Callable[[Running], bool]) -> Iterator[_Candidate]:
        """Ends of the gangs with the least to lose that make room, first in the pool where these are fewest."""
        found = []
        for pool in self.job.pools:
            ended = self._ended(pool, may_end, ())
            if ended:
                found.append((len(ended), pool, ended))
        for _, pool, ended in sorted(found, key=lambda entry: entry[:2]):
            yield _Candidate(kind, end_all(ended), make=lambda takers, p=pool: end_all(self._ended(p, may_end, takers)))  # type: ignore[misc]

    # --- Caps ---------------------------------------------------------------------------------------------------------

    def _within_caps(self) -> Iterator[_Candidate]:
        """Candidates where a cap refuses the job: less of what the cap counts, or ends of jobs that count for it."""
        yield from self._less()
        ended = self._ended_below_caps(())
        if ended:
            yield _Candidate("end_own" if isinstance(ended[0], End) else "tasks", ended, make=self._ended_below_caps)

    def _beside_caps(self) -> Iterator[_Candidate]:
        """Candidates that help once no cap refuses the job, each together with ends of jobs that count for the caps."""
        ended = self._ended_below_caps(()) if self.caps else ()
        if not ended:
            return
        settled = Settled(apply(self.settled.state, (*self.base, *ended)))
        job = settled.waiting.get(self.job.id)
        if job is None:
            return
        for candidate in _Finder(settled, job, conditions(settled, job), self.also)._candidates():
            make = self._together(self._ended_below_caps, candidate, settled)
            yield _Candidate(candidate.kind, make(()), make=make)

    def _together(self, ease: Make, candidate: _Candidate, eased: Settled) -> Make:
        """A candidate after the changes that ease the caps, enough also for jobs that would take the room or the place below
        the cap first."""
        asks = any(isinstance(change, Ask) and change.gang is not None for change in candidate.changes)

        def make(takers: Sequence[str]) -> tuple[Change, ...]:
            first = tuple(change for change in ease(takers) if not (asks and isinstance(change, Ask)))
            gone = {change.job_id for change in first if isinstance(change, End)}
            left = [job_id for job_id in takers if job_id in eased.waiting and job_id not in gone]
            return (*first, *(candidate.changes if candidate.make is None else candidate.make(left)))

        return make

    # --- All that refuses it --------------------------------------------------------------------------------------------

    def _all_that_refuses(self, known: Set[str]) -> list[Suggestion]:
        """Raise every limit that refuses the job and add machines for it, until it starts although other jobs come first."""
        self.tries = max(self.tries, self.tries_last)
        for pool in self.job.pools:
            suggestion = self._without_refusals(pool)
            if suggestion is not None:
                return [suggestion] if suggestion.kind not in known else []
        return []

    def _without_refusals(self, pool: int) -> Suggestion | None:
        """Each step removes what still refuses the job after the step before, when the jobs that come first have started."""
        changes = self.base
        after = Settled(apply(self.settled.state, changes)) if changes else self.settled
        before: tuple[Change, ...] = ()
        for step in range(REFUSALS_MAX):
            at = self._with_reserved_held(after)
            ahead = self._ahead() if step >= AHEAD_FROM else []
            more = (*at._raised_caps(ahead), *at._raised(pool, guarantees=False), *at._more(pool))
            more += tuple(self._bump()) if not step and not self.is_behind else ()
            if not more or self._is_over() or (more == before and not after.acts):
                return None
            changes, before = merged((*changes, *more)), more
            many = sum(len(change.machines) for change in changes if isinstance(change, AddMachines))
            self.is_bounded = self.is_bounded or many > MACHINES_MAX
            if many > MACHINES_MAX or not self._is_allowed(self.settled.state, changes):
                return None
            clears, after = self._outcome(changes)
            if clears is not None:
                kinds = {AddMachines: "machines", SetLimits: "limit", SetCap: "cap"}
                kind = next((name for made, name in kinds.items() if any(isinstance(change, made) for change in changes)), "bump")
                return Suggestion(kind, changes, clears)
        self.is_bounded = True
        return None

    def _ahead(self) -> list[str]:
        """The jobs that would be served before it."""
        order = fair_order(self.settled, frozenset(self.job.pools), until=self.job.id)
        return [job_id for job_id in order if job_id != self.job.id]

    def _with_reserved_held(self, settled: Settled) -> _Finder:
        """A search for the job in another state, where limits count jobs with reserved starts as if they ran: their starts keep
        the job from what they need."""
        core = settled.core
        reserved = [
            Running(
                reservation.job,
                Placed(reservation.pool, reservation.tasks),
                reservation.need,
                reservation.at,
                reservation.standing,
            )
            for reservation in core.reservations.by_job.values()
            if reservation.job.id != self.job.id
        ]
        for running in reserved:
            take_shares(core.shares, running.job.queue, running.need)
            core.holdings.take(running)
        job = settled.waiting.get(self.job.id, self.job)
        finder = _Finder(settled, job, conditions(settled, job), ())
        for running in reserved:
            give_shares(core.shares, running.job.queue, running.need)
            core.holdings.give(running)
        return finder

    def _ended_below_caps(self, takers: Sequence[str]) -> tuple[Change, ...]:
        """Changes that bring the job below the caps that refuse it: a smaller ask where it exceeds a cap on its own, and ends
        of jobs that count for it, least lost first, also of waiting jobs that would take the place. () where nothing helps."""
        core, job, gang = self.core, self.job, self.job.gang
        for refusal in self.caps:
            if refusal.can_never_fit and getattr(least(gang), refusal.what) > refusal.limit:
                smaller = self._within(refusal)
                if smaller is None:
                    return ()
                gang = smaller
        ended: dict[str, Running] = {}
        for refusal in self.caps:
            over = refusal.used + getattr(least(gang), refusal.what) - refusal.limit
            over -= sum(
                getattr(held_by(running), refusal.what)
                for running in ended.values()
                if core.holdings.counts(running.job, job, refusal)
            )
            mine = [
                running
                for running in core.running.values()
                if core.holdings.counts(running.job, job, refusal) and is_endable(running)
            ]
            for running in sorted(mine, key=lambda running: (running.cost(core.now), running.key)):
                amount = getattr(held_by(running), refusal.what)
                if over > 0 and amount and running.job.id not in ended:
                    ended[running.job.id] = running
                    over -= amount
            if over > 0:
                return ()
        waiting = self.settled.waiting
        instead = [
            End(taker) for taker in takers if any(core.holdings.counts(waiting[taker], job, refusal) for refusal in self.caps)
        ]
        return (*(() if gang is job.gang else (Ask(job.id, gang),)), *end_all(ended.values()), *instead)

    def _within(self, capped: CapRefusal) -> GangAsk | None:
        """The gang with as many tasks, or one task with as many GPUs, as a cap allows one job; None where it allows none."""
        role = max(self.job.gang.roles, key=lambda role: (role.minimum, role.role))
        for count in range(role.minimum - 1, 0, -1):
            gang = self._with(role, with_fewer(role, count))
            if gang is not None and getattr(least(gang), capped.what) <= capped.limit:
                return gang
        for gpus in range(role.ask.gpu_millis // WHOLE_MILLIS - 1, 0, -1):
            gang = self._with(role, replace(with_fewer(role, 1), ask=replace(role.ask, gpu_millis=gpus * WHOLE_MILLIS)))
            if getattr(least(gang), capped.what) <= capped.limit:
                return gang
        return None

    def _ended(self, pool: int, may_end: Callable[[Running], bool], takers: Sequence[str]) -> list[Running]:
        gangs = [self.settled.waiting[job_id].gang for job_id in takers[:TAKERS_MAX]]
        return ChosenEnds(self.core, self.job, pool, may_end, gangs).run() or []

    def _limits(self) -> Iterator[_Candidate]:
        """Ceilings raised and guarantees of other queues lowered, or enough deserved that the queue may take room back."""
        for pool in self.job.pools:
            raised = self._raised_if_allowed(pool)
            if raised and self._fits(self.job.gang, pool, limits=False):
                yield _Candidate("limit", raised)
            owed = self._owed(pool)
            if owed:
                yield _Candidate("limit", owed)

    def _unblocked(self) -> Iterator[_Candidate]:
        """One blocked machine that may take work again."""
        core, gang = self.core, at_least(self.job.gang)
        if len(gang.roles) != 1:
            return
        role = gang.roles[0]
        for pool in self.job.pools:
            ranking = ranking_of(core.machines, pool, role.ask)
            state = core.machines.pools.get(pool)
            if ranking is None or state is None:
                continue
            fitting = sum(
                ranking.copies(machine_class) * len(machine_class.members) for machine_class in core.machines.classes(pool)
            )
            for machine in state.members:
                machine_class = core.machines.class_of[machine]
                if not machine_class.kind.blocked:
                    continue
                opened = MachineClass(
                    replace(machine_class.kind, blocked=False),
                    machine_class.kind_number,
                    machine_class.cpu,
                    machine_class.memory,
                    machine_class.devices,
                    machine_class.tasks,
                )
                if fitting + copies(opened, ranking.shape) >= role.minimum:
                    yield _Candidate("unblock", (*self._raised_if_allowed(pool), Block(pool, core.machines.at[machine].name)))
                    break
