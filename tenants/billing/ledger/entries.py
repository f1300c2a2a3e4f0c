"""One attempt's use as double entry: what the tenant's account is charged, the pool's account supplies, to the unit.

A use is cut where its price changes, and every piece of it is a pair of postings that cancel out, in units and in money. The
same use cut at midnight (UTC) gives the days that are added up for reports; both add up to the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum

from kernel.resources import RESOURCE_NAMES, Resources
from tenants.billing.ledger.prices import PriceBook
from tenants.capacity.quota.accounting import ResourceSeconds, mark

DAY_SECONDS = 86_400
_FIRST_DAY = date(1970, 1, 1)


class Fate(StrEnum):
    """What became of the time: work that was done, and four ways in which it was not."""

    USEFUL = "useful"
    FAILED = "failed"  # The job ended with it.
    RETRIED = "retried"  # It failed, and another attempt did it again.
    EVICTED = "evicted"  # Taken away for others, or for the machine's sake.
    STOPPED = "stopped"  # A member of the tenant gave it up.


FATES = tuple(str(fate) for fate in Fate)
WASTE = frozenset({Fate.FAILED, Fate.RETRIED, Fate.EVICTED})


def fate_of(outcome: str, *, goes_on: bool = False) -> Fate:
    """The fate of an attempt with this outcome, after which its job went on to another attempt or did not."""
    if outcome == "succeeded":
        return Fate.USEFUL
    if outcome == "preempted":
        return Fate.EVICTED
    if outcome == "stopped":
        return Fate.EVICTED if goes_on else Fate.STOPPED
    return Fate.RETRIED if goes_on else Fate.FAILED


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured of an entry's GPUs on one day, in thousandths of a GPU times seconds: for how long any of them was
    looked at, and for how much of that it worked."""

    day: int
    measured: int
    busy: int


@dataclass(frozen=True, slots=True)
class Entry:
    """What one attempt held of one pool, and for how long: a row of the ledger. `measured` is in the order of its days."""

    attempt_id: uuid.UUID
    number: int
    job_id: uuid.UUID
    tenant_id: uuid.UUID
    queue_id: uuid.UUID
    user_id: uuid.UUID
    pool_id: uuid.UUID
    amount: Resources
    started_at: datetime
    ended_at: datetime
    fate: Fate
    measured: tuple[Measured, ...] = ()
    held_seconds: int | None = None

    @property
    def since(self) -> int:
        return mark(self.started_at)

    @property
    def until(self) -> int:
        return max(self.since, mark(self.ended_at))

    @property
    def last_day(self) -> int:
        """The day of its last second, on which it counts as an attempt: what ends at midnight ends with the day before."""
        return max(self.since, self.until - 1) // DAY_SECONDS

    @property
    def month(self) -> int:
        """The month that it is billed in: that of its end, for only then is it known."""
        return month_of(day_of(self.ended_at))


@dataclass(frozen=True, slots=True)
class Posting:
    """One side of a piece of use. Of a pair, the tenant's account (`use`) is positive, the pool's (`supply`) negative."""

    account: str
    account_id: uuid.UUID
    attempt_id: uuid.UUID
    pool_id: uuid.UUID
    resource: str
    since: int
    until: int
    unit_seconds: int
    micros_per_hour: int
    micros: int


@dataclass(frozen=True, slots=True)
class Use:
    """Amounts of time and money that can be added up.

    Of the GPU time that was held, `gpu_measured_milli_seconds` is the part that was measured, and `gpu_busy_milli_seconds` what
    of that was worked with. Where a cluster measures nothing both are 0, which says nothing about the work.
    """

    attempts: int = 0
    cpu_milli_seconds: int = 0
    memory_byte_seconds: int = 0
    gpu_milli_seconds: int = 0
    cpu_micros: int = 0
    memory_micros: int = 0
    gpu_micros: int = 0
    gpu_measured_milli_seconds: int = 0
    gpu_busy_milli_seconds: int = 0

    def __add__(self, other: Use) -> Use:
        return Use(
            self.attempts + other.attempts,
            self.cpu_milli_seconds + other.cpu_milli_seconds,
            self.memory_byte_seconds + other.memory_byte_seconds,
            self.gpu_milli_seconds + other.gpu_milli_seconds,
            self.cpu_micros + other.cpu_micros,
            self.memory_micros + other.memory_micros,
            self.gpu_micros + other.gpu_micros,
            self.gpu_measured_milli_seconds + other.gpu_measured_milli_seconds,
            self.gpu_busy_milli_seconds + other.gpu_busy_milli_seconds,
        )

    @property
    def micros(self) -> int:
        return self.cpu_micros + self.memory_micros + self.gpu_micros

    @property
    def used(self) -> ResourceSeconds:
        return ResourceSeconds(self.cpu_milli_seconds, self.memory_byte_seconds, self.gpu_milli_seconds)


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """What a day's use is told apart by. `billed` is the month of the attempt's end; days and months are whole numbers."""

    day: int
    billed: int
    tenant_id: uuid.UUID
    queue_id: uuid.UUID
    user_id: uuid.UUID
    pool_id: uuid.UUID
    fate: str


