"""Why a job waits, from the scheduler's numbers to codes and amounts that people are shown (`jobs/lifecycle/reasons.py`).

Of others' jobs nothing is told but what is free, kept or in use altogether: a reason is read by whoever may see the job.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from jobs.loading.state import Around, Numbers
from jobs.scheduling.core.core import Core
from jobs.scheduling.core.eligibility import Refusal, Sizes
from jobs.scheduling.core.place.gangs import GangAsk
from jobs.scheduling.core.state.decisions import Reason
from jobs.scheduling.core.state.work import Job
from kernel.resources import RESOURCE_NAMES, Resources

_SHAPELESS = frozenset(
    {"claim", "moving", "too_young", "brake", "behind", "booked", "reserved", "user_cap", "tenant_cap", "array_parallelism"}
)
_FOR_OTHERS = frozenset({"label", "taint"})  # Filters by which free room is none for this job.


@dataclass(slots=True)
class ReasonTranslator:
    """Made anew when machines or limits change; remembers whether gangs could ever fit."""

    around: Around
    numbers: Numbers
    sizes: Sizes = field(init=False)
    _queue_names: Mapping[uuid.UUID, str] = field(init=False)

    def __post_init__(self) -> None:
        self.sizes = Sizes(self.around.machines, self.around.pools, self.around.rules)
        self._queue_names = self.around.queue_names()

    def tell(self, core: Core, job: Job, reason: Reason) -> Refusal:
        """An entry of the table of reasons, and its amounts."""
        if reason.code not in _SHAPELESS:
            never = self._never(job, reason)
            if never is not None:
                return never
        write = getattr(self, f"_{reason.code}", None)
        if write is None:
            return reason.code, {}
        told: Refusal = write(core, job, reason)
        return told

    def _never(self, job: Job, reason: Reason) -> Refusal | None:
        """Whether it is too large for every pool that it may go to, so that all else is beside the point."""
        found = None
        for pool in job.pools:
            refusal = self.sizes.refusal(job.gang, pool)
            if refusal is None:
                return None
            if found is None or pool == reason.pool:
                found = refusal
        return found

    # --- One for each code of the core -------------------------------------------------------------------------------

    def _ceiling(self, core: Core, job: Job, reason: Reason) -> Refusal:
        code = "ceiling_too_low" if reason.need > reason.limit else "ceiling"
        return code, {
            "queue": self._queue(reason.queue),
            "pool": self._pool(reason.pool),
            "resource": self._resource(reason.resource),
            "need": reason.need,
            "used": reason.held,
            "ceiling": reason.limit,
        }

    def _withheld(self, core: Core, job: Job, reason: Reason) -> Refusal:
        return "kept_for_others", {
            "pool": self._pool(reason.pool),
            "resource": self._resource(reason.resource),
            "need": reason.need,
            "free": max(0, reason.limit - reason.held),
            "kept": reason.kept,
        }

    def _no_room(self, core: Core, job: Job, reason: Reason) -> Refusal:
        free = core.machines.free(reason.pool)
        detail: dict[str, object] = {"pool": self._pool(reason.pool), "need": _least(job.gang).as_dict(), "free": free.as_dict()}
        if reason.need > 1 and reason.code != "capacity":  # There it is an amount.
            detail |= {"tasks": reason.need, "fitting": reason.fitting}
        left_out = {one.code: one.machines for one in reason.filters if one.code in _FOR_OTHERS}
        if left_out:
            detail["left_out"] = left_out
        return "no_room", detail

    _capacity = _no_machine = _no_room

    def _not_together(self, core: Core, job: Job, reason: Reason) -> Refusal:
        return "not_together", {"pool": self._pool(reason.pool), "tasks": reason.need, "fitting": reason.fitting}

    def _too_young(self, core: Core, job: Job, reason: Reason) -> Refusal:
        return "too_young", {"pool": self._pool(reason.pool), "at": _moment(reason.until)}

    def _brake(self, core: Core, job: Job, reason: Reason) -> Refusal:
        return "eviction_brake", {"evictions": reason.held, "limit": reason.limit, "at": _moment(reason.until)}

    def _behind(self, core: Core, job: Job, reason: Reason) -> Refusal:
        return "behind", {"queue": self._queue(reason.queue)}

    def _booked(self, core: Core, job: Job, reason: Reason) -> Refusal:
        return "booked", {"pool": self._pool(reason.pool), "at": _moment(reason.until)}

    def _reserved(self, core: Core, job: Job, reason: Reason) -> Refusal:
        return "reserved", {
            "pool": self._pool(reason.pool),
            "resource": self._resource(reason.resource),
            "need": reason.need,
            "kept": reason.kept,
            "from": _moment(reason.since),
            "until": _moment(reason.until),
        }

    def _user_cap(self, core: Core, job: Job, reason: Reason) -> Refusal:
        return reason.code, {"what": reason.what, "need": reason.need, "used": reason.held, "limit": reason.limit}

    _tenant_cap = _user_cap

    def _claim(self, core: Core, job: Job, reason: Reason) -> Refusal:
        return "making_room", {"jobs": reason.need, **({"moving": reason.held} if reason.held else {})}

    def _moving(self, core: Core, job: Job, reason: Reason) -> Refusal:
        return "moving", {"pool": self._pool(reason.pool)}

    # --- Names --------------------------------------------------------------------------------------------------------

    def _queue(self, number: int) -> str:
        queue_id = self.numbers.queues[number] if 0 <= number < len(self.numbers.queues) else None
        return self._queue_names.get(queue_id, "") if queue_id is not None else ""

    def _pool(self, number: int) -> str:
        return self.around.pools[number].name if 0 <= number < len(self.around.pools) else ""

    @staticmethod
    def _resource(number: int) -> str:
        return RESOURCE_NAMES[number] if 0 <= number < len(RESOURCE_NAMES) else ""


def _least(gang: GangAsk) -> Resources:
    whole = Resources()
    for role in gang.roles:
        whole += role.ask.resources * role.minimum
    return whole


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
