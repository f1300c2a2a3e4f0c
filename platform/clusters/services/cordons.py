"""Taking a node out of service by hand: nothing new starts there, what runs stays."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from activity import hints
from activity.services import NewEvent, record_audit, record_events
from clusters.gpu_faults import resolved
from clusters.models import Node
from kernel.actor import Actor
from kernel.errors import PreconditionFailed
from kernel.limits import NAME_LENGTH, NOTE_LENGTH
from kernel.words import Text
from reconciling import bulk
from webapi.access import fetch

_CORDON = ("cordoned", "cordon_reason", "cordoned_by", "cordoned_at", "gpu_faults", "version")


@dataclass(frozen=True, slots=True)
class NodeRef:
    """A node as others speak of it."""

    id: uuid.UUID
    name: str
    cluster_id: uuid.UUID
    pool_name: str


def cordons_topic(cluster_id: uuid.UUID) -> str:
    """The hint that cordons of a cluster's nodes were changed."""
    return f"cordons.{cluster_id}"


def fetch_node(actor: Actor, text: str, verb: str) -> NodeRef:
    """A node that the actor sees and may do this with; else NotFound or Forbidden."""
    return _ref(fetch(actor, Node, text, verb, related=("pool",)))


def node_ref(node_id: uuid.UUID) -> NodeRef:
    """A node that is known to exist."""
    return _ref(Node.objects.select_related("pool").get(pk=node_id))


def _ref(node: Node) -> NodeRef:
    return NodeRef(node.pk, node.name, node.cluster_id, node.pool.name)


def cordoned_of(places: Collection[tuple[uuid.UUID, str]]) -> set[tuple[uuid.UUID, str]]:
    """Which of the nodes (cluster, name) are cordoned, or gone, with their cluster or alone. None of the others can be before the
    caller's transaction has ended.

    A cordon locks its node for itself; here the weakest lock that it has to wait for is taken, which reports of the cluster about
    its nodes need not wait for. SQLite has one writer at a time. One statement.
    """
    nodes = Node.objects.filter(cluster_id__in={cluster_id for cluster_id, _ in places}, name__in={name for _, name in places})
    rows = bulk.read_for_key_share(nodes.order_by("id").values_list("cluster_id", "name", "cordoned"))
    usable = {(cluster_id, name) for cluster_id, name, is_cordoned in rows if not is_cordoned}
    return set(places) - usable


def cordon_node(
    *,
    actor: Actor,
    node_id: uuid.UUID,
    reason: str = "",
    expected_version: int | None = None,
    audited: bool = True,
    now: datetime,
) -> Node:
    """Let nothing new start on a node. Once more with another reason replaces the reason; without one, the
    reason that it has stays; the same again changes nothing.

    `audited` False: the call that this is a part of has its own audit row.
    """
    return _set_cordon(
        actor, node_id, is_cordoned=True, reason=reason[:NOTE_LENGTH], expected=expected_version, audited=audited, now=now
    )


def uncordon_node(
    *, actor: Actor, node_id: uuid.UUID, expected_version: int | None = None, audited: bool = True, now: datetime
) -> Node:
    """Let work start on a node again, as far as it is ready. `audited` as for `cordon_node`."""
    return _set_cordon(actor, node_id, is_cordoned=False, reason="", expected=expected_version, audited=audited, now=now)


def set_cordons(
    *, actor: Actor, nodes: QuerySet[Node], is_cordoned: bool, reason_of: Callable[[Node], str] = lambda node: "", now: datetime
) -> list[Node]:
    """Cordon those of the nodes that are not, or uncordon those that are; returns them, with a few of their columns. Inside the
    caller's transaction, who audits. As many statements for a thousand as for one."""
    found = nodes.filter(cordoned=not is_cordoned).only("id", "name", "cluster_id", *_CORDON).select_for_update().order_by("id")
    rows = list(found)
    reasons = {node.pk: reason_of(node)[:NOTE_LENGTH] for node in rows}
    bulk.update(Node, [_changed(node, actor, is_cordoned=is_cordoned, reason=reasons[node.pk], now=now) for node in rows])
    record_events([_event(node, now) for node in rows])
    for cluster_id in {node.cluster_id for node in rows}:
        hints.wake(cordons_topic(cluster_id))
    return rows


def _set_cordon(
    actor: Actor,
    node_id: uuid.UUID,
    *,
    is_cordoned: bool,
    reason: str,
    expected: int | None,
    audited: bool,
    now: datetime,
) -> Node:
    with transaction.atomic():
        node = Node.objects.select_for_update().select_related("cluster", "pool").get(pk=node_id)
        if expected is not None and node.version != expected:
            raise PreconditionFailed(
                Text(
                    f"Node {node.name} has version {node.version} now, not {expected}.",
                    f"节点 {node.name} 当前版本为 {node.version}，而非 {expected}。",
                ),
                hint=Text(
                    "Read it again, apply your change to the new version, and send its ETag.",
                    "请重新读取，在新版本上修改，并发送其 ETag。",
                ),
            )
        before = {"cordoned": node.cordoned, "cordon_reason": node.cordon_reason}
        is_kept = is_cordoned and not reason and node.cordon_reason != ""
        reason = node.cordon_reason if is_kept else reason
        # A maintenance gives back what it took itself; a node that an operator takes too is the operator's from then on.
        is_taken = is_kept and node.cordoned_by != actor.name[:NAME_LENGTH]
        after = {"cordoned": is_cordoned, "cordon_reason": reason}
        if before != after or is_taken:
            bulk.update(Node, [_changed(node, actor, is_cordoned=is_cordoned, reason=reason, now=now)])
            hints.wake(cordons_topic(node.cluster_id))
        if before["cordoned"] != is_cordoned:
            record_events([_event(node, now)])
        if not audited:
            return node
        record_audit(
            actor=actor,
            verb="node.cordon" if is_cordoned else "node.uncordon",
            tenant_id=None,
            target_kind="node",
            target_id=node.pk,
            target_name=node.name,
            before=before,
            after=after,
            at=now,
        )
    return node


def _changed(node: Node, actor: Actor, *, is_cordoned: bool, reason: str, now: datetime) -> dict[str, Any]:
    """The node as it is from now on, and what of it is stored."""
    node.cordoned, node.cordon_reason = is_cordoned, reason
    node.cordoned_by = actor.name[:NAME_LENGTH] if is_cordoned else ""
    node.cordoned_at = (node.cordoned_at or now) if is_cordoned else None
    if not is_cordoned:
        node.gpu_faults = resolved(node.gpu_faults, actor.name[:NAME_LENGTH], now)  # An operator has looked at them.
    node.version += 1
    return {"id": node.pk, **{name: getattr(node, name) for name in _CORDON}}


def _event(node: Node, now: datetime) -> NewEvent:
    data = {"name": node.name, **({"reason": node.cordon_reason} if node.cordon_reason else {})}
    kind = "node.cordoned" if node.cordoned else "node.uncordoned"
    return NewEvent(kind=kind, tenant_id=None, subject_kind="node", subject_id=node.pk, data=data, at=now)
