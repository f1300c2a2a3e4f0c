"""The host's GPUs through NVML, or pretended ones by configuration. Absence of a driver is normal and gives none."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from clusters.engines.interface import GpuDevice

SIMULATED_PREFIX = "SIMULATED"
_SIMULATED_MEMORY_BYTES = 80 * 1024**3
_CONTROL_DEVICES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")


@dataclass(frozen=True, slots=True)
class GpuReading:
    """What a device says now; None is what it does not say."""

    utilization_ratio: float | None = None
    memory_bytes: int | None = None
    power_watts: float | None = None
    temperature_celsius: int | None = None
    xid_code: int | None = None


class Gpus:
    """The devices of this host. All methods are safe from several threads."""

    def __init__(self, simulated: tuple[int, str]) -> None:
        self._simulated = simulated
        self._xids = _XidWatch()

    @property
    def are_simulated(self) -> bool:
        return self._simulated[0] > 0

    def devices(self) -> tuple[GpuDevice, ...]:
        """List them in the driver's order."""
        count, model = self._simulated
        if count:
            return tuple(
                GpuDevice(f"{SIMULATED_PREFIX}-{index}", model, _SIMULATED_MEMORY_BYTES, simulated=True) for index in range(count)
            )
        nvml = _nvml()
        if nvml is None:
            return ()
        with _nvml_errors():
            return tuple(_device(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))
        return ()

    def device_nodes(self, identifiers: tuple[str, ...]) -> tuple[str, ...]:
        """Give the device files that a task with these devices needs; none for pretended ones."""
        nvml = _nvml()
        if self.are_simulated or nvml is None or not identifiers:
            return ()
        nodes = [path for path in _CONTROL_DEVICES if os.path.exists(path)]
        with _nvml_errors():
            for identifier in identifiers:
                handle = nvml.nvmlDeviceGetHandleByUUID(identifier)
                nodes.append(f"/dev/nvidia{nvml.nvmlDeviceGetMinorNumber(handle)}")
        return tuple(nodes)

    def driver(self) -> str:
        """Give the driver's version, or "" without a driver."""
        nvml = _nvml()
        if nvml is not None:
            with _nvml_errors():
                return _text(nvml.nvmlSystemGetDriverVersion())
        return ""

    def read(self, identifier: str) -> GpuReading:
        """Measure one device. A pretended one is not measured: nothing about it is made up."""
        nvml = _nvml()
        if self.are_simulated or nvml is None:
            return GpuReading()
        with _nvml_errors():
            handle = nvml.nvmlDeviceGetHandleByUUID(identifier)
            self._xids.watch(nvml)
            return GpuReading(
                utilization_ratio=_ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100),
                memory_bytes=_ask(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).used)),
                power_watts=_ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000),
                temperature_celsius=_ask(lambda: int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))),
                xid_code=self._xids.last(identifier),
            )
        return GpuReading()


class _XidWatch:
    """Collects the driver's critical events in a thread of its own: NVML tells each once, to who waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started = False
        self._works = False
        self._last: dict[str, int] = {}

    def watch(self, nvml: ModuleType) -> None:
        with self._lock:
            if self._started:
                return
            self._started = True
        with _nvml_errors():
            events: Any = nvml.nvmlEventSetCreate()
            for index in range(nvml.nvmlDeviceGetCount()):
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
            self._works = True
            threading.Thread(target=self._collect, args=(nvml, events), daemon=True, name="gpu-xid").start()

    def last(self, identifier: str) -> int | None:
        with self._lock:
            return self._last.get(identifier, 0) if self._works else None

    def _collect(self, nvml: ModuleType, events: Any) -> None:
        while True:
            try:
                event = nvml.nvmlEventSetWait_v2(events, 60_000)
            except nvml.NVMLError_Timeout:
                continue
            except nvml.NVMLError:
                with self._lock:
                    self._works = False
                return
            identifier = _text(nvml.nvmlDeviceGetUUID(event.device))
            with self._lock:
                self._last[identifier] = int(event.eventData)


def _device(nvml: ModuleType, index: int) -> GpuDevice:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    return GpuDevice(
        identifier=_text(nvml.nvmlDeviceGetUUID(handle)),
        model=_text(nvml.nvmlDeviceGetName(handle)),
        memory_bytes=_ask(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total)) or 0,
    )


@functools.cache
def _nvml() -> ModuleType | None:
    """Give NVML once it is initialised, or None for good: a driver does not appear while a process runs."""
    try:
        import pynvml  # type: ignore[import-untyped]
    except ImportError:
        return None
    module: ModuleType = pynvml
    try:
        module.nvmlInit()
    except module.NVMLError:
        return None
    return module


@contextlib.contextmanager
def _nvml_errors() -> Iterator[None]:
    """What the driver cannot tell is left out."""
    nvml = _nvml()
    try:
        yield
    except Exception as error:
        if nvml is None or not isinstance(error, nvml.NVMLError):
            raise


def _ask(question: Any) -> Any:
    with _nvml_errors():
        return question()
    return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
