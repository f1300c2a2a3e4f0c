"""Edits of limits: of one queue or of a whole tree, tried first, made now or when their time comes.

A queue is edited by the owners of the queue above it. All edits take the lock of the root queue, so that two of them never each
keep the sums and break them together; what reserves capacity does not wait for it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet

from activity.notifications.notices import new_notice
from activity.services import NewEvent, record_audit, record_events
from clusters.notices import CAPACITY
from kernel.actor import Actor, system_actor
from kernel.errors import Conflict, FieldError, Forbidden, InvalidInput, NotFound, PreconditionFailed
from kernel.ids import new_id
from kernel.resources import RESOURCE_NAMES
from kernel.words import Text, decided_zh, format_moment
from reconciling import bulk, poison, transition
from reconciling.transition import Change as StateChange
from tenants.capacity.lifecycle import EditState
from tenants.capacity.models import LimitChange, Queue, QueueLimit, QueueUsage, QuotaEdit
from tenants.capacity.quota.edits import COLUMNS, Change, Outcome, blame, try_edit
from tenants.capacity.quota.limits import NO_LIMIT, Capacity, Limit, LimitedQueue
from tenants.capacity.reads import Tree, capacities, held_by, limits_tree
from tenants.capacity.services.queues import ensure_usage_rows
from tenants.capacity.services.transition import EDITS
from tenants.identity.access import actor_for, demand, role_allows

CHANGES_MAX = 5_000  # A tree of 1,000 queues over a few pools in one edit; more would hold the lock for seconds.
PENDING_MAX = 1_000
DUE_PER_SWEEP = 100
DUE_EDIT = "tenants.due_edit"
AHEAD = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class Trial:
    """An edit worked out but not made: the tree it was tried on, what it comes to, and the pools."""

    tree: Tree
    outcome: Outcome
    changes: tuple[Change, ...]
    pools: tuple[Capacity, ...]

    def fields(self) -> list[FieldError]:
        """What is wrong, each at the change that it is about."""
        parents = self.tree.parents
        problems = [
            FieldError(
                f"/changes/{index}/queue",
                "not_found",
                Text("There is no such queue that you see.", "没有您可见的这个队列。"),
                Text("`berth queues` lists them.", "`berth queues` 可列出队列。"),
            )
            for index in self.outcome.unknown
        ]
        for found in self.outcome.breaks:
            index = blame(found, self.changes, parents)
            path = "/changes" if index is None else f"/changes/{index}/{found.column}"
            problems.append(FieldError(path, found.code, found.message, found.hint))
        return problems


@dataclass(frozen=True, slots=True)
class Consequence:
    """What would become of one job: it `starts`, `waits` on, or `is_evicted`. Only of tenants that the asker sees."""

    what: str
    job_id: uuid.UUID
    tenant_id: uuid.UUID
    name: str
    why: str


Forecast = Callable[[Sequence[LimitedQueue], Actor, datetime], Sequence[Consequence]]
_forecasts: list[Forecast] = []


def register_forecast(forecast: Forecast) -> None:
    """Let the scheduler say who would start, wait or be evicted under other limits. Called once, when its app is ready."""
    _forecasts[:] = [forecast]


def forecast(trial: Trial, *, actor: Actor, now: datetime) -> list[Consequence] | None:
    """What the scheduler would do after an edit; None where nothing that schedules is loaded, or the edit is refused."""
    if not _forecasts or trial.outcome.breaks or trial.outcome.unknown:
        return None
    return [found for make_forecast in _forecasts for found in make_forecast(trial.outcome.queues, actor, now)]


def try_limits(*, actor: Actor, changes: Sequence[Change]) -> Trial:
    """Work an edit out without making it. Refused like the edit itself to a caller who may not make it. Six queries."""
    tree = limits_tree()
    demand_all(actor, changes, tree)
    return _tried(changes, tree)


def edit_limits(
    *,
    actor: Actor,
    changes: Sequence[Change],
    effective_from: datetime | None = None,
    comment: str = "",
    expected_versions: Mapping[uuid.UUID, int] | None = None,
    confirm: Callable[[Trial], None] | None = None,
    now: datetime,
) -> QuotaEdit:
    """Change limits of many queues at once, now, or from a later time on: then the row waits and can be cancelled.

    Refused as a whole for whatever it breaks, with every break at the change that makes it. A later edit is checked now
    against the tree as it is, and again when its time comes; if it breaks something then, it is refused and says so.
    `expected_versions`: only if these queues were not changed since. `confirm` sees what the edit comes to under the lock under
    which it is made, and raises where that is not what was meant.
    """
    check_request(changes, effective_from, now)
    is_later = effective_from is not None and effective_from > now
    with transaction.atomic():
        lock_tree()
        trial = try_limits(actor=actor, changes=changes)
        if fields := trial.fields():
            raise InvalidInput(fields[0].message, fields=fields, hint=fields[0].hint)
        _check_versions(trial.tree, expected_versions or {})
        if confirm is not None:
            confirm(trial)
        edit = QuotaEdit(
            id=new_id(),
            tenant_id=owner_of(changes, trial.tree),
            state=EditState.PENDING if is_later else EditState.APPLIED,
            changes=[stored(change) for change in changes],
            before=_before(changes, trial.tree),
            comment=comment,
            effective_from=effective_from if is_later and effective_from is not None else now,
            created_at=now,
            created_by_id=actor.user_id,
            decided_at=None if is_later else now,
        )
        if is_later and QuotaEdit.objects.filter(state=EditState.PENDING).count() >= PENDING_MAX:
            raise Conflict(
                Text(f"{PENDING_MAX} edits wait for their time already.", f"已有 {PENDING_MAX} 项修改等待生效。"),
                hint=Text("Cancel some, or make this one now.", "请取消一些，或立即执行此项。"),
            )
        edit.save(force_insert=True)
        if not is_later:
            write_limits(trial, now)
            _raise_versions(trial)
        _record(edit, trial, actor, "limit_planned" if is_later else "limited", now)
    return edit


def cancel_edit(*, actor: Actor, edit: QuotaEdit, now: datetime) -> QuotaEdit:
    """Take a pending edit back. One that was decided stays as it is."""
    demand(actor, edit.tenant_id, "quota_edit.cancel")
    with transaction.atomic():
        change = StateChange(edit.pk, EditState.PENDING, EditState.CANCELLED, also={"decided_at": now})
        if edit.state != EditState.PENDING or not transition.apply(EDITS, [change], actor=actor.name, at=now):
            state = QuotaEdit.objects.get(id=edit.pk).state
            raise Conflict(
                Text(f"This edit is {state} already.", f"此配额变更{decided_zh(state)}。"),
                hint=Text("Make another edit that undoes it.", "请另做一次变更来撤销它。"),
            )
        edit.refresh_from_db()
        _audit(edit, actor, "quota_edit.cancel", now)
    return edit


def apply_due_edits(now: datetime) -> int:
    """Make the edits whose time has come, in the order of their times. One that breaks the tree by now, or whose author may no
    longer make it, is refused, and the author and the tenant's managers hear of it. One at which this fails is left for later and
    keeps none behind it from its turn. A sweep's part; returns how many were decided."""
    decided: set[uuid.UUID] = set()
    due = _due(now).exclude(id__in=poison.resting(DUE_EDIT, now)).order_by("effective_from", "id")
    ids = list(due.values_list("id", flat=True)[:DUE_PER_SWEEP])
    poison.work_through(DUE_EDIT, ids, lambda part: _apply_all(part, decided, now), now=now, key=lambda edit_id: edit_id)
    return len(decided)


