"""What the GPUs did that entries of the ledger held: read from the series once, before these are thinned and forgotten."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from clusters.telemetry import ratio_by_day
from clusters.telemetry.tiers import settled_after
from kernel.config import current
from kernel.ids import new_ids
from reconciling import bulk
from tenants.billing.ledger.entries import DAY_SECONDS
from tenants.billing.models import LedgerEntry, LedgerMeasure
from tenants.capacity.quota.accounting import mark

BUSY = "gpu_utilization_ratio"


class GpuTask(NamedTuple):
    """A task of an attempt that holds GPUs, with the name under which its use is measured."""

    attempt_id: uuid.UUID
    subject: str
    gpu_millis: int


TaskSource = Callable[[Collection[uuid.UUID]], Iterable[GpuTask]]
_sources: list[TaskSource] = []


def register_gpu_tasks(source: TaskSource) -> None:
    """Let the jobs say which tasks of attempts held GPUs. Called once, when their app is ready."""
    _sources[:] = [source]


def settled_before(now: datetime) -> datetime:
    """What ended before that has all its samples in the database; of what ended later some may be missing."""
    return now - settled_after(current().telemetry_seconds)


def keep_measures(entry_ids: Collection[uuid.UUID]) -> None:
    """Store what was measured of these entries' GPUs, by day. A query for the tasks, one for 1,000 of them, one statement.

    Nothing is stored of a day without a sample. A task counts as measured for no longer than it was charged.
    """
    rows = LedgerEntry.objects.filter(id__in=entry_ids, gpu_millis__gt=0, seconds__gt=0).order_by()
    entries = {row[0]: _Held(*row[1:]) for row in rows.values_list("attempt_id", "id", "gpu_millis", "started_at", "ended_at")}
    tasks = [task for source in _sources for task in source(entries.keys())] if entries else []
    if not tasks:
        return
    sums = _sums(tasks)
    measures = [
        {"entry_id": held.entry_id, "day": day, "measured_milli_seconds": measured, "busy_milli_seconds": busy}
        for (attempt_id, day), found in sums.items()
        for held in (entries[attempt_id],)
        for measured, busy in (held.bounded(day, *found),)
        if measured
    ]
    ids = new_ids(len(measures))
    bulk.insert(LedgerMeasure, [{"id": row_id, **row} for row_id, row in zip(ids, measures, strict=True)], ignore_conflicts=True)


class _Held(NamedTuple):
    entry_id: uuid.UUID
    gpu_millis: int
    started_at: datetime
    ended_at: datetime

    def bounded(self, day: int, measured: float, busy: float) -> tuple[int, int]:
        """Both as whole numbers, and no more than the entry is charged for on that day: a sample stands for what is around it."""
        start, end = max(mark(self.started_at), day * DAY_SECONDS), min(mark(self.ended_at), (day + 1) * DAY_SECONDS)
        most = self.gpu_millis * max(0, end - start)
        kept = min(round(measured), most)
        return kept, min(kept, round(busy * kept / measured)) if measured else 0


def _sums(tasks: Sequence[GpuTask]) -> Mapping[tuple[uuid.UUID, int], tuple[float, float]]:
    """By attempt and day: for how long its GPUs were measured and how long they worked, in thousandths of a GPU times seconds."""
    by_subject = {task.subject: task for task in tasks}
    sums: dict[tuple[uuid.UUID, int], tuple[float, float]] = {}
    for (subject, day), (seconds, worked) in ratio_by_day(list(by_subject), BUSY).items():
        task = by_subject[subject]
        measured, busy = sums.get((task.attempt_id, day), (0.0, 0.0))
        sums[task.attempt_id, day] = measured + task.gpu_millis * seconds, busy + task.gpu_millis * worked
    return sums
