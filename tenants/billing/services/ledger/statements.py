"""Statements of months that are over: stored once with their digest, and made again from the ledger to be compared."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from activity.services import NewEvent, record_events
from kernel.ids import new_id
from reconciling import bulk
from tenants.billing.ledger.entries import day_of, month_bounds, month_of, month_text
from tenants.billing.ledger.statements import canonical, digest, lines_of_entries, statement
from tenants.billing.ledger_rows import entries_of, price_book
from tenants.billing.models import LedgerEntry, LedgerPending, Statement, UsageDay
from tenants.billing.services.ledger.append import CLOSED_COUNTER
from tenants.billing.statements import made_statement
from tenants.identity.models import Counter

GRACE = timedelta(hours=1)  # An entry is written seconds after its end is seen; an hour waits for every slow transaction.
UNSEEN_MAX = timedelta(days=7)  # A cluster out of reach holds a month open no longer; what it says later is charged in the next.
TENANTS_AT_ONCE = 50  # Of one sweep.


@dataclass(frozen=True, slots=True)
class Verified:
    """A stored statement, and the digest of what the ledger gives now."""

    tenant_id: uuid.UUID
    month: int
    stored: str
    made_now: str
    is_intact: bool

    @property
    def is_right(self) -> bool:
        return self.is_intact and self.stored == self.made_now


def close_months(now: datetime, *, known_until: datetime | None = None) -> int:
    """Store statements of months that are over, the oldest first; returns how many. A part of the sweep.

    `known_until`: until when it is known what ran, as far as that is before now; a month waits for it.
    """
    known = now if known_until is None else min(now, max(known_until, now - UNSEEN_MAX))
    current = month_of(day_of(known - GRACE))
    month = _next_month()
    if month is None or month >= current:
        return 0
    if _is_pending_before(month_bounds(month)[1]):
        return 0
    closed = Statement.objects.filter(month=month).values("tenant_id")
    open_ = UsageDay.objects.filter(billed=month).exclude(tenant_id__in=closed)
    tenants = sorted(open_.order_by().values_list("tenant_id", flat=True).distinct()[:TENANTS_AT_ONCE])
    for tenant_id in tenants:
        close_statement(tenant_id, month, now=now)
    if len(tenants) < TENANTS_AT_ONCE:
        with transaction.atomic():
            bulk.insert(Counter, [{"name": CLOSED_COUNTER, "value": month}], ignore_conflicts=True)
            Counter.objects.filter(name=CLOSED_COUNTER, value__lt=month).update(value=month)
    return len(tenants)


def close_statement(tenant_id: uuid.UUID, month: int, *, now: datetime) -> None:
    """Store one tenant's statement; the second call changes nothing. The month must be over, and nothing of it pending."""
    made = made_statement(tenant_id, month)
    with transaction.atomic():
        row = {
            "id": new_id(),
            "tenant_id": tenant_id,
            "month": month,
            "currency": str(made.document["currency"]),
            "document": made.data.decode(),
            "sha256": made.sha256,
            "closed_at": now,
        }
        if not bulk.insert(Statement, [row], ignore_conflicts=True):
            return
        record_events(
            [
                NewEvent(
                    kind="statement.closed",
                    tenant_id=tenant_id,
                    subject_kind="tenant",
                    subject_id=tenant_id,
                    data={"month": month_text(month), "sha256": made.sha256},
                    at=now,
                )
            ]
        )


def verify_statements(*, tenant_id: uuid.UUID | None = None, month: int | None = None) -> list[Verified]:
    """Make stored statements again from the entries themselves, not from the days, and compare them byte by byte."""
    rows = Statement.objects.order_by("month", "tenant_id")
    if tenant_id is not None:
        rows = rows.filter(tenant_id=tenant_id)
    if month is not None:
        rows = rows.filter(month=month)
    book = price_book()
    found = []
    for row in rows.iterator(chunk_size=100):
        first, after = month_bounds(row.month)
        entries = entries_of(LedgerEntry.objects.filter(tenant_id=row.tenant_id, ended_at__gte=first, ended_at__lt=after))
        lines = lines_of_entries(entries, book, month=row.month)
        again = canonical(statement(tenant_id=row.tenant_id, month=row.month, currency=row.currency, lines=lines, book=book))
        intact = digest(row.document.encode()) == row.sha256
        found.append(Verified(row.tenant_id, row.month, row.sha256, digest(again), intact))
    return found


def _next_month() -> int | None:
    """The month after the last that is closed; at first the oldest that there is."""
    done = Counter.objects.filter(name=CLOSED_COUNTER).values_list("value", flat=True).first()
    rows = UsageDay.objects.order_by("billed")
    if done is not None:
        rows = rows.filter(billed__gt=done)
    return rows.values_list("billed", flat=True).first()


def _is_pending_before(moment: datetime) -> bool:
    return LedgerEntry.objects.filter(id__in=LedgerPending.objects.values("entry_id"), ended_at__lt=moment).exists()
