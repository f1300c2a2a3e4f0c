"""Why a job waits, from the scheduler's numbers to codes and amounts that people are shown.

Most codes need no more than their record in `jobs/lifecycle/wait_reasons.py`, which says what each amount is; those whose amounts
are found elsewhere have a function here. A code of the core with neither fails at import.

Of others' jobs nothing is told but what is free, kept or in use altogether, and the id of the one that the wait is about: a
reason is read by all who may see the job. `jobs/selectors/reasons.py` names that other job to those who may see it, too.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from jobs.lifecycle.filter_words import FilterCode
from jobs.lifecycle.wait_reasons import WAITS
from jobs.lifecycle.wait_record import Number, WaitSource
from jobs.loading.around import Around, Numbers
from jobs.scheduling.core.core import Core
from jobs.scheduling.core.eligibility import Refusal, Sizes
from jobs.scheduling.core.state.decisions import WaitReason
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.questions.latest import cleared_at
from jobs.scheduling.questions.subjects import FOR_OTHERS, free_for, least, subject_of
from kernel.resources import RESOURCE_NAMES
from kernel.wait_codes import WaitCode

Graces = Callable[[Collection[str]], Mapping[str, int]]


def _no_graces(job_ids: Collection[str]) -> Mapping[str, int]:
    return {}


@dataclass(slots=True)
class ReasonTranslator:
    """Made anew when machines or limits change; remembers whether gangs could ever fit. `graces`: how long some that leave may
    take, in seconds by job; for others the policy's grace counts."""

    around: Around
    numbers: Numbers
    graces: Graces = _no_graces
    sizes: Sizes = field(init=False)
    _queue_names: Mapping[uuid.UUID, str] = field(init=False)

    def __post_init__(self) -> None:
        self.sizes = Sizes(self.around.machines, self.around.pools, self.around.rules)
        self._queue_names = self.around.queue_names()

    def tell(self, core: Core, job: JobAsk, reason: WaitReason) -> Refusal:
        """An entry of the catalogue of wait reasons, and its amounts."""
        if WAITS[reason.code].may_be_too_large:
            never = self._never(job, reason)
            if never is not None:
                return never
        return _TRANSLATORS[reason.code](self, core, job, reason)

    def _never(self, job: JobAsk, reason: WaitReason) -> Refusal | None:
        """Whether it is too large for every pool that it may go to, so that all else is beside the point."""
        found = None
        for pool in job.pools:
            refusal = self.sizes.refusal(job.gang, pool)
            if refusal is None:
                return None
            if found is None or pool == reason.pool:
                found = refusal
        return found

    # --- Numbers and names --------------------------------------------------------------------------------------------

    def amounts(self, reason: WaitReason, wanted: Mapping[str, Number]) -> Mapping[str, object]:
        return {name: _READERS[number](self, reason) for name, number in wanted.items()}

    def queue(self, number: int) -> str:
        queue_id = self.numbers.queues[number] if 0 <= number < len(self.numbers.queues) else None
        return self._queue_names.get(queue_id, "") if queue_id is not None else ""

    def pool(self, number: int) -> str:
        return self.around.pools[number].name if 0 <= number < len(self.around.pools) else ""

    @staticmethod
    def resource(number: int) -> str:
        return RESOURCE_NAMES[number] if 0 <= number < len(RESOURCE_NAMES) else ""


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


Translate = Callable[[ReasonTranslator, Core, JobAsk, WaitReason], Refusal]

_READERS: Mapping[Number, Callable[[ReasonTranslator, WaitReason], object]] = {
    Number.POOL: lambda translator, reason: translator.pool(reason.pool),
    Number.QUEUE: lambda translator, reason: translator.queue(reason.queue),
    Number.RESOURCE: lambda translator, reason: translator.resource(reason.resource),
    Number.NEED: lambda translator, reason: reason.need,
    Number.HELD: lambda translator, reason: reason.held,
    Number.LIMIT: lambda translator, reason: reason.limit,
    Number.FREE: lambda translator, reason: max(0, reason.limit - reason.held),
    Number.KEPT: lambda translator, reason: reason.kept,
    Number.FITTING: lambda translator, reason: reason.fitting,
    Number.SINCE: lambda translator, reason: _moment(reason.since),
    Number.UNTIL: lambda translator, reason: _moment(reason.until),
    Number.WHAT: lambda translator, reason: reason.what,
}


