"""Measures the node, its GPUs and the live tasks. Rates are differences since the last call; the first call gives none.

With control groups a task's numbers are the kernel's, children that ended included; without them they are summed over its
processes. What cannot be measured is left out. Of simulated GPUs the values are drawn from their tasks' use of processors.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import psutil

from clusters.engines.gpu_readings import GpuReading, values_of, values_of_device
from clusters.engines.interface import Sample
from clusters.engines.local import cgroups, processes, simulated
from clusters.engines.local.config import LocalEngineConfig
from clusters.engines.local.gpus import Gpus
from clusters.engines.local.watch import LiveTask

_NANOSECONDS = 1_000_000_000


class Meter:
    """Measures for one engine; keeps the last counters to make rates of them."""

    def __init__(self, config: LocalEngineConfig, gpus: Gpus) -> None:
        self._config = config
        self._gpus = gpus
        self._counters: dict[tuple[str, str], tuple[float, float]] = {}

    def sample(self, tasks: Sequence[LiveTask]) -> Sequence[Sample]:
        """Measure everything now."""
        now = time.monotonic()
        used = list(self._tasks(tasks, now))
        readings = self._readings(tasks, used)
        samples = [*self._node(now), *self._devices(readings), *used, *_held(tasks, readings)]
        self._counters = {key: value for key, value in self._counters.items() if value[0] == now}
        return samples

    def _node(self, now: float) -> Iterable[Sample]:
        subject = f"node:{self._config.node}"
        times = psutil.cpu_times()
        busy = (
            sum(times)
            - times.idle
            - getattr(times, "iowait", 0.0)
            - getattr(times, "guest", 0.0)
            - getattr(times, "guest_nice", 0.0)
        )
        memory = psutil.virtual_memory()
        disk = os.statvfs(self._config.root)
        yield Sample(subject, "memory_bytes", memory.total - memory.available)
        yield Sample(subject, "disk_used_bytes", (disk.f_blocks - disk.f_bfree) * disk.f_frsize)
        yield Sample(subject, "disk_free_bytes", disk.f_bavail * disk.f_frsize)
        counters = {"cpu_millis": busy * 1000}
        if (io := psutil.disk_io_counters()) is not None:
            counters |= {"disk_read_bytes_per_second": io.read_bytes, "disk_write_bytes_per_second": io.write_bytes}
        network = [values for name, values in psutil.net_io_counters(pernic=True).items() if name != "lo"]
        counters["network_receive_bytes_per_second"] = sum(values.bytes_recv for values in network)
        counters["network_transmit_bytes_per_second"] = sum(values.bytes_sent for values in network)
        yield from self._rates(subject, counters, now)

    def _readings(self, tasks: Sequence[LiveTask], used: Iterable[Sample]) -> dict[str, GpuReading]:
        devices = self._gpus.devices()
        if not self._gpus.are_simulated:
            return {device.identifier: self._gpus.read(device.identifier) for device in devices}
        cores = {sample.subject: sample.value / 1000 for sample in used if sample.metric == "cpu_millis"}
        loads: dict[str, list[float | None]] = {device.identifier: [] for device in devices}
        for task in tasks:
            busy = cores.get(_subject(task))
            for identifier in task.record.gpus:
                loads.setdefault(identifier, []).append(None if busy is None else busy / len(task.record.gpus))
        at = time.time()
        readings = {}
        for device in devices:
            known = [load for load in loads[device.identifier] if load is not None]
            if len(known) == len(loads[device.identifier]):  # Of a task that has just begun there is no rate yet.
                readings[device.identifier] = simulated.draw(device, sum(known) if known else None, at)
        return readings

    def _devices(self, readings: Mapping[str, GpuReading]) -> Iterable[Sample]:
        for identifier, reading in readings.items():
            subject = f"gpu:{self._config.node}:{identifier}"
            yield from (Sample(subject, metric, value) for metric, value in values_of_device(reading).items())

    def _tasks(self, tasks: Sequence[LiveTask], now: float) -> Iterable[Sample]:
        everything = None if all(task.started.groups for task in tasks) else processes.read_all()
        for task in tasks:
            subject = _subject(task)
            used = cgroups.usage(task.started.groups)
            if everything is not None:
                used = _fill_in(used, task, everything)
            if used.memory_bytes is not None:
                yield Sample(subject, "memory_bytes", used.memory_bytes)
            if used.processes is not None:
                yield Sample(subject, "processes", used.processes)
            counters: dict[str, float] = {}
            if used.cpu_nanoseconds is not None:
                counters["cpu_millis"] = used.cpu_nanoseconds * 1000 / _NANOSECONDS
            if used.read_bytes is not None and used.write_bytes is not None:
                counters |= {"disk_read_bytes_per_second": used.read_bytes, "disk_write_bytes_per_second": used.write_bytes}
            yield from self._rates(subject, counters, now)

    def _rates(self, subject: str, counters: Mapping[str, float], now: float) -> Iterable[Sample]:
        for metric, value in counters.items():
            before = self._counters.get((subject, metric))
            self._counters[subject, metric] = (now, value)
            if before is not None and now > before[0]:
                yield Sample(subject, metric, max(0.0, (value - before[1]) / (now - before[0])))


def _subject(task: LiveTask) -> str:
    return f"task:{task.attempt_id}:{task.record.role}:{task.record.index}"


def _held(tasks: Sequence[LiveTask], readings: Mapping[str, GpuReading]) -> Iterable[Sample]:
    """What each task's devices say; the memory of a device that tasks share is that of the task's own processes where the driver
    says it, else the device's."""
    holders = Counter(identifier for task in tasks for identifier in task.record.gpus)
    shared = {identifier for identifier, number in holders.items() if number > 1 and identifier in readings}
    everything = processes.read_all() if shared else {}
    for task in tasks:
        members = {task.started.pid, *processes.descendants(everything, [task.started.pid])}
        held = [
            _own(readings[identifier], members, everything) if identifier in shared else readings[identifier]
            for identifier in task.record.gpus
            if identifier in readings
        ]
        yield from (Sample(_subject(task), metric, value) for metric, value in values_of(held).items())


def _own(reading: GpuReading, members: Collection[int], everything: Collection[int]) -> GpuReading:
    """As it was where the driver names no process, or none that this namespace knows."""
    held = reading.memory_by_process or {}
    if not any(pid in everything for pid in held):
        return reading
    return replace(reading, memory_bytes=sum(held.get(pid, 0) for pid in members))


def _fill_in(used: cgroups.Usage, task: LiveTask, everything: Mapping[int, processes.Process]) -> cgroups.Usage:
    """Sum over the task's processes what its groups do not measure."""
    members = [everything[pid] for pid in processes.descendants(everything, [task.started.pid])]
    ticks = sum(process.cpu_ticks for process in members)
    return cgroups.Usage(
        cpu_nanoseconds=ticks * _NANOSECONDS // processes.TICKS_PER_SECOND
        if used.cpu_nanoseconds is None
        else used.cpu_nanoseconds,
        memory_bytes=sum(process.resident_bytes for process in members) if used.memory_bytes is None else used.memory_bytes,
        processes=len(members) if used.processes is None else used.processes,
        read_bytes=used.read_bytes,
        write_bytes=used.write_bytes,
    )
