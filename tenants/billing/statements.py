"""A tenant's statement: the stored one of a month that is closed, else made of the days and of what is in none yet."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenants.billing.ledger.entries import Key, Use, add_up, month_bounds
from tenants.billing.ledger.statements import canonical, digest, lines_of, statement
from tenants.billing.ledger_rows import currency, day_rows, pending_entries, price_book, steady
from tenants.billing.models import LedgerEntry, Statement, UsageDay


@dataclass(frozen=True, slots=True)
class Made:
    """A statement, its canonical bytes and their digest. `closed_at` None: the month may still grow."""

    document: Mapping[str, Any]
    data: bytes
    sha256: str
    closed_at: datetime | None = None


def statement_of(tenant_id: uuid.UUID, month: int) -> Made:
    """The stored statement, or the one made now."""
    row = Statement.objects.filter(tenant_id=tenant_id, month=month).first()
    if row is None:
        return made_statement(tenant_id, month)
    data = row.document.encode()
    return Made(json.loads(data), data, row.sha256, row.closed_at)


def made_statement(tenant_id: uuid.UUID, month: int) -> Made:
    """Made of the days that are billed in the month, whatever is stored. Six queries, while nothing is counted meanwhile."""
    book, money = price_book(), currency()
    first, after = month_bounds(month)
    ended = LedgerEntry.objects.filter(tenant_id=tenant_id, ended_at__gte=first, ended_at__lt=after)

    def read() -> dict[Key, Use]:
        pending = pending_entries(ended)
        days = dict(day_rows(UsageDay.objects.filter(tenant_id=tenant_id, billed=month)))
        for key, use in add_up(pending, book).items():
            days[key] = days.get(key, Use()) + use
        return days

    days = steady(read)
    document = statement(tenant_id=tenant_id, month=month, currency=money, lines=lines_of(days, month=month), book=book)
    data = canonical(document)
    return Made(document, data, digest(data))


def closed_months(tenant_id: uuid.UUID) -> list[Statement]:
    """The stored statements, the latest first, without their documents. One query."""
    return list(Statement.objects.filter(tenant_id=tenant_id).defer("document").order_by("-month"))