def _ceiling(translator: ReasonTranslator, core: Core, job: JobAsk, reason: WaitReason) -> Refusal:
    code = WaitCode.CEILING_TOO_LOW if reason.need > reason.limit else WaitCode.CEILING
    return code, translator.amounts(reason, WAITS[WaitCode.CEILING].numbers)


def _no_room(translator: ReasonTranslator, core: Core, job: JobAsk, reason: WaitReason) -> Refusal:
    free = free_for(core, job, reason.pool)
    detail: dict[str, object] = {
        "pool": translator.pool(reason.pool), "need": least(job).as_dict(), "free": free.as_dict()
    }  # fmt: skip
    if reason.need > 1 and reason.code != WaitCode.CAPACITY:  # There it is an amount.
        detail |= {"tasks": reason.need, "fitting": reason.fitting}
    left_out = {refusal.code: refusal.machines for refusal in reason.filters if refusal.code in FOR_OTHERS}
    if left_out:
        detail["left_out"] = left_out
    if any(refusal.code is FilterCode.GPU_SHARE_GUARD for refusal in reason.filters):
        detail["shared_devices_max"] = core.machines.rules[reason.pool].shared_devices_max
    holder = subject_of(core, job, reason)
    if holder is not None:
        until = {"until": _moment(holder.until)} if holder.until else {}
        detail["holder"] = {"job": holder.job_id, "is_alone": holder.is_alone, **until}
    return WaitCode.NO_ROOM, detail


def _kept_for_another(translator: ReasonTranslator, core: Core, job: JobAsk, reason: WaitReason) -> Refusal:
    """By its record, and for which job."""
    detail, first = translator.amounts(reason, WAITS[reason.code].numbers), subject_of(core, job, reason)
    if first is None or first.need is None:
        return reason.code, detail
    return reason.code, {**detail, "kept_for": {"job": first.job_id, "need": first.need.as_dict()}}


def _claim(translator: ReasonTranslator, core: Core, job: JobAsk, reason: WaitReason) -> Refusal:
    moving = {"moving": reason.held} if reason.held else {}
    at = cleared_at(core, job.id, translator.graces(core.transfers[job.id].leaving))
    return WaitCode.MAKING_ROOM, {"jobs": reason.need, **moving, "at": _moment(at)}


def _bare(translator: ReasonTranslator, core: Core, job: JobAsk, reason: WaitReason) -> Refusal:
    """Without amounts: who withheld the job has them."""
    return reason.code, {}


_FUNCTIONS: Mapping[WaitCode, Translate] = {
    WaitCode.CEILING: _ceiling,
    WaitCode.CAPACITY: _no_room,
    WaitCode.NO_MACHINE: _no_room,
    WaitCode.NO_ROOM: _no_room,
    WaitCode.CLAIM: _claim,
    WaitCode.BEHIND: _kept_for_another,
    WaitCode.BACKFILL_RESERVATION: _kept_for_another,
    WaitCode.NO_POOL: _bare,
    WaitCode.NOT_BEFORE: _bare,
}


def _by_its_record(code: WaitCode) -> Translate:
    """All amounts are numbers of the reason, as the record says."""
    shown = WAITS[code].shown_as or code
    wanted = WAITS[shown].numbers
    if wanted.keys() != WAITS[shown].amounts.keys():
        raise TypeError(
            f"wait reason {code} needs `numbers` in its record, or a function here: nothing gives the amounts of {shown}"
        )
    return lambda translator, core, job, reason: (shown, translator.amounts(reason, wanted))


def _translator(code: WaitCode) -> Translate:
    if code in _FUNCTIONS:
        return _FUNCTIONS[code]
    return _by_its_record(code) if WAITS[code].source is WaitSource.CORE else _bare


_TRANSLATORS: Mapping[WaitCode, Translate] = {code: _translator(code) for code in WaitCode}
if _READERS.keys() != set(Number):
    raise TypeError(f"numbers that nothing reads: {sorted(set(Number) - _READERS.keys())}")
