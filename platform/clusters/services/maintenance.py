"""Maintenance: machines that are taken out of service for a window, and come back by themselves.

`begin_windows` and `end_windows` are called every few seconds and may be called at any time, twice, or late: what a window has
done already stands in its row. Emptying machines is left to the app that knows the jobs; `nodes_to_empty` says which.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet

from activity.services import NewAudit, NewEvent, record_audits, record_events
from clusters.models import MaintenanceWindow, Node
from clusters.services.cordons import set_cordons
from kernel.actor import Actor, system_actor
from kernel.crashpoints import crashpoint
from kernel.errors import Conflict, FieldError, InvalidInput
from kernel.words import Text, format_moment
from reconciling import bulk

ACTOR = system_actor("maintenance")
AHEAD = timedelta(days=366)
LENGTH_MAX = timedelta(days=92)
LATE = timedelta(minutes=1)  # Clocks of people and servers differ, and forms are filled in slowly.
OPEN_MAX = 500  # Planned or under way.
NODES_MAX = 1_000  # Of one window; for more there are pools.
NODES_AT_ONCE = bulk.BATCH_ROWS  # Taken out of service in one transaction.
NODES_TOLD = 100  # In an audit row.


@dataclass(frozen=True, slots=True)
class NewWindow:
    """A planned window: for a pool as a whole, or nodes."""

    pool_id: uuid.UUID | None
    node_ids: tuple[uuid.UUID, ...]
    starts_at: datetime
    ends_at: datetime
    reason: str = ""
    drain: bool = False


def plan_window(*, actor: Actor, wanted: NewWindow, now: datetime) -> MaintenanceWindow:
    """Plan a window. The caller was asked whether the actor may do so with these machines."""
    _check(wanted, now)
    with transaction.atomic():
        if MaintenanceWindow.objects.filter(ended_at__isnull=True).count() >= OPEN_MAX:
            raise Conflict(
                Text(f"{OPEN_MAX} windows are planned already.", f"已有 {OPEN_MAX} 个计划中的维护窗口。"),
                hint=Text("Cancel some that are not needed.", "请取消不需要的维护窗口。"),
            )
        row = MaintenanceWindow.objects.create(
            pool_id=wanted.pool_id,
            node_ids=[str(node_id) for node_id in wanted.node_ids],
            reason=wanted.reason,
            drain=wanted.drain,
            starts_at=wanted.starts_at,
            ends_at=wanted.ends_at,
            created_at=now,
            created_by=actor.name,
        )
        _tell(row, "planned", now)
        _audit(row, actor, "maintenance.create", now)
    return row


def cancel_window(*, actor: Actor, window: MaintenanceWindow, now: datetime) -> MaintenanceWindow:
    """Give a window up, or end it before its time: its machines return at once."""
    with transaction.atomic():
        windows = _lock()
        row = windows.get(window.pk)
        if row is None:
            raise Conflict(
                Text("This maintenance is over already.", "此维护已经结束。"),
                hint=Text("Only one that is planned or under way can be ended.", "只能结束计划中或进行中的维护。"),
            )
        row.cancelled_at = now
        _end(row, windows, actor, now)
        _audit(row, actor, "maintenance.cancel", now)
    return row


def begin_windows(now: datetime) -> int:
    """Take out of service what windows under way mean, also machines that have come to their pools since. Returns how many
    machines were taken, a thousand in each transaction; the number of statements does not depend on how many."""
    taken = 0
    while _under_way(now).exists():
        with transaction.atomic():
            some = _begin(now)
            crashpoint("clusters.maintenance.before_commit")
        taken += some
        if some < NODES_AT_ONCE:
            break
    return taken


def end_windows(now: datetime) -> int:
    """Give back the machines of windows that are over; returns how many windows that were."""
    over = list(_open().filter(ends_at__lte=now).values_list("id", flat=True))
    done = 0
    for window_id in over:
        with transaction.atomic():
            windows = _lock()
            row = windows.get(window_id)
            if row is not None:
                _end(row, windows, ACTOR, now)
                _audit(row, ACTOR, "maintenance.end", now)
                done += 1
    return done


@dataclass(frozen=True, slots=True)
class OutOfService:
    """A machine that a window under way wants empty, with the reason for which it is cordoned."""

    id: uuid.UUID
    cluster_id: uuid.UUID
    name: str
    reason: str


def nodes_to_empty(now: datetime) -> list[OutOfService]:
    """Machines of windows under way that drain, as long as they are cordoned: operators may take some back. Two queries."""
    rows = list(_draining(now))
    found = {node.pk: node for nodes in nodes_of(rows).values() for node in nodes if node.cordoned} if rows else {}
    return [OutOfService(node.pk, node.cluster_id, node.name, node.cordon_reason) for node in found.values()]


def is_to_be_emptied(node_id: uuid.UUID, now: datetime) -> bool:
    """Whether that is still so of one machine. Inside the caller's transaction, in which it stays so: locks the machine."""
    node = Node.objects.select_for_update().filter(id=node_id, cordoned=True).first()
    return node is not None and any(row.pool_id == node.pool_id or str(node.pk) in row.node_ids for row in _draining(now))


