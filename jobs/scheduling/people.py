"""What each user holds, for the caps on users (`tenants/quota/caps.py`): kept from pass to pass, where there are caps at all."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from jobs.scheduling.decisions import Reason
from jobs.scheduling.gangs import GangAsk
from jobs.scheduling.work import Job, Running
from tenants.quota.caps import CapRefusal, Held, UserCap, UserCaps

Place = tuple[uuid.UUID, uuid.UUID]


class People:
    """Users with what they hold in each tenant and below."""

    def __init__(self, caps: Iterable[UserCap] = (), running: Iterable[Running] = ()) -> None:
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
        """Where a job counts: its tenant and all above, with its user."""
        return [(tenant, job.user) for tenant in job.tenants] if self.caps and job.user is not None else []

    def number(self, job: Job) -> int:
        """The same for jobs that the same caps hold for; 0 where none does."""
        if not self.caps or job.user is None or not any(self.caps.cap_of(tenant, job.user) for tenant in job.tenants):
            return 0
        return self._numbers.setdefault((job.tenants, job.user), len(self._numbers) + 1)

    def refusal(self, job: Job, ask: Held, also: Held | None = None) -> CapRefusal | None:
        """The first cap that an ask breaks, when its user is about to hold `also`, too."""
        if not self.caps or job.user is None:
            return None
        found = self.caps.refusals(job.tenants, job.user, ask if also is None else ask + also, self._held)
        return found[0] if found else None

    def _move(self, job: Job, amount: Held) -> None:
        for place in self.places(job):
            held = self._held.get(place, Held()) + amount
            if held == Held():
                self._held.pop(place, None)
            else:
                self._held[place] = held


def held_by(one: Running) -> Held:
    return Held(one.gpu_millis, 1, len(one.placed.tasks))


def least(gang: GangAsk) -> Held:
    """What a gang holds at its smallest."""
    return Held(sum(role.ask.gpu_millis * role.minimum for role in gang.roles), 1, sum(role.minimum for role in gang.roles))


def most(gang: GangAsk) -> Held:
    """What a gang holds at its largest."""
    return Held(sum(role.ask.gpu_millis * role.maximum for role in gang.roles), 1, sum(role.maximum for role in gang.roles))


def reason_of(refusal: CapRefusal, queue: int) -> Reason:
    return Reason(
        "user_cap", queue=queue, need=refusal.need, held=refusal.used, limit=refusal.limit, what=refusal.what,
        of=str(refusal.tenant_id),
    )  # fmt: skip