def postings(entry: Entry, book: PriceBook) -> list[Posting]:
    """The balanced pairs of one entry, by resource and time. A resource that it did not hold has none."""
    found = []
    for resource in RESOURCE_NAMES:
        amount = getattr(entry.amount, resource)
        for part in book.stretches(entry.pool_id, resource, entry.since, entry.until) if amount else ():
            units = amount * (part.until - part.since)
            micros = book.cost(entry.pool_id, resource, amount, part.since, part.until)
            for account, account_id, sign in (("use", entry.tenant_id, 1), ("supply", entry.pool_id, -1)):
                found.append(
                    Posting(
                        account, account_id, entry.attempt_id, entry.pool_id, resource, part.since, part.until,
                        sign * units, part.micros_per_hour, sign * micros,
                    )
                )  # fmt: skip
    return found


def use_between(entry: Entry, book: PriceBook, since: int, until: int) -> Use:
    """The part of an entry between two marks. It counts as an attempt wherever any of it could be."""
    start, end = max(entry.since, since), min(entry.until, until)
    seconds = max(0, end - start)
    if not seconds:
        return Use(attempts=1)
    amount, pool_id = entry.amount, entry.pool_id
    return Use(
        1,
        amount.cpu_millis * seconds,
        amount.memory_bytes * seconds,
        amount.gpu_millis * seconds,
        book.cost(pool_id, "cpu_millis", amount.cpu_millis, start, end),
        book.cost(pool_id, "memory_bytes", amount.memory_bytes, start, end),
        book.cost(pool_id, "gpu_millis", amount.gpu_millis, start, end),
        *_measured_between(entry, start, end),
    )


def _measured_between(entry: Entry, start: int, end: int) -> tuple[int, int]:
    """A day's measure is spread evenly over the entry's part of that day: what is cut anywhere adds up to the whole again."""
    measured = busy = 0
    for measure in entry.measured:
        first, last = max(entry.since, measure.day * DAY_SECONDS), min(entry.until, (measure.day + 1) * DAY_SECONDS)
        since, until = max(first, start) - first, min(last, end) - first
        if since < until:
            whole = last - first
            measured += measure.measured * until // whole - measure.measured * since // whole
            busy += measure.busy * until // whole - measure.busy * since // whole
    return measured, busy


def days(entry: Entry, book: PriceBook) -> Iterator[tuple[Key, Use]]:
    """An entry by the days that it ran on. The attempt is counted once, on its last day."""
    last = entry.last_day
    for day in range(entry.since // DAY_SECONDS, last + 1):
        use = use_between(entry, book, day * DAY_SECONDS, (day + 1) * DAY_SECONDS)
        key = Key(day, entry.month, entry.tenant_id, entry.queue_id, entry.user_id, entry.pool_id, str(entry.fate))
        yield key, use if day == last else use + Use(attempts=-1)


def add_up(entries: Iterable[Entry], book: PriceBook) -> dict[Key, Use]:
    """The days of many entries. Equal for any order of the entries."""
    found: dict[Key, Use] = {}
    for entry in entries:
        for key, use in days(entry, book):
            found[key] = found.get(key, Use()) + use
    return found


def day_of(moment: datetime) -> int:
    """Days since 1970, in UTC."""
    return mark(moment) // DAY_SECONDS


def date_of(day: int) -> date:
    return _FIRST_DAY + timedelta(days=day)


def day_number(day: date) -> int:
    return (day - _FIRST_DAY).days


def month_of(day: int) -> int:
    """The month of a day as a number: 202611."""
    found = date_of(day)
    return found.year * 100 + found.month


def month_bounds(month: int) -> tuple[datetime, datetime]:
    """Its first moment, and the first one after it."""
    year, number = divmod(month, 100)
    after = (year + 1, 1) if number == 12 else (year, number + 1)
    return datetime(year, number, 1, tzinfo=UTC), datetime(*after, 1, tzinfo=UTC)


def month_text(month: int) -> str:
    return f"{month // 100:04d}-{month % 100:02d}"
