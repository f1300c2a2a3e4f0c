"""Pools and machines as the scheduler looks at them, numbered: pools by id, machines by pool and name."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Set
from functools import lru_cache

from clusters.placement import EXCLUSIVE_CORES, LEVELS, Effect, learns
from clusters.selectors import NodeFacts, PoolFacts, list_clusters, pools_and_nodes
from jobs.scheduling.core.eligibility import PoolView
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Machine
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.questions.idle import MixRow, mix_of
from kernel.config import current
from storage.services.checkpoints import any_location

NO_TENANTS: Mapping[uuid.UUID, Set[uuid.UUID]] = {}


def pools_and_machines(
    tenants: Mapping[uuid.UUID, Set[uuid.UUID]] = NO_TENANTS,
) -> tuple[tuple[PoolView, ...], tuple[Machine, ...], dict[int, PoolRules]]:
    """All pools with their machines and rules. `tenants`: who runs on a cluster now. Four queries."""
    pools, nodes = pools_and_nodes()
    machines = machines_of(pools, nodes)
    return views_of(pools, tenants), machines, rules_of(pools, machines)


def views_of(pools: tuple[PoolFacts, ...], tenants: Mapping[uuid.UUID, Set[uuid.UUID]]) -> tuple[PoolView, ...]:
    """The pools, in the order of their numbers. One query."""
    clusters = {cluster.id: cluster for cluster in list_clusters()}
    checkpoints = any_location()
    return tuple(
        PoolView(
            id=pool.id,
            cluster_id=pool.cluster_id,
            name=pool.name,
            cluster_name=pool.cluster_name,
            gpu_model=pool.gpu_model,
            enabled=clusters[pool.cluster_id].is_enabled,
            reachable=clusters[pool.cluster_id].accepts_work,
            keeps_apart=clusters[pool.cluster_id].tenants_kept_apart,
            tenant_bound=(
                None if clusters[pool.cluster_id].tenants_kept_apart else min(tenants.get(pool.cluster_id, ()), default=None)
            ),
            image_kinds=frozenset(map(str, clusters[pool.cluster_id].abilities.image_kinds)),
            places=clusters[pool.cluster_id].abilities.places,
            checkpoints=clusters[pool.cluster_id].abilities.places.keeps_checkpoint(checkpoints),
            node_ports=clusters[pool.cluster_id].abilities.node_ports,
            lacks=clusters[pool.cluster_id].abilities.lacks,
            bare_images=clusters[pool.cluster_id].abilities.bare_images,
            gpus_simulated=pool.gpus_simulated,
            gpu_shares=bool(pool.rules.get("gpu_shares")),
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
            taints=frozenset(name for name, effect in node.taints.items() if effect == Effect.KEEP_OUT),
            avoid=frozenset(name for name, effect in node.taints.items() if effect == Effect.AVOID),
            blocked=node.blocked,
            images=node.images,
            data=node.data,
            exclusive=node.labels.get(EXCLUSIVE_CORES, "0") not in ("", "0"),
            tasks_max=node.tasks_max,
        )
        for node in nodes
        if node.pool_id in number
    ]
    return tuple(sorted(machines, key=lambda machine: (machine.pool, machine.name)))


def rules_of(pools: tuple[PoolFacts, ...], machines: tuple[Machine, ...]) -> dict[int, PoolRules]:
    """How pools are filled: as operators say; where they do not, those with GPUs so that GPUs stay usable together, by the
    second term that was found best for them."""
    with_gpus = {machine.pool for machine in machines if machine.gpus}
    found = {}
    for number, pool in enumerate(pools):
        said = {"policy": "fragmentation" if number in with_gpus else "ratio", **pool.rules}
        if is_learning(pool) and said["policy"] == "fragmentation":
            said["weights"] = pool.learned
        found[number] = _rules(json.dumps(said, sort_keys=True), pool.mix)
    return found


def is_learning(pool: PoolFacts) -> bool:
    """Whether the second term of a pool is chosen by what it gets, if it is one with GPUs."""
    return current().scheduler_learns and learns(pool.rules)


@lru_cache(maxsize=20_000)  # Rules are compared by identity; of each pool there are few different ones at a time.
def _rules(text: str, mix: tuple[MixRow, ...]) -> PoolRules:
    given = json.loads(text)
    return PoolRules(
        policy=given["policy"],
        mix=mix_of(mix),
        weights=given.get("weights", {}),
        shares=given.get("gpu_shares", False),
        shared_devices_max=given.get("shared_devices_max"),
        levels=tuple(given.get("levels", LEVELS)),
    )


def isolation_label(facts: tuple[str, ...]) -> str:
    """The first fact of a cluster's isolation says which it is; job pages show it."""
    return facts[0][:200] if facts else ""
