"""Deleting a queue that is empty. The row stays, under a name that sets the old one free: finished jobs, ledger and history
refer to it. The platform still plans with it, so that a job that was submitted at the same moment runs to its end under the
limits above."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from activity.services import record_audit
from kernel.actor import Actor
from kernel.errors import Conflict
from kernel.words import Text, counted
from tenants.capacity.lifecycle import BookingState, EditState
from tenants.capacity.models import Booking, Queue, QueueLimit, QuotaEdit
from tenants.capacity.quota.edits import Change
from tenants.capacity.services.edits import lock_and_try, lock_tree, write_limits
from tenants.capacity.services.queues import QUEUE_NAME_LENGTH, guarded, tell
from tenants.identity.access import demand
from tenants.identity.models import Tenant

NAMED_MAX = 5  # Things of a kind that a refusal names.


class QueueInUse(Conflict):
    """The queue has unfinished jobs, queues below it, bookings or scheduled edits of its limits; `detail` names them."""

    code = "queue_in_use"
    title = Text("The queue is in use", "队列正在使用")


@dataclass(frozen=True, slots=True)
class QueueObstacle:
    """What stands against the deletion of a queue, and how to end it."""

    text: Text[str]
    hint: Text[str]


ObstacleSource = Callable[[uuid.UUID], Sequence[QueueObstacle]]
_sources: list[ObstacleSource] = []


def register_queue_obstacles(source: ObstacleSource) -> None:
    """Let an app above say what of its own is in a queue. Called once, when it is ready."""
    _sources[:] = [source]


def delete_queue(*, actor: Actor, queue: Queue, now: datetime) -> None:
    """Delete a queue; QueueInUse where something is in it. Its limits go, and its name is free again. A tenant's top queue goes
    with the tenant."""
    demand(actor, queue.tenant_id, "queue.delete")
    if queue.tenant_id is None:
        raise Conflict(Text("The root queue cannot be deleted.", "根队列不能删除。"))
    if queue.is_top:
        raise Conflict(
            Text(f"Queue {queue.name} is the top queue of its tenant.", f"队列 {queue.name} 是其租户的顶层队列。"),
            hint=Text("It goes with the tenant: `berth tenants delete`.", "它随租户删除：`berth tenants delete`。"),
        )
    with transaction.atomic():
        Tenant.objects.select_for_update(no_key=True).get(id=queue.tenant_id)
        lock_tree()
        list(Queue.objects.select_for_update().filter(id=queue.pk))  # Waits for submissions under way, whose rows point at it.
        found = [*_own_obstacles(queue, now), *(obstacle for source in _sources for obstacle in source(queue.pk))]
        if found:
            raise _in_use(queue, found)
        _drop_limits(queue, now)
        name = queue.name
        guarded(queue, None, name=_freed(queue), deleted_at=now)
        tell(queue, "deleted", now)
        record_audit(
            actor=actor,
            verb="queue.delete",
            tenant_id=queue.tenant_id,
            target_kind="queue",
            target_id=queue.pk,
            target_name=name,
            before={"name": name, "parent": queue.parent_id},
            after={"name": queue.name},
            at=now,
        )


def _in_use(queue: Queue, obstacles: Sequence[QueueObstacle]) -> QueueInUse:
    texts, hints = [each.text for each in obstacles], [each.hint for each in obstacles]
    return QueueInUse(
        Text(
            f"Queue {queue.name} is in use: {'; '.join(text.en for text in texts)}.",
            f"队列 {queue.name} 正在使用：{'；'.join(text.zh for text in texts)}。",
        ),
        hint=Text(" ".join(hint.en for hint in hints), "".join(hint.zh for hint in hints)),
    )


def named(names: Iterable[Any], count: int) -> str:
    """The first names of `count` things."""
    return ", ".join(map(str, names)) + (", ..." if count > NAMED_MAX else "")


def _own_obstacles(queue: Queue, now: datetime) -> list[QueueObstacle]:
    """What capacity knows of. Six queries at most."""
    found = []
    below = Queue.objects.filter(parent=queue, deleted_at__isnull=True)
    if count := below.count():
        names = named(below.order_by("name").values_list("name", flat=True)[:NAMED_MAX], count)
        found.append(
            QueueObstacle(
                Text(f"{counted(count, 'queue is', 'queues are')} below it ({names})", f"其下有 {count} 个队列（{names}）"),
                Text("Delete those first.", "请先删除下级队列。"),
            )
        )
    booked = Booking.objects.filter(queue=queue, state=BookingState.HELD, ends_at__gt=now)
    if count := booked.count():
        ids = named(booked.order_by("id").values_list("id", flat=True)[:NAMED_MAX], count)
        found.append(
            QueueObstacle(
                Text(f"{counted(count, 'booking is', 'bookings are')} held for it ({ids})", f"有 {count} 个预订（{ids}）"),
                Text("Cancel the bookings: `berth reserve cancel`.", "请取消预订：`berth reserve cancel`。"),
            )
        )
    edits = [
        edit.pk
        for edit in QuotaEdit.objects.filter(state=EditState.PENDING).only("id", "changes").order_by("id")
        if any(change.get("queue") == str(queue.pk) for change in edit.changes)
    ]
    if edits:
        ids = named(edits[:NAMED_MAX], len(edits))
        found.append(
            QueueObstacle(
                Text(
                    f"{counted(len(edits), 'scheduled edit changes', 'scheduled edits change')} its limits ({ids})",
                    f"有 {len(edits)} 个计划中的额度修改（{ids}）",
                ),
                Text("Cancel the edits: `berth queues cancel`.", "请取消这些修改：`berth queues cancel`。"),
            )
        )
    return found


def _drop_limits(queue: Queue, now: datetime) -> None:
    """What it was promised is free for others; the history of its limits stays."""
    nothing = {"guarantee": 0, "deserved": None, "ceiling": None, "weight": 1}
    rows = QueueLimit.objects.filter(queue=queue).values_list("pool_id", "resource")
    if changes := [Change(queue.pk, pool_id, resource, nothing) for pool_id, resource in rows]:
        write_limits(lock_and_try(changes), now)


def _freed(queue: Queue) -> str:
    """A name of its own for what is kept: the former one with the end of its id, which is random."""
    mark = f" ({queue.pk.hex[-8:]})"
    return queue.name[: QUEUE_NAME_LENGTH - len(mark)] + mark
