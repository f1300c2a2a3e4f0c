"""Counts entries of the ledger into days. What is not counted yet is read beside the days: nothing waits for this to run.

With an entry that held GPUs goes what was measured of them, so it is counted once its samples are all in the database.
"""

from __future__ import annotations

import uuid
from datetime import datetime

from django.db import transaction
from django.db.models import F

from activity.services import record_audit
from kernel.actor import system_actor
from kernel.ids import new_ids
from reconciling import bulk
from tenants.billing.ledger.entries import Key, Use, add_up, month_bounds, month_text
from tenants.billing.ledger_rows import FOLD_COUNTER, ROWS_AT_ONCE, day_columns, entries_of, price_book
from tenants.billing.models import LedgerEntry, LedgerPending, UsageDay
from tenants.billing.services.ledger.measured import keep_measures, settled_before
from tenants.identity.models import Counter

BATCHES_MAX = 20
_NAMES = ("day", "billed", "tenant_id", "queue_id", "user_id", "pool_id", "fate")


def fold_days(now: datetime, *, batches_max: int = BATCHES_MAX) -> int:
    """Count what is pending, at most 40,000 entries; returns how many. May run twice at once: the second waits for the first.

    No reader sees an entry counted twice or not at all: its day and its waiting row change with one commit.
    """
    done = 0
    for _batch in range(batches_max):
        counted = _fold_batch(settled_before(now))
        done += counted
        if counted < ROWS_AT_ONCE:
            break
    return done


def _fold_batch(settled: datetime) -> int:
    """One transaction: nine statements for up to 2,000 entries, and four more and one per 1,000 tasks where they held GPUs."""
    if not LedgerPending.objects.exists():
        return 0
    with transaction.atomic():
        _lock()
        fresh = LedgerEntry.objects.filter(gpu_millis__gt=0, ended_at__gt=settled)
        due = LedgerPending.objects.exclude(entry_id__in=fresh.values("id"))
        chosen = list(due.order_by("entry_id").values_list("entry_id", flat=True)[:ROWS_AT_ONCE])
        keep_measures(chosen)
        add_to_days(add_up(entries_of(LedgerEntry.objects.filter(id__in=chosen)), price_book()))
        LedgerPending.objects.filter(entry_id__in=chosen).delete()
    return len(chosen)


def rebuild_days(tenant_id: uuid.UUID, month: int, *, now: datetime) -> int:
    """Make the days of one tenant that are billed in a month again from their entries; returns how many rows there are."""
    first, after = month_bounds(month)
    with transaction.atomic():
        _lock()
        UsageDay.objects.filter(tenant_id=tenant_id, billed=month).delete()
        rows = LedgerEntry.objects.filter(tenant_id=tenant_id, ended_at__gte=first, ended_at__lt=after)
        sums = add_up(entries_of(rows.exclude(id__in=LedgerPending.objects.values("entry_id"))), price_book())
        add_to_days(sums)
        record_audit(
            actor=system_actor("ledger"),
            verb="ledger.repair",
            tenant_id=tenant_id,
            target_kind="usage_day",
            target_id=None,
            after={"month": month_text(month), "rows": len(sums)},
            at=now,
        )
    return len(sums)


def _lock() -> None:
    """Let one process at a time count, by the lock of the counter's row; readers see by it that something was counted."""
    bulk.insert(Counter, [{"name": FOLD_COUNTER, "value": 0}], ignore_conflicts=True)
    Counter.objects.filter(name=FOLD_COUNTER).update(value=F("value") + 1)


def add_to_days(sums: dict[Key, Use]) -> None:
    """Add to rows of days, making those that are missing. Inside a transaction that holds the counter's row."""
    if not sums:
        return
    keys = sorted(sums)
    known = _ids(keys)
    missing = [key for key in keys if key not in known]
    rows = [
        {"id": row_id, **dict(zip(_NAMES, _values(key), strict=True)), **day_columns(sums[key])}
        for row_id, key in zip(new_ids(len(missing)), missing, strict=True)
    ]
    bulk.insert(UsageDay, rows)
    grown = [{"id": known[key], **day_columns(sums[key])} for key in keys if key in known]
    bulk.update(UsageDay, grown, increment=tuple(day_columns(Use())))


def _ids(keys: list[Key]) -> dict[Key, uuid.UUID]:
    """Rows that there are already: of the days and tenants in question, which are few in a batch."""
    rows = UsageDay.objects.filter(
        tenant_id__in={key.tenant_id for key in keys},
        billed__in={key.billed for key in keys},
        day__gte=keys[0].day,
        day__lte=keys[-1].day,
    )
    return {Key(*values): row_id for row_id, *values in rows.order_by().values_list("id", *_NAMES)}


def _values(key: Key) -> tuple[object, ...]:
    return (key.day, key.billed, key.tenant_id, key.queue_id, key.user_id, key.pool_id, key.fate)
