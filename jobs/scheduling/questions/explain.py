"""Why one job waits: what refuses it, each with its numbers and with what is held, its place in the order and what gives it that.

A pass stops at the first thing that refuses a job, because it is asked of thousands. Here one job is asked everything: whatever
would still refuse it if all else were granted is a `Condition`. Those of the job itself (`is_own`: a hold, a dependency, its
time, its array, an earlier one of its queue) have to go before it can start anywhere; of the others, all those of any one pool.
Where it may take room back, what keeps it from that (`instead`) is enough to go by itself. Conditions that follow from another
are left out: a pool whose sum is used up, where no machine has room anyway.

All numbers are those after the pass at the state's moment, which is what a scheduler that has done its work shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from jobs.scheduling.core.core import Core
from jobs.scheduling.core.place.gangs import Placed, Unplaced, at_least
from jobs.scheduling.core.place.placing import place, recount
from jobs.scheduling.core.snapshot import State, build
from jobs.scheduling.core.state.decisions import Admit, Claim, Decision, Evict, Reason
from jobs.scheduling.core.state.ordering import Key
from jobs.scheduling.core.state.user_caps import least, reason_of
from jobs.scheduling.core.state.work import Job, Running, Shape, take_shares
from jobs.scheduling.questions.whatif import after_pass
from tenants.quota.limits import Amount
from tenants.quota.shares import Shares, Standing
from tenants.quota.turns import Turns

POOLS_MAX = 8  # Pools that are looked into for one job.
HOLDERS_MAX = 20  # Rows of who holds something; the rest is one more row.
NAMED_MAX = 20  # Jobs that are named with one condition.
ANYBODY = -1  # The queue of the row that sums up the rest.

# Most telling first: what only people can change, what the numbers of queues say, what the machines say, what time will bring.
TELLING = (
    "claim", "moving", "tenant_disabled", "held", "budget", "image_building", "dependency", "not_before", "checkpoint_unreadable",
    "checkpoint_over_quota", "checkpoint_checking", "array_parallelism",
    "user_cap", "tenant_cap", "no_pool", "no_machine", "ceiling", "withheld", "reserved", "capacity", "behind", "not_together",
    "no_room", "booked",
    "too_young", "brake",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Holder:
    """What a queue's own jobs hold of a pool by one standing, since the oldest of them began. `gangs` 0: nobody runs on it, it is
    kept for the queue. `queue` ANYBODY: all others."""

    queue: int
    amount: Amount
    gangs: int
    since: int
    standing: Standing


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that would refuse the job on its own. `jobs` are those that it is about: whom it is behind, who leaves for it."""

    reason: Reason
    is_own: bool = False
    instead: bool = False
    holders: tuple[Holder, ...] = ()
    jobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueFactor:
    """How a queue stands among those beside it: who holds less than it deserves, then by share over time. `share_now` is
    what it holds. In billionths, divided by the queue's weight: of a pool, over time of what was given out of it."""

    queue: int
    is_owed: bool
    share: int
    share_now: int


