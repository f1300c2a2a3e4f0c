"""Whether ledger, days, reservations and attempts say the same. Reads only; every difference is an alarm."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from kernel.resources import RESOURCE_NAMES, Resources
from reconciling import bulk
from tenants.billing.ledger.entries import Entry, Key, Use, add_up, month_bounds
from tenants.billing.ledger_rows import day_rows, entries_of, price_book
from tenants.billing.models import LedgerEntry, LedgerPending, UsageDay
from tenants.capacity.models import Reservation, ReservationKind
from tenants.capacity.quota.accounting import seconds_between
from tenants.identity.models import Counter

AT_ONCE = 2_000
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference: `code` says which, `subject` where, `detail` the numbers of both sides."""

    code: str
    subject: str
    detail: str


@dataclass(frozen=True, slots=True)
class Charge:
    """What the jobs know of an attempt that ended and had reached its engine: it must stand in the ledger with these times.

    From `started_at` to `ended_at` its tasks ran, by their engine; both None: none did, `ended_at` alone: its end is not known.
    `launched_at` to `noticed_at` is what an earlier release charged.
    """

    attempt_id: uuid.UUID
    tenant_id: uuid.UUID
    pool_id: uuid.UUID
    started_at: datetime | None
    ended_at: datetime | None
    launched_at: datetime
    noticed_at: datetime

    def seconds(self, entry: Entry | None) -> int:
        """How long it is to be charged for. What an entry says that nothing else does is taken from it."""
        if entry is not None and entry.held_seconds is None:
            return max(0, seconds_between(self.launched_at, self.noticed_at))
        if self.started_at is None:
            return 0
        if self.ended_at is None:
            return 0 if entry is None else entry.until - entry.since
        return max(0, seconds_between(self.started_at, self.ended_at))


@dataclass(slots=True)
class Reconciliation:
    """What was compared, by tenant, and where it differs. GPU time in thousandths of a GPU times seconds."""

    attempts: int = 0
    by_attempts: dict[uuid.UUID, int] | None = None
    by_ledger: dict[uuid.UUID, int] | None = None
    findings: tuple[Finding, ...] = ()


def check_charges(charges: Iterable[Charge]) -> Reconciliation:
    """Compare ended attempts with the ledger: once each, same times, amounts as reserved, sums equal to the unit."""
    found = Reconciliation(by_attempts={}, by_ledger={})
    problems: list[Finding] = []
    for batch in _batches(charges):
        ids = [charge.attempt_id for charge in batch]
        entries = {
            (entry.attempt_id, entry.pool_id): entry for entry in entries_of(LedgerEntry.objects.filter(attempt_id__in=ids))
        }
        held = _reserved(ids)
        for charge in batch:
            found.attempts += 1
            entry = entries.pop((charge.attempt_id, charge.pool_id), None)
            problems += _compare(charge, entry, held.get((charge.attempt_id, charge.pool_id)))
            amount = held.get((charge.attempt_id, charge.pool_id)) or (entry.amount if entry else Resources())
            _add(found.by_attempts, charge.tenant_id, amount.gpu_millis * charge.seconds(entry))
            if entry is not None:
                _add(found.by_ledger, entry.tenant_id, entry.amount.gpu_millis * (entry.until - entry.since))
        problems += [
            Finding("not_ended", str(key[0]), "the ledger charges an attempt in a pool that it has not") for key in entries
        ]
    found.findings = tuple(problems)
    return found


def _compare(charge: Charge, entry: Entry | None, held: Resources | None) -> Iterator[Finding]:
    subject = str(charge.attempt_id)
    if entry is None:
        yield Finding("not_charged", subject, "it ran and ended, and the ledger has no entry of it")
        return
    if entry.tenant_id != charge.tenant_id:
        yield Finding("wrong_tenant", subject, f"{entry.tenant_id} is charged for what {charge.tenant_id} used")
    if (wanted := charge.seconds(entry)) != entry.until - entry.since:
        yield Finding("wrong_time", subject, f"{entry.until - entry.since} s are charged, it ran for {wanted} s")
    if entry.held_seconds is not None and entry.held_seconds < entry.until - entry.since - 1:
        yield Finding("wrong_time", subject, f"{entry.until - entry.since} s are charged, {entry.held_seconds} s were held")
    if held is not None and held != entry.amount:
        yield Finding("wrong_amount", subject, f"{entry.amount.as_dict()} is charged, {held.as_dict()} was reserved")


