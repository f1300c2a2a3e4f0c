"""What an engine found becomes pools and nodes: one transaction, a constant number of statements per 1,000 nodes."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from activity.services import NewEvent, record_events
from clusters.abilities import abilities_document
from clusters.engines.interface import Inventory, ObservedNode
from clusters.models import Cluster, ClusterCondition, ClusterKind, Node, Pool
from clusters.services.cluster_cordons import BERTH_ALONE, NOT_TAKEN_BACK
from clusters.services.conditions import set_condition
from clusters.services.contents import record_reported
from clusters.services.engines import ClusterGone, engine_for
from clusters.services.grouping import Group, KnownPool, Shape, group_nodes, is_simulated, unevenness
from clusters.services.measures import record_unevenness
from kernel import config
from kernel.clock import database_now, host_now
from kernel.ids import new_id
from kernel.limits import NOTE_LENGTH
from reconciling import bulk

LOCAL_CLUSTER = "local"
MISSING = "The cluster does not list this node any more."
MISSING_DAYS = 30  # A node that its cluster does not list for so long is removed: autoscalers never use a name again.


@dataclass(frozen=True, slots=True)
class InventoryChange:
    """What an inventory changed. `is_stale`: a newer one was recorded before, and nothing was done."""

    added: int = 0
    became_ready: int = 0
    became_unready: int = 0
    removed: int = 0
    is_stale: bool = False


def ensure_local_cluster(now: datetime) -> uuid.UUID | None:
    """Create the cluster of this machine with its pool and node unless it exists. Returns its id; None if it is switched off.

    Raises EngineUnreachable if this machine cannot be measured; the cluster then exists without nodes.
    """
    if not config.current().local_cluster:
        return None
    row = {"id": new_id(), "name": LOCAL_CLUSTER, "kind": ClusterKind.LOCAL.value, "created_at": now}
    defaults = {"config": {}, "is_enabled": True, "condition": "unknown", "condition_detail": "", "isolation": []}
    with transaction.atomic():
        bulk.insert(Cluster, [{**defaults, "tenants_kept_apart": True, "observe_cursor": "", **row}], ignore_conflicts=True)
    cluster = Cluster.objects.get(name=LOCAL_CLUSTER)
    if cluster.inventory_read_at is None:
        record_inventory(cluster.pk, read_inventory(cluster.pk), now)
    return cluster.pk


def read_inventory(cluster_id: uuid.UUID) -> Inventory:
    """Ask a cluster what it has, and say by the database's clock when that was: hosts' clocks are set and disagree.

    It was read after we asked, unless it is a copy that was older even then, by the clock of this host. Raises EngineUnreachable.
    """
    engine = engine_for(cluster_id)
    began, began_here = database_now(), host_now()
    found = engine.inventory()
    return replace(found, read_at=began - max(timedelta(0), began_here - found.read_at))


def record_inventory(cluster_id: uuid.UUID, inventory: Inventory, now: datetime) -> InventoryChange:
    """Bring a cluster's pools and nodes up to what its engine found; the cluster is reachable then.

    Repeating it changes nothing; an inventory older than the last is dropped, unless the last claims to be of the future: that is
    no time that anything was read at, and would keep all others out until then.
    Nodes that are not listed become not ready and say why; what ran on them is for `observe` to tell. Raises ClusterGone.
    """
    with transaction.atomic():
        cluster = Cluster.objects.select_for_update().filter(pk=cluster_id).first()
        if cluster is None:
            raise ClusterGone(f"there is no cluster {cluster_id}")
        last = cluster.inventory_read_at
        if last is not None and inventory.read_at < last <= now:
            return InventoryChange(is_stale=True)
        known = {node.name: node for node in Node.objects.filter(cluster_id=cluster_id)}
        pool_ids = _store_pools(cluster_id, inventory.nodes, known, now)
        judged = [_with_cordon(facts, known.get(facts.name)) if inventory.has_cordons else facts for facts in inventory.nodes]
        change, events = _store_nodes(cluster_id, judged, known, pool_ids, now)
        _store_contents(cluster_id, inventory.nodes)
        _store_unevenness(inventory.nodes, pool_ids)
        removed, _ = Node.objects.filter(cluster_id=cluster_id, last_seen_at__lt=now - timedelta(days=MISSING_DAYS)).delete()
        Cluster.objects.filter(pk=cluster_id).update(
            inventory_read_at=inventory.read_at,
            isolation=list(inventory.isolation),
            tenants_kept_apart=inventory.tenants_kept_apart,
            abilities=abilities_document(inventory.abilities),
        )
        set_condition(cluster_id, ClusterCondition.REACHABLE, inventory.note, now)
        record_events(events)
    return replace(change, removed=removed)


def _store_contents(cluster_id: uuid.UUID, nodes: Sequence[ObservedNode]) -> None:
    if any(node.images is not None or node.data is not None for node in nodes):
        record_reported(dict(Node.objects.filter(cluster_id=cluster_id).values_list("name", "id")), nodes)


def _store_unevenness(nodes: Sequence[ObservedNode], pool_ids: dict[str, uuid.UUID]) -> None:
    inside: dict[uuid.UUID, list[ObservedNode]] = {}
    for node in nodes:
        inside.setdefault(pool_ids[node.name], []).append(node)
    record_unevenness({pool_id: unevenness(found) for pool_id, found in inside.items()})


def _store_pools(
    cluster_id: uuid.UUID, nodes: Sequence[ObservedNode], known: dict[str, Node], now: datetime
) -> dict[str, uuid.UUID]:
    """Write the pools; returns the pool of each listed node by name."""
    stored = {pool.pk: pool for pool in Pool.objects.filter(cluster_id=cluster_id).order_by("id")}
    groups = group_nodes(
        nodes,
        [KnownPool(pool.pk, pool.name, _shape(pool)) for pool in stored.values()],
        {name: node.pool_id for name, node in known.items()},
    )
    fresh, changed, pool_of = [], [], {}
    for group in groups:
        pool = stored.get(group.pool_id) if group.pool_id else None
        row = {"id": group.pool_id or new_id(), **_pool_columns(group, pool)}
        pool_of.update({node.name: row["id"] for node in group.nodes})
        if pool is None:
            fresh.append({**row, "cluster_id": cluster_id, "name": group.name, "created_at": now})
        elif any(getattr(pool, column) != value for column, value in row.items()):
            changed.append(row)
    bulk.insert(Pool, fresh)
    bulk.update(Pool, changed)
    return pool_of


def _shape(pool: Pool) -> Shape:
    return Shape(pool.gpu_model, pool.gpus_simulated, pool.node_cpu_millis, pool.node_memory_bytes)


def _pool_columns(group: Group, pool: Pool | None) -> dict[str, Any]:
    """The GPUs of a pool's node are the most that any has, with those out of order: they are missing from a capacity."""
    gpus = [max(node.capacity.gpu_millis, 1000 * len(node.gpus)) for node in group.nodes]
    most = max(gpus, default=pool.node_gpu_millis if pool else 0)
    return {
        "gpu_model": group.shape.gpu_model,
        "gpus_simulated": group.shape.gpus_simulated,
        "node_cpu_millis": group.shape.cpu_millis,
        "node_memory_bytes": group.shape.memory_bytes,
        "node_gpu_millis": most,
        "node_count": len(group.nodes),
    }


