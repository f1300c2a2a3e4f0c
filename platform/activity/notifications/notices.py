"""Notices: what certain people should hear that is no job's end. The service that knows the words writes them into an event.

An event `notice.<kind>` names the users it concerns; it goes to those of them who subscribed to the kind, and to users who
subscribed to it for all, as far as they still see the tenant.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Q

from activity import registry
from activity.models import Event, Subscription
from activity.notifications.kinds import NoticeKind
from activity.registry import Recipient
from activity.services import NewEvent
from kernel.actor import TenantRole

Told = tuple[Subscription, NoticeKind, dict[str, Any], Event]


def new_notice(
    kind: NoticeKind,
    *,
    tenant_id: uuid.UUID | None,
    subject_kind: str,
    subject_id: uuid.UUID,
    title: str,
    text: str = "",
    command: str = "",
    users: Collection[uuid.UUID | None] = (),
    for_managers: bool = False,
    job_id: uuid.UUID | None = None,
    at: datetime,
) -> NewEvent:
    """The event of a notice. It concerns `users`, and, if asked, the tenant's managers. `title` is one line."""
    return NewEvent(
        kind=f"notice.{kind.name}",
        tenant_id=tenant_id,
        subject_kind=subject_kind,
        subject_id=subject_id,
        job_id=job_id,
        data={
            "title": title,
            "text": text,
            "command": command,
            "users": sorted({str(user) for user in users if user is not None}),
            "managers": for_managers,
        },
        at=at,
    )


def deliveries(events: Sequence[tuple[Event, NoticeKind]]) -> Iterator[Told]:
    """Who is told what. Two queries for all; none where there is nothing to tell."""
    if not events:
        return
    tenants = Q(tenant_id__in={event.tenant_id for event, _ in events if event.tenant_id}) | Q(tenant_id__isnull=True)
    kinds = {kind.name for _, kind in events}
    rows = [
        subscription
        for subscription in Subscription.objects.filter(tenants, is_active=True).order_by("id")
        if kinds & set(subscription.kinds)
    ]
    recipients = registry.recipients({row.user_id for row in rows})
    for event, kind in events:
        payload = _payload(event, kind)
        for row in rows:
            recipient = recipients.get(row.user_id)
            if kind.name in row.kinds and recipient is not None and _is_told(row, recipient, event):
                yield row, kind, payload, event


def _is_told(subscription: Subscription, recipient: Recipient, event: Event) -> bool:
    actor, tenant_id = recipient.actor, event.tenant_id
    if subscription.tenant_id not in (None, tenant_id):
        return False
    if tenant_id is None:  # Of the installation's root: for operators.
        return actor.is_operator
    if not registry.sees_tenant(actor, tenant_id):
        return False
    manages = event.data.get("managers") and actor.roles.get(tenant_id) == TenantRole.MANAGER
    return bool(subscription.jobs == "all" or manages or str(subscription.user_id) in event.data.get("users", []))


def _payload(event: Event, kind: NoticeKind) -> dict[str, Any]:
    return {
        "event": event.kind,
        "kind": kind.name,
        "seq": event.seq,
        "at": event.at.isoformat().replace("+00:00", "Z"),
        "notice": {
            "subject": event.subject_kind,
            "subject_id": str(event.subject_id),
            "tenant_id": None if event.tenant_id is None else str(event.tenant_id),
            **{name: event.data.get(name, "") for name in ("title", "text", "command")},
        },
    }
