"""The other job that a wait is about: which one room is kept for, and which one holds the room that is missing.

The scheduler names both with the reason that it stores, and `explain.py` with its conditions, so that a list and an explanation
name the same job. Whether a reader may know it is decided when the reason is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice

from jobs.lifecycle.filter_words import FilterCode
from jobs.lifecycle.wait_reasons import WAITS, cause_of
from jobs.scheduling.core.core import Core
from jobs.scheduling.core.state.decisions import WaitReason
from jobs.scheduling.core.state.reservation import FOREVER
from jobs.scheduling.core.state.work import JobAsk
from kernel.resources import Resources
from kernel.wait_codes import WaitCode
from tenants.capacity.quota.limits import Amount, amount_of

ENDS_MAX = 32  # Ends that are looked at: room that more jobs than these hold together is held by nobody in particular.
FOR_OTHERS = frozenset({FilterCode.LABEL, FilterCode.TAINT})  # Filters by which free room is none for this job.


@dataclass(frozen=True, slots=True)
class Subject:
    """A job that waits and for which room is kept: `need`, what it asks for. Or one that runs and holds room: `until`, when it
    has left at the latest, 0 where that is not known; `is_alone`, whether its end alone is enough."""

    job_id: str
    need: Resources | None = None
    until: int = 0
    is_alone: bool = True


def subject_of(core: Core, job: JobAsk, reason: WaitReason) -> Subject | None:
    """The other job that a wait is about; None where it is about none, or about many."""
    find = _FINDERS.get(cause_of(reason.code))
    return None if find is None else find(core, job, reason)


def free_for(core: Core, job: JobAsk, pool: int) -> Resources:
    """What is free in a pool, with what is held there for the reserved start of the job itself."""
    free, mine = core.machines.free(pool), core.reservations.by_job.get(job.id)
    if mine is None or mine.pool != pool:
        return free
    for machine, held in core.reservations.hidden_on(pool).items():
        need = mine.needs.get(machine)
        if need is not None:
            amounts = (need.cpu, need.memory, sum(need.devices.values()))
            free += Resources(*(min(kept, wanted) for kept, wanted in zip(held, amounts, strict=True)))
    return free


def least(job: JobAsk) -> Resources:
    """What a job asks for at its smallest."""
    return sum((role.ask.resources * role.minimum for role in job.gang.roles), start=Resources())


def _first_in_queue(core: Core, job: JobAsk, reason: WaitReason) -> Subject | None:
    """The job of its queue that no later job may pass."""
    stop = core.ordering.stopped_by(job.queue)
    first = None if stop is None or stop[2] == job.id else core.ordering.job(stop[2])
    return None if first is None else Subject(first.id, least(first))


def _reserved(core: Core, job: JobAsk, reason: WaitReason) -> Subject | None:
    """The job whose reserved start keeps the room: of several at that moment the one in that pool, then the first by id."""
    if not core.reservations:
        return None
    found = [
        reservation
        for reservation in core.reservations.by_job.values()
        if reservation.at == reason.until and reservation.job.id != job.id
    ]
    first = min(found, key=lambda reservation: (reservation.pool != reason.pool, reservation.job.id), default=None)
    return None if first is None else Subject(first.job.id, least(first.job))


def _holder(core: Core, job: JobAsk, reason: WaitReason) -> Subject | None:
    """Of the jobs with whose ends, in their planned order, as much becomes free as is missing, the one that holds most of it.

    None where nothing is missing in sum, where nodes are left out for this job, or where that takes too many ends.
    """
    pool, inside = reason.pool, core.live.shapes.of(job.gang, job.pools).inside
    if pool not in inside or WAITS[reason.code].is_unfit or any(refusal.code in FOR_OTHERS for refusal in reason.filters):
        return None
    lacking = [amount - left for amount, left in zip(inside[pool], amount_of(free_for(core, job, pool)), strict=True)]
    if max(lacking) <= 0:
        return None
    held: dict[str, Amount] = {}
    for _, name in islice(core.reservations.ends_in(pool), ENDS_MAX):
        freed = next(amount for at, amount in core.running[name].need if at == pool)
        if any(more > 0 < amount for more, amount in zip(lacking, freed, strict=True)):
            held[name] = freed
        lacking = [more - amount for more, amount in zip(lacking, freed, strict=True)]
        if max(lacking) <= 0:
            break
    else:
        return None
    most = max(held, key=lambda name: (held[name][::-1], name))  # GPUs before memory before cores.
    sure = core.reservations.ends_of(core.running[most]).sure
    is_alone = len(held) == 1
    return Subject(most, until=sure if is_alone and core.now < sure < FOREVER else 0, is_alone=is_alone)


_FINDERS: Mapping[str, Callable[[Core, JobAsk, WaitReason], Subject | None]] = {
    WaitCode.BEHIND: _first_in_queue,
    WaitCode.BACKFILL_RESERVATION: _reserved,
    WaitCode.NO_ROOM: _holder,
}
