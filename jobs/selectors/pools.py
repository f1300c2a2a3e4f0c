"""Pools and nodes as a scheduling pass looks at them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from clusters.selectors import list_clusters, pools_and_nodes
from jobs.scheduling.snapshot import NodeView, PoolView
from kernel.resources import Resources


def pool_views(
    allocated: Mapping[tuple[uuid.UUID, str], Resources], tenants: Mapping[uuid.UUID, set[uuid.UUID]]
) -> tuple[PoolView, ...]:
    """All pools with their nodes. `allocated` holds what live tasks hold, by pool and node; `tenants` who runs on a cluster."""
    clusters = {cluster.id: cluster for cluster in list_clusters()}
    pools, nodes = pools_and_nodes()
    views: dict[uuid.UUID, list[NodeView]] = {pool.id: [] for pool in pools}
    for node in nodes:
        held = allocated.get((node.pool_id, node.name), Resources())
        views[node.pool_id].append(NodeView(node.name, node.capacity, held, node.blocked))
    return tuple(
        PoolView(
            id=pool.id,
            cluster_id=pool.cluster_id,
            name=pool.name,
            cluster_name=pool.cluster_name,
            gpu_model=pool.gpu_model,
            nodes=tuple(views[pool.id]),
            reachable=clusters[pool.cluster_id].accepts_work,
            keeps_apart=clusters[pool.cluster_id].tenants_kept_apart,
            tenant_bound=(
                None
                if clusters[pool.cluster_id].tenants_kept_apart
                else next(iter(sorted(tenants.get(pool.cluster_id, ()))), None)
            ),
            gpus_simulated=pool.gpus_simulated,
            isolation=isolation_label(clusters[pool.cluster_id].isolation),
        )
        for pool in pools
    )


def isolation_label(facts: tuple[str, ...]) -> str:
    """The first fact of a cluster's isolation says which it is; job pages show it."""
    return facts[0][:200] if facts else ""
