"""Ports, GPUs and cores of this host, leased to tasks: one small table on disk for all engines of the host, under a lock.

A lease belongs to an attempt and is given again unchanged when the same attempt asks again, so a start that was interrupted
finds its own. It ends when the engine knows that the attempt's processes are gone, never by time alone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clusters.engines.interface import EngineUnreachable
from clusters.engines.local.records import lock_within, read_json, write_json

WHOLE_MILLIS = 1000
LOCK_SECONDS = 5.0  # The holder of the lock needs milliseconds.
ABANDONED_SECONDS = 3_600.0  # A lease whose attempt was never started: the starter died. No start takes this long.


class LeaseRefused(Exception):
    """What was asked for is not free now; `code` says what."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


@dataclass
class Lease:
    """What one attempt holds: port numbers by `task/name`, devices and thousandths by task, cores that are its alone by task."""

    root: str
    at: float
    ports: dict[str, int] = field(default_factory=dict)
    gpus: dict[str, dict[str, int]] = field(default_factory=dict)
    cores: dict[str, list[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CoreAsk:
    """How many cores each task wants for itself, of which there are, and how many must be left to all other tasks."""

    wanted: Mapping[str, int] = field(default_factory=dict)
    cores: Sequence[int] = ()
    kept: int = 0


@dataclass
class Table:
    """The leases while the lock is held."""

    leases: dict[str, Lease]
    next_port: int
    changed: bool = False

    def take(
        self,
        attempt_id: str,
        root: str,
        *,
        ports: Sequence[str],
        gpu_millis: Mapping[str, int],
        devices: Sequence[str],
        port_range: tuple[int, int],
        alone: CoreAsk | None = None,
    ) -> Lease:
        """Lease everything for one attempt or nothing; raises LeaseRefused. An attempt that has a lease gets that one."""
        if attempt_id in self.leases:
            return self.leases[attempt_id]
        lease = Lease(root, time.time())
        self._take_cores(lease, alone or CoreAsk())
        self._take_gpus(lease, gpu_millis, devices)
        self._take_ports(lease, ports, port_range)
        if lease.ports or lease.gpus or lease.cores:
            self.leases[attempt_id] = lease
            self.changed = True
        return lease

    def release(self, attempt_ids: Sequence[str]) -> None:
        for attempt_id in attempt_ids:
            if self.leases.pop(attempt_id, None) is not None:
                self.changed = True

    def used_millis(self, device: str) -> int:
        return sum(held.get(device, 0) for lease in self.leases.values() for held in lease.gpus.values())

    def exclusive_cores(self) -> frozenset[int]:
        """Cores that belong to one task alone."""
        return frozenset(core for lease in self.leases.values() for cores in lease.cores.values() for core in cores)

    def _take_cores(self, lease: Lease, alone: CoreAsk) -> None:
        """The lowest free ones: neighbours share caches."""
        if not alone.wanted:
            return
        taken = self.exclusive_cores()
        free = [core for core in sorted(alone.cores) if core not in taken]
        need, left = sum(alone.wanted.values()), max(0, len(free) - alone.kept)
        if need > left:
            raise LeaseRefused(
                "cores_busy",
                f"Cores of its own that it needs: {need}; that can be given: {left}. Of {len(alone.cores)} on this host "
                f"{len(taken)} belong to one task alone, and {alone.kept} are used by tasks that share them.",
            )
        for task, count in sorted(alone.wanted.items()):
            lease.cores[task], free = free[:count], free[count:]

    def _take_gpus(self, lease: Lease, wanted: Mapping[str, int], devices: Sequence[str]) -> None:
        free = {device: WHOLE_MILLIS - self.used_millis(device) for device in devices}
        for task, millis in sorted(wanted.items(), key=lambda item: (-item[1], item[0])):
            if millis < WHOLE_MILLIS:
                # The fullest device that still has room, so that whole devices stay whole.
                fitting = sorted((left, device) for device, left in free.items() if left >= millis)
                chosen = [device for _, device in fitting[:1]]
            else:
                chosen = [device for device, left in free.items() if left == WHOLE_MILLIS][: millis // WHOLE_MILLIS]
            if len(chosen) < max(1, millis // WHOLE_MILLIS):
                raise LeaseRefused(
                    "gpus_busy", f"Task {task} needs {millis / WHOLE_MILLIS:g} GPU; not enough is free on this host."
                )
            share = min(millis, WHOLE_MILLIS)
            lease.gpus[task] = dict.fromkeys(chosen, share)
            for device in chosen:
                free[device] -= share

    def _take_ports(self, lease: Lease, names: Sequence[str], port_range: tuple[int, int]) -> None:
        low, high = port_range
        taken = {port for other in self.leases.values() for port in other.ports.values()}
        begin = secrets.choice(range(low, high))  # Elsewhere than the table of another platform on this machine.
        port = self.next_port if low <= self.next_port < high else begin
        tried = 0
        for name in names:
            while port in taken or not _can_bind(port):
                port, tried = _after(port, low, high), tried + 1
                if tried > high - low:
                    raise LeaseRefused("ports_busy", f"No port of {low} to {high - 1} is free on this host.")
            lease.ports[name] = port
            taken.add(port)
            port = _after(port, low, high)
        self.next_port = port


class HostLeases:
    """The table of this host. `with leases.locked() as table:` reads it, and writes it if it changed."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self._file = self._directory / "leases.json"

    @contextlib.contextmanager
    def locked(self) -> Iterator[Table]:
        """Raises EngineUnreachable when another process does not let go of it: that is no reason to hang with it."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not lock_within(descriptor, LOCK_SECONDS):
                raise EngineUnreachable(
                    f"Another process has held the table of ports and devices for {LOCK_SECONDS:g} s: it hangs or is stopped. "
                    f"`fuser {self._directory}/lock` tells which."
                )
            table = _table(read_json(self._file) or {})
            yield table
            if table.changed:
                write_json(self._file, _document(table))
        finally:
            os.close(descriptor)

    def exclusive_cores(self) -> frozenset[int]:
        """Cores that belong to one task alone, as of this moment, without the lock: the file is replaced whole."""
        return _table(read_json(self._file) or {}).exclusive_cores()


def _table(document: Mapping[str, Any]) -> Table:
    leases = {name: Lease(**lease) for name, lease in document.get("leases", {}).items()}
    return Table(leases, document.get("next_port", 0))


def _document(table: Table) -> dict[str, Any]:
    return {"leases": {name: _lease(lease) for name, lease in table.leases.items()}, "next_port": table.next_port}


def _lease(lease: Lease) -> dict[str, Any]:
    """Cores only where there are some: a release that does not know of them reads all other leases."""
    cores = {"cores": lease.cores} if lease.cores else {}
    return {"root": lease.root, "at": lease.at, "ports": lease.ports, "gpus": lease.gpus, **cores}


def _after(port: int, low: int, high: int) -> int:
    return port + 1 if port + 1 < high else low


def _can_bind(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104 - a probe; nothing listens.
        except OSError:
            return False
    return True
