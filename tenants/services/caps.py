"""What one person, or all together, may hold inside a tenant, and how long jobs may run. All act on the next admission."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from activity.services import record_audit
from kernel.actor import Actor
from kernel.errors import Conflict
from kernel.ids import new_id
from reconciling import bulk
from tenants.access import demand
from tenants.models import Queue, QueueRule, Tenant, UserCap
from tenants.quota.caps import CAPPED, RUNTIME_MAX_SECONDS
from tenants.quota.limits import AMOUNT_MAX
from tenants.services.names import Problems
from tenants.services.queues import guarded, tell

LINES_MAX = 1_000


@dataclass(frozen=True, slots=True)
class CapLine:
    """What one user may hold; `user_id` None is everybody without a line of their own, and None is no cap."""

    user_id: uuid.UUID | None
    gpu_millis: int | None = None
    jobs: int | None = None
    containers: int | None = None

    def as_dict(self) -> dict[str, int | None]:
        return {what: getattr(self, what) for what in CAPPED}


def set_user_caps(*, actor: Actor, tenant: Tenant, lines: Sequence[CapLine], now: datetime) -> None:
    """Replace all caps of a tenant by these. What is held already stays; nothing new starts above a cap."""
    demand(actor, tenant.pk, "cap.edit")
    _check(lines)
    with transaction.atomic():
        Tenant.objects.select_for_update(no_key=True).get(id=tenant.pk)
        rows = UserCap.objects.filter(tenant=tenant)
        before = {str(row.user_id or "everybody"): {what: getattr(row, what) for what in CAPPED} for row in rows}
        after = {str(line.user_id or "everybody"): line.as_dict() for line in lines}
        if before == after:
            return
        rows.delete()
        bulk.insert(
            UserCap,
            [{"id": new_id(), "tenant_id": tenant.pk, "user_id": line.user_id, **line.as_dict()} for line in lines],
        )
        record_audit(
            actor=actor,
            verb="cap.edit",
            tenant_id=tenant.pk,
            target_kind="tenant",
            target_id=tenant.pk,
            target_name=tenant.name,
            before=before,
            after=after,
            count=max(1, len(lines)),
            at=now,
        )


RUNTIMES, COUNTS = ("max_runtime_seconds", "default_runtime_seconds"), ("max_jobs", "max_containers")
RULES = (*RUNTIMES, *COUNTS)


def set_rules(
    *, actor: Actor, queue: Queue, rules: Mapping[str, int | None], expected_version: int | None = None, now: datetime
) -> Queue:
    """Limit jobs of a queue and of all below it: how long each may run, and, of a tenant's top queue, how many of them, with how
    many containers, may hold capacity at a time. None lifts a limit, what is not named stays. For whoever owns the queue above.
    `default_runtime_seconds` ends no job: it is the time that is planned with for jobs that say nothing.

    Jobs that were submitted already keep the times that they were submitted with, and go on above a new count.
    """
    demand(actor, None if queue.parent is None else queue.parent.tenant_id, "queue.limit")
    if queue.parent_id is None:
        raise Conflict("The root queue has no limits.", hint="Limit the queues below it.")
    _check_rules(queue, rules)
    with transaction.atomic():
        if queue.tenant_id is not None:  # Nothing starts by the old counts any more.
            Tenant.objects.select_for_update(no_key=True).get(id=queue.tenant_id)
        before = QueueRule.objects.filter(queue=queue).values(*RULES).first() or dict.fromkeys(RULES)
        guarded(queue, expected_version)
        QueueRule.objects.update_or_create(queue=queue, defaults=dict(rules))
        tell(queue, "limited", now)
        record_audit(
            actor=actor,
            verb="queue.limit",
            tenant_id=queue.tenant_id,
            target_kind="queue",
            target_id=queue.pk,
            target_name=queue.name,
            before=before,
            after={**before, **rules},
            at=now,
        )
    return queue


def _check_rules(queue: Queue, rules: Mapping[str, int | None]) -> None:
    problems = Problems()
    for name in RUNTIMES:
        seconds = rules.get(name)
        if seconds is not None and not 1 <= seconds <= RUNTIME_MAX_SECONDS:
            days = RUNTIME_MAX_SECONDS // 86_400
            message = f"Queue {queue.name} may have run times between 1 second and {days} days, not {seconds} seconds."
            problems.add(f"/{name}", "out_of_range", message, "Give seconds, 86400 for a day, or null for none.")
    for name in COUNTS:
        count = rules.get(name)
        if count is not None and not 0 <= count <= AMOUNT_MAX:
            message = f"{count} is not between 0 and {AMOUNT_MAX}."
            problems.add(f"/{name}", "out_of_range", message, "Give a number, or null for no limit.")
        if count is not None and not queue.is_top:
            message = f"Only a tenant's top queue limits how many there are; {queue.name} is below one."
            problems.add(f"/{name}", "not_top_queue", message, "Limit the tenant's top queue.")
    problems.raise_if_any()


def _check(lines: Sequence[CapLine]) -> None:
    problems = Problems()
    if len(lines) > LINES_MAX:
        problems.add("", "too_many", f"A tenant has caps for at most {LINES_MAX} people.", "Cap everybody with one line.")
    seen: set[uuid.UUID | None] = set()
    for index, line in enumerate(lines):
        if line.user_id in seen:
            problems.add(f"/{index}/user", "repeated", "This user is listed twice.", "Leave one of the lines away.")
        seen.add(line.user_id)
        for what in CAPPED:
            value = getattr(line, what)
            if value is not None and not 0 <= value <= AMOUNT_MAX:
                message = f"{what} is {value}; it must be between 0 and {AMOUNT_MAX}."
                problems.add(f"/{index}/{what}", "out_of_range", message, "null is no cap.")
    problems.raise_if_any()
