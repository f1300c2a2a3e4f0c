"""What was used and what it cost: integers that add up to the same whatever they are grouped by and wherever a window is cut.

Whole days come added up (`UsageDay`); only what touches the window's two ends, and what no day has counted yet, is read from the
ledger and cut here. By job there are no days: then the database adds up the entries themselves.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count, F, Q, QuerySet, Sum

from clusters.selectors import list_pools
from kernel.limits import MIB
from tenants.billing.ledger.entries import DAY_SECONDS, Entry, Key, Use, use_between
from tenants.billing.ledger.prices import PriceBook
from tenants.billing.ledger_rows import (
    SUMS,
    day_rows,
    entries_of,
    fate_condition,
    pending_entries,
    price_book,
    steady,
    summed,
    touching,
)
from tenants.billing.models import LedgerEntry, LedgerMeasure, LedgerPending, UsageDay
from tenants.capacity.quota.accounting import ResourceSeconds, mark

GROUPS = {
    "tenant": "tenant_id", "user": "user_id", "queue": "queue_id", "pool": "pool_id", "job": "job_id",
    "fate": "fate", "day": "day",
}  # fmt: skip
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST, _LATEST = 0, 2**31 - 1  # Days; second marks are these times 86,400.

GroupKey = uuid.UUID | str | int


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Which use is meant. None leaves a side open; `tenant_ids` None are all tenants."""

    tenant_ids: frozenset[uuid.UUID] | None = None
    since: datetime | None = None
    until: datetime | None = None
    user_id: uuid.UUID | None = None
    queue_ids: frozenset[uuid.UUID] | None = None
    pool_ids: frozenset[uuid.UUID] | None = None
    fate: str | None = None

    def of_days(self) -> QuerySet[UsageDay]:
        """Days of these, whenever."""
        rows: QuerySet[UsageDay] = _narrowed(UsageDay.objects.order_by(), self)
        return rows if self.fate is None else rows.filter(fate=self.fate)

    def of_entries(self) -> QuerySet[LedgerEntry]:
        """Entries of these, whenever."""
        rows: QuerySet[LedgerEntry] = _narrowed(LedgerEntry.objects.order_by(), self)
        return rows if self.fate is None else rows.filter(fate_condition(self.fate))

    def in_window(self) -> QuerySet[LedgerEntry]:
        """Entries of these that touch the window."""
        rows = self.of_entries()
        if self.since is not None:
            rows = rows.filter(ended_at__gt=self.since)
        return rows if self.until is None else rows.filter(started_at__lt=self.until)


@dataclass(frozen=True, slots=True)
class UsageRow:
    """What one tenant, user, queue, pool, job, fate or day used within the window; `attempts` counts entries that touch it.

    By day it counts those that ended on it. `micros` is what it cost; None by job, for which `job_costs` is asked.
    """

    key: GroupKey
    attempts: int
    used: ResourceSeconds
    micros: int | None
    gpu_measured_milli_seconds: int = 0
    gpu_busy_milli_seconds: int = 0

    @classmethod
    def of(cls, key: GroupKey, use: Use, micros: int | None) -> UsageRow:
        return cls(key, use.attempts, use.used, micros, use.gpu_measured_milli_seconds, use.gpu_busy_milli_seconds)


def usage_report(
    *,
    tenant_ids: Iterable[uuid.UUID] | None,
    since: datetime | None,
    until: datetime | None,
    group_by: str = "tenant",
    user_id: uuid.UUID | None = None,
    queue_ids: frozenset[uuid.UUID] | None = None,
    pool_ids: frozenset[uuid.UUID] | None = None,
    fate: str | None = None,
    first: int | None = None,
) -> list[UsageRow]:
    """Resource-time of ended attempts per group, the largest GPU user first; days in their order.

    A constant number of queries. By job, `first` asks for no more than the beginning of the list. An attempt is in the ledger
    once it has ended; what still runs is seen in the queues' use.
    """
    chosen = None if tenant_ids is None else frozenset(tenant_ids)
    wanted = UsageFilter(chosen, since, until, user_id, queue_ids, pool_ids, fate)
    if group_by == "job":
        return _sorted([UsageRow.of(key, use, None) for key, use in _by_job(wanted, first).items()])[:first]
    found = _counted(wanted, group_by)
    rows = [UsageRow.of(key, use, use.micros) for key, use in found.items()]
    return sorted(rows, key=lambda row: f"{row.key:>9}") if group_by == "day" else _sorted(rows)


