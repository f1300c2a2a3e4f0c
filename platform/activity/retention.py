"""What is kept how long. Old rows go in bounded batches; a sweep calls until nothing is left to do."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from activity import audit, cursors, tickets
from activity.models import AuditEvent, Cursor, Delivery, Event
from activity.notifications import fanout
from activity.notifications.kinds import DeliveryState
from kernel.config import current

BATCH = 5_000


def prune(now: datetime) -> int:
    """Remove what is older than the settings `event_days` and `audit_days` allow; returns how many rows went."""
    config = current()
    events_before = now - timedelta(days=config.event_days)
    return (
        _prune_events(events_before)
        + _prune_deliveries(events_before)
        + _prune_audit(now - timedelta(days=config.audit_days))
        + tickets.delete_expired(now)
    )


def _prune_events(before: datetime) -> int:
    """Only what notifications have read: an event is never lost to a fan-out that was down for long."""
    read = cursors.position(fanout.CURSOR)
    old = Event.objects.filter(at__lt=before, seq__lte=read).order_by("at").values_list("row", flat=True)[:BATCH]
    return Event.objects.filter(row__in=list(old)).delete()[0]


def _prune_deliveries(before: datetime) -> int:
    old = Delivery.objects.filter(created_at__lt=before).exclude(state=DeliveryState.PENDING).order_by("id")
    return Delivery.objects.filter(id__in=list(old.values_list("id", flat=True)[:BATCH])).delete()[0]


def _prune_audit(before: datetime) -> int:
    """From the beginning of the chain only; where it then begins is noted, so that the rest still verifies."""
    with transaction.atomic():
        cursors.lock_cursor(audit.CURSOR_START)
        sealed = AuditEvent.objects.filter(seq__isnull=False)
        first_kept = sealed.filter(at__gte=before).order_by("seq").values_list("seq", flat=True).first()
        old = sealed.filter(at__lt=before)
        if first_kept is not None:
            old = old.filter(seq__lt=first_kept)
        numbers = list(old.order_by("seq").values_list("seq", flat=True)[:BATCH])
        if not numbers:
            return 0
        last = AuditEvent.objects.get(seq=numbers[-1])
        Cursor.objects.filter(name=audit.CURSOR_START).update(seq=last.seq or 0, mark=last.hash)
        return AuditEvent.objects.filter(seq__lte=last.seq).delete()[0]
