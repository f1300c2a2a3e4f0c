"""The host's GPUs through NVML, or pretended ones by configuration. Absence of a driver is normal and gives none."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

from clusters.engines.gpu_readings import GpuReading
from clusters.engines.interface import GpuDevice, GpuFault, GpuFaultKind

SIMULATED_PREFIX = "SIMULATED"
LISTED_SECONDS = 60.0  # The observer lists devices twice a minute; other processes when this is over.
LOST_LOOKS = 2
THROTTLE_SECONDS = 600.0  # A peak of heat passes in minutes; a fan or a power supply that has failed does not.
_SLOWED_DOWN = 0x8 | 0x40 | 0x80  # By the device itself: at all, for heat, for power (nvml.h, nvmlClocksEventReason*).
_XID_CONTAINED = 94
_WAIT_MILLISECONDS = 60_000
_LOST_PAUSE_SECONDS = 1.0
_SIMULATED_MEMORY_BYTES = 80 * 1024**3
_CONTROL_DEVICES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")


class Gpus:
    """The devices of this host. All methods are safe from several threads.

    One device that fails must not hide the others: each is asked alone, and one that was there once stays in the list.
    """

    def __init__(self, simulated: tuple[int, str], *, throttle_seconds: float = THROTTLE_SECONDS) -> None:
        self._simulated = simulated
        self._throttle_seconds = throttle_seconds
        self._xids = _XidWatch()
        self._lock = threading.Lock()
        self._known: dict[str, GpuDevice] = {}
        self._listed_at: float | None = None
        self._missed: dict[str, int] = {}  # How often in a row a device was not reached.
        self._throttled_since: dict[str, float] = {}
        self._first_seen: dict[tuple[str, GpuFaultKind, int], datetime] = {}

    @property
    def are_simulated(self) -> bool:
        return self._simulated[0] > 0

    def devices(self) -> tuple[GpuDevice, ...]:
        """List them in the driver's order; one that the driver does not reach any more is not healthy."""
        count, model = self._simulated
        if count:
            return tuple(
                GpuDevice(f"{SIMULATED_PREFIX}-{index}", model, _SIMULATED_MEMORY_BYTES, simulated=True) for index in range(count)
            )
        nvml = _nvml()
        if nvml is None:
            return ()
        found = _list(nvml)
        with self._lock:
            self._listed_at = time.monotonic()
            if found is None:
                return tuple(self._known.values())  # The driver did not answer: nothing is known to have changed.
            for identifier, device in self._known.items():
                self._known[identifier] = replace(device, healthy=identifier in found)
            self._known |= found
            return tuple(self._known.values())

    def usable(self) -> tuple[str, ...]:
        """The identifiers of those that work, as listed a short time ago: a start does not wait for a driver that is slow."""
        with self._lock:
            is_fresh = self._listed_at is not None and time.monotonic() - self._listed_at < LISTED_SECONDS
            devices = tuple(self._known.values())
        return tuple(device.identifier for device in (devices if is_fresh else self.devices()) if device.healthy)

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

    def cuda(self) -> str:
        """Give the newest CUDA that the driver supports, like 12.4, or "" without a driver."""
        nvml = _nvml()
        if nvml is not None:
            with _nvml_errors():
                number = int(nvml.nvmlSystemGetCudaDriverVersion_v2())
                return f"{number // 1000}.{number % 1000 // 10}"  # 12040: NVML API reference, System Queries.
        return ""

    def read(self, identifier: str) -> GpuReading:
        """Measure one device. A pretended one has no driver to ask (`simulated.py` draws its series)."""
        nvml = _nvml()
        if self.are_simulated or nvml is None:
            return GpuReading()
        self._xids.watch(nvml)
        with _nvml_errors():
            handle = nvml.nvmlDeviceGetHandleByUUID(identifier)
            return GpuReading(
                utilization_ratio=_ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100),
                memory_bytes=_ask(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).used)),
                power_watts=_ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000),
                temperature_celsius=_ask(lambda: int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))),
                xid_code=self._xids.last(identifier),
                memory_by_process=_ask(lambda: _memory_by_process(nvml.nvmlDeviceGetComputeRunningProcesses(handle))),
            )
        return GpuReading(xid_code=self._xids.last(identifier))

    def faults(self, node: str) -> tuple[GpuFault, ...]:
        """What is wrong with devices now, and the Xid errors since this process watches. Of one that is lost after it was
        reached before only from the second look on: a driver that is busy may miss one."""
        nvml = _nvml()
        if self.are_simulated or nvml is None:
            return ()
        self._xids.watch(nvml)
        faults = [
            GpuFault(node, identifier, GpuFaultKind.XID, code, at) for (identifier, code), at in self._xids.reported().items()
        ]
        for device in self.devices():
            found = self._look(nvml, device.identifier)
            self._forget_all_but(device.identifier, found)
            faults += [
                GpuFault(node, device.identifier, kind, number, self._since(device.identifier, kind, number))
                for kind, number in found.items()
            ]
        return tuple(faults)

    def _look(self, nvml: ModuleType, identifier: str) -> dict[GpuFaultKind, int]:
        found: dict[GpuFaultKind, int] = {}
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(identifier)
            nvml.nvmlDeviceGetUUID(handle)
        except (nvml.NVMLError_GpuIsLost, nvml.NVMLError_NotFound):
            self._missed[identifier] = self._missed.get(identifier, 0) + 1
            return {GpuFaultKind.LOST: 0} if self._missed[identifier] >= LOST_LOOKS else {}
        except nvml.NVMLError:
            return {}
        self._missed.pop(identifier, None)
        errors = _ask(
            lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
        )
        if errors and errors > self._xids.contained(identifier):
            found[GpuFaultKind.ECC] = int(errors)
        rows = _ask(lambda: nvml.nvmlDeviceGetRemappedRows(handle))
        if rows and rows[3]:
            found[GpuFaultKind.REMAP] = 0
        reasons = _ask(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)) or 0
        if self._is_throttled_long(identifier, bool(reasons & _SLOWED_DOWN)):
            found[GpuFaultKind.THROTTLE] = 0
        return found

    def _is_throttled_long(self, identifier: str, is_throttled: bool) -> bool:
        if not is_throttled:
            self._throttled_since.pop(identifier, None)
            return False
        now = time.monotonic()
        return now - self._throttled_since.setdefault(identifier, now) >= self._throttle_seconds

    def _forget_all_but(self, identifier: str, found: Mapping[GpuFaultKind, int]) -> None:
        """What is over and comes again is evidence of its own."""
        now = {(identifier, kind, number) for kind, number in found.items()}
        for key in [key for key in self._first_seen if key[0] == identifier and key not in now]:
            del self._first_seen[key]

    def _since(self, identifier: str, kind: GpuFaultKind, number: int) -> datetime:
        return self._first_seen.setdefault((identifier, kind, number), datetime.now(UTC))


