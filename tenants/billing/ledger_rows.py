"""Rows of the ledger as the values that its arithmetic takes. Reads only."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import Q, QuerySet, Sum

from kernel.config import current
from kernel.limits import MIB
from kernel.resources import Resources
from tenants.billing.ledger.entries import Entry, Fate, Key, Measured, Use, fate_of
from tenants.billing.ledger.prices import PriceBook
from tenants.billing.ledger.prices import PriceFacts as PriceValue
from tenants.billing.models import LedgerEntry, LedgerMeasure, LedgerPending, Price, UsageDay
from tenants.capacity.quota.accounting import mark
from tenants.identity.models import Counter

ROWS_AT_ONCE = 2_000
TRIES = 3
Found = TypeVar("Found")
FOLD_COUNTER = "ledger.fold"
"""Grows with every batch that is counted into days: a reader of both sides sees whether they belong together."""
OUTCOMES = ("succeeded", "failed", "stopped", "preempted")
SUMS: Mapping[str, Sum] = {
    f"sum_{name}": Sum(name)
    for name in (
        "attempts", "cpu_milli_seconds", "memory_mib_seconds", "memory_rest_seconds", "gpu_milli_seconds",
        "cpu_micros", "memory_micros", "gpu_micros", "gpu_measured_milli_seconds", "gpu_busy_milli_seconds",
    )
}  # fmt: skip
_ENTRY = (
    "id", "attempt_id", "number", "job_id", "tenant_id", "queue_id", "user_id", "pool_id",
    "cpu_millis", "memory_bytes", "gpu_millis", "started_at", "ended_at", "outcome", "fate", "held_seconds",
)  # fmt: skip
_GPUS = _ENTRY.index("gpu_millis")


def price_book() -> PriceBook:
    """All prices. One query; a row for every change of a price that there ever was."""
    rows = Price.objects.order_by().values_list("pool_id", "resource", "effective_at", "micros_per_hour")
    return PriceBook(PriceValue(pool_id, resource, mark(at), micros) for pool_id, resource, at, micros in rows)


def currency() -> str:
    """What money is counted in: the currency of the prices, while there are none that of the settings. One query."""
    found = Price.objects.order_by("created_at").values_list("currency", flat=True).first()
    return found or current().currency


def entries_of(rows: QuerySet[LedgerEntry]) -> Iterator[Entry]:
    """Rows of the ledger as values, a few thousand at a time: two queries for each, one where none of them held a GPU."""
    found = rows.order_by().values_list(*_ENTRY).iterator(chunk_size=ROWS_AT_ONCE)
    while chunk := list(islice(found, ROWS_AT_ONCE)):
        measures = _measures([row[0] for row in chunk if row[_GPUS]])
        yield from (_entry(row, measures.get(row[0], ())) for row in chunk)


def pending_entries(rows: QuerySet[LedgerEntry]) -> list[Entry]:
    """Those of the rows that no day has counted yet. One query."""
    waiting = rows.filter(id__in=LedgerPending.objects.values("entry_id")).order_by()
    return [_entry(row) for row in waiting.values_list(*_ENTRY)]


def fate_condition(fate: str) -> Q:
    """Entries of one fate, also those of the release before, which did not say."""
    unsaid = [outcome for outcome in OUTCOMES if fate_of(outcome) == fate]
    return Q(fate=fate) | Q(fate__isnull=True, outcome__in=unsaid)


def generation() -> int:
    """How often entries have been counted into days. One query."""
    return Counter.objects.filter(name=FOLD_COUNTER).values_list("value", flat=True).first() or 0


def steady(read: Callable[[], Found]) -> Found:
    """What `read` finds of days and of what is in none yet, without anything being counted in between.

    It is read again if something was, and after three times while counting waits.
    """
    for _try in range(TRIES):
        before = generation()
        found = read()
        if generation() == before:
            return found
    with transaction.atomic():
        Counter.objects.select_for_update().filter(name=FOLD_COUNTER).first()
        return read()


def day_rows(rows: QuerySet[UsageDay]) -> Iterator[tuple[Key, Use]]:
    """Rows of days as the arithmetic has them."""
    for row in rows.order_by():
        key = Key(row.day, row.billed, row.tenant_id, row.queue_id, row.user_id, row.pool_id, row.fate)
        yield (
            key,
            Use(
                row.attempts,
                row.cpu_milli_seconds,
                row.memory_mib_seconds * MIB + row.memory_rest_seconds,
                row.gpu_milli_seconds,
                row.cpu_micros,
                row.memory_micros,
                row.gpu_micros,
                row.gpu_measured_milli_seconds,
                row.gpu_busy_milli_seconds,
            ),
        )


def summed(row: Mapping[str, Any]) -> Use:
    """A row of `annotate(**SUMS)` as a use."""
    return Use(
        int(row["sum_attempts"] or 0),
        int(row["sum_cpu_milli_seconds"] or 0),
        int(row["sum_memory_mib_seconds"] or 0) * MIB + int(row["sum_memory_rest_seconds"] or 0),
        int(row["sum_gpu_milli_seconds"] or 0),
        int(row["sum_cpu_micros"] or 0),
        int(row["sum_memory_micros"] or 0),
        int(row["sum_gpu_micros"] or 0),
        int(row["sum_gpu_measured_milli_seconds"] or 0),
        int(row["sum_gpu_busy_milli_seconds"] or 0),
    )


def day_columns(use: Use) -> dict[str, int]:
    """A use as the columns of a day: memory in two, so that a column holds it."""
    return {
        "attempts": use.attempts,
        "cpu_milli_seconds": use.cpu_milli_seconds,
        "memory_mib_seconds": use.memory_byte_seconds // MIB,
        "memory_rest_seconds": use.memory_byte_seconds % MIB,
        "gpu_milli_seconds": use.gpu_milli_seconds,
        "cpu_micros": use.cpu_micros,
        "memory_micros": use.memory_micros,
        "gpu_micros": use.gpu_micros,
        "gpu_measured_milli_seconds": use.gpu_measured_milli_seconds,
        "gpu_busy_milli_seconds": use.gpu_busy_milli_seconds,
    }


def touching(rows: QuerySet[LedgerEntry], *, since: Any, until: Any, day: Any) -> Iterable[QuerySet[LedgerEntry]]:
    """Entries that ended at or after `since` and began before `until`, as two queries, each over a short stretch of an index.

    What ended long after `until` and still began before it lasted more than a day, and there is an index of those alone.
    """
    both = rows.filter(ended_at__gte=since, started_at__lt=until)
    return both.filter(seconds__lte=86_400, ended_at__lte=until + 2 * day), both.filter(seconds__gt=86_400)


def _measures(entry_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, list[Measured]]:
    if not entry_ids:
        return {}
    found: dict[uuid.UUID, list[Measured]] = {}
    rows = LedgerMeasure.objects.filter(entry_id__in=entry_ids).order_by("day")
    for entry_id, *values in rows.values_list("entry_id", "day", "measured_milli_seconds", "busy_milli_seconds"):
        found.setdefault(entry_id, []).append(Measured(*values))
    return found


def _entry(row: Any, measured: Iterable[Measured] = ()) -> Entry:
    _id, attempt_id, number, job_id, tenant_id, queue_id, user_id, pool_id, *more = row
    *amounts, started_at, ended_at, outcome, fate, held = more
    known = Fate(fate) if fate else fate_of(outcome)
    return Entry(
        attempt_id, number, job_id, tenant_id, queue_id, user_id, pool_id, Resources(*amounts), started_at, ended_at, known,
        tuple(measured), held,
    )  # fmt: skip