def _due(now: datetime) -> QuerySet[QuotaEdit]:
    return QuotaEdit.objects.filter(state=EditState.PENDING, effective_from__lte=now)


def _apply_all(ids: Sequence[uuid.UUID], decided: set[uuid.UUID], now: datetime) -> None:
    for edit_id in ids:
        with transaction.atomic():
            lock_tree()
            edit = _due(now).select_related("created_by").filter(id=edit_id).first()
            is_decided = edit is not None and _apply(edit, now)  # None: cancelled, or made by another process.
        if is_decided:
            decided.add(edit_id)


def _apply(edit: QuotaEdit, now: datetime) -> bool:
    """Decide an edit, under the lock of the tree; False where another process did."""
    actor = system_actor("quota")
    changes = [read_change(entry) for entry in edit.changes]
    trial = _tried(changes, limits_tree())
    fields = _lost_right(edit, changes, trial.tree) or trial.fields()
    decision = StateChange(
        edit.pk,
        EditState.PENDING,
        EditState.REFUSED if fields else EditState.APPLIED,
        reason=fields[0].code if fields else "",
        also={"decided_at": now},
    )
    if not transition.apply(EDITS, [decision], actor=actor.name, at=now):
        return False
    edit.refresh_from_db()
    edit.problems = [field.as_dict() for field in fields]
    edit.before = _before([change for change in changes if change.queue_id in trial.tree.tenants], trial.tree)
    edit.save(update_fields=["problems", "before"])
    if not fields:
        write_limits(trial, now)
        _raise_versions(trial)
    _record(edit, trial, actor, "limit_refused" if fields else "limited", now)
    if fields:
        _tell_refused(edit, fields, now)
    return True


