"""Which limits held at a moment of the past: those of now with every change since then taken back.

Changes are rows of their own (`LimitChange`), written with every limit. Neither edits nor the audit are read: they tell people
what was asked for, in any shape, and are kept for as long as people need them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from tenants.capacity.models import LimitChange, Queue
from tenants.capacity.quota.limits import NO_LIMIT, Limit, LimitedQueue

Key = tuple[uuid.UUID, uuid.UUID, str]
"""Queue, pool and resource."""
KEY_COLUMNS = ("queue_id", "pool_id", "resource")
LIMIT_COLUMNS = ("guarantee", "deserved", "ceiling", "weight")  # As `Limit` takes them.


@dataclass(frozen=True, slots=True)
class Replaced:
    """What a change put an end to."""

    at: datetime
    before: Mapping[Key, Limit]


def limits_at(
    moment: datetime, until: datetime, queues: Iterable[LimitedQueue]
) -> tuple[tuple[LimitedQueue, ...], list[tuple[datetime, tuple[LimitedQueue, ...]]]]:
    """The queues, as they are now, with the limits of a moment; and each later set of limits up to another moment."""
    here = tuple(queues)
    later: list[tuple[datetime, tuple[LimitedQueue, ...]]] = []
    for change in _changes_since(moment):
        if change.at <= until:
            later.append((change.at, here))
        here = tuple(_taken_back(queue, change.before) for queue in here)
    return here, later[::-1]


def queue_names() -> dict[uuid.UUID, str]:
    """Every queue by the name of its tenant and its own."""
    rows = Queue.objects.values_list("id", "name", "tenant__name", "is_top")
    return {queue_id: name if is_top or tenant is None else f"{tenant}/{name}" for queue_id, name, tenant, is_top in rows}


def _changes_since(moment: datetime) -> list[Replaced]:
    """Latest first; what changed at one moment is one change. One query."""
    found: dict[datetime, dict[Key, Limit]] = {}
    rows = LimitChange.objects.filter(changed_at__gt=moment).order_by("-changed_at", "-id")
    for at, queue_id, pool_id, resource, *limit in rows.values_list("changed_at", *KEY_COLUMNS, *LIMIT_COLUMNS):
        found.setdefault(at, {})[queue_id, pool_id, resource] = Limit(*limit)  # Of several at one moment the first one's.
    return [Replaced(at, before) for at, before in found.items()]


def _taken_back(queue: LimitedQueue, before: Mapping[Key, Limit]) -> LimitedQueue:
    limits = {pool_id: dict(row) for pool_id, row in queue.limits.items()}
    for (queue_id, pool_id, resource), limit in before.items():
        if queue_id == queue.id:
            row = limits.setdefault(pool_id, {})
            row.pop(resource, None)
            if limit != NO_LIMIT:
                row[resource] = limit
    return replace(queue, limits={pool_id: row for pool_id, row in limits.items() if row})
