"""Which priority a job gets: what it asks for, as far as its user may go; above that, an approval is needed."""

from __future__ import annotations

import uuid
from datetime import datetime

from django.db.models import Max

from jobs.lifecycle.requests import RequestState
from jobs.models import PriorityRequest
from kernel.actor import Actor
from kernel.errors import FieldError
from kernel.facts import Facts
from kernel.priorities import NORMAL, format_priority
from kernel.words import NO_HINT, Text
from tenants.capacity.facts import remembered_priority_grants
from tenants.capacity.grants import granted_to
from webapi.facts import look


def granted_priority(actor: Actor, tenant_id: uuid.UUID, *, now: datetime, facts: Facts | None = None) -> int:
    """The highest priority that the actor may use in a tenant now: by role, or by a window that was approved."""
    facts = facts or look()
    grants = remembered_priority_grants(facts)
    own = granted_to(actor, tenant_id, grants)
    if actor.user_id is None:
        return own
    windows = PriorityRequest.objects.filter(
        user_id=actor.user_id,
        tenant_id__in=grants.paths.get(tenant_id, (tenant_id,)),
        job__isnull=True,
        state=RequestState.APPROVED,
        starts_at__lte=now,
        ends_at__gt=now,
    )
    return max(own, windows.aggregate(most=Max("priority"))["most"] or 0)


def stored_priority(
    actor: Actor, tenant_id: uuid.UUID, asked: int, *, asks_for_more: bool, facts: Facts
) -> tuple[int, FieldError | None]:
    """The priority that a new job is stored with, and why it is refused if it is.

    `asks_for_more`: rather than being refused it is stored with the highest that there is, and the rest is requested. No job is
    refused for `normal`, which is what a job asks for that says nothing: it gets as much of it as there is.
    """
    grants = remembered_priority_grants(facts)
    if asked <= granted_to(actor, tenant_id, grants):
        return asked, None
    most = granted_priority(actor, tenant_id, now=facts.now, facts=facts)
    if asked <= most or asked <= NORMAL or asks_for_more:
        return min(asked, most), None
    hint = Text(
        "Or submit it with `--priority-reason`: it waits with yours, and the rest is requested.",
        "或使用 `--priority-reason` 提交：先按您的优先级等待，并申请更高的。",
    )
    return most, too_high(asked, most, hint=hint)


def too_high(asked: int, most: int, *, hint: Text[str] = NO_HINT) -> FieldError:
    """The refusal of a priority above one's own."""
    message = Text(
        f"Priority {format_priority(asked)} is above {format_priority(most)}, the highest that you may use yourself here.",
        f"优先级 {format_priority(asked)} 高于 {format_priority(most)}，即您在此可自行使用的最高值。",
    )
    request = Text(
        f"Ask for it: POST /api/v1/priority-requests, or `berth priority request`. {hint.en}".rstrip(),
        f"请提出申请：POST /api/v1/priority-requests，或 `berth priority request`。{hint.zh}",
    )
    return FieldError("/priority", "priority_above_grant", message, request)