def usage_lines(wanted: UsageFilter) -> dict[Key, Use]:
    """The same by everything at once: one line per day, tenant, queue, user, pool and fate. For exports."""
    book, window = price_book(), _Window.of(wanted)

    def read() -> dict[Key, Use]:
        pending = pending_entries(wanted.in_window())
        found = dict(day_rows(wanted.of_days().filter(day__gte=window.first_day, day__lt=window.last_day)))
        for key, use in _beside_days(wanted, window, pending, book):
            found[key] = found.get(key, Use()) + use
        return found

    return steady(read)


def count_lines(wanted: UsageFilter) -> int:
    """About how many lines that would be: those of the whole days. One query."""
    window = _Window.of(wanted)
    return wanted.of_days().filter(day__gte=window.first_day, day__lt=window.last_day).count()


def job_costs(job_ids: Iterable[uuid.UUID], *, since: datetime | None, until: datetime | None) -> dict[uuid.UUID, int]:
    """What jobs cost within a window, in millionths; of few jobs, for their entries are read. Two queries."""
    chosen = frozenset(job_ids)
    if not chosen:
        return {}
    book, costs = price_book(), dict.fromkeys(chosen, 0)
    first, last = _marks(since, until)
    for entry in entries_of(LedgerEntry.objects.filter(job_id__in=chosen)):
        costs[entry.job_id] += use_between(entry, book, first, last).micros
    return costs


def gpu_seconds_by_tenant() -> dict[tuple[uuid.UUID, str], float]:
    """GPU-seconds of all ended attempts, by tenant and GPU model: of the days, and what is in none yet. Four queries."""
    models = {pool.id: pool.gpu_model for pool in list_pools()}
    sums: dict[tuple[uuid.UUID, str], int] = {}
    kept = UsageDay.objects.filter(gpu_milli_seconds__gt=0).order_by().values_list("tenant_id", "pool_id")
    for tenant_id, pool_id, total in kept.annotate(total=Sum("gpu_milli_seconds")):
        key = (tenant_id, models.get(pool_id, ""))
        sums[key] = sums.get(key, 0) + int(total)
    waiting = LedgerEntry.objects.filter(id__in=LedgerPending.objects.values("entry_id"), gpu_millis__gt=0).order_by()
    sums_of = waiting.values_list("tenant_id", "pool_id").annotate(total=Sum(F("gpu_millis") * F("seconds")))
    for tenant_id, pool_id, total in sums_of:
        key = (tenant_id, models.get(pool_id, ""))
        sums[key] = sums.get(key, 0) + int(total)
    return {key: total / 1000 for key, total in sums.items()}