def _lost_right(edit: QuotaEdit, changes: Sequence[Change], tree: Tree) -> list[FieldError]:
    """Why the author may not make the edit any more. An edit without an author is the platform's own."""
    author = edit.created_by
    if author is None:
        return []
    hint = Text("A user who may edit these limits now makes the edit again.", "请由现在有权修改这些额度的用户重新提交。")
    if not author.is_active:
        return [
            FieldError(
                "/changes",
                "author_disabled",
                Text(f"{author.name}, who planned this, is disabled.", f"计划此变更的 {author.name} 已被停用。"),
                hint,
            )
        ]
    try:
        demand_all(actor_for(author, None), changes, tree)
    except (Forbidden, NotFound):
        return [
            FieldError(
                "/changes",
                "author_lost_right",
                Text(f"{author.name}, who planned this, may not do it any more.", f"计划此变更的 {author.name} 已无权执行。"),
                hint,
            )
        ]
    return []


def _tell_refused(edit: QuotaEdit, fields: Sequence[FieldError], now: datetime) -> None:
    more = f" There are {len(fields) - 1} more reasons." if len(fields) > 1 else ""
    notice = new_notice(
        CAPACITY,
        tenant_id=edit.tenant_id,
        subject_kind="quota_edit",
        subject_id=edit.pk,
        title=f"The planned edit of limits of {format_moment(edit.effective_from)} was refused",
        text=f"{fields[0].message}{more} {fields[0].hint}".rstrip(),
        command="berth queues edits",
        users=[edit.created_by_id],
        for_managers=True,
        at=now,
    )
    record_events([notice])


def write_limits(trial: Trial, now: datetime) -> None:
    """Write what changed, its history, and the ceilings' copies on the usage rows. Inside the transaction that holds the tree's
    lock. No other code writes limits: a change without history would make the shares of the past wrong."""
    before = {queue.id: queue for queue in trial.tree.queues}
    after = {queue.id: queue for queue in trial.outcome.queues}
    keys = sorted({(change.queue_id, change.pool_id, change.resource) for change in trial.changes})
    changed = {
        key: after[key[0]].limit(key[1], key[2])
        for key in keys
        if after[key[0]].limit(*key[1:]) != before[key[0]].limit(*key[1:])
    }
    _write_rows(changed)
    _write_history({key: before[key[0]].limit(key[1], key[2]) for key in changed}, now)
    _write_ceilings({(queue_id, pool_id) for queue_id, pool_id, _ in changed}, after)


def _raise_versions(trial: Trial) -> None:
    Queue.objects.filter(id__in={change.queue_id for change in trial.changes}).update(version=F("version") + 1)


def _write_rows(changed: Mapping[tuple[uuid.UUID, uuid.UUID, str], Limit]) -> None:
    queue_ids = {queue_id for queue_id, _, _ in changed}
    rows = QueueLimit.objects.filter(queue_id__in=queue_ids).values_list("id", "queue_id", "pool_id", "resource")
    known = {(queue_id, pool_id, resource): row_id for row_id, queue_id, pool_id, resource in rows}
    bulk.update(QueueLimit, [{"id": known[key], **limit.as_dict()} for key, limit in changed.items() if key in known])
    bulk.insert(
        QueueLimit,
        [
            {"id": new_id(), "queue_id": key[0], "pool_id": key[1], "resource": key[2], "caps": {}, **limit.as_dict()}
            for key, limit in changed.items()
            if key not in known and limit != NO_LIMIT
        ],
    )


