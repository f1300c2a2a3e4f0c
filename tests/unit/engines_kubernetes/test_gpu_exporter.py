"""Pages of the DCGM exporter as figures and faults, and how they are read from many nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from clusters.engines.interface import GpuFaultKind, Sample
from clusters.engines.kubernetes.api import Api, Json
from clusters.engines.kubernetes.config import ConfigInvalid, read_config
from clusters.engines.kubernetes.gpu_exporter import GpuExporters, read_faults, read_page, read_samples
from clusters.engines.kubernetes.inventory import read_inventory
from clusters.engines.kubernetes.pages import Pages
from clusters.engines.kubernetes.permissions import needed
from tests.builders.dcgm import ExportedCard, page
from tests.unit.engines_kubernetes import samples
from tests.unit.engines_kubernetes.samples import ATTEMPT, CLUSTER, CONFIG, NAMESPACE
from tests.unit.engines_kubernetes.stored_objects import Answer, StoredObjects

MIB = 1024**2
AT = datetime(2026, 1, 2, tzinfo=UTC)
OURS = f"{NAMESPACE}/b-{ATTEMPT}-0"
EXPORTING = replace(CONFIG, gpu_exporter="gpu-operator/app=nvidia-dcgm-exporter:9400", parallel=4)


def busy(percent: float, mib: float, **more: float) -> Mapping[str, float]:
    return {"GPU_UTIL": percent, "FB_USED": mib, "POWER_USAGE": 300.5, "GPU_TEMP": 60, "XID_ERRORS": 0, "FB_FREE": 9, **more}


def running() -> dict[tuple[str, str], Json]:
    """Our one task."""
    pod = samples.pod(
        metadata={"labels": {"berth.dev/attempt": str(ATTEMPT)}, "annotations": {"berth.dev/role": "w", "berth.dev/index": "3"}}
    )
    return {(NAMESPACE, pod["metadata"]["name"]): pod}


def figures(found: Sequence[Sample]) -> dict[str, dict[str, float]]:
    told: dict[str, dict[str, float]] = {}
    for sample in found:
        told.setdefault(sample.subject, {})[sample.metric.removeprefix("gpu_")] = round(sample.value, 3)
    return told


def read(*cards: ExportedCard, are_shared: bool = False) -> dict[str, dict[str, float]]:
    return figures(list(read_samples("n1", read_page(page(*cards)), running(), are_shared=are_shared)))


def test_a_task_has_what_its_devices_say_together_and_no_other_pod_has_anything() -> None:
    found = read(
        ExportedCard(0, busy(80, 1_000), [OURS]),
        ExportedCard(1, busy(40, 500, GPU_TEMP=71, XID_ERRORS=31), [OURS]),
        ExportedCard(2, busy(10, 100), ["elsewhere/theirs"]),
    )
    assert found == {
        "gpu:n1:n1/0": {
            "utilization_ratio": 0.8, "memory_bytes": 1_000 * MIB, "power_watts": 300.5, "temperature_celsius": 60, "xid_code": 0
        },
        "gpu:n1:n1/1": {
            "utilization_ratio": 0.4, "memory_bytes": 500 * MIB, "power_watts": 300.5, "temperature_celsius": 71, "xid_code": 31
        },
        "gpu:n1:n1/2": {
            "utilization_ratio": 0.1, "memory_bytes": 100 * MIB, "power_watts": 300.5, "temperature_celsius": 60, "xid_code": 0
        },
        f"task:{ATTEMPT}:w:3": {
            "utilization_ratio": 0.6, "memory_bytes": 1_500 * MIB, "power_watts": 601, "temperature_celsius": 71
        },
    }  # fmt: skip


def test_devices_are_called_as_the_inventory_calls_them() -> None:
    node = {
        "metadata": {"name": "n1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"nvidia.com/gpu": "2"}},
    }
    (seen,) = read_inventory([node], [], CONFIG, AT).nodes
    told = read(ExportedCard(0, busy(1, 1)), ExportedCard(1, busy(1, 1)))
    assert {f"gpu:n1:{gpu.identifier}" for gpu in seen.gpus} == set(told)


def test_instances_of_mig_are_devices_where_they_are_offered_as_gpus_and_a_card_together_where_as_shares() -> None:
    first = ExportedCard(0, {"FB_USED": 30, "PROF_GR_ENGINE_ACTIVE": 0.25, "GPU_UTIL": 90, "POWER_USAGE": 200}, [OURS], "7")
    second = ExportedCard(0, {"FB_USED": 70, "PROF_GR_ENGINE_ACTIVE": 0.75, "POWER_USAGE": 200}, instance="11")
    task = {"utilization_ratio": 0.25, "memory_bytes": 30 * MIB, "power_watts": 200}
    assert read(first, second) == {
        "gpu:n1:n1/0": task,
        "gpu:n1:n1/1": {"utilization_ratio": 0.75, "memory_bytes": 70 * MIB, "power_watts": 200},
        f"task:{ATTEMPT}:w:3": task,
    }
    assert read(first, second, are_shared=True) == {
        "gpu:n1:n1/0": {"utilization_ratio": 0.5, "memory_bytes": 100 * MIB, "power_watts": 200},
        f"task:{ATTEMPT}:w:3": task,
    }


def test_what_the_exporter_leaves_blank_is_a_gap_and_a_device_of_several_pods_is_each_ones() -> None:
    shared = ExportedCard(0, {"GPU_UTIL": 50, "FB_USED": 2_147_483_632}, ["elsewhere/theirs", OURS])
    assert read(shared) == {"gpu:n1:n1/0": {"utilization_ratio": 0.5}, f"task:{ATTEMPT}:w:3": {"utilization_ratio": 0.5}}
    assert read_page(b"<html>Not here.</html>") == ()
    with pytest.raises(ValueError, match="float"):
        read_page(b'DCGM_FI_DEV_GPU_UTIL{gpu="0" 5\n')


def test_errors_of_devices_are_evidence_since_the_exporter_began() -> None:
    found = read_page(
        page(
            ExportedCard(0, busy(1, 1, XID_ERRORS=79, ECC_DBE_VOL_TOTAL=3)),
            ExportedCard(1, busy(1, 1, XID_ERRORS=94, ECC_DBE_VOL_TOTAL=1)),
            ExportedCard(2, busy(1, 1, ROW_REMAP_FAILURE=1, ECC_DBE_VOL_TOTAL=0)),
        )
    )
    faults = list(read_faults("n1", found, AT, are_shared=False))
    assert {fault.at for fault in faults} == {AT}
    assert [(fault.gpu, fault.kind, fault.number) for fault in faults] == [
        ("n1/0", GpuFaultKind.ECC, 3),
        ("n1/0", GpuFaultKind.XID, 79),
        ("n1/1", GpuFaultKind.XID, 94),  # Its memory error met one program.
        ("n1/2", GpuFaultKind.REMAP, 0),
    ]


# --- From many nodes ----------------------------------------------------------------------------------------------------


class ServedPages(StoredObjects):
    """Exporters' pods, and what each answers, by pod; OSError: nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: dict[str, Callable[[], bytes]] = {}
        self.asked: list[str] = []

    def add(self, node: str, served: bytes) -> None:
        labels = {"app": "nvidia-dcgm-exporter"}
        name = f"exporter-{node}"
        metadata = {"name": name, "namespace": "gpu-operator", "labels": labels}
        self.put_pod({"metadata": metadata, "spec": {"nodeName": node}}, name, startTime="2026-01-02T00:00:00Z")
        self.pages[name] = lambda: served

    def __call__(self, method: str, path: str, body: Any, headers: Mapping[str, str], **seconds: float) -> Any:
        if "/proxy/" not in path:
            return super().__call__(method, path, body, headers, **seconds)
        name = path.removeprefix("/api/v1/namespaces/gpu-operator/pods/").removesuffix(":9400/proxy/metrics")
        self.asked.append(name)
        return ServedPage(self.pages[name]())


