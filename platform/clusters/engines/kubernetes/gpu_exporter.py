"""What GPUs do, and which are out of order, from NVIDIA's DCGM exporter where the cluster has one.

Its pods are those of `gpu_exporter`, one on each node, read through the API server. A device is called as in the inventory,
`<node>/<number>`, by the driver's number (nvidia-smi). Instances of MIG are devices of their own where the nodes offer them as
whole GPUs; where they are offered as shares (`gpu_shares`), those of a card are told together. A task has what the exporter says
of the devices beside which it names the task's pod.

Names and units of the fields are those of dcgm-exporter 4 (etc/default-counters.csv), which has had them since release 2.
"""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from prometheus_client.parser import text_string_to_metric_families

from clusters.engines.gpu_readings import GpuReading, values_of, values_of_device
from clusters.engines.interface import GpuFault, GpuFaultKind, Sample
from clusters.engines.kubernetes import names, states
from clusters.engines.kubernetes.api import Api, ApiRefused, Json, items
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.pages import ROUND_SECONDS, Pages
from kernel.limits import MIB

FOUND_SECONDS = 60.0  # How long the list of exporters is used.
EVERY_SECONDS = 15.0  # The exporter itself looks every 30 s by default (`--collect-interval`).
_BLANK = 0x7FFFFFF0  # From here on a number says that there is none (dcgm_structs.h, DCGM_INT32_BLANK).
_XID_CONTAINED = 94  # The memory errors that are counted beside it met one program.

_USE, _ACTIVE = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"  # In percent, and as a ratio.
_MEMORY, _POWER, _TEMPERATURE = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_TEMP"  # MiB, W, degrees.
_XID, _ECC, _REMAP = "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_ROW_REMAP_FAILURE"
_FIELDS = (_USE, _ACTIVE, _MEMORY, _POWER, _TEMPERATURE, _XID, _ECC, _REMAP)


Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class ExportedGpu:
    """One GPU, or one instance of MIG, as the exporter tells of it; `pods` are those that have it, by namespace and name."""

    card: int
    instance: str
    reading: GpuReading
    ecc_errors: int
    remap_failed: bool
    pods: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Exporter:
    """The exporter of one node. `path` is that of its page; it knows of no error from before `started_at`."""

    path: str
    started_at: datetime


@dataclass(slots=True)
class _Told:
    values: dict[str, float] = field(default_factory=dict)
    pods: set[tuple[str, str]] = field(default_factory=set)


class GpuExporters:
    """The exporters of one cluster; none where the configuration names none. Threads may share it."""

    def __init__(self, api: Api, config: KubernetesConfig, *, round_seconds: float = ROUND_SECONDS) -> None:
        self._api, self._config = api, config
        self._pages = Pages(api, read_page, parallel=config.parallel, every_seconds=EVERY_SECONDS, round_seconds=round_seconds)
        self._lock = threading.Lock()
        self._found: Mapping[str, Exporter] = {}
        self._found_at = -math.inf

    def samples(self, running: Mapping[tuple[str, str], Json]) -> list[Sample]:
        """Figures of all devices, and of these tasks. Raises EngineUnreachable."""
        shares = bool(self._config.gpu_shares)
        return [sample for node, page in self.pages().items() for sample in read_samples(node, page, running, are_shared=shares)]

    def faults(self) -> list[GpuFault]:
        """Evidence against devices. Raises EngineUnreachable."""
        pages, shares = self.pages(), bool(self._config.gpu_shares)
        return [
            fault
            for node, page in pages.items()
            if node in self._found
            for fault in read_faults(node, page, self._found[node].started_at, are_shared=shares)
        ]

    def pages(self) -> dict[str, tuple[ExportedGpu, ...]]:
        """What the exporters say, by node. Raises EngineUnreachable."""
        if not self._config.gpu_exporter:
            return {}
        return self._pages.of({node: exporter.path for node, exporter in self.find().items()})

    def find(self) -> Mapping[str, Exporter]:
        """The exporters of Berth's nodes, as listed a short time ago. Raises EngineUnreachable."""
        with self._lock:
            if time.monotonic() - self._found_at > FOUND_SECONDS:
                try:
                    self._found = self._list()
                except ApiRefused:  # Its namespace is gone, or the account's right: a gap, which the check tells of.
                    self._found = {}
                self._found_at = time.monotonic()
            return self._found

    def _list(self) -> dict[str, Exporter]:
        namespace, selector, port = self._config.exporter_place
        pods = f"/api/v1/namespaces/{namespace}/pods"
        found = items(self._api.get(pods, labelSelector=selector, fieldSelector="status.phase=Running"))
        exporters = {}
        for pod in sorted(found, key=lambda pod: str(pod["metadata"]["name"])):
            started_at = states.read_time((pod.get("status") or {}).get("startTime")) or datetime.now(UTC)
            path = f"{pods}/{pod['metadata']['name']}:{port}/proxy/metrics"
            exporters[str((pod.get("spec") or {}).get("nodeName", ""))] = Exporter(path, started_at)
        if self._config.nodes:
            nodes = items(self._api.get("/api/v1/nodes", labelSelector=self._config.nodes))
            ours = {str(node["metadata"]["name"]) for node in nodes}
            exporters = {node: exporter for node, exporter in exporters.items() if node in ours}
        return exporters


