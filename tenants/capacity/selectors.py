"""Reads of queues, one or many: they never write, and their number of queries does not depend on the rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from django.db.models import Q, QuerySet, Sum

from kernel.actor import Actor
from kernel.errors import NotFound
from kernel.resources import RESOURCE_NAMES, Resources
from kernel.words import Text
from tenants.capacity.models import Queue, QueueLimit, QueueUsage, Reservation, ReservationKind
from tenants.capacity.quota.limits import Limit, Limits
from tenants.capacity.quota.tree import QueueFacts, QueueTree
from tenants.identity.access import tenants_with
from webapi.access import fetch, visible


def queue_names(queue_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Names of many queues. One query."""
    return dict(Queue.objects.filter(id__in=frozenset(queue_ids)).values_list("id", "name"))


def readable_queue_names(actor: Actor, queue_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Of those that the actor may read, deleted ones included. One query."""
    return dict(_readable(actor).filter(id__in=queue_ids).order_by().values_list("id", "name"))


def _readable(actor: Actor) -> QuerySet[Queue]:
    """For what is told of the past: also queues that are deleted."""
    tenant_ids = tenants_with(actor, "queue.read")
    return Queue.objects.all() if tenant_ids is None else Queue.objects.filter(tenant_id__in=tenant_ids)


def held_of_pools(pool_ids: Iterable[uuid.UUID]) -> dict[tuple[uuid.UUID, uuid.UUID], Resources]:
    """What the attempts of each queue itself, not of those below it, hold of these pools: by pool and queue. One query."""
    live = Reservation.objects.filter(pool_id__in=pool_ids, released_at__isnull=True, kind=ReservationKind.ATTEMPT)
    sums = live.order_by().values_list("pool_id", "queue_id").annotate(*(Sum(name) for name in RESOURCE_NAMES))
    return {(pool_id, queue_id): Resources(*amounts) for pool_id, queue_id, *amounts in sums}


def find_queue_ids(actor: Actor, text: str) -> frozenset[uuid.UUID]:
    """Ids of the queues with this id or name that the actor may read, deleted ones included: every tenant may have one of the
    name. One query."""
    rows = _readable(actor)
    try:
        rows = rows.filter(id=uuid.UUID(text))
    except ValueError:
        rows = rows.filter(name=text)
    return frozenset(rows.values_list("id", flat=True))


def default_queue(tenant_id: uuid.UUID) -> QueueFacts:
    """The tenant's top queue."""
    return _queue_facts(Queue.objects.get(tenant_id=tenant_id, is_top=True))


def resolve_queue(actor: Actor, tenant_id: uuid.UUID, name: str | None) -> QueueFacts:
    """The tenant's queue with this name or id, its top queue for none. NotFound if the tenant has no such queue.

    A job of a tenant runs in one of the tenant's own queues; that the actor may submit there is asked of the tenant.
    """
    if not name:
        return default_queue(tenant_id)
    own = visible(actor, Queue).filter(tenant_id=tenant_id)
    try:
        found = own.filter(id=uuid.UUID(name)).first()
    except ValueError:
        found = own.filter(name=name).first()
    if found is None:
        raise NotFound(
            Text(f"This tenant has no queue {name[:80]!r}.", f"此租户没有队列 {name[:80]!r}。"),
            hint=Text("`berth quota` lists its queues.", "`berth quota` 列出其队列。"),
        )
    return _queue_facts(found)


def queue_path(queue_id: uuid.UUID) -> tuple[QueueFacts, ...]:
    """A queue and all above it, from the queue up to root, with limits and use. Four queries."""
    path = Queue.objects.filter(id=queue_id).values_list("path", flat=True).first()
    if path is None:
        return ()
    return queue_tree(uuid.UUID(hex=step) for step in path.split("/") if step).path(queue_id)


def queues_below(actor: Actor, queue_id: str) -> tuple[QueueFacts, ...]:
    """A queue that the actor sees and all below it, parents first, with limits, without use. Or NotFound. Four queries."""
    queue = fetch(actor, Queue, queue_id, "queue.read")
    ids = Queue.objects.filter(Q(id=queue.pk) | Q(path__startswith=f"{queue.path}{'' if queue.path.endswith('/') else '/'}"))
    return tuple(queue_tree(ids.values_list("id", flat=True), with_usage=False))


def queue_tree(queue_ids: Iterable[uuid.UUID] | None = None, *, with_usage: bool = True) -> QueueTree:
    """All queues (or only these) with limits and use per pool, as plain values; iterates parents first.

    Three queries; two without the use, and then from tables alone whose changes leave a mark (`webapi.facts`). Of limits only
    the ceilings do: what is remembered must not look at the others.
    """
    queues = Queue.objects.all()
    usage = QueueUsage.objects.all()
    limits = QueueLimit.objects.all()
    if queue_ids is not None:
        chosen = frozenset(queue_ids)
        queues, usage, limits = (
            queues.filter(id__in=chosen),
            usage.filter(queue_id__in=chosen),
            limits.filter(queue_id__in=chosen),
        )
    ceilings: dict[uuid.UUID, dict[uuid.UUID, dict[str, int]]] = {}
    every: dict[uuid.UUID, dict[uuid.UUID, dict[str, Limit]]] = {}
    columns = ("queue_id", "pool_id", "resource", "guarantee", "deserved", "ceiling", "weight")
    for queue_id, pool_id, resource, *values in limits.values_list(*columns):
        limit = every.setdefault(queue_id, {}).setdefault(pool_id, {})[resource] = Limit(*values)
        if limit.ceiling is not None:
            ceilings.setdefault(queue_id, {}).setdefault(pool_id, {})[resource] = limit.ceiling
    used: dict[uuid.UUID, dict[uuid.UUID, Resources]] = {}
    amounts_of = usage.values_list("queue_id", "pool_id", *RESOURCE_NAMES)
    for queue_id, pool_id, *amounts in amounts_of if with_usage else ():
        used.setdefault(queue_id, {})[pool_id] = Resources(*amounts)
    return QueueTree(
        _queue_facts(queue, ceilings.get(queue.pk, {}), used.get(queue.pk, {}), every.get(queue.pk, {}))
        for queue in queues.order_by("path")
    )


def _queue_facts(
    queue: Queue,
    ceilings: Mapping[uuid.UUID, Mapping[str, int]] | None = None,
    usage: Mapping[uuid.UUID, Resources] | None = None,
    limits: Limits | None = None,
) -> QueueFacts:
    return QueueFacts(
        id=queue.pk,
        parent_id=queue.parent_id,
        tenant_id=queue.tenant_id,
        name=queue.name,
        is_top=queue.is_top,
        ceilings=ceilings or {},
        usage=usage or {},
        limits=limits or {},
    )
