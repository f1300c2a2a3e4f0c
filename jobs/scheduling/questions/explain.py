"""Why one job waits: the conditions that refuse it with their numbers and holders, its place in the order, and what decides
that.

A pass stops at the first thing that refuses a job, because it asks thousands of jobs. Here one job is asked everything:
whatever would still refuse it if all else were granted is a `Condition`. The first is the cause that the scheduler itself named:
the reason that the job shows, where that still holds, else what this pass says. Conditions of the job itself (`is_own`: a hold, a
dependency, its time, its array, an earlier job of its queue) have to go before it can start anywhere; of the others, all those
of any one pool. Where it may take room back, it is enough that the condition goes which keeps it from that (`instead`).
Conditions that follow from another are left out: a pool whose sum is used up, where no machine has room anyway.

All numbers are those after the pass at the state's moment. The scheduler at work asks a job again only when that may help it,
so the reason that a job shows may be of an earlier moment, and another thing may refuse it first by now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from jobs.lifecycle.wait_reasons import WAITS, cause_of
from jobs.scheduling.core.core import Core
from jobs.scheduling.core.place.gangs import Placed, Unplaced, at_least
from jobs.scheduling.core.place.placing import place, recount
from jobs.scheduling.core.snapshot import State, build
from jobs.scheduling.core.state.decisions import Admit, Claim, Decision, Evict, WaitReason
from jobs.scheduling.core.state.ordering import Key
from jobs.scheduling.core.state.user_caps import least, reason_of
from jobs.scheduling.core.state.work import JobAsk, Running, Shape, take_shares
from jobs.scheduling.questions.subjects import subject_of
from jobs.scheduling.questions.whatif import after_pass
from kernel.wait_codes import WaitCode
from tenants.capacity.quota.limits import Amount
from tenants.capacity.quota.shares import Shares, Standing
from tenants.capacity.quota.turns import Turns

POOLS_MAX = 8  # Pools that are looked into for one job.
HOLDERS_MAX = 20  # Rows of holders; the rest is summed up in one more row.
NAMED_MAX = 20  # Jobs that are named with one condition.
ANYBODY = -1  # The queue of the row that sums up the rest.

_TOLD = {code: place for place, code in enumerate(WAITS)}


@dataclass(frozen=True, slots=True)
class Holder:
    """What a queue's own jobs hold of a pool by one standing, since the oldest of them began. `gangs` 0: no job runs on it, it
    is kept for the queue. `queue` ANYBODY: all other queues."""

    queue: int
    amount: Amount
    gangs: int
    since: int
    standing: Standing


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that would refuse the job on its own. `jobs`: the jobs that it is about, such as the earlier job of the queue,
    or those that leave for this one."""

    reason: WaitReason
    is_own: bool = False
    instead: bool = False
    holders: tuple[Holder, ...] = ()
    jobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueFactor:
    """How a queue stands among its siblings: those that hold less than they deserve come first, then the smaller share over
    time. Shares are in billionths, divided by the queue's weight: `share_now` of what the pool has, `share` of what was given
    out of it over time."""

    queue: int
    is_owed: bool
    share: int
    share_now: int


