"""Caps beside the limits of queues: what one person, or all together, may hold inside a tenant, and for how long a job may run.

Counts are given; nothing here knows where they come from. What is held in a tenant includes all tenants below it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

RUNTIME_MAX_SECONDS = 10 * 365 * 86_400
TOGETHER = uuid.UUID(int=(1 << 128) - 1)
"""In place of a user: all users of a tenant, counted together."""

Place = tuple[uuid.UUID, uuid.UUID]
"""A tenant, and one user or `TOGETHER`: where something is counted."""


@dataclass(frozen=True, slots=True)
class Held:
    """What one user holds in one tenant, or would hold more: thousandths of GPUs, jobs that hold capacity, their containers."""

    gpu_millis: int = 0
    jobs: int = 0
    containers: int = 0

    def __add__(self, other: Held) -> Held:
        return Held(self.gpu_millis + other.gpu_millis, self.jobs + other.jobs, self.containers + other.containers)

    def __sub__(self, other: Held) -> Held:
        return Held(self.gpu_millis - other.gpu_millis, self.jobs - other.jobs, self.containers - other.containers)


CAPPED = tuple(field.name for field in fields(Held))


@dataclass(frozen=True, slots=True)
class CapFacts:
    """The most that one user may hold in a tenant. `user_id` None: all users without a line of their own; `TOGETHER`: all users
    of the tenant at once, whatever each of them may. None as an amount: no cap."""

    tenant_id: uuid.UUID
    user_id: uuid.UUID | None
    gpu_millis: int | None = None
    jobs: int | None = None
    containers: int | None = None


@dataclass(frozen=True, slots=True)
class CapRefusal:
    """The cap that an ask breaks: `used + need` is above `limit` in this tenant."""

    tenant_id: uuid.UUID
    what: str
    need: int
    used: int
    limit: int
    together: bool = False  # Of all users of the tenant.

    @property
    def can_never_fit(self) -> bool:
        """Whether the ask alone is above the cap: waiting does not help."""
        return self.need > self.limit


class UserCaps:
    """All caps, asked by tenant and user. A line for a user stands in place of the tenant's line for all users."""

    def __init__(self, caps: Iterable[CapFacts]) -> None:
        self._by_tenant: dict[uuid.UUID, dict[uuid.UUID | None, CapFacts]] = {}
        for cap in caps:
            self._by_tenant.setdefault(cap.tenant_id, {})[cap.user_id] = cap

    def __bool__(self) -> bool:
        return bool(self._by_tenant)

    def cap_of(self, tenant_id: uuid.UUID, user_id: uuid.UUID) -> CapFacts | None:
        """The line that holds for a user in this tenant; None where nothing is capped."""
        lines = self._by_tenant.get(tenant_id)
        if lines is None:
            return None
        return lines.get(user_id) if user_id == TOGETHER else lines.get(user_id, lines.get(None))

    @property
    def counts_together(self) -> bool:
        """Whether any tenant is capped as a whole."""
        return any(TOGETHER in lines for lines in self._by_tenant.values())

    def refusals(
        self,
        tenants: Sequence[uuid.UUID],
        user_id: uuid.UUID,
        ask: Held,
        held: Mapping[Place, Held],
    ) -> tuple[CapRefusal, ...]:
        """Every cap that refuses the ask, nearest tenant first. `tenants`: the job's and all above it; `held` by (tenant,
        user), with what is held in tenants below. Asking for none of something is never refused for it."""
        found: list[CapRefusal] = []
        for tenant_id in tenants:
            for who in (user_id, TOGETHER):
                cap = self.cap_of(tenant_id, who)
                if cap is None:
                    continue
                now = held.get((tenant_id, who), Held())
                for what in CAPPED:
                    need, used, limit = getattr(ask, what), getattr(now, what), getattr(cap, what)
                    if limit is not None and need > 0 and used + need > limit:
                        found.append(CapRefusal(tenant_id, what, need, used, limit, who == TOGETHER))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class CapAsk:
    """What one job is about to hold. `tenants`: its own and all above."""

    job_id: uuid.UUID
    user_id: uuid.UUID
    tenants: tuple[uuid.UUID, ...]
    amounts: Held


def over_caps(caps: UserCaps, asks: Iterable[CapAsk], held: Mapping[Place, Held]) -> dict[uuid.UUID, CapRefusal]:
    """Decide a batch in its order: those that would pass a cap, with the first that they would. All others hold from then on."""
    now = dict(held)
    refused: dict[uuid.UUID, CapRefusal] = {}
    for ask in asks:
        found = caps.refusals(ask.tenants, ask.user_id, ask.amounts, now)
        if found:
            refused[ask.job_id] = found[0]
            continue
        for place in places_of(ask.tenants, ask.user_id):
            now[place] = now.get(place, Held()) + ask.amounts
    return refused


def places_of(tenants: Iterable[uuid.UUID], user_id: uuid.UUID) -> list[Place]:
    """Where what a user holds in a tenant is counted: there and in all above, for the user and for all together."""
    return [(tenant_id, who) for tenant_id in tenants for who in (user_id, TOGETHER)]


def held_along(
    paths: Mapping[uuid.UUID, Sequence[uuid.UUID]], running: Iterable[tuple[uuid.UUID, uuid.UUID, Held]]
) -> dict[Place, Held]:
    """What each user, and all together, hold in each tenant and below, from what runs: (tenant, user, amounts) of each job.
    `paths` has for each tenant itself and all above it."""
    held: dict[Place, Held] = {}
    for tenant_id, user_id, amounts in running:
        for place in places_of(paths.get(tenant_id, (tenant_id,)), user_id):
            held[place] = held.get(place, Held()) + amounts
    return held


@dataclass(frozen=True, slots=True)
class RuntimeRefusal:
    """A job wants to run for longer than `queue_id` allows."""

    queue_id: uuid.UUID
    asked_seconds: int
    limit_seconds: int


def runtime_limit(path: Iterable[uuid.UUID], limits: Mapping[uuid.UUID, int]) -> tuple[uuid.UUID, int] | None:
    """The shortest time that a queue or one above it allows, and which queue that is (the nearest of equals)."""
    known = [(limits[queue_id], place, queue_id) for place, queue_id in enumerate(path) if queue_id in limits]
    if not known:
        return None
    limit, _, queue_id = min(known)
    return queue_id, limit


def default_runtime(path: Iterable[uuid.UUID], defaults: Mapping[uuid.UUID, int]) -> int | None:
    """How long a job is taken to run that says nothing, by the nearest queue that does."""
    return next((defaults[queue_id] for queue_id in path if queue_id in defaults), None)


def check_runtime(
    asked_seconds: int | None, path: Iterable[uuid.UUID], limits: Mapping[uuid.UUID, int]
) -> int | RuntimeRefusal | None:
    """How long the job may run: what it asks, the queue's limit where it asks for nothing, None for ever, or a refusal."""
    found = runtime_limit(path, limits)
    if found is None:
        return asked_seconds
    queue_id, limit = found
    if asked_seconds is None:
        return limit
    return RuntimeRefusal(queue_id, asked_seconds, limit) if asked_seconds > limit else asked_seconds
