"""What /proc says about processes. A pid alone is never trusted: it counts together with its start time and the boot id."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_STAT_BYTES = 4_096  # One line of some fifty numbers and a name of at most 64 bytes (proc(5)).
TASK_MARKER = "BERTH_TASK_KEY"
"""An environment variable of every task, `<attempt id>.<task>`: finds children that left tree and session."""


@dataclass(frozen=True, slots=True)
class Process:
    """One line of /proc/<pid>/stat, as far as we need it (proc(5))."""

    pid: int
    name: str
    state: str
    parent: int
    session: int
    cpu_ticks: int
    start_ticks: int
    resident_bytes: int

    @property
    def is_dead(self) -> bool:
        """A zombie has ended; only its parent has not asked yet."""
        return self.state in "ZX"


def read_process(pid: int) -> Process | None:
    """Read one process, or None if there is none."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        text = os.read(descriptor, _STAT_BYTES)
    except ProcessLookupError:
        return None
    finally:
        os.close(descriptor)
    name_end = text.rindex(b")")
    fields = text[name_end + 2 :].split()
    return Process(
        pid=pid,
        name=text[text.index(b"(") + 1 : name_end].decode(errors="replace"),
        state=chr(fields[0][0]),
        parent=int(fields[1]),
        session=int(fields[3]),
        cpu_ticks=int(fields[11]) + int(fields[12]),
        start_ticks=int(fields[19]),
        resident_bytes=int(fields[21]) * PAGE_BYTES,
    )


def read_all() -> dict[int, Process]:
    """Read every process that can be seen."""
    found = (read_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {process.pid: process for process in found if process is not None}


def is_alive(pid: int, start_ticks: int) -> bool:
    """Whether the very process that was started then still runs (on this boot)."""
    process = read_process(pid)
    return process is not None and process.start_ticks == start_ticks and not process.is_dead


def boot_id(path: str = BOOT_ID_FILE) -> str:
    """The id of this boot; read once, for no process outlives it. Another file is read each time."""
    return _this_boot() if path == BOOT_ID_FILE else Path(path).read_text().strip()


@functools.cache
def _this_boot() -> str:
    return Path(BOOT_ID_FILE).read_text().strip()


def descendants(everything: Mapping[int, Process], roots: Iterable[int]) -> set[int]:
    """Give the pids below the roots, without them: children of children, and members of the roots' own sessions."""
    wanted = set(roots)
    children: dict[int, list[int]] = {}
    for process in everything.values():
        children.setdefault(process.parent, []).append(process.pid)
    found = {process.pid for process in everything.values() if process.session in wanted} - wanted
    pending = [*wanted, *found]
    while pending:
        for child in children.get(pending.pop(), ()):
            if child not in found and child not in wanted:
                found.add(child)
                pending.append(child)
    return found


def marked(pids: Iterable[int]) -> dict[int, str]:
    """Give the task marker of every process that has one in an environment that we may read."""
    prefix = f"{TASK_MARKER}=".encode()
    found: dict[int, str] = {}
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            for item in file.read().split(b"\0"):
                if item.startswith(prefix):
                    found[pid] = item[len(prefix) :].decode(errors="replace")
    return found


def pin(pid: int, cores: frozenset[int]) -> int:
    """Let all threads of a process run on these cores only; how many of them were elsewhere. One that ends meanwhile is none."""
    moved = 0
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(ProcessLookupError):
                if os.sched_getaffinity(int(thread)) != cores:
                    os.sched_setaffinity(int(thread), cores)
                    moved += 1
    return moved


def handles(pid: int, number: int) -> bool:
    """Whether a process has a handler of its own for a signal (proc(5), SigCgt of /proc/<pid>/status)."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/status", "rb") as file:
        for line in file:
            if line.startswith(b"SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def send(process: Process, number: int) -> bool:
    """Signal exactly this process, however fast its pid is reused; False if it is gone."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if not is_alive(process.pid, process.start_ticks):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True
