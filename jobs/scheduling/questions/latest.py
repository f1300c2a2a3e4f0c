"""The latest start of a waiting job: a bound that is kept, not an expectation, and what it rests on.

**Booked.** A start that is booked comes by its time at the latest, whoever comes after it: nobody who starts may delay it. It
gives way only to a right that is older - work of its own queue with a higher priority, a queue that gets back what it deserves -
or to a machine that is lost or a limit that is lowered; then it is told why (`Book.cause`) and booked anew.

**Line.** Without one, and if nothing else is submitted and no job is evicted: as long as others run or wait for its pools, at
least one of them runs, for else it would start itself; so it starts when all of them have had their longest time, one after the
other. What tenants have booked for a time may keep everybody waiting meanwhile, and is added. This holds whatever the order, the
shapes and the fragmentation are, and is late for just that reason.

Neither is known where the longest time of another job is not. A reserved start that counts on how long others mostly run is a
plan, and no bound (`BackfillReservation.is_sure`). Once a job has waited for as long as patience says
(`next_reservation_from`), the next reserved start in its pools goes to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from jobs.scheduling.core.snapshot import Held, State, build
from jobs.scheduling.core.state.decisions import Admit
from jobs.scheduling.core.state.user_caps import least
from jobs.scheduling.core.state.work import Job
from jobs.scheduling.questions.explain import Settled

BOOKED, LINE = "booked", "line"
RUNTIME_UNKNOWN = "runtime_unknown"
LAG_SECONDS = 1  # From an end until the pass that sees it.
NEVER_STARTS = frozenset({"held"})  # What keeps others out of the line until somebody acts.


class Latest(NamedTuple):
    """`at` with its `kind`, or None and why. `next_reservation_from`: from when on the next reserved start is its; 0: never."""

    at: int | None
    kind: str = ""
    reason: str = ""
    next_reservation_from: int = 0


def latest_start(settled: Settled, job_id: str) -> Latest | None:
    """By when a waiting job starts at the latest; None for one that does not wait."""
    job, core = settled.job(job_id), settled.core
    if job is None:
        return None
    patience = settled.state.policy.patience_seconds
    is_capped = bool(core.holdings) and core.holdings.refusal(job, least(job.gang)) is not None  # No reservation cures that.
    next_reservation_from = job.submitted_at + patience if patience and not is_capped else 0
    booked = core.reservations.by_job.get(job_id)
    if booked is not None and booked.is_sure:
        return Latest(booked.at, BOOKED, "", next_reservation_from)
    alone = _why_not_alone(settled.state, job)
    if alone:
        return Latest(None, "", alone)
    at = _end_of_line(settled.state, job)
    if at is None:
        return Latest(None, "", RUNTIME_UNKNOWN, next_reservation_from)
    return Latest(at, LINE, "", next_reservation_from)


def _why_not_alone(state: State, job: Job) -> str:
    """What would keep the job waiting if it were the only one; nothing where it would start."""
    fixed = tuple(held for held in state.running if not held.job.evictable and not held.need)
    core = build(replace(state, waiting=(job,), running=fixed, windows=(), reserved=(), seats=(), claims=()))
    if any(isinstance(one, Admit) for one in core.decide(state.at)):
        return ""
    reason = core.why(job.id)
    return reason.code if reason is not None else "unknown"


def _end_of_line(state: State, job: Job) -> int | None:
    """When all others have had their time, one after the other, and all windows are over; None: nobody knows."""
    overrun = state.policy.overrun_seconds
    whole, rest, longest = 0, 0, job.max_runtime
    for other, held in _others(state, job):
        if other.max_runtime is None:
            return None
        longest = None if longest is None else max(longest, other.max_runtime)
        whole += other.max_runtime + overrun + LAG_SECONDS
        if held is None:
            rest += other.max_runtime + overrun + LAG_SECONDS
        else:
            rest += max(0, held.started_at + other.max_runtime - state.at) + overrun + LAG_SECONDS
            rest += other.max_runtime + overrun + LAG_SECONDS if held.leaving else 0  # It may wait again.
    windows = [one for one in state.windows if one.pool_id in {state.pools[pool].id for pool in job.pools}]
    if windows and longest is None:
        return max(one.ends_at for one in windows) + whole + rest + LAG_SECONDS
    for one in windows:  # Nobody starts who would still run in it; those who ran make way, and have to run again.
        shut = max(state.at, one.starts_at - (longest or 0) - overrun - state.policy.grace_seconds)
        rest += max(0, one.ends_at - shut) + whole
    return state.at + rest + LAG_SECONDS


def _others(state: State, job: Job) -> Iterable[tuple[Job, Held | None]]:
    """Those who could be in its way: in its pools, or counting for the same caps, which hold in all pools."""
    pools = set(job.pools)

    def is_near(other: Job) -> bool:
        return not pools.isdisjoint(other.pools) or bool(state.caps) or (bool(job.array) and other.array == job.array)

    for held in state.running:
        if held.need and held.job.id != job.id and is_near(held.job):
            yield held.job, held
    for other in state.waiting:
        code = other.withheld.code if other.withheld is not None else ""
        if other.id != job.id and code not in NEVER_STARTS and is_near(other):
            yield other, None
