"""What each user holds, and each tenant's users together, for the caps on both (`tenants/quota/caps.py`).

Kept from pass to pass, where there are caps at all.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from jobs.scheduling.core.place.gangs import GangAsk
from jobs.scheduling.core.state.decisions import Reason
from jobs.scheduling.core.state.work import Job, Running
from tenants.quota.caps import TOGETHER, CapRefusal, Held, UserCap, UserCaps, places_of
from tenants.quota.caps import Place as Place


class UserHoldings:
    """Users with what they hold in each tenant and below."""

    def __init__(self, caps: Iterable[UserCap] = (), running: Iterable[Running] = ()) -> None:
        self.set(caps, running)

    def set(self, caps: Iterable[UserCap], running: Iterable[Running]) -> None:
        """Other caps; what is held is counted anew."""
        self.caps = UserCaps(caps)
        self._held: dict[Place, Held] = {}
        self._numbers: dict[tuple[tuple[uuid.UUID, ...], uuid.UUID], int] = {}
        for one in running:
            self.take(one)

    def __bool__(self) -> bool:
        return bool(self.caps)

    def take(self, one: Running) -> None:
        self._move(one.job, held_by(one))

    def give(self, one: Running) -> None:
        self._move(one.job, Held() - held_by(one))

    def places(self, job: Job) -> list[Place]:
        """Where a job counts: its tenant and all above, with its user and with all of them together."""
        return places_of(job.tenants, job.user) if self.caps and job.user is not None else []

    def number(self, job: Job) -> int:
        """The same for jobs that the same caps hold for; 0 where none does."""
        if not self.caps or job.user is None:
            return 0
        if any(self.caps.cap_of(tenant, job.user) for tenant in job.tenants):
            return self._numbers.setdefault((job.tenants, job.user), len(self._numbers) + 1)
        if any(self.caps.cap_of(tenant, TOGETHER) for tenant in job.tenants):
            return self._numbers.setdefault((job.tenants, TOGETHER), len(self._numbers) + 1)
        return 0

    def refusal(self, job: Job, ask: Held) -> CapRefusal | None:
        """The first cap that an ask breaks."""
        found = self.refusals(job, ask)
        return found[0] if found else None

    def refusals(self, job: Job, ask: Held) -> tuple[CapRefusal, ...]:
        """Every cap that an ask breaks."""
        if not self.caps or job.user is None:
            return ()
        return self.caps.refusals(job.tenants, job.user, ask, self._held)

    def is_delayed(self, job: Job, ask: Held, by: Job, also: Held) -> bool:
        """Whether a job could not start any more for a cap that both count for, once another holds `also`. A cap for which only
        the job counts has nothing to do with the other."""
        common = set(self.places(job)) & set(self.places(by))
        if not common or job.user is None:
            return False
        held = {place: self._held.get(place, Held()) + (also if place in common else Held()) for place in self.places(job)}
        return any(place_of(one, job.user) in common for one in self.caps.refusals(job.tenants, job.user, ask, held))

    def counts(self, other: Job, job: Job, refusal: CapRefusal) -> bool:
        """Whether another job counts for the cap that refused one."""
        return refusal.tenant_id in other.tenants and (refusal.together or other.user == job.user)

    def _move(self, job: Job, amount: Held) -> None:
        for place in self.places(job):
            held = self._held.get(place, Held()) + amount
            if held == Held():
                self._held.pop(place, None)
            else:
                self._held[place] = held


def held_by(one: Running) -> Held:
    return Held(one.gpu_millis, 1, len(one.placed.tasks))


def place_of(refusal: CapRefusal, user: uuid.UUID) -> Place:
    """Where less has to be held before it may be granted."""
    return (refusal.tenant_id, TOGETHER if refusal.together else user)


def least(gang: GangAsk) -> Held:
    """What a gang holds at its smallest."""
    return Held(sum(role.ask.gpu_millis * role.minimum for role in gang.roles), 1, sum(role.minimum for role in gang.roles))


def most(gang: GangAsk) -> Held:
    """What a gang holds at its largest."""
    return Held(sum(role.ask.gpu_millis * role.maximum for role in gang.roles), 1, sum(role.maximum for role in gang.roles))


def reason_of(refusal: CapRefusal, queue: int) -> Reason:
    code = "tenant_cap" if refusal.together else "user_cap"
    return Reason(
        code, queue=queue, need=refusal.need, held=refusal.used, limit=refusal.limit, what=refusal.what,
        of=str(refusal.tenant_id),
    )  # fmt: skip
