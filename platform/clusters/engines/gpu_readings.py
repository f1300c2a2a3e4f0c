"""What a GPU says of itself at one moment, from whatever measured it, and what several of them say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuReading:
    """What a device says now; None is what it does not say."""

    utilization_ratio: float | None = None
    memory_bytes: int | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    xid_code: int | None = None
    memory_by_process: Mapping[int, int] | None = None  # Bytes by the host's process id.


def values_of(readings: Sequence[GpuReading]) -> dict[str, float]:
    """Join readings into metrics by name: mean use, summed memory and power, hottest temperature."""
    values: dict[str, float] = {}
    utilization = [reading.utilization_ratio for reading in readings if reading.utilization_ratio is not None]
    memory = [reading.memory_bytes for reading in readings if reading.memory_bytes is not None]
    power = [reading.power_watts for reading in readings if reading.power_watts is not None]
    temperature = [reading.temperature_celsius for reading in readings if reading.temperature_celsius is not None]
    if utilization:
        values["gpu_utilization_ratio"] = sum(utilization) / len(utilization)
    if memory:
        values["gpu_memory_bytes"] = sum(memory)
    if power:
        values["gpu_power_watts"] = sum(power)
    if temperature:
        values["gpu_temperature_celsius"] = max(temperature)
    return values


def values_of_device(reading: GpuReading) -> dict[str, float]:
    """The metrics of one device, with its last Xid error."""
    values = values_of([reading])
    return values if reading.xid_code is None else {**values, "gpu_xid_code": reading.xid_code}
