"""Series of simulated GPUs: drawn, not measured, and labelled so wherever they are seen.

They follow what is so on the host: a device that no task holds is idle; one that is held works as far as its tasks use
processors, one core for one device. A slow wave, with a phase of its own for each device, keeps lines apart on a chart. The same
moment and the same use give the same values, in every process.
"""

from __future__ import annotations

import math
import zlib

from clusters.engines.gpu_readings import GpuReading
from clusters.engines.interface import GpuDevice

_WAVE_SECONDS = 600.0
_IDLE_WATTS, _MOST_WATTS = 50.0, 400.0
_IDLE_CELSIUS, _MOST_CELSIUS = 30, 75
_HELD_SHARE, _WORKING_SHARE = 0.05, 0.65  # Of its memory: what a program takes to begin with, and what its data takes.


def draw(device: GpuDevice, cores: float | None, at: float) -> GpuReading:
    """What a device would say at a moment. `cores`: how many its tasks keep busy for it; None while no task holds it."""
    work = min(1.0, max(0.0, cores or 0.0))
    phase = zlib.crc32(device.identifier.encode()) / 2**32
    use = work * (0.9 + 0.08 * math.sin(2 * math.pi * (at / _WAVE_SECONDS + phase)))
    share = 0.0 if cores is None else _HELD_SHARE + _WORKING_SHARE * work
    return GpuReading(
        utilization_ratio=use,
        memory_bytes=round(share * device.memory_bytes),
        power_watts=_IDLE_WATTS + (_MOST_WATTS - _IDLE_WATTS) * use,
        temperature_celsius=round(_IDLE_CELSIUS + (_MOST_CELSIUS - _IDLE_CELSIUS) * use),
    )
