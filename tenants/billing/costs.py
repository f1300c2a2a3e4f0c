"""What something costs that has not ended, or not even begun: live burn of a job, and an estimate for an ask. Reads only."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from kernel.resources import RESOURCE_NAMES, Resources
from tenants.billing.ledger.entries import Use, use_between
from tenants.billing.ledger.prices import UNITS, PriceBook
from tenants.billing.ledger_rows import entries_of, price_book
from tenants.billing.models import LedgerEntry
from tenants.capacity.models import Reservation, ReservationKind
from tenants.capacity.quota.accounting import mark

IDS_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class AttemptCost:
    """What one attempt used and cost. `fate` is empty while it runs: then it is counted up to now. `held_seconds`: how long the
    platform held the capacity for it, the time before its first task and after its last included."""

    attempt_id: uuid.UUID
    number: int
    fate: str
    use: Use
    held_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class JobCost:
    """All attempts of a job, or of all children of an array, and what it costs an hour now."""

    attempts: tuple[AttemptCost, ...]
    micros_per_hour: int

    @property
    def total(self) -> Use:
        return sum((attempt.use for attempt in self.attempts), start=Use())


def job_cost(job_ids: Sequence[uuid.UUID], *, running: Iterable[tuple[uuid.UUID, int, datetime]], now: datetime) -> JobCost:
    """What these jobs cost so far. `running` names live attempts with their number and since when their first task runs.

    Two queries for up to 2,000 jobs, and one for the prices.
    """
    book, ended, per_hour = price_book(), [], 0
    live = {attempt_id: (number, since) for attempt_id, number, since in running}
    for start in range(0, len(job_ids), IDS_AT_ONCE):
        chunk = job_ids[start : start + IDS_AT_ONCE]
        for entry in entries_of(LedgerEntry.objects.filter(job_id__in=chunk)):
            use = use_between(entry, book, entry.since, entry.until)
            ended.append(AttemptCost(entry.attempt_id, entry.number, str(entry.fate), use, entry.held_seconds))
        held = Reservation.objects.filter(job_id__in=chunk, released_at__isnull=True, kind=ReservationKind.ATTEMPT).order_by()
        for attempt_id, pool_id, *amounts in held.values_list("attempt_id", "pool_id", *RESOURCE_NAMES):
            amount = Resources(*amounts)
            if attempt_id in live:
                number, since = live[attempt_id]
                ended.append(AttemptCost(attempt_id, number, "", _running(pool_id, amount, since, now, book)))
                per_hour += hourly(pool_id, amount, book, now)
    return JobCost(tuple(sorted(ended, key=lambda attempt: (attempt.number, attempt.attempt_id))), per_hour)


def hourly(pool_id: uuid.UUID, amount: Resources, book: PriceBook, now: datetime) -> int:
    """Millionths for an hour of this amount at the prices of now."""
    return sum(getattr(amount, name) * book.at(pool_id, name, mark(now)) // UNITS[name] for name in RESOURCE_NAMES)


def estimate(pool_ids: Iterable[uuid.UUID], amount: Resources, seconds: int, now: datetime) -> dict[uuid.UUID, tuple[int, int]]:
    """For each pool: what an hour of this amount costs now, and what so many seconds from now on do, planned prices included."""
    book, start = price_book(), mark(now)
    return {
        pool_id: (
            hourly(pool_id, amount, book, now),
            sum(book.cost(pool_id, name, getattr(amount, name), start, start + seconds) for name in RESOURCE_NAMES),
        )
        for pool_id in pool_ids
    }


def _running(pool_id: uuid.UUID, amount: Resources, since: datetime, now: datetime, book: PriceBook) -> Use:
    start, end = mark(since), max(mark(since), mark(now))
    seconds = end - start
    costs = [book.cost(pool_id, name, getattr(amount, name), start, end) for name in ("cpu_millis", "memory_bytes", "gpu_millis")]
    return Use(1, amount.cpu_millis * seconds, amount.memory_bytes * seconds, amount.gpu_millis * seconds, *costs)