@dataclass(frozen=True, slots=True)
class Factors:
    """What decides the place of a job: in its queue `place_seconds`, where less is earlier; before that the queues on the way
    from root to it. A priority counts as if the job had been submitted `priority_seconds` earlier."""

    priority: int
    priority_seconds: int
    waited_seconds: int
    order_seconds: int
    place_seconds: int
    queues: tuple[QueueFactor, ...]


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """The place of a job, from 1, and how many there are: in its queue, and among all jobs that may use one of its pools, in
    the order in which they would start. 0: it is not in line, because something withholds it."""

    in_queue: int
    queue_length: int
    in_pool: int
    pool_length: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job waits. `starts`: the next pass would start it. `reason`: what the pass itself said. `shown_holds`: the reason
    that the job shows is one of the conditions, and the first of them."""

    job_id: str
    starts: bool
    reason: WaitReason | None
    shown_holds: bool
    conditions: tuple[Condition, ...]
    place: QueuePosition
    factors: Factors


class Settled:
    """A state after its pass, with the core that decided it: every question about a waiting job begins with it. `before`: the
    state without that pass.

    `looks_again`: the pass first checks whether each reserved start could be earlier, as the core at work does in the first pass
    of a period.
    """

    def __init__(self, state: State, *, looks_again: bool = False) -> None:
        self.before = state
        self.core = build(state)
        if not looks_again:
            self.core.reservations.begin_period()
        self.decisions: tuple[Decision, ...] = self.core.decide(state.at)
        self.admitted = {decision.id: decision for decision in self.decisions if isinstance(decision, Admit)}
        self.acts = any(isinstance(decision, Admit | Claim | Evict) for decision in self.decisions)

    @cached_property
    def state(self) -> State:
        """The state after the pass."""
        return after_pass(self.before, self.core, self.decisions)

    @cached_property
    def waiting(self) -> dict[str, JobAsk]:
        return {job.id: job for job in self.state.waiting}

    def job(self, job_id: str) -> JobAsk | None:
        """The job, if it waits, or waited before this pass."""
        found = self.waiting.get(job_id)
        return found if found is not None or job_id not in self.admitted else self.core.running[job_id].job


def explain(settled: Settled, job_id: str, shown: WaitReason | None = None) -> Explanation | None:
    """Why a job waits; None when it does not. `shown`: the reason that the scheduler gave it, of which the code and what it is
    about count; the code may be the one that people read."""
    job = settled.job(job_id)
    if job is None:
        return None
    place, factors = place_of(settled, job), factors_of(settled, job)
    if job_id in settled.admitted:
        return Explanation(job_id, True, None, False, (), place, factors)
    reason, found = settled.core.why(job_id), sorted(conditions(settled, job), key=_telling)
    holds = shown is not None and any(_is_cause(shown, condition.reason) for condition in found)
    cause = shown if holds else reason
    if cause is not None:
        found.sort(key=lambda condition: not _is_cause(cause, condition.reason))
    return Explanation(job_id, False, reason, holds, tuple(found), place, factors)


def _is_cause(cause: WaitReason, reason: WaitReason) -> bool:
    """Whether a reason has this cause: in the same pool, and of the same queue and resource, as far as both name any."""
    about = ((cause.pool, reason.pool), (cause.queue, reason.queue), (cause.resource, reason.resource))
    return cause_of(cause.code) == cause_of(reason.code) and all(its == mine or min(its, mine) < 0 for its, mine in about)


# --- What refuses it ----------------------------------------------------------------------------------------------------


def conditions(settled: Settled, job: JobAsk) -> list[Condition]:
    """Everything that refuses the job, in no order."""
    core = settled.core
    transfer = core.transfers.get(job.id)
    if transfer is not None:
        leaving = tuple(sorted(transfer.leaving))
        migrating = core.seats.migrating_for(job.id)
        return [Condition(WaitReason(WaitCode.CLAIM, need=len(leaving), held=migrating), is_own=True, jobs=leaving[:NAMED_MAX])]
    said = core.why(job.id)
    if said is not None and said.code == WaitCode.MOVING:
        return [Condition(said, is_own=True)]
    found = list(_own(core, job))
    pools = job.pools[:POOLS_MAX]
    if said is not None and said.pool in job.pools and said.pool not in pools:
        pools = (*pools[:-1], said.pool)
    if not pools:
        return found or [Condition(WaitReason(WaitCode.NO_POOL))]  # The withheld reason says why there is no pool.
    for pool in pools:
        found += _in_pool(core, job, pool, said)
    if said is not None and not any(_is_cause(said, condition.reason) for condition in found):
        found.append(Condition(said, instead=WAITS[said.code].is_for_eviction, jobs=_about(core, job, said)))
    return found


def _about(core: Core, job: JobAsk, reason: WaitReason) -> tuple[str, ...]:
    subject = subject_of(core, job, reason)
    return () if subject is None else (subject.job_id,)


def _own(core: Core, job: JobAsk) -> Iterable[Condition]:
    if job.withheld is not None:
        yield Condition(job.withheld, is_own=True)
    if job.not_before > core.now:
        yield Condition(WaitReason(WaitCode.NOT_BEFORE, until=job.not_before), is_own=True)
    if core.live.is_last_of_array(job):
        siblings = sorted(running.job.id for running in core.running.values() if running.job.array == job.array)
        reason = WaitReason(WaitCode.ARRAY_PARALLELISM, held=len(siblings), limit=job.parallel)
        yield Condition(reason, is_own=True, jobs=tuple(siblings[:NAMED_MAX]))
    capped = core.holdings.refusal(job, least(job.gang)) if core.holdings else None
    if capped is not None:
        mine = sorted(running.job.id for running in core.running.values() if core.holdings.counts(running.job, job, capped))
        yield Condition(reason_of(capped, job.queue), is_own=True, jobs=tuple(mine[:NAMED_MAX]))
    stop = core.ordering.stopped_by(job.queue)
    if stop is not None and core.ordering.key(job) > stop:
        behind = WaitReason(WaitCode.BEHIND, queue=job.queue)
        yield Condition(behind, is_own=True, jobs=_about(core, job, behind))


def _in_pool(core: Core, job: JobAsk, pool: int, said: WaitReason | None) -> Iterable[Condition]:
    """Limits and machines of one pool that refuse the gang at its smallest; not the machines that would take it if no room were
    held for a reserved start, which is what the pass `said`."""
    shape = core.live.shapes.of(job.gang, job.pools)
    is_held = said is not None and (said.code, said.pool) == (WaitCode.BACKFILL_RESERVATION, pool)
    unplaced = None if is_held else why_unplaced(core, shape, pool)
    for at, amount in shape.least[pool]:
        for refusal in core.shares.refusals(job.queue, at, amount):
            if refusal.code == WaitCode.CAPACITY and unplaced is not None:
                continue
            reason = WaitReason(
                refusal.code,
                at,
                refusal.queue,
                refusal.resource,
                refusal.need,
                refusal.used,
                refusal.limit,
                refusal.kept,
            )  # fmt: skip
            yield Condition(reason, holders=_holders_of(core, job, reason))
    reserved = core.advance.refusal(job, shape.least[pool], core.now) if core.advance else None
    if reserved is not None:
        yield Condition(reserved)
    if unplaced is not None:
        reason = WaitReason(
            unplaced.code, unplaced.pool, need=unplaced.needed, fitting=unplaced.fitting, filters=unplaced.refusals
        )
        holders = _running_in(core, unplaced.pool, None) if unplaced.code != WaitCode.NO_MACHINE else ()
        yield Condition(reason, holders=holders, jobs=_about(core, job, reason))


def why_unplaced(core: Core, shape: Shape, pool: int) -> Unplaced | None:
    """Why the machines of a pool have no place for the gang at its smallest, with the amounts of now; None where they have."""
    gang = at_least(shape.gang)
    mark = core.machines.mark()
    try:
        answer = place(gang, core.machines, (pool,))
    finally:
        core.machines.rewind(mark)
    if isinstance(answer, Placed):
        return None
    return (recount(gang, core.machines, pool) if WAITS[answer.code].is_counted else None) or answer


def _holders_of(core: Core, job: JobAsk, reason: WaitReason) -> tuple[Holder, ...]:
    if reason.code == WaitCode.CEILING:
        return _running_in(core, reason.pool, reason.queue)
    kept = tuple(
        Holder(queue, _amount(reason.resource, amount), 0, 0, Standing.GUARANTEED)
        for queue, amount in core.shares.keepers(job.queue, reason.pool, reason.resource)[:HOLDERS_MAX]
    )
    return kept + (_running_in(core, reason.pool, None) if reason.code == WaitCode.CAPACITY else ())


def _amount(resource: int, amount: int) -> Amount:
    return (amount if resource == 0 else 0, amount if resource == 1 else 0, amount if resource == 2 else 0)


def _running_in(core: Core, pool: int, below: int | None) -> tuple[Holder, ...]:
    """What is held of a pool, by queue and standing, most GPUs first. `below`: only by this queue and those below it."""
    sums: dict[tuple[int, Standing], list[int]] = {}
    for running in core.running.values():
        queue = running.job.queue
        if not _counts(running) or (below is not None and below not in core.shares.path[queue]):
            continue
        for at, amount in running.need:
            if at == pool:
                row = sums.setdefault((queue, running.standing), [0, 0, 0, 0, running.started_at])
                row[0], row[1], row[2] = row[0] + amount[0], row[1] + amount[1], row[2] + amount[2]
                row[3], row[4] = row[3] + 1, min(row[4], running.started_at)
    order = sorted(sums.items(), key=lambda item: (-item[1][2], -item[1][0], -item[1][1], item[0]))
    rows = [Holder(queue, (row[0], row[1], row[2]), row[3], row[4], standing) for (queue, standing), row in order]
    return (*rows[:HOLDERS_MAX], *_rest(rows[HOLDERS_MAX:]))


def _rest(rows: list[Holder]) -> Iterable[Holder]:
    if rows:
        sums = [sum(holder.amount[place] for holder in rows) for place in range(3)]
        amount = (sums[0], sums[1], sums[2])
        yield Holder(
            ANYBODY, amount, sum(holder.gangs for holder in rows), min(holder.since for holder in rows), Standing.BORROWED
        )


def _telling(condition: Condition) -> tuple[object, ...]:
    reason = condition.reason
    return (not condition.is_own, condition.instead, _TOLD[reason.code], reason.pool, -reason.resource, reason.queue, reason.code)


# --- Its place ----------------------------------------------------------------------------------------------------------


def place_of(settled: Settled, job: JobAsk) -> QueuePosition:
    """The place of a job in its queue and among all jobs that may use one of its pools."""
    core = settled.core
    mine = {
        waiting_job.id
        for waiting_job in settled.state.waiting
        if waiting_job.queue == job.queue and waiting_job.id in core.ordering
    }
    key = core.ordering.key(job)
    in_queue = 1 + sum(core.ordering.key(settled.waiting[job_id]) < key for job_id in mine)
    if job.id not in core.ordering:
        return QueuePosition(0, len(mine), 0, _wanting(settled, job))
    order = fair_order(settled, frozenset(job.pools), until=job.id)
    return QueuePosition(in_queue, len(mine), len(order), _wanting(settled, job))


def _wanting(settled: Settled, job: JobAsk) -> int:
    pools = set(job.pools)
    return sum(
        waiting_job.id in settled.core.ordering and not pools.isdisjoint(waiting_job.pools)
        for waiting_job in settled.state.waiting
    )


def fair_order(settled: Settled, pools: frozenset[int], *, until: str = "") -> list[str]:
    """The ids of all jobs that wait for one of these pools, in the order in which they would be served if there were room for
    each: after each job its queue's share has grown by what it asks for. `until`: the last job that is of interest."""
    core = settled.core
    lines: dict[int, list[tuple[Key, JobAsk]]] = {}
    for job in settled.state.waiting:
        if job.id in core.ordering and not pools.isdisjoint(job.pools):
            lines.setdefault(job.queue, []).append((core.ordering.key(job), job))
    for line in lines.values():
        line.sort(key=lambda entry: entry[0], reverse=True)
    shares = _copied(settled)
    turns = Turns(shares, lines)
    order: list[str] = []
    while (queue := turns.next()) is not None:
        _, job = lines[queue].pop()
        order.append(job.id)
        if job.id == until:
            break
        pool = next(job_pool for job_pool in job.pools if job_pool in pools)
        take_shares(shares, queue, core.live.shapes.of(job.gang, job.pools).least[pool])
        if not lines[queue]:
            turns.drop(queue)
    return order


