"""Clusters as other apps see them: frozen values, no rows. Reads only, a constant number of queries."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import F, QuerySet, Sum

from clusters.abilities import read_abilities
from clusters.engines.interface import Abilities
from clusters.models import Cluster, ClusterCondition, Node, NodeContents, Pool
from clusters.placement import levels_of, taints_of
from kernel.actor import Actor
from kernel.resources import RESOURCE_NAMES, ZERO, Resources
from upstream.django import loaded

READ_AT_ONCE = 500  # SQLite's bound on parameters is a thousand.


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """A cluster and how well it keeps tenants apart. `isolation` is in words, for people."""

    id: uuid.UUID
    name: str
    kind: str
    is_enabled: bool
    condition: str
    isolation: tuple[str, ...]
    tenants_kept_apart: bool
    abilities: Abilities = field(default_factory=Abilities)
    is_measured: bool = True  # Its engine has said which machines it has.

    @property
    def accepts_work(self) -> bool:
        """Whether anything may be started there. A cluster never asked yet is not refused: starting asks it."""
        return self.is_enabled and self.condition != ClusterCondition.LOST_CONTACT


MixRow = tuple[int, int, int, tuple[str, ...], int]  # CPU, memory, GPU of a task, the models it accepts, how often.


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """A homogeneous group of nodes. `node_shape` is what one of its healthy nodes offers."""

    id: uuid.UUID
    cluster_id: uuid.UUID
    cluster_name: str
    name: str
    gpu_model: str
    gpus_simulated: bool
    node_shape: Resources
    node_count: int
    is_enabled: bool = True  # As its cluster is.
    rules: Mapping[str, Any] = field(default_factory=dict, hash=False)
    mix: tuple[MixRow, ...] = ()  # The tasks that it usually gets, with how often.
    learned: Mapping[str, int] = field(default_factory=dict, hash=False)  # Weights that were found best for these.
    learned_at: datetime | None = None  # When they were asked for last.


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A machine as last observed. `blocked` says in words why nothing may start there; empty when something may."""

    id: uuid.UUID
    pool_id: uuid.UUID
    cluster_id: uuid.UUID
    name: str
    capacity: Resources
    gpu_model: str
    gpus_simulated: bool
    ready: bool
    cordoned: bool
    blocked: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Mapping[str, str] = field(default_factory=dict)  # Effects by name, from all sources.
    images: frozenset[str] = frozenset()  # Digests that are there already.
    data: frozenset[str] = frozenset()  # Volumes whose data is there already, by id.
    tasks_max: int | None = None  # How many tasks it takes, whatever they need; None: no bound.

    @property
    def is_schedulable(self) -> bool:
        return not self.blocked


def list_pools() -> tuple[PoolFacts, ...]:
    """All pools, by id, without their mix. Two queries."""
    return _pools({cluster.id: cluster for cluster in list_clusters()}, Pool.objects.all())


def pools_named(names: Collection[str]) -> dict[uuid.UUID, str]:
    """The pools of these names, which several clusters may share. One query."""
    return dict(Pool.objects.filter(name__in=names).order_by().values_list("id", "name"))


def pool_totals(pool_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Resources]:
    """What all nodes of each pool have together, whether they may be used now or not. One query."""
    rows = Node.objects.filter(pool_id__in=pool_ids).values_list("pool_id").order_by()
    sums = {name: Sum(name) for name in RESOURCE_NAMES}
    found = {pool_id: Resources(*amounts) for pool_id, *amounts in rows.annotate(**{f"all_{k}": v for k, v in sums.items()})}
    return {pool_id: found.get(pool_id, ZERO) for pool_id in pool_ids}


def _pools(clusters: Mapping[uuid.UUID, ClusterFacts], rows: QuerySet[Pool]) -> tuple[PoolFacts, ...]:
    """The pools of these clusters, with their mix where the rows come with their measure."""
    return tuple(
        PoolFacts(
            id=pool.pk,
            cluster_id=pool.cluster_id,
            cluster_name=clusters[pool.cluster_id].name,
            name=pool.name,
            gpu_model=pool.gpu_model,
            gpus_simulated=pool.gpus_simulated,
            node_shape=Resources(pool.node_cpu_millis, pool.node_memory_bytes, pool.node_gpu_millis),
            node_count=pool.node_count,
            is_enabled=clusters[pool.cluster_id].is_enabled,
            rules=pool.rules or {},
            mix=_mix(pool),
            **_learned(pool),
        )
        for pool in rows.filter(cluster_id__in=clusters).order_by("id")
    )


