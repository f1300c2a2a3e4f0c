"""What `/metrics` says, gathered from sources that apps register; read from the database and cached for some seconds.

Labels are bounded by what operators install: clusters, pools, nodes, GPUs, and at most `TENANTS_MAX` tenants by slug - the rest
is summed under `other`. No job id, user name or e-mail address is ever a label. A source that fails is logged and named in
`berth_metrics_source_up`; it does not hide the others.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version

import structlog
from django.db.models import Count, Sum
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from clusters.engines.interface import GpuFaultKind
from clusters.gpu_faults import open_faults
from clusters.models import Cluster, ClusterCondition, Node, Pool, PoolMeasure, Quarantined
from clusters.selectors import allocated_in_pools
from clusters.telemetry.metrics import gpu_subject, node_subject, scoped
from clusters.telemetry.reading import latest_values
from kernel.clock import database_now

log = structlog.get_logger(__name__)

CACHE_SECONDS = 10.0  # Scrapers ask every 15 to 60 seconds; several of them cost one round of queries.
TENANTS_MAX = 100  # Tenants with series of their own; more would make the metrics store pay for our tenancy.
NODES_MAX = 2_000  # Nodes with series of their own, by name; larger fleets scrape their nodes directly.
OTHER = "other"  # No tenant's slug: slugs are random and longer.

Source = Callable[[datetime], Iterable[Metric]]

_sources: dict[str, Source] = {}


def register_collector_source(name: str, source: Source) -> None:
    """Add a source of metric families, asked at most every `CACHE_SECONDS` with the present time.

    Family names start with `berth_`, and no two sources share one. A second source of the same name is a mistake.
    """
    if name in _sources:
        raise AssertionError(f"there is a source of metrics named {name!r} already")
    _sources[name] = source


def bounded(values: Mapping[str, float], *, limit: int = TENANTS_MAX) -> dict[str, float]:
    """At most `limit` entries: the largest by value, then by key; the others summed under `other`. For amounts, not ratios."""
    ranked = sorted(values, key=lambda key: (-values[key], key))
    kept = {key: values[key] for key in ranked[:limit]}
    if len(ranked) > limit:
        kept[OTHER] = kept.get(OTHER, 0.0) + sum(values[key] for key in ranked[limit:])
    return kept


class BerthCollector(Collector):
    """All sources as one collector for prometheus_client."""

    def __init__(self, *, cache_seconds: float = CACHE_SECONDS) -> None:
        self._cache_seconds = cache_seconds
        self._lock = threading.Lock()
        self._families: list[Metric] = []
        self._read_seconds = float("-inf")

    def collect(self) -> Iterable[Metric]:
        with self._lock:  # Scrapers that come together wait for one reading.
            if time.monotonic() - self._read_seconds >= self._cache_seconds:
                self._families = _gather(database_now())
                self._read_seconds = time.monotonic()
            return list(self._families)


def _gather(now: datetime) -> list[Metric]:
    up = GaugeMetricFamily("berth_metrics_source_up", "Whether this source of metrics could be read.", labels=["source"])
    families: dict[str, Metric] = {}
    for name, source in sorted(_sources.items()):
        try:
            found = list(source(now))
            clash = sorted({family.name for family in found} & families.keys())
            if clash:
                raise AssertionError(f"source {name} repeats the families {clash}")
        except Exception:  # The outermost loop of a scrape: one broken source must not blind the operators.
            log.exception("metrics.source_failed", source=name)
            up.add_metric([name], 0)
            continue
        families.update({family.name: family for family in found})
        up.add_metric([name], 1)
    return [*families.values(), up]


# --- What this app knows ----------------------------------------------------------------------------------------------


def cluster_families(now: datetime) -> list[Metric]:
    """Build, engines, nodes and GPUs by pool, and the load of each node. A constant number of queries."""
    clusters = list(Cluster.objects.order_by("name"))
    rows = Pool.objects.select_related("cluster", "measure").order_by("cluster__name", "name")
    pools = {pool.pk: pool for pool in rows}
    return [
        _build_info(), _engines(clusters), _quarantine(clusters), _gpu_faults(pools), *_capacity(pools), *_idle(pools.values()),
        *_node_load(pools, now),
    ]  # fmt: skip


def _build_info() -> Metric:
    try:
        number = version("berth-server")
    except PackageNotFoundError:  # The server runs from its source tree.
        number = "source"
    return InfoMetricFamily("berth_build", "The running version.", value={"version": number})


def _engines(clusters: Iterable[Cluster]) -> Metric:
    up = GaugeMetricFamily("berth_engine_up", "Whether the cluster's engine answers.", labels=["cluster", "kind"])
    for cluster in clusters:
        up.add_metric([cluster.name, cluster.kind], float(cluster.condition == ClusterCondition.REACHABLE))
    return up


def _quarantine(clusters: Iterable[Cluster]) -> Metric:
    text = "Attempts that a cluster has and the database does not know, by whether they run. Zero but after a restore."
    family = GaugeMetricFamily("berth_quarantined_attempts", text, labels=["cluster", "running"])
    rows = Quarantined.objects.filter(resolution="").values_list("cluster_id", "runs")
    counted = Counter((cluster_id, runs) for cluster_id, runs in rows)
    for cluster in clusters:
        for runs in (True, False):
            family.add_metric([cluster.name, _truth(runs)], counted[cluster.pk, runs])
    return family


def _gpu_faults(pools: Mapping[uuid.UUID, Pool]) -> Metric:
    text = "Faults of GPUs, by kind, of which no operator has returned the node to service."
    family = GaugeMetricFamily("berth_gpu_faults", text, labels=["cluster", "pool", "kind"])
    counted: Counter[tuple[uuid.UUID, str]] = Counter()
    for pool_id, documents in Node.objects.exclude(gpu_faults=[]).values_list("pool_id", "gpu_faults"):
        counted.update((pool_id, str(fault["kind"])) for fault in open_faults(documents))
    for pool in pools.values():
        for kind in GpuFaultKind if pool.gpu_model else ():
            family.add_metric([pool.cluster.name, pool.name, str(kind)], counted[pool.pk, str(kind)])
    return family


def _capacity(pools: Mapping[uuid.UUID, Pool]) -> list[Metric]:
    nodes = GaugeMetricFamily("berth_nodes", "Nodes of a pool.", labels=["cluster", "pool", "ready", "cordoned"])
    labels = ["cluster", "pool", "gpu_model", "simulated"]
    capacity = GaugeMetricFamily("berth_gpu_capacity", "GPUs of all nodes of a pool, in devices.", labels=labels)
    allocated = GaugeMetricFamily("berth_gpu_allocated", "GPUs held by attempts, in devices.", labels=labels)
    cores = GaugeMetricFamily("berth_cpu_allocated_cores", "Processor cores held by attempts.", labels=["cluster", "pool"])
    memory = GaugeMetricFamily("berth_memory_allocated_bytes", "Memory held by attempts.", labels=["cluster", "pool"])
    gpus: dict[uuid.UUID, int] = defaultdict(int)
    counted = Node.objects.values("pool_id", "ready", "cordoned").annotate(count=Count("id"), gpus=Sum("gpu_millis"))
    for row in counted.order_by("pool_id", "ready", "cordoned"):
        pool = pools[row["pool_id"]]
        flags = [_truth(row["ready"]), _truth(row["cordoned"])]
        nodes.add_metric([pool.cluster.name, pool.name, *flags], row["count"])
        gpus[pool.pk] += row["gpus"] or 0
    held = allocated_in_pools(list(pools))
    for pool in pools.values():
        place = [pool.cluster.name, pool.name]
        kind = [pool.gpu_model, _truth(pool.gpus_simulated)]
        if pool.gpu_model:
            capacity.add_metric([*place, *kind], gpus[pool.pk] / 1000)
            allocated.add_metric([*place, *kind], held[pool.pk].gpu_millis / 1000)
        cores.add_metric(place, held[pool.pk].cpu_millis / 1000)
        memory.add_metric(place, held[pool.pk].memory_bytes)
    return [nodes, capacity, allocated, cores, memory]


def _idle(pools: Iterable[Pool]) -> list[Metric]:
    """As the leading scheduler found it last."""
    place = ["cluster", "pool"]
    text = "Which part of the idle GPU a task of those that the pool usually gets cannot use, 0 to 1."
    fragmented = GaugeMetricFamily("berth_pool_gpu_fragmentation_ratio", text, labels=place)
    idle = GaugeMetricFamily("berth_pool_gpu_idle", "Whole GPUs that are idle, in devices.", labels=[*place, "gpu_model"])
    task = GaugeMetricFamily("berth_pool_largest_task_gpus", "Most GPUs one task could get now.", labels=[*place, "gpu_model"])
    text = "Most GPUs that a job of equal tasks of a usual shape could get now."
    job = GaugeMetricFamily("berth_pool_largest_job_gpus", text, labels=[*place, "gpu_model"])
    for pool in pools:
        measure: PoolMeasure | None = getattr(pool, "measure", None)
        if measure is None:
            continue
        labels = [pool.cluster.name, pool.name]
        if measure.fragmentation_millis is not None:
            fragmented.add_metric(labels, measure.fragmentation_millis / 1000)
        for model, found in sorted(measure.idle.get("models", {}).items()):
            for family, key in ((idle, "gpus"), (task, "largest_task"), (job, "largest_job")):
                family.add_metric([*labels, model], found[key])
    return [fragmented, idle, task, job]


# Name, help, metric of the table, divisor to the base unit.
_NODE_GAUGES = (
    ("berth_node_cpu_used_cores", "Processor cores in use.", "cpu_millis", 1000),
    ("berth_node_memory_used_bytes", "Memory in use.", "memory_bytes", 1),
    ("berth_node_disk_used_bytes", "Used on the file system of working directories.", "disk_used_bytes", 1),
    ("berth_node_disk_free_bytes", "Free on the file system of working directories.", "disk_free_bytes", 1),
    ("berth_node_disk_read_bytes_per_second", "Read from disks.", "disk_read_bytes_per_second", 1),
    ("berth_node_disk_write_bytes_per_second", "Written to disks.", "disk_write_bytes_per_second", 1),
    ("berth_node_network_receive_bytes_per_second", "Received.", "network_receive_bytes_per_second", 1),
    ("berth_node_network_transmit_bytes_per_second", "Sent.", "network_transmit_bytes_per_second", 1),
)
_GPU_GAUGES = (
    ("berth_gpu_utilization_ratio", "Share of time in which any kernel ran.", "gpu_utilization_ratio", 1),
    ("berth_gpu_memory_used_bytes", "Device memory in use.", "gpu_memory_bytes", 1),
    ("berth_gpu_power_watts", "Power drawn.", "gpu_power_watts", 1),
    ("berth_gpu_temperature_celsius", "Temperature of the device.", "gpu_temperature_celsius", 1),
    ("berth_gpu_xid_code", "Last Xid error since the engine started; 0 is none.", "gpu_xid_code", 1),
)


def _node_load(pools: Mapping[uuid.UUID, Pool], now: datetime) -> list[Metric]:
    place = ["cluster", "pool", "node"]
    cores = GaugeMetricFamily("berth_node_cpu_capacity_cores", "Processor cores that jobs may use.", labels=place)
    memory = GaugeMetricFamily("berth_node_memory_capacity_bytes", "Memory that jobs may use.", labels=place)
    left_out = GaugeMetricFamily("berth_nodes_left_out", "Nodes without series of their own, because there are too many.")
    node_gauges = {metric: GaugeMetricFamily(name, text, labels=place) for name, text, metric, _ in _NODE_GAUGES}
    gpu_labels = [*place, "gpu", "gpu_model", "simulated"]
    gpu_gauges = {metric: GaugeMetricFamily(name, text, labels=gpu_labels) for name, text, metric, _ in _GPU_GAUGES}
    divisors = {metric: divisor for *_, metric, divisor in (*_NODE_GAUGES, *_GPU_GAUGES)}
    nodes = list(Node.objects.order_by("name", "id")[: NODES_MAX + 1])
    left_out.add_metric([], max(0, Node.objects.count() - NODES_MAX) if len(nodes) > NODES_MAX else 0)
    labels_of: dict[str, list[str]] = {}
    for node in nodes[:NODES_MAX]:
        pool = pools[node.pool_id]
        labels = [pool.cluster.name, pool.name, node.name]
        cores.add_metric(labels, node.cpu_millis / 1000)
        memory.add_metric(labels, node.memory_bytes)
        labels_of[scoped(node.cluster_id, node_subject(node.name))] = labels
        for gpu in node.gpus:
            identifier, simulated = str(gpu["identifier"]), _truth(bool(gpu["simulated"]))
            subject = scoped(node.cluster_id, gpu_subject(node.name, identifier))
            labels_of[subject] = [*labels, identifier, str(gpu["model"]), simulated]
    values = latest_values(list(labels_of), now=now)
    gauges = {**node_gauges, **gpu_gauges}
    for (subject, metric), value in sorted(values.items()):
        if metric in gauges:
            gauges[metric].add_metric(labels_of[subject], value / divisors[metric])
    return [cores, memory, left_out, *node_gauges.values(), *gpu_gauges.values()]


def _truth(value: bool) -> str:
    return "true" if value else "false"