@dataclass(frozen=True, slots=True)
class Factors:
    """What gives a job its place: in its queue `place_seconds`, where less is earlier, and above that the queues on its way from
    root. A priority counts as if the job had been submitted `priority_seconds` earlier."""

    priority: int
    priority_seconds: int
    waited_seconds: int
    order_seconds: int
    place_seconds: int
    queues: tuple[QueueFactor, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """The how manieth of how many it is, from 1: in its queue, and of all that may use one of its pools, if all could start one
    after the other. 0 where it is in no line: what withholds it has to go first."""

    in_queue: int
    queue_length: int
    in_pool: int
    pool_length: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """`starts`: the next pass would start it. `reason` is what the pass itself said."""

    job_id: str
    starts: bool
    reason: Reason | None
    conditions: tuple[Condition, ...]
    place: Place
    factors: Factors


class Settled:
    """A state after its pass, with the core that decided it: what every question about a waiting job begins with. `before` is the
    state without that pass.

    `looks_again`: the pass sees first whether each booked start could be earlier, as the core at work does once in a while after
    something became free.
    """

    def __init__(self, state: State, *, looks_again: bool = False) -> None:
        self.before = state
        self.core = build(state)
        for one in self.core.reservations.by_job.values() if looks_again else ():
            one.may_be_earlier = True
        self.decisions: tuple[Decision, ...] = self.core.decide(state.at)
        self.admitted = {one.id: one for one in self.decisions if isinstance(one, Admit)}
        self.acts = any(isinstance(one, Admit | Claim | Evict) for one in self.decisions)

    @cached_property
    def state(self) -> State:
        """The state after the pass."""
        return after_pass(self.before, self.core, self.decisions)

    @cached_property
    def waiting(self) -> dict[str, Job]:
        return {job.id: job for job in self.state.waiting}

    def job(self, job_id: str) -> Job | None:
        """The job, if it waits, or did before this pass."""
        found = self.waiting.get(job_id)
        return found if found is not None or job_id not in self.admitted else self.core.running[job_id].job


def explain(settled: Settled, job_id: str) -> Explanation | None:
    """Why this job waits; None when it does not."""
    job = settled.job(job_id)
    if job is None:
        return None
    starts = job_id in settled.admitted
    found = () if starts else tuple(sorted(conditions(settled, job), key=_telling))
    reason = None if starts else settled.core.why(job_id)
    return Explanation(job_id, starts, reason, found, place_of(settled, job), factors_of(settled, job))


# --- What refuses it ----------------------------------------------------------------------------------------------------


def conditions(settled: Settled, job: Job) -> list[Condition]:
    """Everything that refuses the job, in no order."""
    core = settled.core
    made = core.transfers.get(job.id)
    if made is not None:
        leaving = tuple(sorted(made.leaving))
        moving = core.seats.moving_for(job.id)
        return [Condition(Reason("claim", need=len(leaving), held=moving), is_own=True, jobs=leaving[:NAMED_MAX])]
    said = core.why(job.id)
    if said is not None and said.code == "moving":
        return [Condition(said, is_own=True)]
    found = list(_own(core, job))
    pools = job.pools[:POOLS_MAX]
    if not pools:
        return found or [Condition(Reason("no_pool"))]  # What withholds it says why there is none.
    for pool in pools:
        found += _in_pool(core, job, pool)
    said = core.why(job.id)
    if said is not None and not any(one.reason.code == said.code for one in found):
        instead = said.code in ("too_young", "brake")
        if instead or not found or said.code == "booked":
            found.append(Condition(said, instead=instead, jobs=_kept_for(core, job, said)))
    return found


def _kept_for(core: Core, job: Job, said: Reason) -> tuple[str, ...]:
    """Whose booked start keeps the room: of several at that moment the one of that pool, then the first."""
    if said.code != "booked" or not core.reservations:
        return ()
    found = [one for one in core.reservations.by_job.values() if one.at == said.until and one.job.id != job.id]
    first = min(found, key=lambda one: (one.pool != said.pool, one.job.id), default=None)
    return () if first is None else (first.job.id,)


def _own(core: Core, job: Job) -> Iterable[Condition]:
    if job.withheld is not None:
        yield Condition(job.withheld, is_own=True)
    if job.not_before > core.now:
        yield Condition(Reason("not_before", until=job.not_before), is_own=True)
    if core.live.is_last_of_array(job):
        siblings = sorted(one.job.id for one in core.running.values() if one.job.array == job.array)
        reason = Reason("array_parallelism", held=len(siblings), limit=job.parallel)
        yield Condition(reason, is_own=True, jobs=tuple(siblings[:NAMED_MAX]))
    capped = core.holdings.refusal(job, least(job.gang)) if core.holdings else None
    if capped is not None:
        mine = sorted(one.job.id for one in core.running.values() if core.holdings.counts(one.job, job, capped))
        yield Condition(reason_of(capped, job.queue), is_own=True, jobs=tuple(mine[:NAMED_MAX]))
    stop = core.ordering.stopped_by(job.queue)
    if stop is not None and job.id != stop[2] and (core.ordering.key(job) > stop):
        yield Condition(Reason("behind", queue=job.queue), is_own=True, jobs=(stop[2],))


def _in_pool(core: Core, job: Job, pool: int) -> Iterable[Condition]:
    """What of limits and machines refuses the gang at its smallest in one pool."""
    shape = core.live.shapes.of(job.gang, job.pools)
    unplaced = why_unplaced(core, shape, pool)
    for at, amount in shape.least[pool]:
        for refusal in core.shares.refusals(job.queue, at, amount):
            if refusal.code == "capacity" and unplaced is not None:
                continue
            reason = Reason(
                refusal.code, at, refusal.queue, refusal.resource, refusal.need, refusal.used, refusal.limit, refusal.kept
            )
            yield Condition(reason, holders=_holders_of(core, job, reason))
    reserved = core.windows.refusal(job, shape.least[pool], core.now) if core.windows else None
    if reserved is not None:
        yield Condition(reserved)
    if unplaced is not None:
        reason = Reason(unplaced.code, unplaced.pool, need=unplaced.needed, fitting=unplaced.fitting, filters=unplaced.refusals)
        yield Condition(reason, holders=_running_in(core, unplaced.pool, None) if unplaced.code != "no_machine" else ())


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
    return (recount(gang, core.machines, pool) if answer.code in ("no_room", "no_machine") else None) or answer


def _holders_of(core: Core, job: Job, reason: Reason) -> tuple[Holder, ...]:
    if reason.code == "ceiling":
        return _running_in(core, reason.pool, reason.queue)
    kept = tuple(
        Holder(queue, _amount(reason.resource, amount), 0, 0, Standing.GUARANTEED)
        for queue, amount in core.shares.keepers(job.queue, reason.pool, reason.resource)[:HOLDERS_MAX]
    )
    return kept + (_running_in(core, reason.pool, None) if reason.code == "capacity" else ())


def _amount(resource: int, amount: int) -> Amount:
    return (amount if resource == 0 else 0, amount if resource == 1 else 0, amount if resource == 2 else 0)


def _running_in(core: Core, pool: int, below: int | None) -> tuple[Holder, ...]:
    """Who holds what of a pool, by queue and standing, most GPUs first; below one queue only where given."""
    sums: dict[tuple[int, Standing], list[int]] = {}
    for one in core.running.values():
        queue = one.job.queue
        if not _counts(one) or (below is not None and below not in core.shares.path[queue]):
            continue
        for at, amount in one.need:
            if at == pool:
                row = sums.setdefault((queue, one.standing), [0, 0, 0, 0, one.started_at])
                row[0], row[1], row[2] = row[0] + amount[0], row[1] + amount[1], row[2] + amount[2]
                row[3], row[4] = row[3] + 1, min(row[4], one.started_at)
    order = sorted(sums.items(), key=lambda item: (-item[1][2], -item[1][0], -item[1][1], item[0]))
    rows = [Holder(queue, (row[0], row[1], row[2]), row[3], row[4], standing) for (queue, standing), row in order]
    return (*rows[:HOLDERS_MAX], *_rest(rows[HOLDERS_MAX:]))


def _rest(rows: list[Holder]) -> Iterable[Holder]:
    if rows:
        sums = [sum(one.amount[place] for one in rows) for place in range(3)]
        amount = (sums[0], sums[1], sums[2])
        yield Holder(ANYBODY, amount, sum(one.gangs for one in rows), min(one.since for one in rows), Standing.BORROWED)


def _telling(condition: Condition) -> tuple[object, ...]:
    reason = condition.reason
    stage = TELLING.index(reason.code) if reason.code in TELLING else 1  # Whatever else withholds it: a person's doing.
    return (not condition.is_own, condition.instead, stage, reason.pool, -reason.resource, reason.queue, reason.code)


# --- Its place ----------------------------------------------------------------------------------------------------------


def place_of(settled: Settled, job: Job) -> Place:
    """Where a job stands in its queue and among all who may use one of its pools."""
    core = settled.core
    mine = {one.id for one in settled.state.waiting if one.queue == job.queue and one.id in core.ordering}
    key = core.ordering.key(job)
    in_queue = 1 + sum(core.ordering.key(settled.waiting[other]) < key for other in mine)
    if job.id not in core.ordering:
        return Place(0, len(mine), 0, _wanting(settled, job))
    order = fair_order(settled, frozenset(job.pools), until=job.id)
    return Place(in_queue, len(mine), len(order), _wanting(settled, job))


def _wanting(settled: Settled, job: Job) -> int:
    pools = set(job.pools)
    return sum(one.id in settled.core.ordering and not pools.isdisjoint(one.pools) for one in settled.state.waiting)


def fair_order(settled: Settled, pools: frozenset[int], *, until: str = "") -> list[str]:
    """All that wait for one of these pools in the order in which they would be served if there were room for each: after each
    its queue's share has grown by what it asks for. `until`: the last one that is of interest."""
    core = settled.core
    lines: dict[int, list[tuple[Key, Job]]] = {}
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
        pool = next(one for one in job.pools if one in pools)
        take_shares(shares, queue, core.live.shapes.of(job.gang, job.pools).least[pool])
        if not lines[queue]:
            turns.drop(queue)
    return order


def _copied(settled: Settled, *, with_history: bool = True) -> Shares:
    """The same shares to go on with."""
    state, core = settled.state, settled.core
    shares = Shares(state.queues, state.capacities)
    if state.history_at and with_history:
        shares.recall(core.shares.history(), state.at)
    for one in core.running.values():
        if _counts(one):
            take_shares(shares, one.job.queue, one.need)
    return shares


def _counts(one: Running) -> bool:
    """Whether it holds its share still: who leaves for another has passed it on."""
    return not one.is_leaving or one.claim is None


# --- What gives it its place -----------------------------------------------------------------------------------------------


def factors_of(settled: Settled, job: Job) -> Factors:
    """What the order of jobs and queues goes by, in numbers."""
    core, aging = settled.core, settled.state.policy.aging_seconds
    shares = core.shares
    path = tuple(node for node in reversed(shares.path[job.queue]) if node)
    now = _copied(settled, with_history=False)
    queues = tuple(QueueFactor(node, shares.is_owed(node), shares.share(node), now.share(node)) for node in path)
    place_seconds = job.submitted_at + job.order - job.priority * aging
    return Factors(
        job.priority, job.priority * aging, max(0, settled.state.at - job.submitted_at), job.order, place_seconds, queues
    )