def _mix(pool: Pool) -> tuple[MixRow, ...]:
    measure = loaded(pool, "measure")
    rows = measure.mix if measure is not None else ()
    return tuple((cpu, memory, gpu, tuple(models), often) for cpu, memory, gpu, models, often in rows)


def _learned(pool: Pool) -> dict[str, Any]:
    measure = loaded(pool, "measure")
    if measure is None:
        return {}
    weights = measure.learned["weights"] if measure.learned is not None else {}
    return {"learned": dict(sorted(weights.items())), "learned_at": measure.learned_at}


def pools_and_nodes() -> tuple[tuple[PoolFacts, ...], tuple[NodeFacts, ...]]:
    """All pools and all nodes, by id. Three queries, a fourth where nodes hold something new."""
    clusters = {cluster.id: cluster for cluster in list_clusters()}
    pools = _pools(clusters, Pool.objects.select_related("measure"))
    known = {pool.id for pool in pools}
    columns = (
        "id",
        "pool_id",
        "cluster_id",
        "name",
        "cpu_millis",
        "memory_bytes",
        "gpu_millis",
        "gpu_model",
        "labels",
        "tasks_max",
    )
    flags = ("gpus_simulated", "ready", "reason", "cordoned", "cordon_reason", "taints")
    rows = list(Node.objects.only(*columns, *flags).annotate(held_version=F("contents__version")).order_by("id"))
    contents = _contents_of({node.id: node.held_version for node in rows})
    nodes = tuple(
        _node(node, clusters[node.cluster_id], contents.get(node.id, NOTHING)) for node in rows if node.pool_id in known
    )
    return pools, nodes


@dataclass(frozen=True, slots=True)
class Contents:
    """What a node holds already."""

    images: frozenset[str] = frozenset()
    data: frozenset[str] = frozenset()


NOTHING = Contents()
_contents: dict[uuid.UUID, tuple[int, Contents]] = {}  # By node, what was read under which version.


def _contents_of(versions: Mapping[uuid.UUID, int | None]) -> dict[uuid.UUID, Contents]:
    """What nodes hold, by node. Rows are read again only where their version says so: no query, or one for 500."""
    for gone in _contents.keys() - versions.keys():
        _contents.pop(gone, None)
    stale = [
        node_id
        for node_id, version in versions.items()
        if version is not None and _contents.get(node_id, (0, NOTHING))[0] != version
    ]
    for start in range(0, len(stale), READ_AT_ONCE):
        rows = NodeContents.objects.filter(node_id__in=stale[start : start + READ_AT_ONCE])
        for node_id, version, images, data in rows.values_list("node_id", "version", "images", "data"):
            _contents[node_id] = (version, Contents(frozenset(images), frozenset(data)))
    return {node_id: found[1] for node_id in versions if (found := _contents.get(node_id)) is not None}


def list_clusters() -> tuple[ClusterFacts, ...]:
    """All clusters, by name. One query."""
    return tuple(_cluster(row) for row in Cluster.objects.order_by("name"))


def find_cluster(cluster_id: uuid.UUID) -> ClusterFacts | None:
    row = Cluster.objects.filter(pk=cluster_id).first()
    return None if row is None else _cluster(row)


def observed_clusters() -> tuple[uuid.UUID, ...]:
    """Clusters that an observer has to ask, by id: all of them. What runs on a disabled one is seen to its end. One query."""
    return tuple(Cluster.objects.order_by("id").values_list("id", flat=True))


def cluster_versions() -> dict[uuid.UUID, int]:
    """The version of each cluster's settings, by id. One query."""
    return dict(Cluster.objects.order_by("id").values_list("id", "version"))


