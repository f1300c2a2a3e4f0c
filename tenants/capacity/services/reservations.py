"""Capacity held. A Reservation row per attempt and pool is the truth; QueueUsage is the sum of the live ones of a queue and
all queues below it, kept in the same transaction. Quota is never over-committed:

- usage rows of every queue on the way to the root are locked in the order of their ids, so that two batches cannot block each
  other and cannot both take the last place;
- the update itself compares `used + more <= ceiling` once more, and a refusal there is a mistake of ours, not a lost race;
- what is being stopped counts until `release`; when a ceiling is cut below what is used, use only falls.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Sum

from activity.services import record_audit
from kernel.actor import system_actor
from kernel.ids import new_ids
from kernel.resources import RESOURCE_NAMES, ZERO, Resources
from reconciling import bulk
from tenants.capacity.models import Queue, QueueUsage, Reservation, ReservationKind
from tenants.capacity.quota.tree import Ceiling, Claim, grant
from tenants.capacity.services.queues import ensure_usage_rows

Key = tuple[uuid.UUID, uuid.UUID]  # Queue and pool.
WITHIN = {name: f"{name}_max" for name in RESOURCE_NAMES}


@dataclass(frozen=True, slots=True)
class ReserveRequest:
    """What an attempt asks of one pool. An attempt in several pools is several requests, granted together or not at all."""

    attempt_id: uuid.UUID
    job_id: uuid.UUID
    tenant_id: uuid.UUID
    queue_id: uuid.UUID
    pool_id: uuid.UUID
    amount: Resources
    kind: str = ReservationKind.ATTEMPT


@dataclass(frozen=True, slots=True)
class Drift:
    """Where QueueUsage does not say what the reservations add up to. Never expected: an alarm."""

    queue_id: uuid.UUID
    pool_id: uuid.UUID
    recorded: Resources
    counted: Resources


def reserve(requests: Sequence[ReserveRequest], *, now: datetime) -> set[uuid.UUID]:
    """Hold capacity for as many attempts as fit, in the order given; returns the attempts that hold it now.

    An attempt that is left out of the answer holds nothing. One that already holds its capacity is granted again without
    counting twice; one that was released is not. Seven statements for any number of requests up to 1,000.
    """
    if not requests:
        return set()
    with transaction.atomic():
        held, gone = _already({request.attempt_id for request in requests})
        asked = [request for request in requests if request.attempt_id not in held and request.attempt_id not in gone]
        if not asked:
            return held
        paths = _paths({request.queue_id for request in asked})
        claims = [Claim(request.attempt_id, request.pool_id, request.amount, paths[request.queue_id]) for request in asked]
        ensure_usage_rows((queue_id, claim.pool_id) for claim in claims for queue_id in claim.queue_ids)
        rows = _lock({(queue_id, claim.pool_id) for claim in claims for queue_id in claim.queue_ids})
        held |= _already({request.attempt_id for request in asked})[0]  # Taken while we waited for the lock.
        claims = [claim for claim in claims if claim.attempt_id not in held]
        granted, growth = grant(
            claims,
            {key: _amount(row) for key, row in rows.items()},
            {key: _ceiling(row) for key, row in rows.items()},
        )
        _grow(rows, growth)
        _insert([request for request in asked if request.attempt_id in granted], now)
    return held | granted


def release(attempt_ids: Iterable[uuid.UUID], *, now: datetime) -> set[uuid.UUID]:
    """Give back whatever these attempts hold; returns those that held something. A second call changes nothing."""
    chosen = set(attempt_ids)
    if not chosen:
        return set()
    live = Reservation.objects.filter(attempt_id__in=chosen, released_at__isnull=True).order_by()
    with transaction.atomic():
        held = set(live.values_list("queue_id", "pool_id").distinct())
        if not held:
            return set()
        paths = _paths({queue_id for queue_id, _ in held})
        rows = _lock({(above, pool_id) for queue_id, pool_id in held for above in paths[queue_id]})
        # Read only now: another process may have released some of them while we waited for the lock.
        freed = list(live.values_list("attempt_id", "queue_id", "pool_id", *RESOURCE_NAMES))
        live.update(released_at=now)
        shrink: dict[Key, Resources] = {}
        for _, queue_id, pool_id, *amounts in freed:
            amount = Resources(*amounts)
            for above in paths[queue_id]:
                shrink[(above, pool_id)] = shrink.get((above, pool_id), ZERO) - amount
        _grow(rows, shrink)
    return {row[0] for row in freed}


def recount_usage(*, now: datetime, repair: bool = False) -> list[Drift]:
    """Compare QueueUsage with the reservations behind it; returns every difference, which the sweep alarms about.

    With `repair` the recorded sums are corrected. Holds the locks of all usage rows while it counts, so that it never sees
    half of a batch; a pass over 100,000 live reservations takes about a second.
    """
    with transaction.atomic():
        missing: set[Key] | None = None
        while True:
            locked = {(row.queue_id, row.pool_id): row for row in QueueUsage.objects.select_for_update().order_by("id")}
            counted = _count_live()
            before, missing = missing, counted.keys() - locked.keys()
            if not missing or missing == before:
                break  # Otherwise the first to hold something there came after the locks, and brought its rows along.
        drifts = [
            Drift(*key, _amount(locked[key]) if key in locked else ZERO, counted.get(key, ZERO))
            for key in sorted({*locked, *counted})
            if (_amount(locked[key]) if key in locked else ZERO) != counted.get(key, ZERO)
        ]
        if repair and drifts:
            ensure_usage_rows((drift.queue_id, drift.pool_id) for drift in drifts)
            rows = _lock({(drift.queue_id, drift.pool_id) for drift in drifts})
            bulk.update(
                QueueUsage,
                [{"id": rows[(drift.queue_id, drift.pool_id)].pk, **drift.counted.as_dict()} for drift in drifts],
            )
            record_audit(
                actor=system_actor("recount"),
                verb="queue.repair",
                tenant_id=None,
                target_kind="queue_usage",
                target_id=None,
                before={f"{drift.queue_id}/{drift.pool_id}": drift.recorded.as_dict() for drift in drifts[:100]},
                after={f"{drift.queue_id}/{drift.pool_id}": drift.counted.as_dict() for drift in drifts[:100]},
                count=len(drifts),
                at=now,
            )
    return drifts


def _count_live() -> dict[Key, Resources]:
    """What is held of pools, by queue and those above it."""
    paths = dict(Queue.objects.values_list("id", "path"))
    counted: dict[Key, Resources] = {}
    live = Reservation.objects.filter(released_at__isnull=True).order_by().values("queue_id", "pool_id")
    sums: Any = live.annotate(**{f"{name}_sum": Sum(name) for name in RESOURCE_NAMES})
    for row in sums:
        amount = Resources(*(int(row[f"{name}_sum"]) for name in RESOURCE_NAMES))
        for queue_id in _ids(paths[row["queue_id"]]):
            key = (queue_id, row["pool_id"])
            counted[key] = counted.get(key, ZERO) + amount
    return counted


def _amount(row: QueueUsage) -> Resources:
    return Resources(row.cpu_millis, row.memory_bytes, row.gpu_millis)


def _already(attempt_ids: set[uuid.UUID]) -> tuple[set[uuid.UUID], set[uuid.UUID]]:
    """Attempts that hold capacity, and attempts that held it once."""
    held: set[uuid.UUID] = set()
    gone: set[uuid.UUID] = set()
    rows = Reservation.objects.filter(attempt_id__in=attempt_ids).values_list("attempt_id", "released_at")
    for attempt_id, released_at in rows:
        (held if released_at is None else gone).add(attempt_id)
    return held, gone - held


def _paths(queue_ids: set[uuid.UUID]) -> dict[uuid.UUID, tuple[uuid.UUID, ...]]:
    rows = Queue.objects.filter(id__in=queue_ids).values_list("id", "path")
    return {queue_id: _ids(path) for queue_id, path in rows}


def _ids(path: str) -> tuple[uuid.UUID, ...]:
    return tuple(uuid.UUID(hex=step) for step in path.split("/") if step)


def _lock(keys: set[Key]) -> dict[Key, QueueUsage]:
    """The rows of these keys, locked in the order of their ids until the transaction ends."""
    rows = QueueUsage.objects.select_for_update().filter(
        queue_id__in={queue_id for queue_id, _ in keys}, pool_id__in={pool_id for _, pool_id in keys}
    )
    return {(row.queue_id, row.pool_id): row for row in rows.order_by("id")}


def _grow(rows: Mapping[Key, QueueUsage], growth: Mapping[Key, Resources]) -> None:
    changed = bulk.update(
        QueueUsage,
        [{"id": rows[key].pk, **amount.as_dict()} for key, amount in growth.items()],
        increment=RESOURCE_NAMES,
        within=WITHIN,
    )
    if len(changed) != len(growth):
        raise AssertionError("a locked usage row refused what was found to fit")


def _insert(requests: Sequence[ReserveRequest], now: datetime) -> None:
    ids = new_ids(len(requests))
    bulk.insert(
        Reservation,
        [
            {
                "id": row_id,
                "kind": request.kind,
                "attempt_id": request.attempt_id,
                "queue_id": request.queue_id,
                "pool_id": request.pool_id,
                "tenant_id": request.tenant_id,
                "job_id": request.job_id,
                **request.amount.as_dict(),
                "created_at": now,
                "released_at": None,
            }
            for row_id, request in zip(ids, requests, strict=True)
        ],
    )


def _ceiling(row: QueueUsage) -> Ceiling:
    return Ceiling(row.cpu_millis_max, row.memory_bytes_max, row.gpu_millis_max)
