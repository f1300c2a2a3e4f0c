"""The ledger: what every attempt used, written once when it ends. A trigger refuses to change what is written."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db import transaction

from kernel.ids import new_ids
from reconciling import bulk
from tenants.billing.ledger.entries import fate_of, month_bounds
from tenants.billing.models import LedgerEntry
from tenants.capacity.quota.accounting import seconds_between
from tenants.identity.models import Counter

CLOSED_COUNTER = "ledger.closed"
"""The last month of which every tenant's statement is stored."""


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """What one attempt used of one pool from start to end. `goes_on`: its job went on to another attempt after it.

    `held_seconds`: how long the capacity was kept for it, the time before the start and after the end included.
    """

    attempt_id: uuid.UUID
    number: int
    job_id: uuid.UUID
    tenant_id: uuid.UUID
    queue_id: uuid.UUID
    user_id: uuid.UUID
    pool_id: uuid.UUID
    cluster_id: uuid.UUID
    cpu_millis: int
    memory_bytes: int
    gpu_millis: int
    started_at: datetime
    ended_at: datetime
    outcome: str
    gpu_model: str = ""
    goes_on: bool = False
    held_seconds: int | None = None


def append_ledger(entries: Sequence[LedgerLine], *, now: datetime) -> int:
    """Append entries; one statement per 1,000. An attempt's second entry for a pool is ignored. Returns how many went in.

    Hosts' clocks differ: an end after `now` counts as now, an end before the start as no time. What is learnt so late that its
    month is closed is charged in the first month that is open, for as long as it was.
    """
    entries = [_in_open_month(entry, opens_at) for opens_at in (open_since(),) for entry in entries]
    ends = [max(entry.started_at, min(entry.ended_at, now)) for entry in entries]
    with transaction.atomic():
        return bulk.insert(
            LedgerEntry,
            [
                {
                    "id": row_id,
                    "attempt_id": entry.attempt_id,
                    "number": entry.number,
                    "job_id": entry.job_id,
                    "tenant_id": entry.tenant_id,
                    "queue_id": entry.queue_id,
                    "user_id": entry.user_id,
                    "pool_id": entry.pool_id,
                    "cluster_id": entry.cluster_id,
                    "cpu_millis": entry.cpu_millis,
                    "memory_bytes": entry.memory_bytes,
                    "gpu_millis": entry.gpu_millis,
                    "gpu_model": entry.gpu_model,
                    "started_at": entry.started_at,
                    "ended_at": ended_at,
                    "seconds": seconds_between(entry.started_at, ended_at),
                    "outcome": entry.outcome,
                    "prices": {},
                    "held_seconds": entry.held_seconds,
                    "fate": str(fate_of(entry.outcome, goes_on=entry.goes_on)),
                }
                for row_id, entry, ended_at in zip(new_ids(len(entries)), entries, ends, strict=True)
            ],
            ignore_conflicts=True,
        )


def open_since() -> datetime | None:
    """The beginning of the first month that is not closed; None while none is. One query."""
    closed = Counter.objects.filter(name=CLOSED_COUNTER).values_list("value", flat=True).first()
    return None if closed is None else month_bounds(closed)[1]


def _in_open_month(entry: LedgerLine, opens_at: datetime | None) -> LedgerLine:
    if opens_at is None or entry.ended_at >= opens_at:
        return entry
    later = opens_at - entry.ended_at
    return replace(entry, started_at=entry.started_at + later, ended_at=opens_at)
