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
from kernel.words import Text
from reconciling import bulk
from tenants.capacity.models import Queue, QueueRule, UserCap
from tenants.capacity.quota.caps import CAPPED, RUNTIME_MAX_SECONDS
from tenants.capacity.quota.limits import AMOUNT_MAX
from tenants.capacity.services.queues import guarded, tell
from tenants.identity.access import demand
from tenants.identity.models import Tenant
from tenants.identity.services.names import Problems

LINES_MAX = 1_000


@dataclass(frozen=True, slots=True)
class CapLine:
    """What one user may hold; `user_id` None is all users without a line of their own, and None is no cap."""

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
    many containers, may hold capacity at a time. None lifts a limit, what is not named stays. For owners of the queue above.
    `default_runtime_seconds` ends no job: it is the time that is planned with for jobs that say nothing.

    Jobs that were submitted already keep the times that they were submitted with, and go on above a new count.
    """
    demand(actor, None if queue.parent is None else queue.parent.tenant_id, "queue.limit")
    if queue.parent_id is None:
        raise Conflict(
            Text("The root queue has no limits.", "根队列没有额度。"),
            hint=Text("Limit the queues below it.", "请设定其下级队列的额度。"),
        )
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
            message = Text(
                f"Queue {queue.name} may have run times between 1 second and {days} days, not {seconds} seconds.",
                f"队列 {queue.name} 的运行时长须在 1 秒到 {days} 天之间，而非 {seconds} 秒。",
            )
            problems.add(
                f"/{name}",
                "out_of_range",
                message,
                Text("Give seconds, 86400 for a day, or null for none.", "请给出秒数（一天为 86400），或用 null 表示不限。"),
            )
    for name in COUNTS:
        count = rules.get(name)
        if count is not None and not 0 <= count <= AMOUNT_MAX:
            message = Text(f"{count} is not between 0 and {AMOUNT_MAX}.", f"{count} 不在 0 到 {AMOUNT_MAX} 之间。")
            problems.add(
                f"/{name}",
                "out_of_range",
                message,
                Text("Give a number, or null for no limit.", "请给出数字，或用 null 表示不限。"),
            )
        if count is not None and not queue.is_top:
            message = Text(
                f"Only a tenant's top queue limits how many there are; {queue.name} is below one.",
                f"只有租户的顶层队列可以限制数量；{queue.name} 在其下级。",
            )
            problems.add(f"/{name}", "not_top_queue", message, Text("Limit the tenant's top queue.", "请限制租户的顶层队列。"))
    problems.raise_if_any()


def _check(lines: Sequence[CapLine]) -> None:
    problems = Problems()
    if len(lines) > LINES_MAX:
        problems.add(
            "",
            "too_many",
            Text(f"A tenant has caps for at most {LINES_MAX} people.", f"一个租户最多为 {LINES_MAX} 人设置上限。"),
            Text("Cap all users with one line.", "请用一行限制所有人。"),
        )
    seen: set[uuid.UUID | None] = set()
    for index, line in enumerate(lines):
        if line.user_id in seen:
            problems.add(
                f"/{index}/user",
                "repeated",
                Text("This user is listed twice.", "该用户重复列出。"),
                Text("Leave one of the lines away.", "请去掉其中一行。"),
            )
        seen.add(line.user_id)
        for what in CAPPED:
            value = getattr(line, what)
            if value is not None and not 0 <= value <= AMOUNT_MAX:
                message = Text(
                    f"{what} is {value}; it must be between 0 and {AMOUNT_MAX}.",
                    f"{what} 为 {value}；须在 0 到 {AMOUNT_MAX} 之间。",
                )
                problems.add(f"/{index}/{what}", "out_of_range", message, Text("null is no cap.", "null 表示没有上限。"))
    problems.raise_if_any()