def check_reservations(*, since: datetime | None = None) -> list[Finding]:
    """Compare entries that ended since then with what their attempts had reserved."""
    rows = LedgerEntry.objects.all() if since is None else LedgerEntry.objects.filter(ended_at__gte=since)
    problems = []
    for batch in _batches(entries_of(rows)):
        held = _reserved([entry.attempt_id for entry in batch])
        for entry in batch:
            amount = held.get((entry.attempt_id, entry.pool_id))
            if amount is None:
                problems.append(Finding("not_reserved", str(entry.attempt_id), "it is charged and never held anything"))
            elif amount != entry.amount:
                detail = f"{entry.amount.as_dict()} is charged, {amount.as_dict()} was reserved"
                problems.append(Finding("wrong_amount", str(entry.attempt_id), detail))
    return problems


def _reserved(attempt_ids: Iterable[uuid.UUID]) -> dict[tuple[uuid.UUID, uuid.UUID], Resources]:
    rows = Reservation.objects.filter(attempt_id__in=list(attempt_ids), kind=ReservationKind.ATTEMPT).order_by()
    return {(row[0], row[1]): Resources(*row[2:]) for row in rows.values_list("attempt_id", "pool_id", *RESOURCE_NAMES)}


def check_days(*, tenant_id: uuid.UUID | None = None, month: int | None = None) -> list[Finding]:
    """Compare days with the entries they were made of: of one tenant, of what is billed in one month, or of all."""
    kept, wanted = _days(tenant_id, month)
    return [_day_finding(key, kept, wanted) for key in _wrong(kept, wanted)]


def wrong_months(*, tenant_id: uuid.UUID | None = None, month: int | None = None) -> list[tuple[uuid.UUID, int]]:
    """The tenants and months whose days are wrong: what `rebuild_days` mends."""
    return sorted({(key.tenant_id, key.billed) for key in _wrong(*_days(tenant_id, month))})


def _wrong(kept: Mapping[Key, Use], wanted: Mapping[Key, Use]) -> list[Key]:
    return [key for key in sorted({*wanted, *kept}) if kept.get(key, Use()) != wanted.get(key, Use())]


def _days(tenant_id: uuid.UUID | None, month: int | None) -> tuple[dict[Key, Use], dict[Key, Use]]:
    """Days as they are kept, and as the entries give them."""
    entries = LedgerEntry.objects.exclude(id__in=LedgerPending.objects.values("entry_id"))
    days = UsageDay.objects.all()
    if tenant_id is not None:
        entries, days = entries.filter(tenant_id=tenant_id), days.filter(tenant_id=tenant_id)
    if month is not None:
        first, after = month_bounds(month)
        entries, days = entries.filter(ended_at__gte=first, ended_at__lt=after), days.filter(billed=month)
    return dict(day_rows(days)), add_up(entries_of(entries), price_book())


def _day_finding(key: Key, kept: Mapping[Key, Use], wanted: Mapping[Key, Use]) -> Finding:
    subject = f"tenant {key.tenant_id} day {key.day} pool {key.pool_id} user {key.user_id} {key.fate}"
    return Finding("wrong_day", subject, f"kept {kept.get(key, Use())}, the ledger says {wanted.get(key, Use())}")


def _batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    source = iter(items)
    while batch := list(itertools.islice(source, AT_ONCE)):
        yield batch


def _add(sums: dict[uuid.UUID, int] | None, tenant_id: uuid.UUID, amount: int) -> None:
    assert sums is not None
    sums[tenant_id] = sums.get(tenant_id, 0) + amount


RECENT = timedelta(hours=2)
"""What the hourly look compares with reservations; the command compares all."""
ENTRIES_MAX = 50_000
CHECKED_COUNTER = "ledger.checked"


def check_hourly(now: datetime) -> list[Finding]:
    """The look that the platform takes by itself: recent entries against reservations, and this month's days of one tenant.

    The first call of an hour looks, by whichever process. The tenant changes from hour to hour, by the clock; one with more
    entries than are read in a second is left to the command.
    """
    hour = int(now.timestamp()) // 3_600
    bulk.insert(Counter, [{"name": CHECKED_COUNTER, "value": 0}], ignore_conflicts=True)
    if not Counter.objects.filter(name=CHECKED_COUNTER, value__lt=hour).update(value=hour):
        return []
    problems = check_reservations(since=now - RECENT)
    month = now.year * 100 + now.month
    tenants = sorted(set(UsageDay.objects.filter(billed=month).order_by().values_list("tenant_id", flat=True).distinct()))
    if tenants:
        tenant_id = tenants[hour % len(tenants)]
        entries = LedgerEntry.objects.filter(tenant_id=tenant_id, ended_at__gte=month_bounds(month)[0])
        if entries[: ENTRIES_MAX + 1].count() <= ENTRIES_MAX:
            problems += check_days(tenant_id=tenant_id, month=month)
    return problems
