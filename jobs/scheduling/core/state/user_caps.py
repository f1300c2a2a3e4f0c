"""What each user holds, and all users of each tenant together, for the caps on both (`tenants/capacity/quota/caps.py`).

Kept from pass to pass, where there are caps at all.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from jobs.scheduling.core.place.gangs import GangAsk
from jobs.scheduling.core.state.decisions import WaitReason
from jobs.scheduling.core.state.work import JobAsk, Running
from kernel.wait_codes import WaitCode
from tenants.capacity.quota.caps import TOGETHER, CapFacts, CapRefusal, Held, UserCaps, places_of
from tenants.capacity.quota.caps import Place as Place


class UserHoldings:
    """What users hold in each tenant and below."""

    def __init__(self, caps: Iterable[CapFacts] = (), gangs: Iterable[Running] = ()) -> None:
        self.set(caps, gangs)

    def set(self, caps: Iterable[CapFacts], gangs: Iterable[Running]) -> None:
        """Other caps; what is held is counted anew."""
        self.caps = UserCaps(caps)
        self._held: dict[Place, Held] = {}
        self._numbers: dict[tuple[tuple[uuid.UUID, ...], uuid.UUID], int] = {}
        for running in gangs:
            self.take(running)

    def __bool__(self) -> bool:
        return bool(self.caps)

    def take(self, running: Running) -> None:
        self._move(running.job, held_by(running))

    def give(self, running: Running) -> None:
        self._move(running.job, Held() - held_by(running))

    def places(self, job: JobAsk) -> list[Place]:
        """Where a job counts: its tenant and all above, with its user and with all of them together."""
        return places_of(job.tenants, job.user) if self.caps and job.user is not None else []

    def number(self, job: JobAsk) -> int:
        """A number that is equal for jobs under the same caps; 0 where no cap applies."""
        if not self.caps or job.user is None:
            return 0
        if any(self.caps.cap_of(tenant, job.user) for tenant in job.tenants):
            return self._numbers.setdefault((job.tenants, job.user), len(self._numbers) + 1)
        if any(self.caps.cap_of(tenant, TOGETHER) for tenant in job.tenants):
            return self._numbers.setdefault((job.tenants, TOGETHER), len(self._numbers) + 1)
        return 0

    def refusal(self, job: JobAsk, ask: Held) -> CapRefusal | None:
        """The first cap that an ask breaks."""
        found = self.refusals(job, ask)
        return found[0] if found else None

    def refusals(self, job: JobAsk, ask: Held) -> tuple[CapRefusal, ...]:
        """Every cap that an ask breaks."""
        if not self.caps or job.user is None:
            return ()
        return self.caps.refusals(job.tenants, job.user, ask, self._held)

    def is_delayed(self, job: JobAsk, ask: Held, by: JobAsk, also: Held) -> bool:
        """Whether a job could not start because of a cap for which `by` counts, too, once `by` holds `also`. Caps for which only
        the job counts are left out."""
        common = set(self.places(job)) & set(self.places(by))
        if not common or job.user is None:
            return False
        held = {place: self._held.get(place, Held()) + (also if place in common else Held()) for place in self.places(job)}
        return any(place_of(refusal, job.user) in common for refusal in self.caps.refusals(job.tenants, job.user, ask, held))

    def counts(self, other_job: JobAsk, job: JobAsk, refusal: CapRefusal) -> bool:
        """Whether another job counts for the cap that refused a job."""
        return refusal.tenant_id in other_job.tenants and (refusal.together or other_job.user == job.user)

    def _move(self, job: JobAsk, amount: Held) -> None:
        for place in self.places(job):
            held = self._held.get(place, Held()) + amount
            if held == Held():
                self._held.pop(place, None)
            else:
                self._held[place] = held


def held_by(running: Running) -> Held:
    return Held(running.gpu_millis, 1, len(running.placed.tasks))


def place_of(refusal: CapRefusal, user: uuid.UUID) -> Place:
    """The place, tenant and user, in which less has to be held before the ask is granted."""
    return (refusal.tenant_id, TOGETHER if refusal.together else user)


def least(gang: GangAsk) -> Held:
    """What a gang holds at its smallest."""
    return Held(sum(role.ask.gpu_millis * role.minimum for role in gang.roles), 1, sum(role.minimum for role in gang.roles))


def most(gang: GangAsk) -> Held:
    """What a gang holds at its largest."""
    return Held(sum(role.ask.gpu_millis * role.maximum for role in gang.roles), 1, sum(role.maximum for role in gang.roles))


def reason_of(refusal: CapRefusal, queue: int) -> WaitReason:
    code = WaitCode.TENANT_CAP if refusal.together else WaitCode.USER_CAP
    return WaitReason(
        code, queue=queue, need=refusal.need, held=refusal.used, limit=refusal.limit, what=refusal.what,
        of=str(refusal.tenant_id),
    )  # fmt: skip
