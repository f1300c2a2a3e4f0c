"""What waiting jobs want, written down by the scheduler: the only thing that no later look at the database could tell."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import NamedTuple

from django.db import transaction

from kernel.ids import new_ids
from reconciling import bulk
from tenants.billing.ledger.fairness import HOUR
from tenants.billing.models import DemandHour
from tenants.identity.models import Counter

RECORDED = "shares.demand"
"""The second mark up to which demand is recorded: two schedulers that both believe to lead count no second twice."""
GAP_MAX = 300  # A longer time without a look is not guessed at.


class Demand(NamedTuple):
    """What jobs waiting in a queue would hold of a pool now."""

    queue_id: uuid.UUID
    pool_id: uuid.UUID
    cpu_millis: int
    gpu_millis: int


def record_demand(wanted: Iterable[Demand], *, since: int, until: int) -> int:
    """Count what is wanted for the seconds between two marks; returns how many rows changed. Five statements."""
    rows = [demand for demand in wanted if demand.cpu_millis or demand.gpu_millis]
    with transaction.atomic():
        bulk.insert(Counter, [{"name": RECORDED, "value": 0}], ignore_conflicts=True)
        last = Counter.objects.select_for_update().get(name=RECORDED).value
        since = max(since, last, until - GAP_MAX)
        if since >= until:
            return 0
        Counter.objects.filter(name=RECORDED).update(value=until)
        return _add(rows, since, until)


def _add(wanted: Iterable[Demand], since: int, until: int) -> int:
    amounts: dict[tuple[int, uuid.UUID, uuid.UUID], tuple[int, int]] = {}
    for hour in range(since // HOUR, (until - 1) // HOUR + 1):
        seconds = min(until, (hour + 1) * HOUR) - max(since, hour * HOUR)
        for demand in wanted:
            key = (hour, demand.queue_id, demand.pool_id)
            cpu, gpu = amounts.get(key, (0, 0))
            amounts[key] = (cpu + demand.cpu_millis * seconds, gpu + demand.gpu_millis * seconds)
    if not amounts:
        return 0
    hours = {key[0] for key in amounts}
    columns = ("hour", "queue_id", "pool_id")
    known = {
        (hour, queue_id, pool_id): row_id
        for row_id, hour, queue_id, pool_id in DemandHour.objects.filter(hour__in=hours).values_list("id", *columns)
    }
    missing = sorted(amounts.keys() - known.keys())
    bulk.insert(
        DemandHour,
        [
            {"id": row_id, **dict(zip(columns, key, strict=True)), **_amounts(amounts[key])}
            for row_id, key in zip(new_ids(len(missing)), missing, strict=True)
        ],
    )
    grown = [{"id": known[key], **_amounts(amounts[key])} for key in sorted(amounts) if key in known]
    bulk.update(DemandHour, grown, increment=("cpu_milli_seconds", "gpu_milli_seconds"))
    return len(amounts)


def _amounts(pair: tuple[int, int]) -> dict[str, int]:
    return {"cpu_milli_seconds": pair[0], "gpu_milli_seconds": pair[1]}