def lost_clusters(cluster_ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Those of these clusters that an operator has declared lost. One query."""
    return set(Cluster.objects.filter(pk__in=cluster_ids, lost_at__isnull=False).values_list("pk", flat=True))


def awaited_clusters() -> set[uuid.UUID]:
    """Clusters of which an answer is expected, now or later: all but those that were declared lost. One query."""
    return set(Cluster.objects.filter(lost_at__isnull=True).values_list("pk", flat=True))


def _cluster(row: Cluster) -> ClusterFacts:
    return ClusterFacts(
        id=row.pk,
        name=row.name,
        kind=row.kind,
        is_enabled=row.is_enabled,
        condition=row.condition,
        isolation=tuple(row.isolation),
        tenants_kept_apart=row.tenants_kept_apart,
        abilities=read_abilities(row.abilities),
        is_measured=row.inventory_read_at is not None,
    )


def _node(node: Node, cluster: ClusterFacts, contents: Contents) -> NodeFacts:
    return NodeFacts(
        id=node.pk,
        pool_id=node.pool_id,
        cluster_id=node.cluster_id,
        name=node.name,
        capacity=Resources(node.cpu_millis, node.memory_bytes, node.gpu_millis),
        gpu_model=node.gpu_model,
        gpus_simulated=node.gpus_simulated,
        ready=node.ready,
        cordoned=node.cordoned,
        blocked=_blocked(node, cluster),
        labels=levels_of(node.labels),
        taints=taints_of(node.labels, node.taints),
        images=contents.images,
        data=contents.data,
        tasks_max=node.tasks_max,
    )


def _blocked(node: Node, cluster: ClusterFacts) -> str:
    if not cluster.is_enabled:
        return f"Cluster {cluster.name} is disabled."
    if cluster.condition == ClusterCondition.LOST_CONTACT:
        return f"Berth has lost contact with cluster {cluster.name}."
    if not node.ready:
        return f"Node {node.name} is not ready: {node.reason or 'the cluster gives no reason'}"
    if node.cordoned:
        return f"Node {node.name} is cordoned{': ' + node.cordon_reason if node.cordon_reason else ''}."
    return ""


# --- What is allocated: known above this app, shown here --------------------------------------------------------------

NodeKey = tuple[uuid.UUID, str]  # Cluster and name, as an attempt's tasks name their node.
AllocationByPool = Callable[[Sequence[uuid.UUID]], Mapping[uuid.UUID, Resources]]
AllocationByNode = Callable[[Sequence[NodeKey]], Mapping[NodeKey, Resources]]

_by_pool: AllocationByPool | None = None
_by_node: AllocationByNode | None = None


def register_allocation_source(*, by_pool: AllocationByPool, by_node: AllocationByNode) -> None:
    """Say who knows what is held: each source answers for many pools or nodes at once; those left out hold nothing."""
    global _by_pool, _by_node
    _by_pool, _by_node = by_pool, by_node


def allocated_in_pools(pool_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Resources]:
    """What live attempts hold in each pool; nothing while no source is registered."""
    found = _by_pool(pool_ids) if _by_pool and pool_ids else {}
    return {pool_id: found.get(pool_id, ZERO) for pool_id in pool_ids}


def allocated_on_nodes(nodes: Sequence[NodeKey]) -> dict[NodeKey, Resources]:
    """What live attempts hold on each node; nothing while no source is registered."""
    found = _by_node(nodes) if _by_node and nodes else {}
    return {key: found.get(key, ZERO) for key in nodes}


# --- Who holds which device: the same way ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GpuHolder:
    """What one task holds of a node's GPUs. `devices` as the engine calls them; none while it has not said which.

    `job_id` None: the reader may not know whose it is, and all other fields are empty.
    """

    devices: tuple[str, ...]
    gpu_millis: int
    job_id: uuid.UUID | None = None
    job_name: str = ""
    tenant: str = ""
    user: str = ""


HoldersByNode = Callable[[Actor, Sequence[NodeKey]], Mapping[NodeKey, Sequence[GpuHolder]]]
_holders: HoldersByNode | None = None


def register_holder_source(by_node: HoldersByNode) -> None:
    """Say who knows which task holds which device, as far as an actor may know."""
    global _holders
    _holders = by_node


def gpu_holders(actor: Actor, nodes: Sequence[NodeKey]) -> Mapping[NodeKey, Sequence[GpuHolder]]:
    """What live tasks hold of each node's GPUs; nothing while no source is registered."""
    return _holders(actor, nodes) if _holders and nodes else {}
