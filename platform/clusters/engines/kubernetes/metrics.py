"""What tasks and nodes use, as the cluster measures it.

By default from the Metrics API (metrics-server), one call for all tasks and one for all nodes; a cluster without it gives
nothing. Where the operator allows it, from each kubelet's summary, which knows disks, too: the right to it (`nodes/proxy`) is a
right to much more on the nodes. Of GPUs neither says anything; their exporters are Prometheus's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from clusters.engines.interface import Sample
from clusters.engines.kubernetes import names, states
from clusters.engines.kubernetes.api import Api, ApiRefused, Json, NotFound, items
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.inventory import quantity_millis

_METRICS = "/apis/metrics.k8s.io/v1beta1"
_NANOS = 1_000_000  # In a thousandth of a core.


def sample(api: Api, config: KubernetesConfig, pods: Iterable[Json]) -> list[Sample]:
    """Measure all running tasks, and nodes. Raises EngineUnreachable."""
    running = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in pods if states.is_running(pod)}
    if config.kubelet_summary:
        nodes = sorted({str(pod["spec"]["nodeName"]) for pod in running.values()})
        return [found for node in nodes for found in _from_kubelet(api, node, running)]
    try:
        selector = names.selector(config.cluster_id, names.TASK)
        found = [*_of_tasks(items(api.get(f"{_METRICS}/pods", labelSelector=selector)), running)]
        of_nodes = ",".join(f"{name}={value}" for name, value in sorted(config.node_selector.items())) or None
        return [*found, *_of_nodes(items(api.get(f"{_METRICS}/nodes", labelSelector=of_nodes)))]
    except ApiRefused as refused:
        if isinstance(refused, NotFound) or refused.status == 403:
            return []
        raise


def read_summary(summary: Mapping[str, Any], running: Mapping[tuple[str, str], Json]) -> Iterator[Sample]:
    """Samples of one kubelet's summary. Pure."""
    node = summary.get("node") or {}
    subject = f"node:{node.get('nodeName', '')}"
    yield from _use(subject, node)
    disk = node.get("fs") or {}
    for metric, name in (("disk_used_bytes", "usedBytes"), ("disk_free_bytes", "availableBytes")):
        if isinstance(disk.get(name), int):
            yield Sample(subject, metric, float(disk[name]))
    for item in summary.get("pods") or []:
        reference = item.get("podRef") or {}
        pod = running.get((str(reference.get("namespace", "")), str(reference.get("name", ""))))
        container = next((each for each in item.get("containers") or [] if each.get("name") == names.CONTAINER), None)
        if pod is not None and container is not None:
            yield from _use(_subject(pod), container)


def _from_kubelet(api: Api, node: str, running: Mapping[tuple[str, str], Json]) -> list[Sample]:
    try:
        return list(read_summary(api.get(f"/api/v1/nodes/{node}/proxy/stats/summary"), running))
    except ApiRefused:  # The node is out of reach, or gone: its series have a gap.
        return []


def _use(subject: str, measured: Mapping[str, Any]) -> Iterator[Sample]:
    cores, memory = (measured.get("cpu") or {}).get("usageNanoCores"), (measured.get("memory") or {}).get("workingSetBytes")
    if isinstance(cores, int):
        yield Sample(subject, "cpu_millis", cores / _NANOS)
    if isinstance(memory, int):
        yield Sample(subject, "memory_bytes", float(memory))


def _of_tasks(measured: Iterable[Json], running: Mapping[tuple[str, str], Json]) -> Iterator[Sample]:
    for item in measured:
        metadata = item.get("metadata") or {}
        pod = running.get((str(metadata.get("namespace", "")), str(metadata.get("name", ""))))
        usage = next((each.get("usage") for each in item.get("containers") or [] if each.get("name") == names.CONTAINER), None)
        if pod is not None and usage is not None:
            yield from _quantities(_subject(pod), usage)


def _of_nodes(measured: Iterable[Json]) -> Iterator[Sample]:
    for item in measured:
        yield from _quantities(f"node:{(item.get('metadata') or {}).get('name', '')}", item.get("usage") or {})


def _quantities(subject: str, usage: Mapping[str, Any]) -> Iterator[Sample]:
    """The Metrics API gives processors in billionths of a core."""
    cores = str(usage.get("cpu", ""))
    if cores.endswith("n") and cores[:-1].isdigit():
        yield Sample(subject, "cpu_millis", int(cores[:-1]) / _NANOS)
    elif cores:
        yield Sample(subject, "cpu_millis", float(quantity_millis(cores)))
    if usage.get("memory"):
        yield Sample(subject, "memory_bytes", quantity_millis(usage["memory"]) / 1000)


def _subject(pod: Json) -> str:
    metadata = pod["metadata"]
    notes = metadata.get("annotations") or {}
    return f"task:{metadata['labels'][names.ATTEMPT]}:{notes.get(names.ROLE, '')}:{notes.get(names.INDEX, '0')}"