def _write_history(replaced: Mapping[tuple[uuid.UUID, uuid.UUID, str], Limit], now: datetime) -> None:
    bulk.insert(
        LimitChange,
        [
            {
                "id": new_id(), "queue_id": queue_id, "pool_id": pool_id, "resource": resource, **limit.as_dict(),
                "changed_at": now,
            }
            for (queue_id, pool_id, resource), limit in replaced.items()
        ],
    )  # fmt: skip


def _write_ceilings(keys: set[tuple[uuid.UUID, uuid.UUID]], after: Mapping[uuid.UUID, LimitedQueue]) -> None:
    if not keys:
        return
    ensure_usage_rows(keys)
    usage = QueueUsage.objects.select_for_update().filter(queue_id__in={queue_id for queue_id, _ in keys}).order_by("id")
    bulk.update(
        QueueUsage,
        [
            {"id": row_id, **{f"{name}_max": after[queue_id].limit(pool_id, name).ceiling for name in RESOURCE_NAMES}}
            for row_id, queue_id, pool_id in usage.values_list("id", "queue_id", "pool_id")
            if (queue_id, pool_id) in keys
        ],
    )


def lock_and_try(changes: Sequence[Change]) -> Trial:
    """Take the tree's lock and work an edit out, for a caller that asked for permission itself."""
    lock_tree()
    return _tried(changes, limits_tree())


def read_change(entry: Mapping[str, Any]) -> Change:
    """A change as `QuotaEdit.changes` keeps it."""
    values = {column: entry[column] for column in COLUMNS if column in entry}
    return Change(uuid.UUID(entry["queue"]), uuid.UUID(entry["pool"]), entry["resource"], values)


def stored(change: Change) -> dict[str, Any]:
    """A change as a row keeps it; `read_change` reads it."""
    return {"queue": str(change.queue_id), "pool": str(change.pool_id), "resource": change.resource, **change.values}


def _tried(changes: Sequence[Change], tree: Tree) -> Trial:
    pools = capacities()
    used = held_by({change.queue_id for change in changes})
    return Trial(tree, try_edit(tree.queues, changes, pools, used), tuple(changes), pools)


def lock_tree() -> None:
    """One edit at a time. A weak lock: rows that point at root are written meanwhile."""
    list(Queue.objects.select_for_update(no_key=True).filter(tenant__isnull=True).values_list("id", flat=True))


def check_request(changes: Sequence[Change], effective_from: datetime | None, now: datetime) -> None:
    """What can be wrong with an edit whatever the limits are."""
    fields = []
    if not changes:
        fields.append(
            FieldError(
                "/changes",
                "required",
                Text("An edit changes at least one limit.", "一次修改至少改动一项额度。"),
                Text("Name a queue, pool and resource.", "请指定队列、资源池与资源。"),
            )
        )
    if len(changes) > CHANGES_MAX:
        fields.append(
            FieldError(
                "/changes",
                "too_many",
                Text(f"An edit has at most {CHANGES_MAX} changes.", f"一次修改最多 {CHANGES_MAX} 项改动。"),
                Text("Make several edits.", "请分成多次修改。"),
            )
        )
    for index, change in enumerate(changes):
        if not change.values:
            message = Text("This change names no new value.", "此修改没有给出新值。")
            fields.append(
                FieldError(
                    f"/changes/{index}",
                    "required",
                    message,
                    Text(f"Give one of {', '.join(COLUMNS)}.", f"请给出 {', '.join(COLUMNS)} 之一。"),
                )
            )
    if effective_from is not None and effective_from > now + AHEAD:
        message = Text(f"An edit waits for at most {AHEAD.days} days.", f"修改最多可提前 {AHEAD.days} 天安排。")
        fields.append(
            FieldError(
                "/effective_from",
                "out_of_range",
                message,
                Text(f"Give a time before {now + AHEAD:%Y-%m-%d}.", f"请给出早于 {now + AHEAD:%Y-%m-%d} 的时间。"),
            )
        )
    if effective_from is not None and effective_from < now - timedelta(minutes=1):
        message = Text(
            f"{format_moment(effective_from)} is over: limits do not change the past.",
            f"{format_moment(effective_from)} 已过：额度不能改变过去。",
        )
        fields.append(
            FieldError(
                "/effective_from",
                "in_the_past",
                message,
                Text("Leave it away to act now, or give a later time.", "省略则立即生效，或给出更晚的时间。"),
            )
        )
    if fields:
        raise InvalidInput(fields[0].message, fields=fields, hint=fields[0].hint)