def _with_cordon(facts: ObservedNode, node: Node | None) -> ObservedNode:
    """What follows where the cluster's own scheduler heeds another cordon of ours than Berth does. One of somebody else has made
    the node not ready."""
    is_wanted, holds = node is not None and node.cordoned, facts.cordon is not None and facts.cordon.holds
    if not facts.ready or is_wanted == holds:
        return facts
    return replace(facts, reason=BERTH_ALONE) if is_wanted else replace(facts, ready=False, reason=NOT_TAKEN_BACK)


def _store_nodes(
    cluster_id: uuid.UUID,
    nodes: Sequence[ObservedNode],
    known: dict[str, Node],
    pool_ids: dict[str, uuid.UUID],
    now: datetime,
) -> tuple[InventoryChange, list[NewEvent]]:
    fresh, seen, events = [], [], []
    for facts in nodes:
        node = known.get(facts.name)
        is_turned = node is None or node.ready != facts.ready
        row = {
            "id": node.pk if node else new_id(),
            "pool_id": pool_ids[facts.name],
            "ready_since_at": now if node is None or is_turned else node.ready_since_at,
            "last_seen_at": now,
            **_node_columns(facts),
        }
        if node is None:
            fixed = {"cluster_id": cluster_id, "name": facts.name, "created_at": now, "version": 1}
            fresh.append({**row, **fixed, "cordoned": False, "cordon_reason": "", "cordoned_by": ""})
            events.append(_event("node.added", row["id"], facts.name, facts.reason, now))
        else:
            seen.append(row)
        if node is not None and is_turned:
            events.append(_event("node.ready" if facts.ready else "node.not_ready", row["id"], facts.name, facts.reason, now))
    listed = {facts.name for facts in nodes}
    lost = [node for node in known.values() if node.name not in listed and (node.ready or node.reason != MISSING)]
    gone = [
        {"id": node.pk, "ready": False, "reason": MISSING, "ready_since_at": now if node.ready else node.ready_since_at}
        for node in lost
    ]
    events += [_event("node.not_ready", node.pk, node.name, MISSING, now) for node in lost if node.ready]
    bulk.insert(Node, fresh)
    bulk.update(Node, seen)
    bulk.update(Node, gone)
    counted = [event.kind for event in events]
    return InventoryChange(len(fresh), counted.count("node.ready"), counted.count("node.not_ready")), events


def _node_columns(facts: ObservedNode) -> dict[str, Any]:
    return {
        **facts.capacity.as_dict(),
        "gpu_model": facts.gpu_model,
        "gpus": [asdict(gpu) for gpu in facts.gpus],
        "gpus_simulated": is_simulated(facts),
        "tasks_max": facts.tasks_max,
        "ready": facts.ready,
        "reason": facts.reason[:NOTE_LENGTH],
        "labels": dict(facts.labels),
    }


def _event(kind: str, node_id: uuid.UUID, name: str, reason: str, now: datetime) -> NewEvent:
    data = {"name": name, **({"reason": reason} if reason else {})}
    return NewEvent(kind=kind, tenant_id=None, subject_kind="node", subject_id=node_id, data=data, at=now)
