"""Pools and machines as the scheduler looks at them, numbered: pools by id, machines by pool and name."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Set

from clusters.selectors import NodeFacts, PoolFacts, list_clusters, pools_and_nodes
from jobs.scheduling.eligibility import PoolView
from jobs.scheduling.machines import WHOLE_MILLIS, Machine
from jobs.scheduling.scores import PoolRules

GPU_RULES, CPU_RULES = PoolRules("fragmentation"), PoolRules("ratio")  # One object each: rules are compared by identity.
NO_TENANTS: Mapping[uuid.UUID, Set[uuid.UUID]] = {}


def pools_and_machines(
    tenants: Mapping[uuid.UUID, Set[uuid.UUID]] = NO_TENANTS,
) -> tuple[tuple[PoolView, ...], tuple[Machine, ...]]:
    """All pools with their machines. `tenants`: who runs on a cluster now. Four queries."""
    pools, nodes = pools_and_nodes()
    return views_of(pools, tenants), machines_of(pools, nodes)


def views_of(pools: tuple[PoolFacts, ...], tenants: Mapping[uuid.UUID, Set[uuid.UUID]]) -> tuple[PoolView, ...]:
    """The pools, in the order of their numbers. One query."""
    clusters = {cluster.id: cluster for cluster in list_clusters()}
    return tuple(
        PoolView(
            id=pool.id,
            cluster_id=pool.cluster_id,
            name=pool.name,
            cluster_name=pool.cluster_name,
            gpu_model=pool.gpu_model,
            reachable=clusters[pool.cluster_id].accepts_work,
            keeps_apart=clusters[pool.cluster_id].tenants_kept_apart,
            tenant_bound=(
                None if clusters[pool.cluster_id].tenants_kept_apart else min(tenants.get(pool.cluster_id, ()), default=None)
            ),
            gpus_simulated=pool.gpus_simulated,
            isolation=isolation_label(clusters[pool.cluster_id].isolation),
        )
        for pool in pools
    )


def machines_of(pools: tuple[PoolFacts, ...], nodes: tuple[NodeFacts, ...]) -> tuple[Machine, ...]:
    """The nodes of these pools as machines, by pool and name."""
    number = {pool.id: index for index, pool in enumerate(pools)}
    machines = [
        Machine(
            name=node.name,
            pool=number[node.pool_id],
            cpu_millis=node.capacity.cpu_millis,
            memory_bytes=node.capacity.memory_bytes,
            gpus=node.capacity.gpu_millis // WHOLE_MILLIS,
            model=node.gpu_model,
            labels=node.labels,
            blocked=node.blocked,
        )
        for node in nodes
        if node.pool_id in number
    ]
    return tuple(sorted(machines, key=lambda one: (one.pool, one.name)))


def rules_of(machines: tuple[Machine, ...]) -> dict[int, PoolRules]:
    """How pools are filled: those with GPUs so that GPUs stay usable together."""
    with_gpus = {one.pool for one in machines if one.gpus}
    return {pool: GPU_RULES if pool in with_gpus else CPU_RULES for pool in sorted({one.pool for one in machines})}


def isolation_label(facts: tuple[str, ...]) -> str:
    """The first fact of a cluster's isolation says which it is; job pages show it."""
    return facts[0][:200] if facts else ""
