"""The ledger: what every attempt used, written once when it ends. A trigger refuses to change what is written."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from kernel.ids import new_ids
from reconciling import bulk
from tenants.ledger.entries import fate_of
from tenants.models import LedgerEntry
from tenants.quota.accounting import seconds_between


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """What one attempt held of one pool from start to end. `goes_on`: its job went on to another attempt after it."""

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


def append_ledger(entries: Sequence[LedgerLine], *, now: datetime) -> int:
    """Append entries; one statement per 1,000. An attempt's second entry for a pool is ignored. Returns how many went in.

    Hosts' clocks differ: an end after `now` counts as now, an end before the start as no time.
    """
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
                    "fate": str(fate_of(entry.outcome, goes_on=entry.goes_on)),
                }
                for row_id, entry, ended_at in zip(new_ids(len(entries)), entries, ends, strict=True)
            ],
            ignore_conflicts=True,
        )
