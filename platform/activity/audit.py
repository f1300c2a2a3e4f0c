"""The audit chain: each row is sealed with a hash over itself and the hash before it.

Sealing runs within a second of the call. Afterwards an edit, a removal or an insertion anywhere breaks the chain, and the
verifier names the row. The chain proves that rows were not changed one by one; a user who may rewrite the whole table could
also rewrite the whole chain, so note its head (`manage.py verify_audit` prints it) somewhere else and give it back with
`--head` when it matters. Rows that are not sealed yet are reported as the tail.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.db.models import Min

from activity import bulk, cursors
from activity.models import AuditEvent, Cursor

CURSOR = "audit"  # Number and hash of the newest sealed row.
CURSOR_START = "audit.start"  # Number and hash of the newest row that retention removed.
BATCHES_MAX = 50
PROBLEMS_MAX = 100  # After a broken restore everything is a problem; the first ones tell.

CONTENT = (
    "id",
    "tenant_id",
    "actor_id",
    "actor_name",
    "token_id",
    "request_id",
    "verb",
    "target_kind",
    "target_id",
    "target_name",
    "before",
    "after",
    "count",
    "at",
)


@dataclass(frozen=True, slots=True)
class ChainProblem:
    """One place where the chain does not hold."""

    seq: int
    what: str


@dataclass(frozen=True, slots=True)
class ChainReport:
    """What the verifier found. `unsealed` rows are the tail that nothing protects yet."""

    sealed: int
    unsealed: int
    oldest_unsealed_at: datetime | None
    head_seq: int
    head_hash: str
    problems: tuple[ChainProblem, ...]

    @property
    def holds(self) -> bool:
        return not self.problems


def seal() -> int:
    """Append committed, unsealed rows to the chain; returns how many. Several processes may call it at once."""
    sealed = 0
    for _ in range(BATCHES_MAX):
        count = _seal_batch()
        sealed += count
        if count < bulk.BATCH_ROWS:
            break
    return sealed


def _seal_batch() -> int:
    if not AuditEvent.objects.filter(seq__isnull=True).exists():
        return 0  # Without this look an idle SQLite would take its write lock each time.
    with transaction.atomic():
        cursor = cursors.lock_cursor(CURSOR)
        waiting = list(AuditEvent.objects.filter(seq__isnull=True).order_by("id").values(*CONTENT)[: bulk.BATCH_ROWS])
        rows: list[dict[str, Any]] = []
        seq, previous_hash = cursor.seq, cursor.mark
        for content in waiting:
            seq += 1
            sealed_hash = row_hash(content, seq=seq, previous_hash=previous_hash)
            rows.append({"id": content["id"], "seq": seq, "previous_hash": previous_hash, "hash": sealed_hash})
            previous_hash = sealed_hash
        bulk.update(AuditEvent, rows)
        cursors.move(cursor, seq, mark=previous_hash)
    return len(rows)


def row_hash(content: Mapping[str, Any], *, seq: int, previous_hash: str) -> str:
    """SHA-256 over the length and the canonical JSON of a row with its place in the chain."""
    body = json.dumps(
        {**{name: _plain(content[name]) for name in CONTENT}, "seq": seq, "previous_hash": previous_hash},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=True,
    ).encode()
    return hashlib.sha256(b"%d:" % len(body) + body).hexdigest()


def verify_audit_chain(*, expected_head: tuple[int, str] | None = None) -> ChainReport:
    """Walk the whole chain and name every place where it does not hold.

    `expected_head` is a number and hash noted earlier: the chain must still contain exactly that row.
    """
    problems: list[ChainProblem] = []
    start = Cursor.objects.filter(name=CURSOR_START).first()
    seq, previous_hash = (start.seq, start.mark) if start else (0, "")
    sealed = 0
    seen_expected = expected_head is None or expected_head[0] <= seq  # Retention removed it with the rows before it.
    for row in _sealed_rows(after=seq):
        sealed += 1
        problems += _check_row(row, after_seq=seq, previous_hash=previous_hash)
        seq, previous_hash = row["seq"], row["hash"]
        if expected_head == (seq, previous_hash):
            seen_expected = True
        if len(problems) >= PROBLEMS_MAX:
            break
    else:
        head = Cursor.objects.filter(name=CURSOR).first()
        if head is not None and (head.seq, head.mark) != (seq, previous_hash):
            problems.append(ChainProblem(head.seq, f"the chain ends at {seq}, but was sealed up to {head.seq}"))
        if not seen_expected and expected_head is not None:
            problems.append(ChainProblem(expected_head[0], "the row noted as head is not in the chain"))
    tail = AuditEvent.objects.filter(seq__isnull=True)
    return ChainReport(
        sealed=sealed,
        unsealed=tail.count(),
        oldest_unsealed_at=tail.aggregate(at=Min("at"))["at"],
        head_seq=seq,
        head_hash=previous_hash,
        problems=tuple(problems),
    )


def _sealed_rows(*, after: int) -> Iterator[dict[str, Any]]:
    while True:
        page = list(
            AuditEvent.objects.filter(seq__gt=after)
            .order_by("seq")
            .values(*CONTENT, "seq", "hash", "previous_hash")[: bulk.BATCH_ROWS]
        )
        yield from page
        if len(page) < bulk.BATCH_ROWS:
            return
        after = page[-1]["seq"]


def _check_row(row: Mapping[str, Any], *, after_seq: int, previous_hash: str) -> list[ChainProblem]:
    seq = row["seq"]
    if seq != after_seq + 1:
        return [ChainProblem(seq, f"rows {after_seq + 1} to {seq - 1} are missing")]
    if row["previous_hash"] != previous_hash:
        return [ChainProblem(seq, "it does not follow the row before it")]
    if row["hash"] != row_hash(row, seq=seq, previous_hash=row["previous_hash"]):
        return [ChainProblem(seq, "its content was changed after sealing")]
    return []


def _plain(value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return value