def _copied(settled: Settled, *, with_history: bool = True) -> Shares:
    """A copy of the shares that may be changed."""
    state, core = settled.state, settled.core
    shares = Shares(state.queues, state.capacities)
    if state.history_at and with_history:
        shares.recall(core.shares.history(), state.at)
    for running in core.running.values():
        if _counts(running):
            take_shares(shares, running.job.queue, running.need)
    return shares


def _counts(running: Running) -> bool:
    """Whether a gang still holds its share: a gang that leaves for a claim has passed it on to the claimant."""
    return not running.is_leaving or running.claim is None


# --- What decides its place ------------------------------------------------------------------------------------------------


def factors_of(settled: Settled, job: JobAsk) -> Factors:
    """The numbers that decide the order of jobs and queues."""
    core, aging = settled.core, settled.state.policy.aging_seconds
    shares = core.shares
    path = tuple(node for node in reversed(shares.path[job.queue]) if node)
    now = _copied(settled, with_history=False)
    queues = tuple(QueueFactor(node, shares.is_owed(node), shares.share(node), now.share(node)) for node in path)
    place_seconds = job.submitted_at + job.order - job.priority * aging
    return Factors(
        job.priority, job.priority * aging, max(0, settled.state.at - job.submitted_at), job.order, place_seconds, queues
    )