class _XidWatch:
    """Collects the driver's critical events in a thread of its own: NVML tells each once, to who waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started = False
        self._works = False
        self._last: dict[str, int] = {}
        self._reported: dict[tuple[str, int], datetime] = {}
        self._contained: dict[str, int] = {}

    def watch(self, nvml: ModuleType) -> None:
        with self._lock:
            if self._started:
                return
            self._started = True
        with _nvml_errors():
            events: Any = nvml.nvmlEventSetCreate()
            names: dict[int | None, str] = {}
            for index in range(nvml.nvmlDeviceGetCount()):
                with _nvml_errors():  # One that is lost, or that reports none, keeps no other from being watched.
                    handle = nvml.nvmlDeviceGetHandleByIndex(index)
                    nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
                    names[_address(handle)] = _text(nvml.nvmlDeviceGetUUID(handle))
            self._works = bool(names)
            threading.Thread(target=self._collect, args=(nvml, events, names), daemon=True, name="gpu-xid").start()

    def last(self, identifier: str) -> int | None:
        with self._lock:
            return self._last.get(identifier, 0) if self._works else None

    def reported(self) -> dict[tuple[str, int], datetime]:
        """The errors of each device, each with when it was reported last."""
        with self._lock:
            return dict(self._reported)

    def contained(self, identifier: str) -> int:
        """How many uncorrectable memory errors of a device met one program only, and count for nothing else."""
        with self._lock:
            return self._contained.get(identifier, 0)

    def _collect(self, nvml: ModuleType, events: Any, names: Mapping[int | None, str]) -> None:
        """Devices are known by the handle: one that has fallen off the bus cannot be asked for its name any more."""
        pause = threading.Event()
        while True:
            try:
                event = nvml.nvmlEventSetWait_v2(events, _WAIT_MILLISECONDS)
            except nvml.NVMLError_Timeout:
                continue
            except nvml.NVMLError_GpuIsLost:
                pause.wait(_LOST_PAUSE_SECONDS)  # Of one device; the others may report still.
                continue
            except nvml.NVMLError:
                with self._lock:
                    self._works = False
                return
            identifier, code = names.get(_address(event.device), ""), int(event.eventData)
            with self._lock:
                self._last[identifier] = code
                self._reported[identifier, code] = datetime.now(UTC)
                if code == _XID_CONTAINED:
                    self._contained[identifier] = self._contained.get(identifier, 0) + 1


def _list(nvml: ModuleType) -> dict[str, GpuDevice] | None:
    """The devices that can be reached now; None where the driver cannot even say how many there are."""
    found: dict[str, GpuDevice] = {}
    with _nvml_errors():
        for index in range(nvml.nvmlDeviceGetCount()):
            with _nvml_errors():
                device = _device(nvml, index)
                found[device.identifier] = device
        return found
    return None


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


def _address(handle: Any) -> int | None:
    """Which device a handle is of: two of the same device are different objects."""
    return ctypes.cast(handle, ctypes.c_void_p).value


def _ask(question: Any) -> Any:
    with _nvml_errors():
        return question()
    return None


def _memory_by_process(told: Sequence[Any]) -> dict[int, int] | None:
    """None where the driver names processes and not what they hold."""
    if any(process.usedGpuMemory is None for process in told):
        return None
    return {int(process.pid): int(process.usedGpuMemory) for process in told}


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