# --- The window: whole days in its middle, and its two ends ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Window:
    """Second marks of a window, and the whole days in it: from `first_day` up to `last_day`, without that.

    The end is never a whole day, not even at midnight: what runs over it touches the window, and no day says so.
    """

    since: int
    until: int
    first_day: int
    last_day: int

    @classmethod
    def of(cls, wanted: UsageFilter) -> _Window:
        since, until = _marks(wanted.since, wanted.until)
        first = -(-since // DAY_SECONDS)
        last = _LATEST if wanted.until is None else max(0, until - 1) // DAY_SECONDS
        return cls(since, until, first, max(first, last))

    def ends(self) -> list[tuple[int, int]]:
        """The stretches outside the whole days, as second marks; at most two."""
        if self.first_day * DAY_SECONDS > self.until:
            return [(self.since, self.until)]
        found = [(self.since, self.first_day * DAY_SECONDS), (self.last_day * DAY_SECONDS, self.until)]
        if self.last_day == _LATEST:
            found.pop()
        return [(since, until) for since, until in found if since < until]


def _marks(since: datetime | None, until: datetime | None) -> tuple[int, int]:
    return _EARLIEST if since is None else mark(since), _LATEST * DAY_SECONDS if until is None else mark(until)


def _counted(wanted: UsageFilter, group_by: str) -> dict[GroupKey, Use]:
    """The report by one column, from days, ends and what is pending."""
    book, window, column = price_book(), _Window.of(wanted), GROUPS[group_by]

    def read() -> dict[GroupKey, Use]:
        pending = pending_entries(wanted.in_window())
        whole = wanted.of_days().filter(day__gte=window.first_day, day__lt=window.last_day)
        sums: Any = whole.values(column).annotate(**SUMS)
        found: dict[GroupKey, Use] = {row[column]: summed(row) for row in sums}
        for key, use in _beside_days(wanted, window, pending, book):
            value = getattr(key, column)
            found[value] = found.get(value, Use()) + use
        return found

    return steady(read)


def _beside_days(wanted: UsageFilter, window: _Window, pending: Sequence[Entry], book: PriceBook) -> Iterator[tuple[Key, Use]]:
    """What the whole days do not hold: the window's ends, and entries that no day has counted yet."""
    for entry in pending:
        yield from _pieces(entry, [(window.since, window.until)], window, book, counts=True)
    ends = window.ends()
    waiting = {(entry.attempt_id, entry.pool_id) for entry in pending}
    seen: dict[tuple[uuid.UUID, uuid.UUID], Entry] = {}
    for since, until in ends:
        for rows in touching(wanted.in_window(), since=_moment(since), until=_moment(until + 1), day=_DAY):
            seen.update({(entry.attempt_id, entry.pool_id): entry for entry in entries_of(rows)})
    for key, entry in seen.items():
        if key not in waiting:
            is_counted = window.first_day <= entry.last_day < window.last_day
            yield from _pieces(entry, ends, window, book, counts=not is_counted)


def _pieces(
    entry: Entry, stretches: Sequence[tuple[int, int]], window: _Window, book: PriceBook, *, counts: bool
) -> Iterator[tuple[Key, Use]]:
    """The parts of an entry within some stretches, by day; the attempt itself on the day of its end, or the window's last."""

    def key(day: int) -> Key:
        return Key(day, entry.month, entry.tenant_id, entry.queue_id, entry.user_id, entry.pool_id, str(entry.fate))

    for since, until in stretches:
        start, end = max(since, entry.since), min(until, entry.until)
        while start < end:
            day = start // DAY_SECONDS
            after = min(end, (day + 1) * DAY_SECONDS)
            yield key(day), use_between(entry, book, start, after) + Use(attempts=-1)
            start = after
    if counts:
        yield key(min(entry.last_day, max(window.since, window.until - 1) // DAY_SECONDS)), Use(attempts=1)


def _by_job(wanted: UsageFilter, first: int | None) -> dict[uuid.UUID, Use]:
    """Entries added up and put in order by the database; those that stick out of the window are read and cut here.

    With `first`, at least the first so many jobs: the largest within the window, and whichever sticks out. At most six queries.
    """
    rows = wanted.in_window()
    sticks_out = Q(pk__in=[])
    if wanted.since is not None:
        sticks_out |= Q(started_at__lt=wanted.since)
    if wanted.until is not None:
        sticks_out |= Q(ended_at__gt=wanted.until)
    whole = rows.exclude(sticks_out)
    inside: Any = whole.values("job_id").annotate(
        attempts=Count("id"),
        cpu=Sum(F("cpu_millis") * F("seconds")),
        gpu=Sum(F("gpu_millis") * F("seconds")),
        memory_mib=Sum((F("memory_bytes") - F("memory_bytes") % MIB) / MIB * F("seconds")),
        memory_rest=Sum(F("memory_bytes") % MIB * F("seconds")),
    )
    out = [] if wanted.since is None and wanted.until is None else list(entries_of(rows.filter(sticks_out)))
    parts = [inside if first is None else inside.order_by("-gpu", "-cpu", "job_id")[:first]]
    if first is not None and out:
        parts.append(inside.filter(job_id__in={entry.job_id for entry in out}))
    found = {
        row["job_id"]: Use(
            row["attempts"], int(row["cpu"]), int(row["memory_mib"]) * MIB + int(row["memory_rest"]), int(row["gpu"])
        )
        for part in parts
        for row in part
    }
    chosen = whole if first is None else whole.filter(job_id__in=list(found))
    for job_id, measured, busy in (
        LedgerMeasure.objects.filter(entry__in=chosen.filter(gpu_millis__gt=0).values("id")).order_by().values_list("entry__job_id")
        .annotate(measured=Sum("measured_milli_seconds"), busy=Sum("busy_milli_seconds"))
    ):  # fmt: skip
        found[job_id] += Use(gpu_measured_milli_seconds=int(measured), gpu_busy_milli_seconds=int(busy))
    book, (since, until) = PriceBook(), _marks(wanted.since, wanted.until)
    for entry in out:
        found[entry.job_id] = found.get(entry.job_id, Use()) + use_between(entry, book, since, until)
    return found


def _narrowed(rows: Any, wanted: UsageFilter) -> Any:
    given = {
        "tenant_id__in": wanted.tenant_ids,
        "user_id": wanted.user_id,
        "queue_id__in": wanted.queue_ids,
        "pool_id__in": wanted.pool_ids,
    }
    return rows.filter(**{name: value for name, value in given.items() if value is not None})


def _sorted(rows: list[UsageRow]) -> list[UsageRow]:
    return sorted(rows, key=lambda row: (-row.used.gpu_milli_seconds, -row.used.cpu_milli_seconds, str(row.key)))


def _moment(second: int) -> datetime:
    return _EPOCH + timedelta(seconds=second)