def nodes_of(rows: Sequence[MaintenanceWindow]) -> dict[uuid.UUID, list[Node]]:
    """The machines that each window means, as they are now: what is told of them, no more. One query."""
    pools = {row.pool_id for row in rows if row.pool_id is not None}
    ids = {uuid.UUID(node_id) for row in rows for node_id in row.node_ids}
    nodes = Node.objects.filter(Q(pool_id__in=pools) | Q(id__in=ids))
    found = list(nodes.only("id", "name", "pool_id", "cluster_id", "cordoned", "cordon_reason"))
    found.sort(key=lambda node: (node.name, node.pk))
    by_pool: dict[uuid.UUID, list[Node]] = {}
    by_id = {node.pk: node for node in found}
    for node in found:
        by_pool.setdefault(node.pool_id, []).append(node)
    return {
        row.pk: by_pool.get(row.pool_id, [])
        if row.pool_id is not None
        else [by_id[uuid.UUID(node_id)] for node_id in row.node_ids if uuid.UUID(node_id) in by_id]
        for row in rows
    }


def _open() -> QuerySet[MaintenanceWindow]:
    return MaintenanceWindow.objects.filter(ended_at__isnull=True).order_by("starts_at", "id")


def _under_way(now: datetime) -> QuerySet[MaintenanceWindow]:
    return _open().filter(starts_at__lte=now, ends_at__gt=now)


def _draining(now: datetime) -> QuerySet[MaintenanceWindow]:
    return _under_way(now).filter(began_at__isnull=False, drain=True)


def _lock() -> dict[uuid.UUID, MaintenanceWindow]:
    """All open windows, locked in one order: they hand machines to one another."""
    return {row.pk: row for row in _open().order_by("id").select_for_update()}


def _begin(now: datetime) -> int:
    rows = sorted(
        (row for row in _lock().values() if row.starts_at <= now < row.ends_at), key=lambda row: (row.starts_at, row.pk)
    )
    taken = _take(rows, now)
    changed = [row for row in rows if row.began_at is None or taken.get(row.pk)]
    told = [_event(row, "began", now) for row in changed if row.began_at is None]
    for row in changed:
        row.began_at = row.began_at or now
        row.cordoned_ids = [*row.cordoned_ids, *(str(node.pk) for node in taken.get(row.pk, ()))]
    bulk.update(
        MaintenanceWindow, [{"id": row.pk, "began_at": row.began_at, "cordoned_ids": row.cordoned_ids} for row in changed]
    )
    record_events(told)
    record_audits(
        [_audit_of(row, ACTOR, "maintenance.begin", now, nodes=[node.name for node in taken.get(row.pk, ())]) for row in changed]
    )
    return sum(len(nodes) for nodes in taken.values())


def _take(rows: Sequence[MaintenanceWindow], now: datetime) -> dict[uuid.UUID, list[Node]]:
    """Cordon machines that are in service, each for the first window that means it and has not taken it before; by window."""
    whose: dict[uuid.UUID, MaintenanceWindow] = {}
    meant = nodes_of(rows)
    for row in rows:
        known = set(row.cordoned_ids)
        for node in meant[row.pk]:
            if not node.cordoned and str(node.pk) not in known:
                whose.setdefault(node.pk, row)
    found = Node.objects.filter(id__in=list(whose)[:NODES_AT_ONCE])
    taken: dict[uuid.UUID, list[Node]] = {}
    for node in set_cordons(actor=ACTOR, nodes=found, is_cordoned=True, reason_of=lambda node: _why(whose[node.pk]), now=now):
        taken.setdefault(whose[node.pk].pk, []).append(node)
    return taken