def no_answer() -> bytes:
    raise OSError("no answer")


class ServedPage(Answer):
    def __init__(self, data: bytes) -> None:
        super().__init__(200, {})
        self._data = data

    def chunks(self) -> Any:
        return iter((self._data,))


def test_a_dead_exporter_costs_its_own_figures_and_is_not_asked_at_once_again() -> None:
    cluster = ServedPages()
    cluster.add("n1", page(ExportedCard(0, busy(1, 1))))
    cluster.add("n2", b"")
    cluster.pages["exporter-n2"] = no_answer
    cluster.add("n3", b'DCGM_FI_DEV_GPU_UTIL{gpu="0" 5')
    exporters = GpuExporters(Api(cluster), EXPORTING)
    for _ in range(2):
        assert {sample.subject for sample in exporters.samples({})} == {"gpu:n1:n1/0"}
    assert sorted(cluster.asked) == ["exporter-n1", "exporter-n2", "exporter-n3"]
    cluster.pages["exporter-n1"] = lambda: page(ExportedCard(0, busy(1, 1, XID_ERRORS=79)))
    assert exporters.faults() == []  # The page that is in hand.
    (fault,) = GpuExporters(Api(cluster), EXPORTING).faults()
    assert (fault.node, fault.gpu, fault.number, fault.at) == ("n1", "n1/0", 79, AT)


def test_what_a_round_does_not_come_to_is_first_in_the_next_and_old_pages_are_a_gap() -> None:
    cluster, now = ServedPages(), [100.0]

    def slow() -> bytes:
        now[0] += 3
        return no_answer()

    cluster.pages = {"exporter-a": slow, "exporter-b": lambda: b"b", "exporter-c": lambda: b"c"}
    paths = {node: f"/api/v1/namespaces/gpu-operator/pods/exporter-{node}:9400/proxy/metrics" for node in "abc"}
    pages = Pages(Api(cluster), bytes.decode, parallel=1, every_seconds=15, clock=lambda: now[0])
    assert pages.of(paths) == {}  # The slow one took all of the time.
    assert pages.of(paths) == {"b": "b", "c": "c"}
    now[0] += 50
    cluster.pages |= {"exporter-b": slow, "exporter-c": lambda: b"later"}
    assert pages.of(paths) == {}
    assert pages.of(paths) == {"c": "later"}


def test_the_exporter_is_named_by_namespace_label_and_port() -> None:
    for text, place in (
        ("gpu-operator/app=nvidia-dcgm-exporter:9400", ("gpu-operator", "app=nvidia-dcgm-exporter", 9400)),
        ("dcgm/app.kubernetes.io/name=dcgm-exporter,tier=a:80", ("dcgm", "app.kubernetes.io/name=dcgm-exporter,tier=a", 80)),
    ):
        assert read_config(CLUSTER, {"gpu_exporter": text}).exporter_place == place
    for text in ("dcgm", "dcgm/app:9400", "/app=x:9400", "dcgm/app=x", "dcgm/app=x:http"):
        with pytest.raises(ConfigInvalid):
            read_config(CLUSTER, {"gpu_exporter": text})
    (right,) = (item for item in needed(EXPORTING) if item.resource == "pods/proxy")
    assert (right.verbs, right.namespace) == (("get",), "gpu-operator")
    assert "pods/proxy" not in {item.resource for item in needed(CONFIG)}
