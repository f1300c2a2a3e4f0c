"""Which limits held at a moment of the past: those of now with every change since then taken back.

Changes are known from edits, which keep what they replaced, and from the audit of limits that were set at once.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from activity.selectors import audited_since
from tenants.lifecycle import EditState
from tenants.models import Queue, QuotaEdit
from tenants.quota.limits import NO_LIMIT, Limit, LimitedQueue

Key = tuple[uuid.UUID, uuid.UUID, str]
"""Queue, pool and resource."""


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
    """Latest first."""
    found = [
        Replaced(at, dict(_edited(row) for row in before))
        for at, before in QuotaEdit.objects.filter(state=EditState.APPLIED, decided_at__gt=moment).values_list(
            "decided_at", "before"
        )
        if at is not None
    ]
    found += [
        Replaced(one.at, _audited(uuid.UUID(one.target_id), one.before, one.after))
        for one in audited_since("queue.limit", moment)
    ]
    return sorted(found, key=lambda change: change.at, reverse=True)


def _edited(row: Mapping[str, Any]) -> tuple[Key, Limit]:
    return (uuid.UUID(row["queue"]), uuid.UUID(row["pool"]), row["resource"]), _limit(row)


def _audited(queue_id: uuid.UUID, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[Key, Limit]:
    """By pool and resource, also what there was no limit for before."""
    found: dict[Key, Limit] = {}
    for pool, resources in after.items():
        found.update(((queue_id, uuid.UUID(pool), resource), NO_LIMIT) for resource in resources)
    for pool, resources in before.items():
        found.update(((queue_id, uuid.UUID(pool), resource), _limit(one)) for resource, one in resources.items())
    return found


def _limit(row: Mapping[str, Any]) -> Limit:
    return Limit(row["guarantee"], row["deserved"], row["ceiling"], row["weight"])


def _taken_back(queue: LimitedQueue, before: Mapping[Key, Limit]) -> LimitedQueue:
    limits = {pool_id: dict(row) for pool_id, row in queue.limits.items()}
    for (queue_id, pool_id, resource), limit in before.items():
        if queue_id == queue.id:
            row = limits.setdefault(pool_id, {})
            row.pop(resource, None)
            if limit != NO_LIMIT:
                row[resource] = limit
    return replace(queue, limits={pool_id: row for pool_id, row in limits.items() if row})
