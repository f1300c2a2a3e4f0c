"""The limits of one queue: replaced as a whole, in every pool. Edits of many queues at once are in `edits`."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction

from activity.services import record_audit
from kernel.actor import Actor
from kernel.errors import Conflict
from kernel.resources import RESOURCE_NAMES
from kernel.words import Text
from tenants.capacity.models import Queue, QueueLimit
from tenants.capacity.quota.edits import Change, blame
from tenants.capacity.quota.limits import Break, LimitedQueue
from tenants.capacity.quota.tree import Ceiling
from tenants.capacity.services.edits import Trial, lock_and_try, write_limits
from tenants.capacity.services.queues import AMOUNT_MAX, LIMITS_PER_QUEUE, guarded, tell
from tenants.identity.access import demand
from tenants.identity.services.names import Problems


@dataclass(frozen=True, slots=True)
class PoolLimit:
    """The limits of one pool for a queue. A ceiling of None is no limit.

    `guarantee`, `deserved` and `weight` by resource; what they do not name stays as it is.
    """

    pool_id: uuid.UUID
    ceiling: Ceiling
    guarantee: Mapping[str, int] = field(default_factory=dict)
    deserved: Mapping[str, int | None] = field(default_factory=dict)
    weight: Mapping[str, int] = field(default_factory=dict)


def set_limits(
    *, actor: Actor, queue: Queue, limits: Sequence[PoolLimit], expected_version: int | None = None, now: datetime
) -> Queue:
    """Replace a queue's ceilings by these; a pool that is not listed has none, but keeps what it was promised.

    Acts on the next admission. A ceiling above one further up is refused, for it could never be reached. Cutting a ceiling
    below what is used or below those of queues further down is allowed: use then only falls. Guarantees and deserved amounts
    must add up. The same call twice changes nothing the second time.
    """
    parent_tenant_id = None if queue.parent is None else queue.parent.tenant_id
    demand(actor, parent_tenant_id, "queue.limit")
    if queue.parent_id is None:
        raise Conflict(
            Text("The root queue has no limits.", "根队列没有额度。"),
            hint=Text(
                "Its capacity is what the clusters offer; limit the queues below it.",
                "其容量即集群所提供的；请设定其下级队列的额度。",
            ),
        )
    _check_shape(limits)
    with transaction.atomic():
        changes = _changes(queue.pk, limits)
        trial = lock_and_try(changes)
        _check_rules(queue, limits, trial)
        guarded(queue, expected_version)
        write_limits(trial, now)
        tell(queue, "limited", now)
        record_audit(
            actor=actor,
            verb="queue.limit",
            tenant_id=queue.tenant_id,
            target_kind="queue",
            target_id=queue.pk,
            target_name=queue.name,
            before=_shown(queue, trial.tree.queues),
            after=_shown(queue, trial.outcome.queues),
            at=now,
        )
    return queue


def _check_shape(limits: Sequence[PoolLimit]) -> None:
    problems = Problems()
    if len(limits) > LIMITS_PER_QUEUE:
        problems.add(
            "",
            "too_many",
            Text(
                f"A queue has limits for at most {LIMITS_PER_QUEUE} pools.",
                f"一个队列最多为 {LIMITS_PER_QUEUE} 个资源池设置额度。",
            ),
        )
    seen: set[uuid.UUID] = set()
    for index, limit in enumerate(limits):
        if limit.pool_id in seen:
            problems.add(f"/{index}/pool", "repeated", Text("This pool is listed twice.", "该资源池重复列出。"))
        seen.add(limit.pool_id)
        for name in RESOURCE_NAMES:
            value = getattr(limit.ceiling, name)
            if value is not None and not 0 <= value <= AMOUNT_MAX:
                problems.add(
                    f"/{index}/{name}",
                    "out_of_range",
                    Text(f"{name} must be between 0 and {AMOUNT_MAX}.", f"{name} 须在 0 到 {AMOUNT_MAX} 之间。"),
                )
    problems.raise_if_any()


def _changes(queue_id: uuid.UUID, limits: Sequence[PoolLimit]) -> tuple[Change, ...]:
    """Every limit that is given, and those of other pools, which lose their ceilings."""
    given = {limit.pool_id: limit for limit in limits}
    others = set(QueueLimit.objects.filter(queue_id=queue_id).values_list("pool_id", flat=True)) - set(given)
    changes = []
    for limit in (*limits, *(PoolLimit(pool_id, Ceiling()) for pool_id in sorted(others))):
        for resource in RESOURCE_NAMES:
            values: dict[str, int | None] = {"ceiling": getattr(limit.ceiling, resource)}
            promises = (("guarantee", limit.guarantee), ("deserved", limit.deserved), ("weight", limit.weight))
            values.update({column: amounts[resource] for column, amounts in promises if resource in amounts})
            changes.append(Change(queue_id, limit.pool_id, resource, values))
    return tuple(changes)


def _check_rules(queue: Queue, limits: Sequence[PoolLimit], trial: Trial) -> None:
    """Refuse what breaks the tree. Ceilings may fall below those further down, and may name a pool that is still to come."""
    index_of = {limit.pool_id: index for index, limit in enumerate(limits)}
    own = {(change.pool_id, change.resource) for change in trial.changes}
    promising = {limit.pool_id for limit in limits if limit.guarantee or limit.deserved}
    problems = Problems()
    for found in trial.outcome.breaks:
        if found.code == "above_parent" and (found.queue_id != queue.pk or (found.pool_id, found.resource) not in own):
            continue
        if found.code == "not_found" and found.pool_id not in promising:
            continue
        problems.add(_path(found, trial, index_of), found.code, found.message, found.hint)
    problems.raise_if_any()


def _path(found: Break, trial: Trial, index_of: Mapping[uuid.UUID, int]) -> str:
    place = blame(found, trial.changes, trial.tree.parents)
    index = None if place is None else index_of.get(trial.changes[place].pool_id)
    if index is None:
        return ""
    if found.column == "pool":
        return f"/{index}/pool"
    return f"/{index}/{found.resource}" if found.column == "ceiling" else f"/{index}/{found.column}/{found.resource}"


def _shown(queue: Queue, queues: Iterable[LimitedQueue]) -> dict[str, object]:
    """The queue's limits for the audit: by pool and resource."""
    (own,) = (found for found in queues if found.id == queue.pk)
    return {str(pool_id): {resource: limit.as_dict() for resource, limit in row.items()} for pool_id, row in own.limits.items()}
