"""Deserved and delivered shares, read from the ledger, from what runs, from recorded demand and the history of limits."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

from kernel.actor import Actor
from tenants.billing.ledger.fairness import (
    HOUR,
    Holding,
    Limits,
    Share,
    ShareKey,
    Wanted,
    share_statement,
    shares,
    week_of,
    week_starts,
)
from tenants.billing.ledger.statements import canonical, digest
from tenants.billing.ledger_rows import entries_of, touching
from tenants.billing.models import DemandHour, LedgerEntry, ShareStatement
from tenants.billing.signing import Signed, is_signed, public_keys, sign
from tenants.capacity.limits_history import limits_at
from tenants.capacity.models import Queue
from tenants.capacity.quota.accounting import mark
from tenants.capacity.reads import limits_tree
from tenants.identity.access import tenants_with
from tenants.identity.models import Counter, Tenant
from webapi.access import visible

DAY = timedelta(days=1)
CLOSED = "shares.closed"
"""The counter of the last week whose statements are stored; it begins with the week before the installation's first sweep."""
Running = Mapping[uuid.UUID, Holding]
"""What runs, by attempt: what the ledger will have when it has ended."""


@dataclass(frozen=True, slots=True)
class Account:
    """All shares of a time, and the limits that they were judged by."""

    since: int
    until: int
    shares: Mapping[ShareKey, Share]
    history: tuple[Limits, ...]
    tops: Mapping[uuid.UUID, uuid.UUID]  # By tenant, its top queue.


@dataclass(frozen=True, slots=True)
class MadeWeek:
    """A tenant's week with its bytes and signature. `closed_at` None: not stored, the week may go on."""

    document: Mapping[str, Any]
    data: bytes
    sha256: str
    signed: Signed
    closed_at: datetime | None = None

    @property
    def is_right(self) -> bool:
        """Whether digest and signature fit the bytes, and the key is one of this installation's."""
        return digest(self.data) == self.sha256 and is_signed(self.data, self.signed) and self.signed.public_key in public_keys()


def account(since: int, until: int, *, running: Running) -> Account:
    """What every queue deserved and got between two second marks. `running` was read before this is called.

    Eight queries; reads every entry of the ledger that touches the time.
    """
    history = _history(since, until)
    first, last = moment(since), moment(until)
    held: dict[tuple[uuid.UUID, uuid.UUID], Holding] = {}
    for rows in touching(LedgerEntry.objects.all(), since=first, until=last, day=DAY):
        for entry in entries_of(rows):
            key = (entry.attempt_id, entry.pool_id)
            held[key] = Holding(entry.queue_id, entry.pool_id, entry.amount, entry.since, entry.until)
    for attempt_id, holding in running.items():
        held.setdefault((attempt_id, holding.pool_id), holding)
    demand = DemandHour.objects.filter(hour__gte=since // HOUR, hour__lt=-(-until // HOUR)).order_by()
    columns = ("hour", "queue_id", "pool_id", "cpu_milli_seconds", "gpu_milli_seconds")
    found = shares(
        since=since, until=until, history=history, held=held.values(),
        waiting=[Wanted(*row) for row in demand.values_list(*columns)],
    )  # fmt: skip
    tops = Queue.objects.filter(is_top=True, tenant__isnull=False).values_list("tenant_id", "id")
    return Account(since, until, found, history, {tenant_id: queue_id for tenant_id, queue_id in tops if tenant_id is not None})


def made_week(tenant_id: uuid.UUID, week: int, found: Account) -> MadeWeek:
    """A tenant's statement, made of an account."""
    document = share_statement(
        tenant_id=tenant_id, queue_id=found.tops[tenant_id], week=week_text(week), since=found.since, until=found.until,
        found=found.shares, history=found.history,
    )  # fmt: skip
    data = canonical(document)
    return MadeWeek(document, data, digest(data), sign(data))


def stored_week(tenant_id: uuid.UUID, week: int) -> MadeWeek | None:
    """The statement of a week that is closed."""
    row = ShareStatement.objects.filter(tenant_id=tenant_id, week=week).first()
    return None if row is None else of_row(row)


def of_row(row: ShareStatement) -> MadeWeek:
    data = row.document.encode()
    return MadeWeek(json.loads(data), data, row.sha256, Signed(row.signature, row.public_key), row.closed_at)


def is_settled(week: int) -> bool:
    """Whether no statement of this week will be stored any more: all there will be of it are. One query."""
    done = Counter.objects.filter(name=CLOSED).values_list("value", flat=True).first()
    return done is not None and week <= done


class ShownQueue(NamedTuple):
    """A queue whose shares the actor may read."""

    name: str
    is_top: bool
    tenant: Tenant


def readable_queues(actor: Actor, tenant_id: uuid.UUID | None = None) -> dict[uuid.UUID, ShownQueue]:
    """The queues whose shares the actor may read: of one tenant, or of all. One query."""
    rows = visible(actor, Queue).filter(tenant__isnull=False).select_related("tenant")
    if tenant_id is not None:
        rows = rows.filter(tenant_id=tenant_id)
    may = tenants_with(actor, "share.read")
    return {
        row.pk: ShownQueue(row.name, row.is_top, row.tenant)
        for row in rows
        if row.tenant is not None and (may is None or row.tenant_id in may)
    }


def closed_weeks(tenant_id: uuid.UUID) -> list[ShareStatement]:
    """The stored statements, the latest first, without their documents. One query."""
    return list(ShareStatement.objects.filter(tenant_id=tenant_id).defer("document").order_by("-week"))


def bounds_of(week: int) -> tuple[int, int]:
    return week_starts(week), week_starts(week + 1)


def week_text(week: int) -> str:
    """`2026-W47`, by ISO 8601."""
    year, number, _ = moment(week_starts(week)).isocalendar()
    return f"{year:04d}-W{number:02d}"


def week_number(text: str) -> int:
    """The week of such a text; ValueError for what is none."""
    year, number = text.split("-W")
    if len(year) != 4 or len(number) != 2:
        raise ValueError(text)
    monday = date.fromisocalendar(int(year), int(number), 1)
    return week_of(mark(datetime(monday.year, monday.month, monday.day, tzinfo=UTC)))


def moment(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def _history(since: int, until: int) -> tuple[Limits, ...]:
    """The limits of the beginning, and those after every change until the end."""
    first, later = limits_at(moment(since), moment(until), limits_tree(with_deleted=True).queues)
    history = [Limits(since, first)]
    for at, queues in later:
        begins = mark(at)
        if begins >= until:
            break
        if history[-1].since == begins:
            history.pop()  # Of several within a second the last holds.
        history.append(Limits(begins, queues))
    return tuple(history)