def read_page(data: bytes) -> tuple[ExportedGpu, ...]:
    """The devices of a page, in the driver's order. Raises ValueError for lines that cannot be read. Pure."""
    lines = [line for line in data.decode(errors="replace").splitlines() if line.startswith(_FIELDS)]
    told: dict[tuple[int, str], _Told] = defaultdict(_Told)
    for family in text_string_to_metric_families("\n".join([*lines, ""])):
        for sample in family.samples:
            labels, card = sample.labels, sample.labels.get("gpu", "")
            if not card.isdecimal() or not 0 <= sample.value < _BLANK:
                continue
            gpu = told[int(card), labels.get("GPU_I_ID", "")]
            gpu.values[sample.name] = sample.value
            pod = labels.get("exported_pod") or labels.get("pod", "")
            if pod:
                gpu.pods.add((labels.get("exported_namespace") or labels.get("namespace", ""), pod))
    return tuple(_gpu(card, instance, told[card, instance]) for card, instance in sorted(told, key=_place))


def read_samples(
    node: str, page: Sequence[ExportedGpu], running: Mapping[tuple[str, str], Json], *, are_shared: bool
) -> Iterator[Sample]:
    """Figures of a node's devices, and of the tasks that have them. Pure."""
    for number, gpus in _devices(page, are_shared=are_shared).items():
        subject = f"gpu:{node}:{names.gpu_identifier(node, number)}"
        yield from (Sample(subject, metric, value) for metric, value in values_of_device(_together(gpus)).items())
    held: dict[tuple[str, str], list[GpuReading]] = defaultdict(list)
    for gpu in page:
        for pod in gpu.pods & running.keys():
            held[pod].append(gpu.reading)
    for pod, readings in held.items():
        yield from (Sample(names.task_subject(running[pod]), metric, value) for metric, value in values_of(readings).items())


def read_faults(node: str, page: Sequence[ExportedGpu], since: datetime, *, are_shared: bool) -> Iterator[GpuFault]:
    """Evidence against a node's devices. The exporter does not say when an error was: its own start stands for that, so that
    what an operator has resolved is not told again as long as it runs. Pure."""
    for number, gpus in _devices(page, are_shared=are_shared).items():
        identifier, found = names.gpu_identifier(node, number), set()
        for gpu in gpus:
            if gpu.reading.xid_code:
                found.add((GpuFaultKind.XID, gpu.reading.xid_code))
            if gpu.ecc_errors and gpu.reading.xid_code != _XID_CONTAINED:
                found.add((GpuFaultKind.ECC, gpu.ecc_errors))
            if gpu.remap_failed:
                found.add((GpuFaultKind.REMAP, 0))
        yield from (GpuFault(node, identifier, kind, count, since) for kind, count in sorted(found))


def _gpu(card: int, instance: str, told: _Told) -> ExportedGpu:
    values = told.values
    ratios = (values.get(_ACTIVE), values[_USE] / 100 if _USE in values else None)
    # The driver's share of time is that of a whole card, and better known; of an instance only the engine's activity is.
    utilization = next((ratio for ratio in (ratios if instance else reversed(ratios)) if ratio is not None), None)
    reading = GpuReading(
        utilization_ratio=None if utilization is None else min(1.0, utilization),
        memory_bytes=int(values[_MEMORY] * MIB) if _MEMORY in values else None,
        power_watts=values.get(_POWER),
        temperature_celsius=values.get(_TEMPERATURE),
        xid_code=int(values[_XID]) if _XID in values else None,
    )
    return ExportedGpu(card, instance, reading, int(values.get(_ECC, 0)), bool(values.get(_REMAP, 0)), frozenset(told.pods))


def _devices(page: Sequence[ExportedGpu], *, are_shared: bool) -> dict[int, Sequence[ExportedGpu]]:
    """What of a page is one device, by its number."""
    if not are_shared and all(gpu.instance for gpu in page):
        return {number: (gpu,) for number, gpu in enumerate(page)}
    cards: dict[int, list[ExportedGpu]] = defaultdict(list)
    for gpu in page:
        cards[gpu.card].append(gpu)
    return dict(cards)


def _together(gpus: Sequence[ExportedGpu]) -> GpuReading:
    """A device of its instances, each of which is told the power and the heat of the card."""
    if len(gpus) == 1:
        return gpus[0].reading
    readings = [gpu.reading for gpu in gpus]
    values = values_of(readings)
    return GpuReading(
        utilization_ratio=values.get("gpu_utilization_ratio"),
        memory_bytes=int(values["gpu_memory_bytes"]) if "gpu_memory_bytes" in values else None,
        power_watts=_most(reading.power_watts for reading in readings),
        temperature_celsius=values.get("gpu_temperature_celsius"),
        xid_code=_most(reading.xid_code for reading in readings),
    )


def _most(values: Iterable[Number | None]) -> Number | None:
    return max((value for value in values if value is not None), default=None)


def _place(key: tuple[int, str]) -> tuple[int, int]:
    return key[0], int(key[1]) if key[1].isdecimal() else -1
