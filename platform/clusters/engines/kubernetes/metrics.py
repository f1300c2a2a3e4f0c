"""What tasks and nodes use, as the cluster measures it.

By default from the Metrics API (metrics-server), one call for all tasks and one for all nodes; a cluster without it gives
nothing. Where the operator allows it, from each kubelet's summary, which knows disks, too: the right to it (`nodes/proxy`) is a
right to much more on the nodes. Of GPUs neither says anything: that is the business of `gpu_exporter.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from clusters.engines.interface import Sample
from clusters.engines.kubernetes import names, states
from clusters.engines.kubernetes.api import Api, ApiRefused, Json, NotFound, items
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.gpu_exporter import GpuExporters
from clusters.engines.kubernetes.inventory import quantity_millis
from clusters.engines.kubernetes.pages import Pages

_METRICS = "/apis/metrics.k8s.io/v1beta1"
_NANOS = 1_000_000  # In a thousandth of a core.


class ClusterMeter:
    """Measures one cluster. Threads may share it."""

    def __init__(self, api: Api, config: KubernetesConfig, exporters: GpuExporters) -> None:
        self._api, self._config, self._exporters = api, config, exporters
        self._summaries: Pages[Json] = Pages(api, json.loads, parallel=config.parallel)

    def sample(self, pods: Iterable[Json]) -> list[Sample]:
        """Measure all running tasks, nodes and GPUs. Raises EngineUnreachable."""
        running = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in pods if states.is_running(pod)}
        used = self._from_kubelets(running) if self._config.kubelet_summary else self._from_metrics_api(running)
        return [*used, *self._exporters.samples(running)]

    def _from_kubelets(self, running: Mapping[tuple[str, str], Json]) -> list[Sample]:
        nodes = {str(pod["spec"]["nodeName"]) for pod in running.values()}
        pages = self._summaries.of({node: f"/api/v1/nodes/{node}/proxy/stats/summary" for node in nodes})
        return [found for summary in pages.values() for found in read_summary(summary, running)]

    def _from_metrics_api(self, running: Mapping[tuple[str, str], Json]) -> list[Sample]:
        try:
            selector = names.selector(self._config.cluster_id, names.TASK)
            found = [*_of_tasks(items(self._api.get(f"{_METRICS}/pods", labelSelector=selector)), running)]
            return [*found, *_of_nodes(items(self._api.get(f"{_METRICS}/nodes", labelSelector=self._config.nodes)))]
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
            yield from _use(names.task_subject(pod), container)


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
            yield from _quantities(names.task_subject(pod), usage)


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
