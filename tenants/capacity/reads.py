"""Reads of capacity for the scheduler and for edits: the whole tree of limits, what pools have, caps, time limits, bookings."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from clusters.selectors import NodeFacts, PoolFacts, pools_and_nodes
from kernel.resources import RESOURCE_NAMES, Resources, total
from tenants.capacity.lifecycle import BookingState
from tenants.capacity.models import Booking, Queue, QueueLimit, QueueRule, QueueUsage, UserCap
from tenants.capacity.quota import caps
from tenants.capacity.quota.accounting import mark
from tenants.capacity.quota.bookings import Booked, Bookings
from tenants.capacity.quota.limits import AMOUNT_MAX, Capacity, Limit, LimitedQueue
from tenants.identity.models import Tenant, TenantAncestor


@dataclass(frozen=True, slots=True)
class Tree:
    """All queues with all limits, parents first, and whose each queue is. `root_id` is the operators' queue."""

    queues: tuple[LimitedQueue, ...]
    tenants: dict[uuid.UUID, uuid.UUID | None]
    versions: dict[uuid.UUID, int]

    @property
    def parents(self) -> dict[uuid.UUID, uuid.UUID | None]:
        return {queue.id: queue.parent_id for queue in self.queues}


def limits_tree(*, with_deleted: bool = False) -> Tree:
    """The whole tree as the rules of limits see it, for plans and for the past with the queues that are deleted. Two queries."""
    limits: dict[uuid.UUID, dict[uuid.UUID, dict[str, Limit]]] = {}
    columns = ("queue_id", "pool_id", "resource", "guarantee", "deserved", "ceiling", "weight")
    for queue_id, pool_id, resource, guarantee, deserved, ceiling, weight in QueueLimit.objects.values_list(*columns):
        most = None if ceiling is None else min(ceiling, AMOUNT_MAX)  # The release before took larger ones: none at all.
        row = limits.setdefault(queue_id, {}).setdefault(pool_id, {})
        row[resource] = Limit(guarantee, deserved, most, weight)
    queues = Queue.objects.all() if with_deleted else Queue.objects.filter(deleted_at__isnull=True)
    rows = list(queues.order_by("path").values_list("id", "parent_id", "tenant_id", "name", "version"))
    return Tree(
        tuple(LimitedQueue(queue_id, parent_id, name, limits.get(queue_id, {})) for queue_id, parent_id, _, name, _ in rows),
        {queue_id: tenant_id for queue_id, _, tenant_id, _, _ in rows},
        {queue_id: version for queue_id, _, _, _, version in rows},
    )


def capacities() -> tuple[Capacity, ...]:
    """What each pool has in all, whether it may be used now or not. Three queries."""
    return capacities_of(*pools_and_nodes())


def capacities_of(pools: Iterable[PoolFacts], nodes: Iterable[NodeFacts]) -> tuple[Capacity, ...]:
    """The same from facts at hand."""
    by_pool: dict[uuid.UUID, list[Resources]] = {}
    for node in nodes:
        by_pool.setdefault(node.pool_id, []).append(node.capacity)
    return tuple(Capacity(pool.id, pool.name, total(by_pool.get(pool.id, []))) for pool in pools)


def held_by(queue_ids: Collection[uuid.UUID]) -> dict[tuple[uuid.UUID, uuid.UUID], Resources]:
    """What queues and all below them hold, by (queue, pool). One query."""
    rows = QueueUsage.objects.filter(queue_id__in=queue_ids).values_list("queue_id", "pool_id", *RESOURCE_NAMES)
    return {(queue_id, pool_id): Resources(*amounts) for queue_id, pool_id, *amounts in rows}


def user_caps() -> caps.UserCaps:
    """All caps of people in tenants, one by one and together. Two queries."""
    return caps.UserCaps(user_cap_lines())


def user_cap_lines(tenant_ids: Collection[uuid.UUID] | None = None) -> tuple[caps.CapFacts, ...]:
    """The same as lines, by tenant and user, of these tenants or of all. Two queries."""
    lines = UserCap.objects.all() if tenant_ids is None else UserCap.objects.filter(tenant_id__in=tenant_ids)
    rules = QueueRule.objects.filter(Q(max_jobs__isnull=False) | Q(max_containers__isnull=False), queue__is_top=True)
    if tenant_ids is not None:
        rules = rules.filter(queue__tenant_id__in=tenant_ids)
    found = [caps.CapFacts(*row) for row in lines.values_list("tenant_id", "user_id", "gpu_millis", "jobs", "containers")]
    found += [
        caps.CapFacts(tenant_id, caps.TOGETHER, None, jobs, containers)
        for tenant_id, jobs, containers in rules.values_list("queue__tenant_id", "max_jobs", "max_containers")
        if tenant_id is not None
    ]
    return tuple(sorted(found, key=lambda line: (line.tenant_id, str(line.user_id or ""))))


