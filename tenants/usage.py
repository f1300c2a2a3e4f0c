"""What was used, from the ledger: integers that add up to the same whatever they are grouped by and wherever a window is cut.

Entries wholly inside the window are summed by the database; only those that stick out of it, at most what ran at its two
ends, are read and cut here. Memory is summed as whole MiB and the rest, because bytes times seconds leave 64 bits.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, F, Q, QuerySet, Sum

from kernel.limits import MIB
from kernel.resources import Resources
from tenants.models import LedgerEntry
from tenants.quota.accounting import ResourceSeconds, seconds_within, used

GROUPS = {"tenant": "tenant_id", "user": "user_id", "queue": "queue_id", "pool": "pool_id", "job": "job_id"}


@dataclass(frozen=True, slots=True)
class UsageRow:
    """What one tenant, user, queue, pool or job used within the window; `attempts` counts entries that touch it."""

    key: uuid.UUID
    attempts: int
    used: ResourceSeconds


def usage_report(
    *, tenant_ids: Iterable[uuid.UUID] | None, since: datetime | None, until: datetime | None, group_by: str = "tenant"
) -> list[UsageRow]:
    """Resource-time of ended attempts per group, the largest GPU user first. Two queries. `tenant_ids` None: all tenants.

    An attempt is in the ledger once it has ended; what still runs is seen in the queues' use.
    """
    column = GROUPS[group_by]
    rows = LedgerEntry.objects.order_by()
    if tenant_ids is not None:
        rows = rows.filter(tenant_id__in=frozenset(tenant_ids))
    if since is not None:
        rows = rows.filter(ended_at__gt=since)
    if until is not None:
        rows = rows.filter(started_at__lt=until)
    sticks_out = Q(pk__in=[])
    if since is not None:
        sticks_out |= Q(started_at__lt=since)
    if until is not None:
        sticks_out |= Q(ended_at__gt=until)
    groups: dict[uuid.UUID, tuple[int, ResourceSeconds]] = {}
    _add_inside(groups, rows.exclude(sticks_out), column)
    if since is not None or until is not None:
        _add_edges(groups, rows.filter(sticks_out), column, since, until)
    report = [UsageRow(key, attempts, amount) for key, (attempts, amount) in groups.items()]
    return sorted(report, key=lambda row: (-row.used.gpu_milli_seconds, -row.used.cpu_milli_seconds, row.key))


def _add_inside(groups: dict[uuid.UUID, tuple[int, ResourceSeconds]], rows: QuerySet[LedgerEntry], column: str) -> None:
    # Not `alias`: each sum is over a product, and the database multiplies 64-bit integers without loss at these sizes.
    sums: Any = rows.values(column).annotate(
        attempts=Count("id"),
        cpu=Sum(F("cpu_millis") * F("seconds")),
        gpu=Sum(F("gpu_millis") * F("seconds")),
        memory_mib=Sum((F("memory_bytes") - F("memory_bytes") % MIB) / MIB * F("seconds")),
        memory_rest=Sum(F("memory_bytes") % MIB * F("seconds")),
    )
    for row in sums:
        amount = ResourceSeconds(int(row["cpu"]), int(row["memory_mib"]) * MIB + int(row["memory_rest"]), int(row["gpu"]))
        groups[row[column]] = (row["attempts"], amount)


def _add_edges(
    groups: dict[uuid.UUID, tuple[int, ResourceSeconds]],
    rows: QuerySet[LedgerEntry],
    column: str,
    since: datetime | None,
    until: datetime | None,
) -> None:
    names = (column, "cpu_millis", "memory_bytes", "gpu_millis", "started_at", "ended_at")
    for key, cpu, memory, gpu, started_at, ended_at in rows.values_list(*names).iterator(chunk_size=2_000):
        seconds = seconds_within(started_at, ended_at, since=since, until=until)
        attempts, amount = groups.get(key, (0, ResourceSeconds()))
        groups[key] = (attempts + 1, amount + used(Resources(cpu, memory, gpu), seconds))


def gpu_seconds_by_tenant() -> dict[tuple[uuid.UUID, str], float]:
    """GPU-seconds of all ended attempts, by tenant and GPU model. One query; only entries that held a GPU are read."""
    rows = (
        LedgerEntry.objects.filter(gpu_millis__gt=0)
        .order_by()
        .values_list("tenant_id", "gpu_model")
        .annotate(total=Sum(F("gpu_millis") * F("seconds")))
    )
    return {(tenant_id, model): total / 1000 for tenant_id, model, total in rows}
