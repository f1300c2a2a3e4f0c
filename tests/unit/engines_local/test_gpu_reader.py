"""The reader of GPUs against a library with NVML's symbols that says what the test wants: below our code, not in place of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from time import monotonic

import pytest

from clusters.engines.interface import GpuFaultKind
from clusters.engines.local import gpus
from clusters.engines.local.gpus import GpuReading, Gpus
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
    assert reader().read("GPU-1") == GpuReading(0.87, 9 * GIB, 512.5, 71, xid_code=0)


def test_what_a_device_does_not_support_is_left_out_and_nothing_else(nvml: StandIn) -> None:
    nvml.put(replace(FIRST, unsupported=1 | 4, used_bytes=GIB), replace(SECOND, unsupported=EVERYTHING))
    quiet = reader()
    assert quiet.read("GPU-1") == GpuReading(None, GIB, None, 35, xid_code=0)
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
