"""Decisions of the scheduler, kept: written in bulk in the transaction that applies them, and removed in time."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from jobs.models import DecisionRecord
from kernel.config import current
from kernel.ids import new_ids
from reconciling import bulk

PRUNE_ROWS = 5_000  # Of one look; a sweep comes again.


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """One decision to keep: what `jobs/scheduling/questions/records.py` made of it, and whose job it is."""

    job_id: uuid.UUID
    tenant_id: uuid.UUID
    kind: str
    pool: str
    payload: Mapping[str, Any]


def record_decisions(rows: Sequence[DecisionRow], *, now: datetime) -> int:
    """Keep these decisions, in this order; returns how many. One statement for 1,000, in the caller's transaction."""
    return bulk.insert(
        DecisionRecord,
        [
            {
                "id": record_id,
                "at": now,
                "job_id": row.job_id,
                "tenant_id": row.tenant_id,
                "kind": row.kind,
                "pool": row.pool,
                "payload": dict(row.payload),
            }
            for record_id, row in zip(new_ids(len(rows)), rows, strict=True)
        ],
    )


def forget_old_decisions(now: datetime) -> int:
    """Remove what is older than the setting `decision_days` allows, oldest first; returns how many rows went."""
    before = now - timedelta(days=current().decision_days)
    oldest = DecisionRecord.objects.order_by("id").values_list("id", "at")[:PRUNE_ROWS]
    old = [record_id for record_id, at in oldest if at < before]
    return DecisionRecord.objects.filter(id__in=old).delete()[0] if old else 0
