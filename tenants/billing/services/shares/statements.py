"""Weeks that are over: every tenant's share, stored once with digest and signature, and made again to be compared."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from activity.services import NewEvent, record_events
from kernel.ids import new_ids
from reconciling import bulk
from tenants.billing.ledger.fairness import week_of
from tenants.billing.models import ShareStatement
from tenants.billing.shares import CLOSED, Account, Running, account, bounds_of, made_week, of_row, week_text
from tenants.capacity.quota.accounting import mark
from tenants.identity.models import Counter

GRACE = timedelta(hours=1)  # An end is written seconds after it at most; an hour waits for every slow transaction.


@dataclass(frozen=True, slots=True)
class VerifiedWeek:
    """A stored statement, the digest of what ledger and limits give now, and whether what is stored is whole and signed here."""

    tenant_id: uuid.UUID
    week: int
    stored: str
    made_now: str
    is_intact: bool

    @property
    def is_right(self) -> bool:
        return self.is_intact and self.stored == self.made_now


def close_weeks(now: datetime, *, running: Callable[[], Running], known_until: datetime | None = None) -> int:
    """Store the statements of the next week that is over; returns how many. A part of the sweep.

    `known_until`: until when it is known what ran, as far as that is before now. A week waits for it: what the platform takes to
    run may have ended before.

    The week in which an installation first does this is the first that gets any: of those before, it is unknown who waited.
    """
    current = week_of(mark(min(now, known_until or now) - GRACE))
    done = Counter.objects.filter(name=CLOSED).values_list("value", flat=True).first()
    if done is None:
        bulk.insert(Counter, [{"name": CLOSED, "value": current - 1}], ignore_conflicts=True)
        return 0
    week = done + 1
    if week >= current:
        return 0
    live = running()  # Before the ledger is read: what ends meanwhile is then seen twice, and counted once.
    found = account(*bounds_of(week), running=live)
    return _store(week, found, now)


def _store(week: int, found: Account, now: datetime) -> int:
    queues = {key.queue_id for key in found.shares}
    tenants = sorted(tenant_id for tenant_id, queue_id in found.tops.items() if queue_id in queues)
    made = {tenant_id: made_week(tenant_id, week, found) for tenant_id in tenants}
    rows = [
        {
            "id": row_id,
            "tenant_id": tenant_id,
            "week": week,
            "document": made[tenant_id].data.decode(),
            "sha256": made[tenant_id].sha256,
            "signature": made[tenant_id].signed.signature,
            "public_key": made[tenant_id].signed.public_key,
            "closed_at": now,
        }
        for row_id, tenant_id in zip(new_ids(len(tenants)), tenants, strict=True)
    ]
    with transaction.atomic():
        if not Counter.objects.filter(name=CLOSED, value=week - 1).update(value=week):
            return 0  # Another process was sooner.
        bulk.insert(ShareStatement, rows)
        record_events(
            [
                NewEvent(
                    kind="share_statement.closed",
                    tenant_id=tenant_id,
                    subject_kind="tenant",
                    subject_id=tenant_id,
                    data={"week": week_text(week), "sha256": made[tenant_id].sha256},
                    at=now,
                )
                for tenant_id in tenants
            ]
        )
    return len(rows)


def verify_weeks(
    *, running: Callable[[], Running], tenant_id: uuid.UUID | None = None, week: int | None = None
) -> list[VerifiedWeek]:
    """Make stored statements again from the ledger and the history of limits, compare them byte by byte, check signatures."""
    rows = ShareStatement.objects.order_by("week", "tenant_id")
    if tenant_id is not None:
        rows = rows.filter(tenant_id=tenant_id)
    if week is not None:
        rows = rows.filter(week=week)
    live, found, verified = running(), dict[int, Account](), []
    for row in rows.iterator(chunk_size=100):
        if row.week not in found:
            found = {row.week: account(*bounds_of(row.week), running=live)}
        again = made_week(row.tenant_id, row.week, found[row.week])
        verified.append(VerifiedWeek(row.tenant_id, row.week, row.sha256, again.sha256, of_row(row).is_right))
    return verified
