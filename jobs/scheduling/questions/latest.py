"""The latest start of a waiting job: a bound that is kept, not an expectation, and what it rests on.

**Reserved.** A reserved start comes by its time at the latest, whatever is submitted after it: no job that starts may delay it.
It gives way only to an older right - work of its own queue with a higher priority, a queue that gets back what it deserves -
or to a lost machine or a lowered limit; then the decision says why (`Reserve.cause`), and the start is reserved anew.

**Claim.** A job whose room others are leaving starts once their longest grace is over, counted from when they were told to
leave, and their machines are free. A victim that takes longer than that is late, and no bound is known then.

**Line.** For a job with neither, if nothing else is submitted and no job is evicted: as long as other jobs run or wait for its
pools, at least one of them runs, for else the job would start itself; so it starts when all of them have had their longest
time, one after the other. Bookings of tenants may keep all jobs waiting meanwhile, and are added. This bound holds whatever the
order, the shapes and the fragmentation are, and is late for just that reason.

No bound is known where the longest time of another job is not. A reserved start that counts on typical run times is a plan, and
no bound (`BackfillReservation.is_sure`). Once a job has waited for as long as the starvation guard says
(`next_reservation_from`), the next reserved start in its pools goes to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from jobs.scheduling.core.core import Core
from jobs.scheduling.core.snapshot import Held, State, build
from jobs.scheduling.core.state.decisions import Admit
from jobs.scheduling.core.state.reservation import overrun_of
from jobs.scheduling.core.state.user_caps import least
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.questions.explain import Settled
from kernel.wait_codes import WaitCode

RESERVED, CLAIM, LINE = "backfill_reservation", "claim", "line"
RUNTIME_UNKNOWN, GRACE_OVER = "runtime_unknown", "grace_over"
NO_GRACES: Mapping[str, int] = {}
LAG_SECONDS = 1  # From an end until the pass that sees it.
NEVER_STARTS = frozenset({WaitCode.HELD})  # Reasons that keep other jobs out of the line until a person acts.


class Latest(NamedTuple):
    """`at` with its `kind`, or None and the reason. `next_reservation_from`: from when on the next reserved start goes to the
    job; 0: never."""

    at: int | None
    kind: str = ""
    reason: str = ""
    next_reservation_from: int = 0


def latest_start(settled: Settled, job_id: str, graces: Mapping[str, int] = NO_GRACES) -> Latest | None:
    """By when a waiting job starts at the latest; None for a job that does not wait. `graces`: grace in seconds by leaving job,
    where it is not that of the policy."""
    job, core = settled.job(job_id), settled.core
    if job is None:
        return None
    if job_id in core.transfers:
        over_at = cleared_at(core, job_id, graces)
        return Latest(over_at, CLAIM) if over_at >= settled.state.at else Latest(None, "", GRACE_OVER)
    guard = settled.state.policy.starvation_guard_seconds
    is_capped = bool(core.holdings) and core.holdings.refusal(job, least(job.gang)) is not None  # No reservation helps.
    next_reservation_from = job.submitted_at + guard if guard and not is_capped else 0
    reserved = core.reservations.by_job.get(job_id)
    if reserved is not None and reserved.is_sure:
        return Latest(reserved.at, RESERVED, "", next_reservation_from)
    alone = _why_not_alone(settled.state, job)
    if alone:
        return Latest(None, "", alone)
    at = _end_of_line(settled.state, job)
    if at is None:
        return Latest(None, "", RUNTIME_UNKNOWN, next_reservation_from)
    return Latest(at, LINE, "", next_reservation_from)


def cleared_at(core: Core, job_id: str, graces: Mapping[str, int] = NO_GRACES) -> int:
    """When the room that others are leaving for a job is free at the latest."""
    transfer, policy = core.transfers[job_id], core.policy
    longest = max((graces.get(name, policy.grace_seconds) for name in transfer.leaving), default=0)
    return transfer.claimant.started_at + longest + max(0, policy.overrun_seconds - policy.grace_seconds)


def _why_not_alone(state: State, job: JobAsk) -> str:
    """The reason why the job would wait if no other job ran or waited; "" where it would start."""
    fixed = tuple(held for held in state.running if not held.job.evictable and not held.need)
    core = build(replace(state, waiting=(job,), running=fixed, bookings=(), reserved=(), seats=(), claims=()))
    if any(isinstance(decision, Admit) for decision in core.decide(state.at)):
        return ""
    reason = core.why(job.id)
    return reason.code if reason is not None else "unknown"


def _end_of_line(state: State, job: JobAsk) -> int | None:
    """When all other jobs have had their time, one after the other, and all bookings are over; None: not known."""
    whole, rest, longest = 0, 0, job.max_runtime
    longest_overrun = overrun_of(job, state.policy)
    for other_job, held in _others(state, job):
        if other_job.max_runtime is None:
            return None
        longest = None if longest is None else max(longest, other_job.max_runtime)
        overrun = overrun_of(other_job, state.policy)
        longest_overrun = max(longest_overrun, overrun)
        whole += other_job.max_runtime + overrun + LAG_SECONDS
        if held is None:
            rest += other_job.max_runtime + overrun + LAG_SECONDS
        else:
            rest += max(0, held.started_at + other_job.max_runtime - state.at) + overrun + LAG_SECONDS
            rest += other_job.max_runtime + overrun + LAG_SECONDS if held.leaving else 0  # It may wait again.
    bookings = [booking for booking in state.bookings if booking.pool_id in {state.pools[pool].id for pool in job.pools}]
    if bookings and longest is None:
        return max(booking.ends_at for booking in bookings) + whole + rest + LAG_SECONDS
    for booking in bookings:  # No job starts that would still run in it; those that ran make way, and have to run again.
        shut = max(state.at, booking.starts_at - (longest or 0) - longest_overrun - state.policy.grace_seconds)
        rest += max(0, booking.ends_at - shut) + whole
    return state.at + rest + LAG_SECONDS


def _others(state: State, job: JobAsk) -> Iterable[tuple[JobAsk, Held | None]]:
    """Jobs that could be in its way: in its pools, or counting for the same caps, which hold in all pools. With each running
    job what it holds; None: it waits."""
    pools = set(job.pools)

    def is_near(other_job: JobAsk) -> bool:
        return not pools.isdisjoint(other_job.pools) or bool(state.caps) or (bool(job.array) and other_job.array == job.array)

    for held in state.running:
        if held.need and held.job.id != job.id and is_near(held.job):
            yield held.job, held
    for other_job in state.waiting:
        code = other_job.withheld.code if other_job.withheld is not None else None
        if other_job.id != job.id and code not in NEVER_STARTS and is_near(other_job):
            yield other_job, None
