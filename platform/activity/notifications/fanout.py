"""From events to deliveries: who asked to hear of this, and may still see it.

One cursor row follows the events. Deliveries and the cursor's move are one transaction, and a subscription has at most one
delivery per event, so that nothing is said twice and nothing is skipped, whichever process dies when.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import structlog
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Q

from activity import bulk, cursors, hints, registry
from activity.models import Delivery, Event, Subscription
from activity.notifications.kinds import DeliveryState, NoticeKind, Shape, notice_kind
from activity.notifications.notices import deliveries as notices_of
from activity.registry import JobNotice, Recipient
from activity.sequencer import last_seq
from kernel.crashpoints import crashpoint
from kernel.ids import new_id

log = structlog.get_logger("activity")

CURSOR = "notifications"
BATCHES_MAX = 20  # One call ends in seconds.

Told = tuple[Event, NoticeKind]


def fan_out(now: datetime) -> int:
    """Make deliveries of all events since the last call; returns how many. Several processes may call it at once."""
    made, size = 0, bulk.BATCH_ROWS
    if _nobody_listens():
        return 0
    for _ in range(BATCHES_MAX):
        if last_seq() <= cursors.position(CURSOR):
            break
        try:
            made += _fan_out_batch(now, size)
        except (OperationalError, InterfaceError):
            raise
        except Exception:  # One event must not keep all that follow from being told: take fewer, until it stands alone.
            if size == 1:
                _leave_out()
            size = max(1, size // 4)
        else:
            size = min(bulk.BATCH_ROWS, size * 4)
    return made


def _nobody_listens() -> bool:
    """Move past everything where there is no subscription to tell it to.

    The last event is asked for first: a user who subscribes after that is told of later events.
    """
    last = last_seq()
    if last <= cursors.position(CURSOR):
        return True
    if Subscription.objects.filter(is_active=True).exists():
        return False
    with transaction.atomic():
        cursor = cursors.lock_cursor(CURSOR)
        if cursor.seq < last:
            cursors.move(cursor, last)
    return True


def _leave_out() -> None:
    """Move past an event that cannot be told; it stays in the table, and its error in the log."""
    with transaction.atomic():
        cursor = cursors.lock_cursor(CURSOR)
        event = Event.objects.filter(seq__gt=cursor.seq).order_by("seq").first()
        if event is None:
            return
        log.exception("event_not_told", seq=event.seq, kind=event.kind, subject_id=str(event.subject_id))
        cursors.move(cursor, event.seq or cursor.seq)


def _fan_out_batch(now: datetime, size: int) -> int:
    with transaction.atomic():
        cursor = cursors.lock_cursor(CURSOR)
        events = list(Event.objects.filter(seq__gt=cursor.seq).order_by("seq")[:size])
        if not events:
            return 0
        rows = _deliveries([(event, kind) for event in events if (kind := notice_kind(event.kind, event.data))], now)
        made = bulk.insert(Delivery, rows, ignore_conflicts=True)
        cursors.move(cursor, events[-1].seq or cursor.seq)
        if made:
            hints.wake(hints.DELIVERIES)
        crashpoint("activity.fan_out.before_commit")
    return made


def _deliveries(told: Sequence[Told], now: datetime) -> list[dict[str, Any]]:
    """A constant number of queries for the whole batch."""
    rows = _budget_deliveries([entry for entry in told if entry[1].shape is Shape.BUDGET], now)
    rows += [
        delivery_row(subscription, kind=kind.name, payload=payload, event=event, now=now)
        for subscription, kind, payload, event in notices_of([entry for entry in told if entry[1].shape is Shape.NOTICE])
    ]
    told = [entry for entry in told if entry[1].shape is Shape.JOB]
    notices = registry.jobs({event.subject_id for event, _ in told}) if told else {}
    told = [(event, kind) for event, kind in told if _is_told(notices, event)]
    if not told:
        return rows
    subscriptions = _subscriptions(told, notices)
    recipients = registry.recipients({subscription.user_id for subscription in subscriptions})
    return rows + [
        delivery_row(
            subscription, kind=kind.name, payload=payload_of(event, kind, notices[event.subject_id]), event=event, now=now
        )
        for event, kind in told
        for subscription in subscriptions
        if _wants(subscription, event, kind, notices[event.subject_id], recipients)
    ]


def _budget_deliveries(told: Sequence[Told], now: datetime) -> list[dict[str, Any]]:
    """For subscribers to budgets who see the tenant. Two queries for all; none where there is nothing to tell."""
    if not told:
        return []
    subscriptions = list(
        Subscription.objects.filter(Q(tenant_id__in={event.tenant_id for event, _ in told}) | Q(tenant_id__isnull=True))
        .filter(is_active=True)
        .order_by("id")
    )
    names = {kind.name for _, kind in told}
    subscriptions = [subscription for subscription in subscriptions if names & set(subscription.kinds)]
    recipients = registry.recipients({subscription.user_id for subscription in subscriptions})
    return [
        delivery_row(subscription, kind=kind.name, payload=budget_payload(event, kind), event=event, now=now)
        for event, kind in told
        for subscription in subscriptions
        if kind.name in subscription.kinds
        and subscription.tenant_id in (None, event.tenant_id)
        and (recipient := recipients.get(subscription.user_id)) is not None
        and registry.sees_tenant(recipient.actor, event.tenant_id)
    ]


def budget_payload(event: Event, kind: NoticeKind) -> dict[str, Any]:
    """What is said of a budget: the numbers that the event tells."""
    names = ("name", "tenant", "kind", "amount", "spent", "currency", "percent", "threshold", "month", "stops")
    return {
        "event": event.kind,
        "kind": kind.name,
        "seq": event.seq,
        "at": event.at.isoformat().replace("+00:00", "Z"),
        "state": event.kind.partition(".")[2],
        "budget": {
            "queue_id": str(event.subject_id),
            "tenant_id": str(event.tenant_id),
            "command": "berth budgets",
            **{name: event.data.get(name) for name in names},
        },
    }


def _is_told(notices: Mapping[uuid.UUID, JobNotice], event: Event) -> bool:
    notice = notices.get(event.subject_id)
    return notice is not None and not notice.is_array_child


def _subscriptions(told: Sequence[Told], notices: Mapping[uuid.UUID, JobNotice]) -> list[Subscription]:
    tenant_ids = {event.tenant_id for event, _ in told}
    owner_ids = {notices[event.subject_id].user_id for event, _ in told}
    return list(
        Subscription.objects.filter(is_active=True)
        .filter(
            Q(tenant_id__in=tenant_ids) | Q(tenant_id__isnull=True, user_id__in=owner_ids) | Q(tenant_id__isnull=True, jobs="all")
        )
        .order_by("id")
    )


def _wants(
    subscription: Subscription,
    event: Event,
    kind: NoticeKind,
    notice: JobNotice,
    recipients: Mapping[uuid.UUID, Recipient],
) -> bool:
    recipient = recipients.get(subscription.user_id)
    return (
        recipient is not None
        and kind.name in subscription.kinds
        and subscription.tenant_id in (None, event.tenant_id)
        and (subscription.jobs == "all" or notice.user_id == subscription.user_id)
        and registry.sees_tenant(recipient.actor, event.tenant_id)
    )


def payload_of(event: Event, kind: NoticeKind, notice: JobNotice) -> dict[str, Any]:
    """What is said. The job's own words are left out when it has moved on meanwhile: they are about something else by then."""
    state = str(event.data.get("to", notice.state))
    is_current = notice.state == state
    return {
        "event": event.kind,
        "kind": kind.name,
        "seq": event.seq,
        "at": event.at.isoformat().replace("+00:00", "Z"),
        "state": state,
        "reason": str(event.data.get("reason", "")),
        "job": {
            "id": str(notice.job_id),
            "name": notice.name,
            "tenant": notice.tenant_name,
            "tenant_id": str(event.tenant_id),
            "user_id": str(notice.user_id),
            "reason": notice.reason if is_current else "",
            "hint": notice.hint if is_current else "",
            "command": notice.command,
            "url": notice.url,
        },
    }


def delivery_row(
    subscription: Subscription, *, kind: str, payload: Mapping[str, Any], event: Event | None, now: datetime
) -> dict[str, Any]:
    """The columns of one new delivery."""
    return {
        "id": new_id(),
        "subscription_id": subscription.id,
        "event_seq": event.seq if event else None,
        "user_id": subscription.user_id,
        "tenant_id": event.tenant_id if event else subscription.tenant_id,
        "job_id": event.job_id if event else None,
        "kind": kind,
        "payload": dict(payload),
        "state": str(DeliveryState.PENDING),
        "tries": 0,
        "retry_at": now,
        "last_error": "",
        "created_at": now,
    }
