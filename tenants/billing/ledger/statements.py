"""The bill of a tenant for a month: a document that is the same to the byte, whenever and from whatever order it is made.

It holds every attempt that ended in the month, with all that it used, also where a part of that lies in earlier months
(`used_in` says so): an attempt is known only when it has ended, and a month that is over must not change. It names people,
queues and pools by id, for names change.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenants.billing.ledger.entries import FATES, Entry, Key, Use, add_up, month_bounds, month_of, month_text
from tenants.billing.ledger.prices import PriceBook
from tenants.capacity.quota.accounting import mark

FORMAT = 1
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What makes spreadsheets calculate (OWASP, CSV Injection)."""
AMOUNTS = (
    "attempts", "cpu_milli_seconds", "memory_byte_seconds", "gpu_milli_seconds", "cpu_micros", "memory_micros", "gpu_micros",
)  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class LineKey:
    """What a line of a statement is told apart by."""

    used_in: int
    pool_id: uuid.UUID
    queue_id: uuid.UUID
    user_id: uuid.UUID
    fate: str


def lines_of(days: Mapping[Key, Use] | Iterable[tuple[Key, Use]], *, month: int) -> dict[LineKey, Use]:
    """The lines of one tenant's month, from its days; what is billed in other months is left out."""
    lines: dict[LineKey, Use] = {}
    for key, use in days.items() if isinstance(days, Mapping) else days:
        if key.billed == month:
            line = LineKey(month_of(key.day), key.pool_id, key.queue_id, key.user_id, key.fate)
            lines[line] = lines.get(line, Use()) + use
    return lines


def lines_of_entries(entries: Iterable[Entry], book: PriceBook, *, month: int) -> dict[LineKey, Use]:
    """The same from the ledger itself: what a verifier makes."""
    return lines_of(add_up(entries, book), month=month)


def statement(
    *, tenant_id: uuid.UUID, month: int, currency: str, lines: Mapping[LineKey, Use], book: PriceBook
) -> dict[str, Any]:
    """The document. It holds the prices that its lines were made with, so that they can be checked by hand."""
    rows = sorted(((key, use) for key, use in lines.items() if use != Use()), key=lambda row: row[0])
    first = min([month, *(key.used_in for key, _use in rows)])
    since, until = mark(month_bounds(first)[0]), mark(month_bounds(month)[1])
    total = sum((use for _key, use in rows), start=Use())
    return {
        "format": FORMAT,
        "tenant": str(tenant_id),
        "month": month_text(month),
        "currency": currency,
        "lines": [
            {
                "used_in": month_text(key.used_in),
                "pool": str(key.pool_id),
                "queue": str(key.queue_id),
                "user": str(key.user_id),
                "fate": key.fate,
                **amounts(use),
            }
            for key, use in rows
        ],
        "totals": {
            **amounts(total),
            "micros_by_fate": {fate: sum(use.micros for key, use in rows if key.fate == fate) for fate in FATES},
            "gpu_milli_seconds_by_fate": {
                fate: sum(use.gpu_milli_seconds for key, use in rows if key.fate == fate) for fate in FATES
            },
        },
        "prices": [
            {
                "pool": str(price.pool_id),
                "resource": price.resource,
                "since": price.since,
                "micros_per_hour": price.micros_per_hour,
            }
            for price in book.between({key.pool_id for key, _use in rows}, since, until)
        ],
    }


def amounts(use: Use) -> dict[str, int]:
    """A use as it stands in documents, with the sum of its money."""
    return {**{name: getattr(use, name) for name in AMOUNTS}, "micros": use.micros}


def canonical(document: Mapping[str, Any]) -> bytes:
    """The bytes that are hashed: keys in order, no blanks, whole numbers only, UTF-8."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV (RFC 4180) that no spreadsheet takes for formulas: such a cell begins with an apostrophe."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\r\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([safe_cell(cell) for cell in row])
    return output.getvalue()


def safe_cell(cell: object) -> str:
    """A cell as text. A number was typed by no user, and stays what it is."""
    if isinstance(cell, int):
        return str(cell)
    text = "" if cell is None else str(cell)
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def statement_csv(document: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """A statement's lines with names beside the ids, and money in the currency with six decimals."""
    columns = (
        "month", "used_in", "pool", "pool_name", "queue", "queue_name", "user", "user_name", "fate",
        "attempts", "gpu_hours", "cpu_hours", "memory_gib_hours", "cost", "currency",
    )  # fmt: skip
    return as_csv(
        columns,
        (
            (
                document["month"], line["used_in"],
                line["pool"], names.get(line["pool"], ""),
                line["queue"], names.get(line["queue"], ""),
                line["user"], names.get(line["user"], ""),
                line["fate"], line["attempts"],
                hours_text(line["gpu_milli_seconds"], 1_000), hours_text(line["cpu_milli_seconds"], 1_000),
                hours_text(line["memory_byte_seconds"], 2**30), money_text(line["micros"]), document["currency"],
            )
            for line in document["lines"]
        ),
    )  # fmt: skip


def money_text(micros: int) -> str:
    """Millionths with all of their decimals: `12.500000`."""
    sign, whole = ("-", -micros) if micros < 0 else ("", micros)
    return f"{sign}{whole // 1_000_000}.{whole % 1_000_000:06d}"


def hours_text(unit_seconds: int, unit: int) -> str:
    """Hours of a whole unit with six decimals, rounded down."""
    return money_text(unit_seconds * 1_000_000 // (unit * 3_600))