def _end(row: MaintenanceWindow, windows: Mapping[uuid.UUID, MaintenanceWindow], actor: Actor, now: datetime) -> None:
    """Return what this window took, but for machines that another window under way means, or that somebody has cordoned since."""
    others = [
        window for window in windows.values() if window.pk != row.pk and window.began_at is not None and window.ends_at > now
    ]
    meant = nodes_of(others)
    mine, heirs = {uuid.UUID(node_id) for node_id in row.cordoned_ids}, []
    for other in others:
        kept = [node.pk for node in meant[other.pk] if node.pk in mine]
        if kept:
            other.cordoned_ids = [*other.cordoned_ids, *(str(node_id) for node_id in kept)]
            heirs.append({"id": other.pk, "cordoned_ids": other.cordoned_ids})
            mine -= set(kept)
    bulk.update(MaintenanceWindow, heirs)
    set_cordons(actor=actor, nodes=Node.objects.filter(id__in=mine, cordoned_by=ACTOR.name), is_cordoned=False, now=now)
    row.ended_at = now
    row.save(update_fields=["ended_at", "cancelled_at"])
    _tell(row, "cancelled" if row.cancelled_at is not None else "ended", now)


def _why(row: MaintenanceWindow) -> str:
    until = f"Maintenance until {format_moment(row.ends_at)}"
    reason = row.reason.rstrip(" .。")  # Where it is told, the sentence goes on.
    return f"{until}: {reason}" if reason else until


def _check(wanted: NewWindow, now: datetime) -> None:
    errors = []
    if (wanted.pool_id is None) == (not wanted.node_ids):
        errors.append(
            FieldError(
                "/nodes",
                "required",
                Text("Name a pool or nodes, and not both.", "请指定资源池或节点，二者只选其一。"),
                Text("Leave the other one out.", "请去掉另一项。"),
            )
        )
    if len(wanted.node_ids) > NODES_MAX:
        errors.append(
            FieldError(
                "/nodes",
                "too_many",
                Text(f"A window has at most {NODES_MAX} nodes.", f"一个维护窗口最多包含 {NODES_MAX} 个节点。"),
                Text("Name a pool.", "请改为指定资源池。"),
            )
        )
    if wanted.starts_at < now - LATE:
        errors.append(
            FieldError(
                "/starts_at",
                "in_the_past",
                Text(f"It is {format_moment(now)} already.", f"现在已是 {format_moment(now)}。"),
                Text("Begin now or later.", "请从现在或之后开始。"),
            )
        )
    elif wanted.starts_at > now + AHEAD:
        errors.append(
            FieldError(
                "/starts_at",
                "out_of_range",
                Text(f"A window begins at most {AHEAD.days} days ahead.", f"维护窗口最多提前 {AHEAD.days} 天计划。"),
            )
        )
    if wanted.ends_at <= max(wanted.starts_at, now):
        errors.append(
            FieldError(
                "/ends_at",
                "out_of_range",
                Text("The window ends before it begins.", "维护窗口的结束早于开始。"),
                Text("Give an end after the start.", "请给出晚于开始的结束时间。"),
            )
        )
    elif wanted.ends_at - wanted.starts_at > LENGTH_MAX:
        errors.append(
            FieldError(
                "/ends_at",
                "out_of_range",
                Text(f"A window lasts at most {LENGTH_MAX.days} days.", f"维护窗口最长 {LENGTH_MAX.days} 天。"),
            )
        )
    if errors:
        raise InvalidInput(errors[0].message, hint=errors[0].hint, fields=errors)


def _tell(row: MaintenanceWindow, what: str, now: datetime) -> None:
    record_events([_event(row, what, now)])


def _event(row: MaintenanceWindow, what: str, now: datetime) -> NewEvent:
    data = {"reason": row.reason, "starts_at": row.starts_at.isoformat(), "ends_at": row.ends_at.isoformat(), "drain": row.drain}
    return NewEvent(f"maintenance.{what}", tenant_id=None, subject_kind="maintenance", subject_id=row.pk, data=data, at=now)


def _audit(row: MaintenanceWindow, actor: Actor, verb: str, now: datetime) -> None:
    record_audits([_audit_of(row, actor, verb, now)])


def _audit_of(row: MaintenanceWindow, actor: Actor, verb: str, now: datetime, *, nodes: Collection[str] = ()) -> NewAudit:
    return NewAudit(
        actor=actor,
        verb=verb,
        tenant_id=None,
        target_kind="maintenance",
        target_id=row.pk,
        after={
            "pool": None if row.pool_id is None else str(row.pool_id),
            "nodes": row.node_ids[:NODES_TOLD],
            "starts_at": row.starts_at.isoformat(),
            "ends_at": row.ends_at.isoformat(),
            "drain": row.drain,
            "reason": row.reason,
            **({"cordoned": sorted(nodes)[:NODES_TOLD]} if nodes else {}),
        },
        count=max(1, len(nodes)),
        at=now,
    )
