"""The smallest change that would start a waiting job now. Every suggestion was tried: on a copy of the state the job does start.

What refuses the job (`explain.py`) says where to look; each thought is screened on the core at hand, which costs little, and what
passes is applied to a copy of the state, of which a new core decides. Only what that core starts, or clears room for, is told.

Cheapest first means, by this order: what only this job has to accept (any GPU model, another pool, a shorter time); asking for
less of what is beside the GPUs; fewer tasks or GPUs; an earlier place in its own queue; a higher priority; ending work of its own
queue; other caps and limits; ending work of others; machines. Within one of these the fewest changes, then the smallest amount.

What the job itself lacks (a hold, a dependency) is part of every suggestion, because nothing starts without it; where it is
enough, it is the only one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

from jobs.scheduling.core.core import Core
from jobs.scheduling.core.place.filters import copies
from jobs.scheduling.core.place.gangs import GangAsk, Placed, RoleAsk, at_least
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, MachineClass
from jobs.scheduling.core.place.placing import place
from jobs.scheduling.core.place.ranking import ranking_of
from jobs.scheduling.core.reclaim import Search
from jobs.scheduling.core.snapshot import State, build
from jobs.scheduling.core.state.decisions import Admit, Book, Claim, Decision, Evict
from jobs.scheduling.core.state.evictable import Leavers
from jobs.scheduling.core.state.user_caps import held_by, least
from jobs.scheduling.core.state.work import Job, Running, Shape, give_shares, take_shares
from jobs.scheduling.questions.explain import Condition, Explanation, Settled, conditions, fair_order
from jobs.scheduling.questions.variants import copies_on, each_asking, loosely, machine_for, tolerated, with_fewer
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
    whole_of,
)
from kernel.resources import RESOURCE_NAMES
from tenants.quota.caps import TOGETHER, CapRefusal
from tenants.quota.edits import Change as SetLimits
from tenants.quota.edits import new_breaks
from tenants.quota.limits import AMOUNT_MAX, validate
from tenants.quota.shares import Standing

SUGGESTIONS_MAX = 5
TRIES_MAX = 20  # Passes over a copy of the state, each a fraction of a second at its largest.
REFUSALS_MAX = 6  # Steps in which more of what refuses it is taken away.
AHEAD_FROM = 2  # The step from which caps are raised for all who stand before it.
LAST_MAX = 10  # More of them for all that refuses the job at once.
TRIES_LARGE, LAST_LARGE, LARGE = 6, 2, 3000  # The same, both together, where so many wait or run.
PRIORITY_MAX = 1000
RUNTIME_MIN = 60  # Seconds: nobody is told to be over sooner.
PARTS = 8  # Nobody is told to ask for less CPU or memory than an eighth of what was asked for.
GIB, CORE = 1 << 30, 1000
ROOM = frozenset({"no_room", "no_machine", "not_together", "capacity", "withheld", "booked", "reserved", "too_young", "brake"})
MACHINES_MAX = 64  # Machines that are thought of as added.
STEPS_MAX = 5  # How often more is freed for those who would take the room first.
TAKERS_MAX = 8  # Others who would take the room first, for whom as much is freed, too.

KINDS = (
    "release", "model", "pool", "runtime", "together", "label", "cores", "memory", "cpu", "tasks", "gpus", "bump", "priority",
    "end_own", "cap", "limit", "end", "unblock", "machines",
)  # fmt: skip


Make = Callable[[Sequence[str]], tuple[Change, ...]]
"""Changes by the ids of jobs that they shall be enough for, too."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """`kind` says what it is about in the main. `clears`: these are evicted for it; empty where it starts at once."""

    kind: str
    changes: tuple[Change, ...]
    clears: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Thought:
    kind: str
    changes: tuple[Change, ...]
    make: Make | None = None  # The same for it and those who would take the room first.


class Suggested(NamedTuple):
    """`is_bounded`: the search ended at a bound, so there may be changes that it did not come to."""

    suggestions: tuple[Suggestion, ...]
    is_bounded: bool


def suggest(settled: Settled, explanation: Explanation, *, also: Sequence[int] = ()) -> tuple[Suggestion, ...]:
    """Up to SUGGESTIONS_MAX changes after each of which the job would start now, cheapest first; none where it starts anyway, or
    its room is being cleared, or none was found. `also`: pools that the job did not name and might."""
    return suggest_within_bounds(settled, explanation, also=also).suggestions


def suggest_within_bounds(settled: Settled, explanation: Explanation, *, also: Sequence[int] = ()) -> Suggested:
    """The same, and whether the search came to its end."""
    job = settled.waiting.get(explanation.job_id)
    if job is None or any(one.reason.code in ("claim", "moving") for one in explanation.conditions):
        return Suggested((), False)
    finder = _Finder(settled, job, explanation.conditions, also)
    found = finder.run()
    return Suggested(found, finder.is_bounded and len(found) < SUGGESTIONS_MAX)


def outcome(state: State, changes: Sequence[Change], job_id: str) -> tuple[str, ...] | None:
    """Whether the next pass would start a job after these changes: whom it would clear away for it, () for nobody, None: not."""
    core = build(apply(state, changes))
    return starts_by(core.decide(state.at), job_id)


def starts_by(decisions: Iterable[Decision], job_id: str) -> tuple[str, ...] | None:
    """Whom a pass clears away so that a job starts; None where it does not, also where it has to leave again at once."""
    found: tuple[str, ...] | None = None
    for one in decisions:
        if isinstance(one, Admit | Claim) and one.id == job_id:
            found = one.victims if isinstance(one, Claim) else ()
        elif isinstance(one, Evict) and one.id == job_id:
            found = None
    return found


class _Finder:
    """What is known of one job while changes for it are sought."""

    def __init__(self, settled: Settled, job: Job, found: Sequence[Condition], also: Sequence[int]) -> None:
        self.settled = settled
        self.core: Core = settled.core
        self.job = job
        self.found = found
        self.also = [pool for pool in also if pool not in job.pools]
        large = len(settled.state.waiting) + len(settled.state.running) > LARGE
        self.tries, self.tries_last = (TRIES_LARGE - LAST_LARGE, LAST_LARGE) if large else (TRIES_MAX, LAST_MAX)
        own = [one for one in found if one.is_own and one.reason.code not in ("behind", "user_cap", "tenant_cap")]
        self.base: tuple[Change, ...] = (Release(job.id),) if own else ()
        self.is_behind = any(one.reason.code == "behind" for one in found)
        self.caps = self._refusing_caps()
        self.is_bounded = False

    def run(self) -> tuple[Suggestion, ...]:
        if self.base:
            freed = self._try(_Thought("release", ()))
            if freed is not None:
                return (freed,)
        if self.is_behind:
            first = self._try(_Thought("bump", tuple(self._bump())))
            self.base = (*self.base, *self._bump())
            if first is not None:
                return (first,)
        found = self._found(self._within_caps() if self.caps else self._thoughts())
        found = found or self._found(self._beside_caps())
        found += self._all_that_refuses({one.kind for one in found}) if len(found) < SUGGESTIONS_MAX else []
        return tuple(sorted(found, key=lambda one: (bool(one.clears), KINDS.index(one.kind), len(one.changes))))

    def _found(self, thoughts: Iterable[_Thought]) -> list[Suggestion]:
        """What of these does start it, of each kind the first."""
        suggestions: list[Suggestion] = []
        seen: list[tuple[Change, ...]] = []
        per_kind: dict[str, int] = {}
        for thought in thoughts:
            if len(suggestions) >= SUGGESTIONS_MAX or self._is_over():
                break
            if thought.changes in seen or per_kind.get(thought.kind, 0) >= 1:
                continue
            seen.append(thought.changes)
            made = self._try(thought)
            if made is not None:
                suggestions.append(made)
                per_kind[thought.kind] = 1
        return suggestions

    # --- Trying -------------------------------------------------------------------------------------------------------

    def _try(self, thought: _Thought) -> Suggestion | None:
        """The change as it stands; then at the head of its queue, if one of that took the room; then for as many more as did."""
        changes = (*self.base, *thought.changes)
        bump: tuple[Change, ...] = ()
        takers: list[str] = []
        for step in range(STEPS_MAX):
            if self._is_over():
                return None
            clears, after = self._outcome(changes)
            if clears is not None:
                return Suggestion(thought.kind, changes, clears)
            took = [one.id for one in after.decisions if isinstance(one, Admit | Claim) and one.id in self.settled.waiting]
            if not took:
                return None
            if not bump and not self.is_behind and any(self.settled.waiting[one].queue == self.job.queue for one in took):
                bump = tuple(self._bump())
            if not bump or step:
                takers += [one for one in took if one not in takers]
            more = thought.changes if thought.make is None else thought.make(takers)
            if not more or (*self.base, *more, *bump) == changes:
                return None
            changes = (*self.base, *more, *bump)
        self.is_bounded = True
        return None

    def _is_over(self) -> bool:
        """Whether no try is left."""
        self.is_bounded = self.is_bounded or self.tries <= 0
        return self.tries <= 0

    def _outcome(self, changes: Sequence[Change]) -> tuple[tuple[str, ...] | None, Settled]:
        """Whom the next pass after these changes clears away for the job, None where it does not start; and the state after it.

        A change is true only if it is whatever the core at work does beside it: look again at starts that are booked, or leave
        them where they are, and decide before the change what the settled state has decided already, or after it.
        """
        settled = self.settled
        booked = {one.id for one in settled.state.reserved}
        after, clears = self._pass(settled.state, changes, looks_again=bool(booked))
        if clears is None:
            return None, after
        others = []
        if any(isinstance(one, Book | Admit | Claim) and one.id in booked for one in after.decisions):  # Else none moved.
            others.append((settled.state, False))
        if settled.acts:
            others.append((settled.before, True))
        for state, looks_again in others:
            after, other = self._pass(state, changes, looks_again=looks_again)
            if other != clears:
                return None, after
        return clears, after

    def _pass(self, state: State, changes: Sequence[Change], *, looks_again: bool) -> tuple[Settled, tuple[str, ...] | None]:
        self.tries -= 1
        after = Settled(apply(state, changes), looks_again=looks_again)
        return after, starts_by(after.decisions, self.job.id)

    def _bump(self) -> list[Change]:
        """The head of its queue, by the queue's own order."""
        lines = self.core.ordering
        mine = [one for one in self.settled.state.waiting if one.queue == self.job.queue and one.id != self.job.id]
        first = min((lines.key(one) for one in mine if one.id in lines), default=None)
        if first is None or lines.key(self.job) < first:
            return []
        own = lines.key(self.job)
        if self.settled.state.policy.aging_seconds:
            return [Rank(self.job.id, order=self.job.order - (own[0] - first[0] + 1))]
        earlier = own[1] - first[1] + 1  # Of times alone: with its priority the job stands beside the first.
        return [Rank(self.job.id, priority=max(-first[0], self.job.priority), order=self.job.order - earlier)]

    def _fits(self, gang: GangAsk, pool: int, *, limits: bool = True) -> bool:
        """Whether limits and machines, as they are now, have room for the gang at its smallest."""
        core, gang = self.core, at_least(gang)
        if limits:
            need = core.live.shapes.of(gang, (pool,)).least[pool]
            if any(not isinstance(core.shares.room(self.job.queue, at, amount), Standing) for at, amount in need):
                return False
            if core.holdings and core.holdings.refusal(self.job, least(gang)) is not None:
                return False
        mark = core.machines.mark()
        answer = place(gang, core.machines, (pool,))
        core.machines.rewind(mark)
        return isinstance(answer, Placed)

    # --- What might help ----------------------------------------------------------------------------------------------

    def _thoughts(self) -> Iterator[_Thought]:
        """In the order of KINDS, so that what costs least is tried first."""
        yield from self._other_conditions()
        yield from self._less()
        yield from self._earlier()
        yield from self._ends("end_own", lambda one: one.job.queue == self.job.queue)
        yield from self._limits()
        yield from self._ends("end", lambda one: True)
        yield from self._unblocked()

    def _asks(self, kind: str, gang: GangAsk, pools: Iterable[int]) -> Iterator[_Thought]:
        if gang != self.job.gang and any(self._fits(gang, pool) for pool in pools):
            yield _Thought(kind, (Ask(self.job.id, gang),))

    def _other_conditions(self) -> Iterator[_Thought]:
        """The same amounts with fewer wishes."""
        gang, pools = self.job.gang, self.job.pools
        yield from self._asks("model", each_asking(gang, models=frozenset()), pools)
        for pool in self.also:
            if self._fits(gang, pool):
                yield _Thought("pool", (Ask(self.job.id, pools=(*pools, pool)),))
        ends = {"booked": "until", "reserved": "since"}
        until = [getattr(one.reason, ends[one.reason.code]) for one in self.found if one.reason.code in ends]
        policy = self.settled.state.policy
        for spare in (policy.overrun_seconds, policy.overrun_seconds + policy.grace_seconds):
            seconds = max(until, default=0) - self.core.now - spare
            if seconds >= RUNTIME_MIN:
                yield _Thought("runtime", (Ask(self.job.id, max_runtime=seconds),))
        loose = GangAsk(tuple(replace(role, together=loosely(role.together)) for role in gang.roles), loosely(gang.together))
        yield from self._asks("together", loose, pools)
        yield from self._asks("label", each_asking(gang, needs=()), pools)
        yield from self._asks("cores", each_asking(gang, exclusive=False), pools)

    def _less(self) -> Iterator[_Thought]:
        """The largest smaller ask that fits, in one respect."""
        for kind, column, unit in (("memory", "memory_bytes", GIB), ("cpu", "cpu_millis", CORE)):
            yield from self._largest(kind, lambda part, c=column, u=unit: self._smaller(c, u, part), PARTS * 16)  # type: ignore[misc]
        role = max(self.job.gang.roles, key=lambda one: (one.minimum, one.role))
        yield from self._largest("tasks", lambda count: self._with(role, with_fewer(role, count)), role.minimum)
        widest = max(self.job.gang.roles, key=lambda one: (one.ask.gpu_millis, one.role))
        gpus = widest.ask.gpu_millis // WHOLE_MILLIS
        yield from self._largest(
            "gpus", lambda n: self._with(widest, replace(widest, ask=replace(widest.ask, gpu_millis=n * WHOLE_MILLIS))), gpus
        )

    def _largest(self, kind: str, make: Callable[[int], GangAsk | None], end: int) -> Iterator[_Thought]:
        """By halving, the largest number below `end` whose gang fits: what is smaller in one respect fits where it did."""
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
                yield _Thought(kind, (Ask(self.job.id, best),))
                return

    def _smaller(self, column: str, unit: int, part: int) -> GangAsk | None:
        """Each task with so many parts (of PARTS * 16) of a resource, in whole units; None below an eighth."""
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

    def _earlier(self) -> Iterator[_Thought]:
        """Nobody in front of it, or lower priority that makes room."""
        job, core = self.job, self.core
        waits = any(one.reason.code == "booked" for one in self.found)
        if waits:
            for change in self._bump():
                yield _Thought("bump", (change,))
        wanted: set[int] = set()
        if self.settled.state.policy.preempts:
            below = {
                priority
                for pool in job.pools
                for priority in core.live.evictable.priorities.get((pool, job.queue), ())
                if priority >= job.priority
            }
            wanted |= {priority + 1 for priority in (min(below, default=0), max(below, default=0)) if priority}
        for priority in sorted(one for one in wanted if job.priority < one <= PRIORITY_MAX):
            yield _Thought("priority", (Rank(job.id, priority=priority),))

    def _ends(self, kind: str, may_end: Callable[[Running], bool]) -> Iterator[_Thought]:
        """The gangs with the least to lose whose end makes room, in the pool where these are fewest."""
        found = []
        for pool in self.job.pools:
            ended = self._ended(pool, may_end, ())
            if ended:
                found.append((len(ended), pool, ended))
        for _, pool, ended in sorted(found, key=lambda one: one[:2]):
            yield _Thought(kind, _end_all(ended), make=lambda takers, p=pool: _end_all(self._ended(p, may_end, takers)))  # type: ignore[misc]

    # --- Caps ---------------------------------------------------------------------------------------------------------

    def _refusing_caps(self) -> tuple[CapRefusal, ...]:
        """Every cap that refuses it."""
        people, job = self.core.holdings, self.job
        return people.refusals(job, least(job.gang)) if people else ()

    def _within_caps(self) -> Iterator[_Thought]:
        """What might be enough where a cap refuses it: less of what the cap counts, or ends of what counts for it."""
        yield from self._less()
        ended = self._ended_below_caps(())
        if ended:
            yield _Thought("end_own" if isinstance(ended[0], End) else "tasks", ended, make=self._ended_below_caps)

    def _beside_caps(self) -> Iterator[_Thought]:
        """What would help once no cap refuses it any more, together with ends of what counts for them."""
        ended = self._ended_below_caps(()) if self.caps else ()
        if not ended:
            return
        settled = Settled(apply(self.settled.state, (*self.base, *ended)))
        job = settled.waiting.get(self.job.id)
        if job is None:
            return
        for thought in _Finder(settled, job, conditions(settled, job), self.also)._thoughts():
            make = self._together(self._ended_below_caps, thought, settled)
            yield _Thought(thought.kind, make(()), make=make)

    def _together(self, ease: Make, thought: _Thought, eased: Settled) -> Make:
        """A thought after what eases the caps, for those who would take the room or the place below the cap first, too."""
        asks = any(isinstance(one, Ask) and one.gang is not None for one in thought.changes)

        def make(takers: Sequence[str]) -> tuple[Change, ...]:
            first = tuple(one for one in ease(takers) if not (asks and isinstance(one, Ask)))
            gone = {one.job_id for one in first if isinstance(one, End)}
            left = [one for one in takers if one in eased.waiting and one not in gone]
            return (*first, *(thought.changes if thought.make is None else thought.make(left)))

        return make

    def _raised_caps(self, ahead: Sequence[str]) -> tuple[Change, ...]:
        """The caps that refuse it just high enough, also for those who come first."""
        job, waiting = self.job, self.settled.waiting
        if job.user is None:
            return ()
        changes = []
        for one in self.caps:
            others = [
                waiting[other] for other in ahead if other in waiting and self.core.holdings.counts(waiting[other], job, one)
            ]
            amount = one.used + one.need + sum(getattr(least(other.gang), one.what) for other in others)
            changes.append(SetCap(one.tenant_id, TOGETHER if one.together else job.user, one.what, amount))
        return tuple(changes)

    # --- All that refuses it --------------------------------------------------------------------------------------------

    def _all_that_refuses(self, known: Set[str]) -> list[Suggestion]:
        """Every limit that refuses it raised and machines added for it, until it starts although others come first."""
        self.tries = max(self.tries, self.tries_last)
        for pool in self.job.pools:
            made = self._without_refusals(pool)
            if made is not None:
                return [made] if made.kind not in known else []
        return []

    def _without_refusals(self, pool: int) -> Suggestion | None:
        """Each step looks at what refuses it after the one before, when those who come first have started."""
        changes = self.base
        after = Settled(apply(self.settled.state, changes)) if changes else self.settled
        before: tuple[Change, ...] = ()
        for step in range(REFUSALS_MAX):
            at = self._with_booked_held(after)
            ahead = self._ahead() if step >= AHEAD_FROM else []
            more = (*at._raised_caps(ahead), *at._raised(pool, guarantees=False), *at._more(pool))
            more += tuple(self._bump()) if not step and not self.is_behind else ()
            if not more or self._is_over() or (more == before and not after.acts):
                return None
            changes, before = _merged((*changes, *more)), more
            many = sum(len(one.machines) for one in changes if isinstance(one, AddMachines))
            self.is_bounded = self.is_bounded or many > MACHINES_MAX
            if many > MACHINES_MAX or not self._is_allowed(self.settled.state, changes):
                return None
            clears, after = self._outcome(changes)
            if clears is not None:
                kinds = {AddMachines: "machines", SetLimits: "limit", SetCap: "cap"}
                kind = next((name for made, name in kinds.items() if any(isinstance(one, made) for one in changes)), "bump")
                return Suggestion(kind, changes, clears)
        self.is_bounded = True
        return None

    def _ahead(self) -> list[str]:
        """Who would be served before it."""
        order = fair_order(self.settled, frozenset(self.job.pools), until=self.job.id)
        return [one for one in order if one != self.job.id]

    def _with_booked_held(self, settled: Settled) -> _Finder:
        """The job in another state, where limits count for held what starts are booked for: these keep it from what they need."""
        core = settled.core
        booked = [
            Running(one.job, Placed(one.pool, one.tasks), one.need, one.at, one.standing)
            for one in core.reservations.by_job.values()
            if one.job.id != self.job.id
        ]
        for one in booked:
            take_shares(core.shares, one.job.queue, one.need)
            core.holdings.take(one)
        job = settled.waiting.get(self.job.id, self.job)
        finder = _Finder(settled, job, conditions(settled, job), ())
        for one in booked:
            give_shares(core.shares, one.job.queue, one.need)
            core.holdings.give(one)
        return finder

    def _ended_below_caps(self, takers: Sequence[str]) -> tuple[Change, ...]:
        """What brings the job below the caps that refuse it: a smaller ask where it is above one on its own, and ends of work
        that counts for it, least lost first, also of those who wait and would take the place instead. () where nothing helps."""
        core, job, gang = self.core, self.job, self.job.gang
        for one in self.caps:
            if one.can_never_fit and getattr(least(gang), one.what) > one.limit:
                smaller = self._within(one)
                if smaller is None:
                    return ()
                gang = smaller
        ended: dict[str, Running] = {}
        for one in self.caps:
            over = one.used + getattr(least(gang), one.what) - one.limit
            over -= sum(
                getattr(held_by(other), one.what) for other in ended.values() if core.holdings.counts(other.job, job, one)
            )
            mine = [other for other in core.running.values() if core.holdings.counts(other.job, job, one) and _may_end(other)]
            for other in sorted(mine, key=lambda other: (other.cost(core.now), other.key)):
                amount = getattr(held_by(other), one.what)
                if over > 0 and amount and other.job.id not in ended:
                    ended[other.job.id] = other
                    over -= amount
            if over > 0:
                return ()
        waiting = self.settled.waiting
        instead = [End(taker) for taker in takers if any(core.holdings.counts(waiting[taker], job, one) for one in self.caps)]
        return (*(() if gang is job.gang else (Ask(job.id, gang),)), *_end_all(ended.values()), *instead)

    def _within(self, capped: CapRefusal) -> GangAsk | None:
        """The gang with as few tasks, then as few GPUs of a task, as a cap allows one job; None where no smaller one does."""
        role = max(self.job.gang.roles, key=lambda one: (one.minimum, one.role))
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
        gangs = [self.settled.waiting[one].gang for one in takers[:TAKERS_MAX]]
        return _Ends(self.core, self.job, pool, may_end, gangs).run() or []

    def _limits(self) -> Iterator[_Thought]:
        """Ceilings as high as it takes, guarantees of others as low, or so much deserved that it may take its room back."""
        for pool in self.job.pools:
            raised = self._raised_if_allowed(pool)
            if raised and self._fits(self.job.gang, pool, limits=False):
                yield _Thought("limit", raised)
            owed = self._owed(pool)
            if owed:
                yield _Thought("limit", owed)

    def _raised(self, pool: int, *, guarantees: bool = True) -> tuple[SetLimits, ...]:
        """The limits that refuse it in a pool, just enough; () where none does. `guarantees`: also those of others, which keep
        what is idle."""
        shares, pools = self.core.shares, {at for at, _ in self._least(pool)}
        ceilings: dict[tuple[int, int, int], int] = {}
        lowered: list[SetLimits] = []
        for one in self.found:
            reason = one.reason
            if reason.pool not in pools:
                continue
            if reason.code == "ceiling":
                most = reason.held + reason.need + reason.kept
                for node in shares.path[reason.queue]:  # No ceiling is above one that its own queue is under.
                    at = node, reason.pool, reason.resource
                    if node == reason.queue or self._ceiling(*at) < most:
                        ceilings[at] = max(most, ceilings.get(at, 0))
            elif reason.code == "withheld" and guarantees:
                lowered += self._lowered(reason.pool, reason.resource, reason.held + reason.need - reason.limit)
        raised = []
        for (node, at_pool, resource), most in ceilings.items():
            queue_id = shares.queue_ids[node]
            if queue_id is not None:
                raised.append(SetLimits(queue_id, shares.pool_ids[at_pool], RESOURCE_NAMES[resource], {"ceiling": most}))
        return (*raised, *lowered)

    def _raised_if_allowed(self, pool: int) -> tuple[SetLimits, ...]:
        raised = self._raised(pool)
        return raised if self._is_allowed(self.settled.state, raised) else ()

    def _ceiling(self, node: int, pool: int, resource: int) -> int:
        """Of a queue itself; the largest number there may be where it has none."""
        shares = self.core.shares
        queue = next((one for one in self.settled.state.queues if one.id == shares.queue_ids[node]), None)
        limit = queue.limit(shares.pool_ids[pool], RESOURCE_NAMES[resource]) if queue is not None and node else None
        return AMOUNT_MAX if limit is None or limit.ceiling is None else limit.ceiling

    def _lowered(self, pool: int, resource: int, lacking: int) -> list[SetLimits]:
        """Guarantees that keep what is idle, lower by what is lacking."""
        shares, queues = self.core.shares, {queue.id: queue for queue in self.settled.state.queues}
        changes = []
        for keeper, kept in shares.keepers(self.job.queue, pool, resource):
            queue_id = shares.queue_ids[keeper]
            if lacking <= 0 or queue_id is None:
                break
            limit = queues[queue_id].limit(shares.pool_ids[pool], RESOURCE_NAMES[resource])
            less = min(kept, lacking, limit.guarantee)
            if less:
                values = {"guarantee": limit.guarantee - less, "deserved": limit.owed}
                changes.append(SetLimits(queue_id, shares.pool_ids[pool], RESOURCE_NAMES[resource], values))
            lacking -= less
        return changes if lacking <= 0 else []

    def _owed(self, pool: int) -> tuple[Change, ...]:
        """As much deserved on the way to root as the queue would hold."""
        state, shares = self.settled.state, self.core.shares
        queues = {queue.id: queue for queue in state.queues}
        changes = []
        for at, amount in self._least(pool):
            for node in shares.path[self.job.queue]:
                queue_id = shares.queue_ids[node]
                if not node or queue_id is None:
                    continue
                limit = queues[queue_id].limit(shares.pool_ids[at], "gpu_millis")
                wanted = shares.used(node, at)[2] + amount[2]
                if amount[2] and limit.owed < wanted:
                    changes.append(SetLimits(queue_id, shares.pool_ids[at], "gpu_millis", {"deserved": wanted}))
        return tuple(changes) if changes and self._is_allowed(state, changes) else ()

    def _least(self, pool: int) -> tuple[tuple[int, tuple[int, int, int]], ...]:
        return self.core.live.shapes.of(self.job.gang, self.job.pools).least[pool]

    @staticmethod
    def _is_allowed(state: State, changes: Sequence[Change]) -> bool:
        """Whether the tree of limits holds as well afterwards as before."""
        after = apply(state, changes)
        return not new_breaks(validate(state.queues, state.capacities), validate(after.queues, after.capacities))

    def _unblocked(self) -> Iterator[_Thought]:
        """One machine that takes work again."""
        core, gang = self.core, at_least(self.job.gang)
        if len(gang.roles) != 1:
            return
        role = gang.roles[0]
        for pool in self.job.pools:
            ranking = ranking_of(core.machines, pool, role.ask)
            state = core.machines.pools.get(pool)
            if ranking is None or state is None:
                continue
            fitting = sum(ranking.copies(one) * len(one.members) for one in core.machines.classes(pool))
            for machine in state.members:
                one = core.machines.class_of[machine]
                if not one.kind.blocked:
                    continue
                opened = MachineClass(replace(one.kind, blocked=False), one.kind_number, one.cpu, one.memory, one.devices)
                if fitting + copies(opened, ranking.shape) >= role.minimum:
                    yield _Thought("unblock", (*self._raised_if_allowed(pool), Block(pool, core.machines.at[machine].name)))
                    break

    def _more(self, pool: int) -> tuple[Change, ...]:
        """As many machines as would take the whole gang, and what guarantees of others keep beyond what is there; () where room
        is not what it lacks."""
        lacks = [one.reason for one in self.found if one.reason.code in ROOM and one.reason.pool in (pool, -1)]
        if not lacks:
            return ()
        state, gang = self.settled.state, at_least(self.job.gang)
        inside = [one for one in state.machines if one.pool == pool and one.taints <= tolerated(gang)]
        like = max(inside, key=lambda one: (one.gpus, one.cpu_millis, one.memory_bytes, one.name), default=None)
        roles = [role for role in gang.roles if role.pool in (None, pool)]
        if not roles:
            return ()
        one = machine_for([role.ask for role in roles], like, pool)
        count = sum(-(-role.minimum // max(1, copies_on(role.ask, one))) for role in roles)
        whole = whole_of(one)
        for reason in lacks:
            if reason.code in ("withheld", "capacity"):
                each = getattr(whole, RESOURCE_NAMES[reason.resource])
                count = max(count, -(-(reason.held + reason.need - reason.limit) // max(1, each)))
        known = {machine.name for machine in state.machines if machine.pool == pool}
        names = [name for number in range(len(known) + count) if (name := f"more-{number + 1}") not in known]
        return (AddMachines(tuple(replace(one, name=name) for name in names[:count])),)


class _Ends(Search):
    """Victims by no rule but that a person chose them: whose end, with the least lost, makes room for a gang and its like."""

    def __init__(self, core: Core, job: Job, pool: int, may_end: Callable[[Running], bool], others: Sequence[GangAsk]) -> None:
        roles = [role for gang in others for role in at_least(gang).roles]
        more = tuple(replace(role, role=f"taker-{number}") for number, role in enumerate(roles))
        together = replace(at_least(job.gang), roles=(*at_least(job.gang).roles, *more))
        super().__init__(core.live, core.windows, core.placements, job, Shape(-1, together, (pool,)), pool)
        self.need = core.live.shapes.of(job.gang, job.pools).least[pool]  # Its queue pays for its own only.
        self._may_end = may_end

    def _gather(self) -> bool:
        at = self.machines.at
        gangs = tuple(
            one
            for one in self.live.running.values()
            if _may_end(one)
            and one.need
            and any(at[task.machine].pool == self.pool for task in one.placed.tasks)
            and self._may_end(one)
        )
        self._consider([Leavers(self.pool, gangs)])
        self.by_machine = {machine: here for machine, here in self.by_machine.items() if at[machine].pool == self.pool}
        self._freed = {machine: self._freed[machine] for machine in self.by_machine}
        return bool(self.by_machine)

    def _cost(self, one: Running) -> int:
        return one.cost(self.now) + one.gpu_millis + 1

    def _may_leave(self, one: Running) -> bool:
        return True


def _may_end(one: Running) -> bool:
    """Whether it runs and nothing makes it leave yet."""
    return one.claim is None and not one.is_leaving


def _merged(changes: Sequence[Change]) -> tuple[Change, ...]:
    """The same with one change where several are about one thing: what was said last, and all the machines."""
    made: dict[object, Change] = {}
    for one in changes:
        match one:
            case AddMachines():
                at: object = (AddMachines, one.machines[0].pool)
                before = made.get(at)
                machines = (*(before.machines if isinstance(before, AddMachines) else ()), *one.machines)
                made[at] = AddMachines(tuple(replace(machine, name=f"more-{n}") for n, machine in enumerate(machines, start=1)))
            case SetLimits():
                made[SetLimits, one.queue_id, one.pool_id, one.resource, *one.values] = one
            case SetCap():
                made[SetCap, one.tenant_id, one.user_id, one.what] = one
            case Rank():
                made[Rank, one.job_id] = one
            case _:
                made[len(made)] = one
    return tuple(made.values())


def _end_all(ended: Iterable[Running]) -> tuple[Change, ...]:
    return tuple(End(one.job.id) for one in sorted(ended, key=lambda one: one.key))