@dataclass(frozen=True, slots=True)
class LockedCaps:
    """Caps that no other process changes, or grants anything under, until the transaction ends."""

    caps: caps.UserCaps
    paths: dict[uuid.UUID, tuple[uuid.UUID, ...]]  # Of every tenant whose jobs count for one of them.


def lock_caps(tenant_ids: Collection[uuid.UUID]) -> LockedCaps | None:
    """The caps that hold in these tenants, locked; None where there are none. Two statements, or six. In a transaction.

    The lock is on the tenants that have caps: a process that sets caps takes it, too. It is taken before that of `QueueUsage`.
    """
    ways = TenantAncestor.objects.filter(tenant_id__in=tenant_ids).values("ancestor_id")
    counted = QueueRule.objects.filter(
        Q(max_jobs__isnull=False) | Q(max_containers__isnull=False), queue__is_top=True, queue__tenant_id__in=ways
    )
    capped = set(UserCap.objects.filter(tenant_id__in=ways).values_list("tenant_id", flat=True).distinct())
    capped |= {tenant_id for tenant_id in counted.values_list("queue__tenant_id", flat=True) if tenant_id is not None}
    if not capped:
        return None
    list(Tenant.objects.select_for_update(no_key=True).filter(id__in=capped).order_by("id").values_list("id", flat=True))
    paths: dict[uuid.UUID, list[uuid.UUID]] = {}
    below = TenantAncestor.objects.filter(ancestor_id__in=capped).order_by("depth").values_list("tenant_id", "ancestor_id")
    for tenant_id, ancestor_id in below:
        paths.setdefault(tenant_id, []).append(ancestor_id)
    return LockedCaps(caps.UserCaps(user_cap_lines(capped)), {tenant_id: tuple(path) for tenant_id, path in paths.items()})


def runtime_limits() -> dict[uuid.UUID, int]:
    """How long jobs of a queue and of those below it may run, where that is limited. One query."""
    rows = QueueRule.objects.filter(max_runtime_seconds__isnull=False).values_list("queue_id", "max_runtime_seconds")
    return {queue_id: seconds for queue_id, seconds in rows if seconds is not None}


def default_runtimes() -> dict[uuid.UUID, int]:
    """How long jobs of a queue and of those below it are taken to run that say nothing, where a queue says so. One query."""
    rows = QueueRule.objects.filter(default_runtime_seconds__isnull=False).values_list("queue_id", "default_runtime_seconds")
    return {queue_id: seconds for queue_id, seconds in rows if seconds is not None}


def held_bookings(now: datetime) -> list[Booking]:
    """Bookings that hold or will, with their tenants. One query."""
    rows = Booking.objects.filter(state=BookingState.HELD, ends_at__gt=now).select_related("tenant", "queue")
    return list(rows.order_by("starts_at", "id"))


def booked_of(row: Booking) -> Booked:
    """A booking as the scheduler sees it. Windows are kept in whole seconds."""
    return Booked(row.pk, row.queue_id, row.pool_id, row.gpu_millis, mark(row.starts_at), mark(row.ends_at))


def bookings(now: datetime) -> Bookings:
    """What is held of every pool from when to when, by bookings that are not over. One query."""
    return Bookings(booked_of(row) for row in held_bookings(now))


def runtime_limit_of(queue_id: uuid.UUID) -> int | None:
    """The longest that a job of a queue may run, by the queue and all above it; None is no limit. Two queries."""
    found = caps.runtime_limit(_way_up(queue_id), runtime_limits())
    return None if found is None else found[1]


def default_runtime_of(queue_id: uuid.UUID) -> int | None:
    """How long a job of a queue is taken to run that says nothing; None: no queue on the way up says so. Two queries."""
    return caps.default_runtime(_way_up(queue_id), default_runtimes())


def _way_up(queue_id: uuid.UUID) -> list[uuid.UUID]:
    """A queue and all above it, nearest first."""
    path = Queue.objects.filter(id=queue_id).values_list("path", flat=True).first() or ""
    return [uuid.UUID(hex=step) for step in reversed(path.split("/")) if step]
