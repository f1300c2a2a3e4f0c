"""Which priority a job gets: what it asks for, as far as whoever asks may go; above that, somebody has to approve."""

from __future__ import annotations

import uuid
from datetime import datetime

from django.db.models import Max

from jobs.lifecycle.requests import RequestState
from jobs.models import PriorityRequest
from kernel.actor import Actor
from kernel.errors import FieldError
from kernel.priorities import NORMAL, format_priority
from tenants.grants import granted_to, priority_grants
from webapi.facts import Facts, look


def granted_priority(actor: Actor, tenant_id: uuid.UUID, *, now: datetime, facts: Facts | None = None) -> int:
    """The highest priority that the actor may use in a tenant now: by role, or by a window that was approved."""
    facts = facts or look()
    grants = facts.find("priority_grants", priority_grants)
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

    `asks_for_more`: rather than being refused it is stored with the highest that there is, and the rest is requested. Nobody is
    refused for `normal`, which is what a job asks for that says nothing: it gets as much of it as there is.
    """
    grants = facts.find("priority_grants", priority_grants)
    if asked <= granted_to(actor, tenant_id, grants):
        return asked, None
    most = granted_priority(actor, tenant_id, now=facts.now, facts=facts)
    if asked <= most or asked <= NORMAL or asks_for_more:
        return min(asked, most), None
    hint = "Or submit it with `--priority-reason`: it waits with yours, and the rest is requested."
    return most, too_high(asked, most, hint=hint)


def too_high(asked: int, most: int, *, hint: str = "") -> FieldError:
    """The refusal of a priority above one's own."""
    message = f"Priority {format_priority(asked)} is above {format_priority(most)}, the highest that you may use yourself here."
    request = "Ask for it: POST /api/v1/priority-requests, or `berth priority request`."
    return FieldError("/priority", "priority_above_grant", message, f"{request} {hint}".rstrip())
