"""Queues: the tree of capacity. Who owns the queue above decides what a queue may use."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import F

from activity.services import NewEvent, record_audit, record_events
from kernel.actor import Actor
from kernel.errors import Conflict, PreconditionFailed, QuotaExceeded
from kernel.ids import new_id
from kernel.resources import RESOURCE_NAMES
from kernel.words import Text
from reconciling import bulk
from tenants.capacity.models import Queue, QueueLimit, QueueUsage
from tenants.identity.access import demand
from tenants.identity.models import Tenant
from tenants.identity.services.names import Problems, display_name

QUEUE_DEPTH = 24  # Tenants nest 8 deep, each with a few levels of its own; `path` has room for 30.
QUEUES_PER_TENANT = 1_000
QUEUE_NAME_LENGTH = 63
LIMITS_PER_QUEUE = 1_000
AMOUNT_MAX = 2**62  # Sums along the tree stay inside the databases' 64 bits.


def path_of(queue_id: uuid.UUID, parent: Queue | None) -> str:
    return f"{parent.path if parent else ''}{queue_id.hex}/"


def root_queue(now: datetime) -> Queue:
    """The operators' queue that every other hangs below; made at first use. Inside the caller's transaction."""
    found = Queue.objects.filter(tenant__isnull=True).first()
    if found is not None:
        return found
    queue_id = new_id()
    row = {"id": queue_id, "name": "root", "path": path_of(queue_id, None), "is_top": False, "version": 1, "created_at": now}
    bulk.insert(Queue, [{**row, "tenant_id": None, "parent_id": None}], ignore_conflicts=True)
    return Queue.objects.get(tenant__isnull=True)


def create_top_queue(tenant: Tenant, *, now: datetime) -> Queue:
    """The queue that a new tenant starts with: below its parent's top queue, or root. Inside the caller's transaction."""
    if tenant.parent_id is None:
        parent = root_queue(now)
    else:
        parent = Queue.objects.get(tenant_id=tenant.parent_id, is_top=True)
    queue_id = new_id()
    return Queue.objects.create(
        id=queue_id, tenant=tenant, parent=parent, name=tenant.name, path=path_of(queue_id, parent), is_top=True, created_at=now
    )


def create_queue(*, actor: Actor, tenant_id: uuid.UUID, name: str, parent_id: uuid.UUID | None = None, now: datetime) -> Queue:
    """Split a tenant's queue. `parent_id` None: below its top queue. The parent must be the tenant's own."""
    demand(actor, tenant_id, "queue.create")
    problems = Problems()
    name = display_name(name, problems)
    problems.raise_if_any()
    with transaction.atomic():
        Tenant.objects.select_for_update(no_key=True).get(id=tenant_id)
        own = Queue.objects.filter(tenant_id=tenant_id, deleted_at__isnull=True)
        parent = own.filter(id=parent_id).first() if parent_id else own.get(is_top=True)
        if parent is None:
            problems.add(
                "/parent", "not_found", Text("The parent queue is not one of this tenant's queues.", "上级队列不属于此租户。")
            )
            problems.raise_if_any()
            raise AssertionError("unreachable")
        if parent.path.count("/") >= QUEUE_DEPTH:
            raise QuotaExceeded(
                Text(f"Queues nest at most {QUEUE_DEPTH} deep.", f"队列最多嵌套 {QUEUE_DEPTH} 层。"),
                hint=Text("Create it further up.", "请在更高的层级创建。"),
            )
        if own.count() >= QUEUES_PER_TENANT:
            raise QuotaExceeded(
                Text(f"A tenant has at most {QUEUES_PER_TENANT} queues.", f"每个租户最多 {QUEUES_PER_TENANT} 个队列。"),
                hint=Text("Use one of those that exist.", "请使用现有队列。"),
            )
        if own.filter(name=name).exists():
            raise Conflict(
                Text(f"This tenant already has a queue {name!r}.", f"此租户已有队列 {name!r}。"),
                hint=Text("Choose another name.", "请换一个名称。"),
            )
        queue_id = new_id()
        queue = Queue.objects.create(
            id=queue_id, tenant_id=tenant_id, parent=parent, name=name, path=path_of(queue_id, parent), created_at=now
        )
        tell(queue, "created", now)
        record_audit(
            actor=actor,
            verb="queue.create",
            tenant_id=tenant_id,
            target_kind="queue",
            target_id=queue.pk,
            target_name=name,
            after={"name": name, "parent": parent.pk},
            at=now,
        )
    return queue


def rename_queue(*, actor: Actor, queue: Queue, name: str, expected_version: int | None = None, now: datetime) -> Queue:
    """Give a queue another name; jobs keep pointing at it by id. Root keeps its name."""
    demand(actor, queue.tenant_id, "queue.edit")
    if queue.tenant_id is None:
        raise Conflict(Text("The root queue keeps its name.", "根队列的名称不能修改。"))
    problems = Problems()
    name = display_name(name, problems)
    problems.raise_if_any()
    with transaction.atomic():
        before = queue.name
        try:
            with transaction.atomic():
                guarded(queue, expected_version, name=name)
        except IntegrityError:
            raise Conflict(
                Text(f"This tenant already has a queue {name!r}.", f"此租户已有队列 {name!r}。"),
                hint=Text("Choose another name.", "请换一个名称。"),
            ) from None
        tell(queue, "renamed", now)
        record_audit(
            actor=actor,
            verb="queue.edit",
            tenant_id=queue.tenant_id,
            target_kind="queue",
            target_id=queue.pk,
            target_name=name,
            before={"name": before},
            after={"name": name},
            at=now,
        )
    return queue


def ensure_usage_rows(keys: Iterable[tuple[uuid.UUID, uuid.UUID]]) -> None:
    """Make the (queue, pool) rows that are missing, at zero and with the ceilings that hold. Inside a transaction."""
    wanted = set(keys)
    if not wanted:
        return
    rows = QueueUsage.objects.filter(queue_id__in={queue_id for queue_id, _ in wanted})
    missing = sorted(wanted - set(rows.values_list("queue_id", "pool_id")))
    if not missing:
        return
    ceilings: dict[tuple[uuid.UUID, uuid.UUID, str], int | None] = {
        (queue_id, pool_id, resource): ceiling
        for queue_id, pool_id, resource, ceiling in QueueLimit.objects.filter(
            queue_id__in={queue_id for queue_id, _ in missing}
        ).values_list("queue_id", "pool_id", "resource", "ceiling")
    }
    bulk.insert(
        QueueUsage,
        [
            {
                "id": new_id(),
                "queue_id": queue_id,
                "pool_id": pool_id,
                **dict.fromkeys(RESOURCE_NAMES, 0),
                **{f"{name}_max": ceilings.get((queue_id, pool_id, name)) for name in RESOURCE_NAMES},
            }
            for queue_id, pool_id in missing
        ],
        ignore_conflicts=True,
    )


def lock_queue(queue_id: uuid.UUID) -> None:
    """Hold a queue until the transaction ends, without keeping other rows from pointing at it."""
    list(Queue.objects.select_for_update(no_key=True).filter(id=queue_id).values_list("id", flat=True))


def guarded(queue: Queue, expected_version: int | None, **changes: object) -> None:
    """Change a queue and its version, only if it still has the expected one."""
    rows = Queue.objects.filter(id=queue.pk)
    if expected_version is not None:
        rows = rows.filter(version=expected_version)
    if not rows.update(version=F("version") + 1, **changes):
        raise PreconditionFailed(
            Text(f"Queue {queue.name!r} was changed meanwhile.", f"队列 {queue.name!r} 已被他人修改。"),
            hint=Text("Read it again and repeat your change.", "请重新读取，再做修改。"),
        )
    queue.refresh_from_db()


def tell(queue: Queue, what: str, now: datetime) -> None:
    """Record what happened to a queue for followers of its tenant."""
    record_events(
        [
            NewEvent(
                kind=f"queue.{what}",
                tenant_id=queue.tenant_id,
                subject_kind="queue",
                subject_id=queue.pk,
                data={"name": queue.name},
                at=now,
            )
        ]
    )
