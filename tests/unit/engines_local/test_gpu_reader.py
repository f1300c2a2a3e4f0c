"""The reader of GPUs against a library with NVML's symbols that says what the test wants: below our code, not in place of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.engines.gpu_readings import GpuReading
from clusters.engines.interface import GpuFaultKind
from clusters.engines.local import gpus, measure
from clusters.engines.local.gpus import Gpus
from tests.builders.live import wait_until
from tests.builders.nvml import DRIVER_NOT_LOADED, EVERYTHING, GIB, GPU_IS_LOST, HW_THERMAL, Card, StandIn

FIRST, SECOND = Card("GPU-1"), Card("GPU-2")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    with StandIn.build(tmp_path_factory.mktemp("nvml")).load() as made:
        yield made


@pytest.fixture
def nvml(library: StandIn) -> Iterator[StandIn]:
    """Two devices, and a reader that has not asked the driver yet."""
    gpus._nvml.cache_clear()
    library.answer()
    library.hold({})
    yield library.put(FIRST, SECOND)
    library.answer(init=DRIVER_NOT_LOADED)
    gpus._nvml.cache_clear()


def reader(**given: float) -> Gpus:
    return Gpus((0, ""), **given)


def kinds(reader: Gpus) -> list[tuple[str, str, int]]:
    return [(fault.gpu, str(fault.kind), fault.number) for fault in reader.faults("node-1")]


def test_devices_are_listed_as_the_driver_names_them(nvml: StandIn) -> None:
    [first, second] = reader().devices()
    assert (first.identifier, first.model, first.memory_bytes) == ("GPU-1", "NVIDIA H200", 141 * GIB)
    assert second.identifier == "GPU-2"
    assert first.healthy
    assert not first.simulated
    assert reader().driver() == "550.00"
    assert reader().cuda() == "12.4"


def test_what_a_device_says_is_measured(nvml: StandIn) -> None:
    nvml.put(replace(FIRST, utilisation=87, used_bytes=9 * GIB, milliwatts=512_500, celsius=71), SECOND)
    assert reader().read("GPU-1") == GpuReading(0.87, 9 * GIB, 512.5, 71, 0, {})


def test_tasks_that_share_a_device_each_have_the_memory_of_their_own_processes(nvml: StandIn) -> None:
    nvml.put(replace(FIRST, used_bytes=9 * GIB), replace(SECOND, used_bytes=2 * GIB))
    with contextlib.ExitStack() as stack:
        shell = stack.enter_context(
            subprocess.Popen(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, text=True)
        )
        other = stack.enter_context(subprocess.Popen(["sleep", "600"]))
        assert shell.stdout is not None
        child = int(shell.stdout.readline())
        stack.callback(lambda: [os.kill(pid, signal.SIGKILL) for pid in (child, shell.pid, other.pid)])
        nvml.hold({("GPU-1", child): 5 * GIB, ("GPU-1", other.pid): 3 * GIB, ("GPU-1", 1): GIB, ("GPU-2", other.pid): GIB})
        tasks: Any = [a_task("a", shell.pid, "GPU-1"), a_task("b", other.pid, "GPU-1", "GPU-2")]
        readings = {name: reader().read(name) for name in ("GPU-1", "GPU-2")}
        assert memory_of(tasks, readings) == {"a": 5 * GIB, "b": (3 + 2) * GIB}  # The other device is its own.
        assert memory_of(tasks[:1], readings) == {"a": 9 * GIB}
        nvml.put(replace(FIRST, used_bytes=9 * GIB, unsupported=256), SECOND)
        assert memory_of(tasks[:2], {"GPU-1": reader().read("GPU-1")}) == {"a": 9 * GIB, "b": 9 * GIB}


def a_task(name: str, pid: int, *gpus: str) -> SimpleNamespace:
    return SimpleNamespace(
        attempt_id=name, record=SimpleNamespace(role="worker", index=0, gpus=gpus), started=SimpleNamespace(pid=pid)
    )


def memory_of(tasks: Any, readings: Mapping[str, GpuReading]) -> dict[str, float]:
    held = measure._held(tasks, readings)
    return {sample.subject.split(":")[1]: sample.value for sample in held if sample.metric == "gpu_memory_bytes"}


def test_what_a_device_does_not_support_is_left_out_and_nothing_else(nvml: StandIn) -> None:
    nvml.put(replace(FIRST, unsupported=1 | 4, used_bytes=GIB), replace(SECOND, unsupported=EVERYTHING))
    quiet = reader()
    assert quiet.read("GPU-1") == GpuReading(None, GIB, None, 35, 0, {})
    assert quiet.read("GPU-2").utilization_ratio is None
    assert kinds(quiet) == []


def test_without_a_driver_there_are_no_gpus_and_no_errors(nvml: StandIn) -> None:
    nvml.answer(init=DRIVER_NOT_LOADED)
    gpus._nvml.cache_clear()
    none = reader()
    assert (none.devices(), none.driver(), none.faults("node-1")) == ((), "", ())
    assert none.read("GPU-1") == GpuReading()


def test_a_card_that_falls_off_the_bus_leaves_the_others_in_service(nvml: StandIn) -> None:
    seen = reader()
    assert seen.usable() == ("GPU-1", "GPU-2")
    nvml.put(replace(FIRST, status=GPU_IS_LOST), SECOND)
    assert [(device.identifier, device.healthy) for device in seen.devices()] == [("GPU-1", False), ("GPU-2", True)]
    assert seen.usable() == ("GPU-2",)
    assert seen.read("GPU-2").temperature_celsius == 35
    assert seen.read("GPU-1").temperature_celsius is None
    nvml.put(FIRST, SECOND)
    assert [device.healthy for device in seen.devices()] == [True, True]


def test_a_lost_card_is_evidence_from_the_second_look_on_and_stays_the_same_evidence(nvml: StandIn) -> None:
    seen = reader()
    seen.devices()
    nvml.put(replace(FIRST, status=GPU_IS_LOST), SECOND)
    assert kinds(seen) == []
    first, again = seen.faults("node-1"), seen.faults("node-1")
    assert [(fault.gpu, fault.kind) for fault in first] == [("GPU-1", GpuFaultKind.LOST)]
    assert first == again


def test_uncorrectable_memory_errors_are_evidence_and_contained_ones_are_not(nvml: StandIn) -> None:
    seen = reader()
    assert kinds(seen) == []
    nvml.put(replace(FIRST, ecc=1), SECOND)
    assert kinds(seen) == [("GPU-1", "ecc", 1)]
    nvml.xid("GPU-1", 94)
    wait_until(lambda: kinds(seen) == [("GPU-1", "xid", 94)], "the contained error")


def test_a_row_that_cannot_be_replaced_is_evidence(nvml: StandIn) -> None:
    nvml.put(FIRST, replace(SECOND, remap_failed=True))
    assert kinds(reader()) == [("GPU-2", "remap", 0)]


def test_only_throttling_that_lasts_is_evidence(nvml: StandIn) -> None:
    nvml.put(replace(FIRST, reasons=HW_THERMAL), SECOND)
    patient, strict = reader(throttle_seconds=3600), reader(throttle_seconds=0)
    assert kinds(patient) == []
    assert kinds(strict) == [("GPU-1", "throttle", 0)]
    nvml.put(FIRST, SECOND)
    assert kinds(strict) == []


def test_an_xid_is_told_with_its_device_also_when_that_is_lost_by_then(nvml: StandIn) -> None:
    seen = reader()
    assert seen.read("GPU-2").xid_code == 0
    nvml.put(FIRST, replace(SECOND, status=GPU_IS_LOST))
    nvml.xid("GPU-2", 79)
    wait_until(lambda: ("GPU-2", "xid", 79) in kinds(seen), "the Xid")
    assert seen.read("GPU-2").xid_code == 79
    nvml.xid("GPU-1", 13)
    wait_until(lambda: seen.read("GPU-1").xid_code == 13, "the Xid of the other device")


def test_a_driver_that_is_slow_delays_no_start(nvml: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "LISTED_SECONDS", 3600.0)
    seen = reader()
    seen.devices()
    nvml.answer(delay_millis=60_000)
    assert seconds(seen.usable) < 30


def seconds(work: Callable[[], object]) -> float:
    began = monotonic()
    work()
    return monotonic() - began
