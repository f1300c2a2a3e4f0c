"""Clusters, inventories and engines for tests: `a_cluster().with_nodes(2, gpus=8)` gives rows as the product makes them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from clusters.engines.interface import Abilities, Engine, GpuDevice, Inventory, ObservedNode, Sample
from clusters.models import Cluster, ClusterKind, Node, Pool
from clusters.services import EngineSettings, record_inventory, register_engine
from kernel.limits import GIB
from kernel.resources import Resources

NOW = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
_numbers = itertools.count(1)


def make_cluster(name: str = "", *, kind: str = ClusterKind.FAKE, **columns: Any) -> Cluster:
    """A cluster without nodes."""
    return Cluster.objects.create(name=name or f"cluster-{next(_numbers)}", kind=kind, created_at=NOW, **columns)


def node_facts(
    name: str = "node-1",
    *,
    cores: int = 8,
    memory_bytes: int = 32 * GIB,
    gpus: int = 0,
    gpu_model: str = "A100",
    simulated: bool = False,
    broken_gpus: int = 0,
    ready: bool = True,
    reason: str = "",
    labels: dict[str, str] | None = None,
) -> ObservedNode:
    """A node as an engine reports it; broken GPUs are listed but offer nothing."""
    devices = tuple(
        GpuDevice(f"GPU-{name}-{index}", gpu_model, 80 * GIB, healthy=index >= broken_gpus, simulated=simulated)
        for index in range(gpus)
    )
    return ObservedNode(
        name=name,
        capacity=Resources(cores * 1000, memory_bytes, (gpus - broken_gpus) * 1000),
        gpus=devices,
        gpu_model=gpu_model if gpus else "",
        ready=ready,
        reason=reason,
        labels=labels or {"os": "Debian GNU/Linux 12"},
    )


def inventory(*nodes: ObservedNode, read_at: datetime = NOW, **given: Any) -> Inventory:
    return Inventory(nodes=nodes, read_at=read_at, **{"abilities": Abilities(shares_gpus=True), **given})


class ClusterBuilder:
    """Collects nodes, then records them as one inventory."""

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._nodes: list[ObservedNode] = []

    def with_nodes(self, count: int, *, prefix: str = "node", **given: Any) -> ClusterBuilder:
        """More nodes of one kind; see `node_facts` for what can be given."""
        first = len(self._nodes) + 1
        self._nodes += [node_facts(f"{prefix}-{number}", **given) for number in range(first, first + count)]
        return self

    def build(self) -> Cluster:
        cluster = make_cluster(self._name)
        record_inventory(cluster.pk, inventory(*self._nodes), NOW)
        cluster.refresh_from_db()
        return cluster


def a_cluster(name: str = "") -> ClusterBuilder:
    return ClusterBuilder(name)


def make_pool(*, nodes: int = 1, gpus: int = 0, **given: Any) -> Pool:
    """The pool of a new cluster with that many nodes."""
    return Pool.objects.get(cluster=a_cluster().with_nodes(nodes, gpus=gpus, **given).build())


def make_node(**given: Any) -> Node:
    """The only node of a new cluster."""
    return Node.objects.select_related("cluster", "pool").get(cluster=a_cluster().with_nodes(1, **given).build())


class MeasuringEngine:
    """Answers `inventory` and `sample` with what a test puts in; runs nothing."""

    def __init__(self, nodes: Sequence[ObservedNode] = (), samples: Sequence[Sample] = ()) -> None:
        self.nodes = tuple(nodes)
        self.samples = tuple(samples)
        self.read_at = NOW

    def inventory(self) -> Inventory:
        self.read_at += timedelta(seconds=1)
        return inventory(*self.nodes, read_at=self.read_at)

    def sample(self) -> Sequence[Sample]:
        return self.samples


def use_engine(engine: Any, *, kind: str = ClusterKind.FAKE) -> None:
    """Let clusters of a kind have this engine, until another is registered."""

    def factory(settings: EngineSettings) -> Engine:
        made: Engine = engine
        return made

    register_engine(kind, factory)
