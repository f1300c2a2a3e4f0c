"""What was held and not worked with: by attempts before their first task and after their last, and by unused bookings.

Neither is charged. It stands beside what the ledger calls failed, retried and evicted: together they are what a tenant could
have had, or left to others. Reads only.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from django.db.models import Q

from kernel.errors import FieldError, InvalidInput
from kernel.resources import RESOURCE_NAMES, Resources
from kernel.words import Text
from tenants.billing.ledger.prices import PriceBook
from tenants.billing.ledger_rows import price_book
from tenants.billing.usage import UsageFilter
from tenants.capacity.models import Booking, Reservation, ReservationKind
from tenants.capacity.quota.accounting import ResourceSeconds, mark, used

STARTING, ENDING, BOOKED = "starting", "ending", "booked"
HELD_KINDS = (STARTING, ENDING, BOOKED)
ENTRIES_MAX = 200_000
IDS_AT_ONCE = 2_000
_Key = tuple[uuid.UUID, str]


@dataclass(frozen=True, slots=True)
class HeldRow:
    """What one tenant held idle within a window, and what that would have cost as use."""

    tenant_id: uuid.UUID
    kind: str
    used: ResourceSeconds
    micros: int


def held_idle(wanted: UsageFilter, *, now: datetime) -> list[HeldRow]:
    """`starting`: from admission until the first task ran, of attempts in the ledger; `ending`: from the end of the last until
    the capacity was released. `booked`: GPUs of windows that have begun, less what jobs of the booking's queue held of that pool
    meanwhile. The largest first."""
    book, found = price_book(), dict[_Key, tuple[ResourceSeconds, int]]()
    since = 0 if wanted.since is None else mark(wanted.since)
    until = mark(now) if wanted.until is None else min(mark(wanted.until), mark(now))
    for tenant_id, kind, pool_id, amount, start, end in (
        *_around(wanted, since, until),
        *_booked(wanted, since, until),
    ):
        so_far, micros = found.get((tenant_id, kind), (ResourceSeconds(), 0))
        found[tenant_id, kind] = (so_far + used(amount, end - start), micros + _worth(book, pool_id, amount, start, end))
    rows = [HeldRow(tenant_id, kind, amounts, micros) for (tenant_id, kind), (amounts, micros) in found.items()]
    return sorted(rows, key=lambda row: (-row.used.gpu_milli_seconds, -row.used.cpu_milli_seconds, row.tenant_id, row.kind))


_Piece = tuple[uuid.UUID, str, uuid.UUID, Resources, int, int]


def _around(wanted: UsageFilter, since: int, until: int) -> Iterator[_Piece]:
    entries = wanted.in_window()
    if entries[: ENTRIES_MAX + 1].count() > ENTRIES_MAX:
        message = Text(f"These are more than {ENTRIES_MAX} attempts.", f"尝试的数量超过 {ENTRIES_MAX} 个。")
        hint = Text("Ask for fewer days at a time.", "请缩短每次查询的天数。")
        raise InvalidInput(message, hint=hint, fields=[FieldError("/since", "too_many", message, hint)])
    columns = ("attempt_id", "pool_id", "tenant_id", "started_at", "ended_at", "held_seconds")
    ran = {row[:2]: row[2:] for row in entries.values_list(*columns).iterator(chunk_size=IDS_AT_ONCE)}
    ids = sorted({attempt_id for attempt_id, _ in ran})
    for at in range(0, len(ids), IDS_AT_ONCE):
        rows = Reservation.objects.filter(attempt_id__in=ids[at : at + IDS_AT_ONCE], kind=ReservationKind.ATTEMPT).order_by()
        for attempt_id, pool_id, admitted_at, released_at, *amounts in rows.values_list(
            "attempt_id", "pool_id", "created_at", "released_at", *RESOURCE_NAMES
        ):
            if (attempt_id, pool_id) not in ran:
                continue
            tenant_id, began, ended, held_seconds = ran[attempt_id, pool_id]
            spans = [(STARTING, admitted_at, began)]
            if held_seconds is not None and released_at is not None:  # An earlier release charged until the release.
                spans.append((ENDING, ended, released_at))
            for kind, first, last in spans:
                start, end = max(since, mark(first)), min(until, mark(last))
                if start < end:
                    yield tenant_id, kind, pool_id, Resources(*amounts), start, end


def _booked(wanted: UsageFilter, since: int, until: int) -> Iterator[_Piece]:
    if wanted.user_id is not None or wanted.fate is not None:
        return  # A booking is a tenant's, and nothing became of it.
    rows = Booking.objects.filter(starts_at__lt=_moment(until), ends_at__gt=_moment(since)).select_related("queue")
    for name, chosen in (("tenant_id", wanted.tenant_ids), ("queue_id", wanted.queue_ids), ("pool_id", wanted.pool_ids)):
        rows = rows if chosen is None else rows.filter(**{f"{name}__in": chosen})
    for booking in rows.order_by("id"):
        ends = booking.ends_at if booking.released_at is None else min(booking.ends_at, booking.released_at)
        start, end = max(since, mark(booking.starts_at)), min(until, mark(ends))
        if start >= end:
            continue
        held = Reservation.objects.filter(
            Q(released_at__isnull=True) | Q(released_at__gt=_moment(start)), queue__path__startswith=booking.queue.path,
            pool_id=booking.pool_id, kind=ReservationKind.ATTEMPT, gpu_millis__gt=0, created_at__lt=_moment(end),
        )  # fmt: skip
        runs = [
            (max(start, mark(began)), end if gone is None else min(end, mark(gone)), gpus)
            for began, gone, gpus in held.values_list("created_at", "released_at", "gpu_millis")
        ]
        for first, last, gpus in unused(booking.gpu_millis, start, end, runs):
            yield booking.tenant_id, BOOKED, booking.pool_id, Resources(0, 0, gpus), first, last


def unused(amount: int, start: int, end: int, runs: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Of an amount, what none of these (from, to, amount) held, as (from, to, amount)."""
    known = [run for run in runs if run[0] < run[1]]
    marks = sorted({start, end, *(at for run in known for at in run[:2] if start < at < end)})
    for first, last in pairwise(marks):
        left = amount - sum(held for began, gone, held in known if began <= first and last <= gone)
        if left > 0:
            yield first, last, left


def _worth(book: PriceBook, pool_id: uuid.UUID, amount: Resources, start: int, end: int) -> int:
    return sum(book.cost(pool_id, name, getattr(amount, name), start, end) for name in RESOURCE_NAMES)


def _moment(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)
