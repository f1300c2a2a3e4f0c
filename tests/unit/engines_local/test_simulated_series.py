"""What is drawn for a simulated GPU: plausible, tied to its tasks, and the same for the same moment."""

from __future__ import annotations

import pytest

from clusters.engines.interface import GpuDevice
from clusters.engines.local.simulated import draw

CARD = GpuDevice("SIMULATED-0", "A100", 80 * 1024**3, simulated=True)
OTHER = GpuDevice("SIMULATED-1", "A100", 80 * 1024**3, simulated=True)
MOMENTS = [1_800_000_000.0 + 37.0 * number for number in range(40)]


def test_a_free_device_is_idle_and_a_held_one_that_computes_nothing_holds_memory_only() -> None:
    free, held = draw(CARD, None, MOMENTS[0]), draw(CARD, 0.0, MOMENTS[0])
    assert (free.utilization_ratio, free.memory_bytes) == (held.utilization_ratio, 0) == (0.0, 0)
    assert held.memory_bytes is not None
    assert 0 < held.memory_bytes < CARD.memory_bytes
    assert free.xid_code is None


@pytest.mark.parametrize("cores", [0.1, 0.5, 1.0, 64.0])
def test_values_stay_within_what_a_device_can_say(cores: float) -> None:
    for at in MOMENTS:
        reading = draw(CARD, cores, at)
        assert reading.utilization_ratio is not None
        assert 0 < reading.utilization_ratio <= 1
        assert reading.memory_bytes is not None
        assert reading.memory_bytes <= CARD.memory_bytes
        assert reading.power_watts is not None
        assert 50 < reading.power_watts <= 400
        assert reading.temperature_celsius is not None
        assert 30 <= reading.temperature_celsius <= 75


def test_the_same_moment_gives_the_same_values_and_two_devices_differ() -> None:
    course = [draw(CARD, 0.8, at) for at in MOMENTS]
    assert course == [draw(CARD, 0.8, at) for at in MOMENTS]
    assert len({reading.utilization_ratio for reading in course}) > 10
    assert course != [draw(OTHER, 0.8, at) for at in MOMENTS]