def demand_all(actor: Actor, changes: Iterable[Change], tree: Tree) -> None:
    """Owners of the queue above give capacity. A queue that the actor does not see does not exist."""
    parents = tree.parents
    for queue_id in sorted({change.queue_id for change in changes}):
        if queue_id not in tree.tenants:
            continue
        if not role_allows(actor, tree.tenants[queue_id], "queue.read"):
            demand(actor, tree.tenants[queue_id], "queue.read")
        parent_id = parents[queue_id]
        if parent_id is None:
            raise Conflict(
                Text("The root queue has no limits.", "根队列没有额度。"),
                hint=Text(
                    "Its capacity is what the clusters offer; limit those below it.",
                    "其容量即集群所提供的；请设定其下级队列的额度。",
                ),
            )
        if not role_allows(actor, tree.tenants[parent_id], "queue.limit"):
            demand(actor, tree.tenants[parent_id] if tree.tenants[parent_id] in actor.roles else None, "queue.limit")


def _check_versions(tree: Tree, expected: Mapping[uuid.UUID, int]) -> None:
    for queue in tree.queues:
        if queue.id in expected and expected[queue.id] != tree.versions[queue.id]:
            raise PreconditionFailed(
                Text(
                    f"Queue {queue.name!r} was changed meanwhile: it has version {tree.versions[queue.id]}.",
                    f"队列 {queue.name!r} 已被他人修改：当前版本为 {tree.versions[queue.id]}。",
                ),
                hint=Text("Read it again and repeat your edit.", "请重新读取，再做修改。"),
            )


def owner_of(changes: Iterable[Change], tree: Tree) -> uuid.UUID | None:
    """The tenant of the lowest queue above all that change."""
    parents = tree.parents
    common: list[uuid.UUID] | None = None
    for queue_id in sorted({change.queue_id for change in changes}):
        path: list[uuid.UUID] = []
        here = parents[queue_id]
        while here is not None:
            path.append(here)
            here = parents[here]
        common = path if common is None else [node for node in common if node in set(path)]
    return tree.tenants[common[0]] if common else None


def _before(changes: Iterable[Change], tree: Tree) -> list[dict[str, Any]]:
    limits = {queue.id: queue for queue in tree.queues}
    keys = sorted({(change.queue_id, change.pool_id, change.resource) for change in changes})
    return [
        {
            "queue": str(queue_id),
            "pool": str(pool_id),
            "resource": resource,
            **limits[queue_id].limit(pool_id, resource).as_dict(),
        }
        for queue_id, pool_id, resource in keys
    ]


def _record(edit: QuotaEdit, trial: Trial, actor: Actor, what: str, now: datetime) -> None:
    """One audit row for the edit, and an event for each queue whose tenant should hear of it."""
    names = {queue.id: queue.name for queue in trial.tree.queues}
    queue_ids = sorted({change.queue_id for change in trial.changes if change.queue_id in names})
    record_events(
        [
            NewEvent(
                kind=f"queue.{what}",
                tenant_id=trial.tree.tenants[queue_id],
                subject_kind="queue",
                subject_id=queue_id,
                data={"name": names[queue_id], "edit": str(edit.pk), "effective_from": edit.effective_from.isoformat()},
                at=now,
            )
            for queue_id in queue_ids
        ]
    )
    verb = {"limited": "quota_edit.apply", "limit_planned": "quota_edit.plan", "limit_refused": "quota_edit.refuse"}[what]
    _audit(edit, actor, verb, now, count=max(1, len(queue_ids)))


def _audit(edit: QuotaEdit, actor: Actor, verb: str, now: datetime, *, count: int = 1) -> None:
    record_audit(
        actor=actor,
        verb=verb,
        tenant_id=edit.tenant_id,
        target_kind="quota_edit",
        target_id=edit.pk,
        before={"limits": edit.before[:100]},
        after={"changes": edit.changes[:100], "state": str(edit.state), "comment": edit.comment},
        count=count,
        at=now,
    )
