"""Control groups of tasks: limits, membership, memory kills, usage; version 2 and version 1 (also mixed).

A task's group holds what the wrapper started and not the wrapper, so an empty group means that the task and all its
children are gone. Groups lie below our own one, which keeps the limits that the machine's owner put on us. Under version 2 a
group with processes cannot hand controllers down, so the unit that starts Berth must delegate (`Delegate=yes`); then, and
only then, we move ourselves one level down.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = "berth"
TREES = "/sys/fs/cgroup"  # cgroups(7); what is mounted elsewhere is no part of a task's view.
_CPU_PERIOD_MICROSECONDS = 100_000
_V1_CONTROLLERS = ("memory", "pids", "cpu", "cpuacct")
_V2_CONTROLLERS = ("memory", "pids", "cpu")
_V2_OPTIONAL = ("cpuset", "io")


@dataclass(frozen=True, slots=True)
class Limits:
    """0 means without a limit."""

    memory_bytes: int = 0
    cpu_millis: int = 0
    processes_max: int = 0
    cores: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryKills:
    """What the kernel counted for one group. `limit_hits` tells the group's own limit from the machine running out."""

    kills: int = 0
    limit_hits: int = 0
    peak_bytes: int = 0
    limit_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """None: this group does not measure it."""

    cpu_nanoseconds: int | None = None
    memory_bytes: int | None = None
    processes: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Cgroups:
    """Where groups for tasks can be made: a directory per controller, or the one of version 2 under the name `unified`."""

    bases: Mapping[str, str]

    @property
    def limits_memory(self) -> bool:
        return "memory" in self.bases or "unified" in self.bases

    @property
    def version(self) -> int:
        return 2 if "unified" in self.bases else 1

    def create(self, name: str, limits: Limits) -> tuple[str, ...]:
        """Make the groups of one task and set its limits; gives their directories. A group left over is used again."""
        made = []
        for base in dict.fromkeys(self.bases.values()):
            path = f"{base}/{name}"
            try:
                os.mkdir(path)
            except FileNotFoundError:  # Pruned while nothing ran.
                os.makedirs(path, exist_ok=True)
            except FileExistsError:
                pass
            made.append(path)
        for controller, base in self.bases.items():
            _limit(controller, f"{base}/{name}", limits)
        if limits.cores:
            pin(made, limits.cores)
        return tuple(made)

    def prune(self) -> None:
        """Leave nothing behind while nothing runs. Version 2 keeps its folder, which holds what was delegated."""
        if self.version == 1:
            remove(tuple(dict.fromkeys(self.bases.values())))

    def remove_all(self, prefix: str) -> None:
        """Remove the empty groups whose names begin so."""
        for base in dict.fromkeys(self.bases.values()):
            with contextlib.suppress(FileNotFoundError):
                remove([entry.path for entry in os.scandir(base) if entry.name.startswith(prefix)])


def detect(*, proc: str = "/proc", folder: str = FOLDER) -> Cgroups | None:
    """Find out where this process may make groups; None where it may not. Makes the folder that they go to."""
    own = _own_groups(Path(f"{proc}/self/cgroup").read_text())
    mounts = _mounts(Path(f"{proc}/self/mounts").read_text())
    bases = _detect_v1(own, mounts, folder) or _detect_v2(own, mounts, folder)
    return Cgroups(bases) if bases else None


def find(*, proc: str = "/proc", folder: str = FOLDER) -> Cgroups | None:
    """Tell where a launcher with root makes groups, without the rights to make any. It runs in the same group as we do."""
    own = _own_groups(Path(f"{proc}/self/cgroup").read_text())
    mounts = _mounts(Path(f"{proc}/self/mounts").read_text())
    if "memory" in mounts:
        controllers = [name for name in _V1_CONTROLLERS if name in mounts and name in own]
        return Cgroups({name: os.path.normpath(f"{mounts[name]}/{own[name]}/{folder}") for name in controllers})
    if "unified" in mounts:
        parent = own.get("", "").removesuffix(f"/{folder}-platform")
        path = os.path.normpath(f"{mounts['unified']}/{parent}/{folder}")
        return Cgroups({"unified": path}) if os.path.isdir(path) else None
    return None


def _detect_v1(own: Mapping[str, str], mounts: Mapping[str, str], folder: str) -> dict[str, str]:
    bases = {}
    for controller in _V1_CONTROLLERS:
        if controller in mounts and controller in own:
            base = _base(mounts[controller], own[controller], folder)
            if base:
                bases[controller] = base
    return bases if "memory" in bases or "pids" in bases else {}


def _base(mount: str, group: str, folder: str) -> str | None:
    """Give our folder below our own group, else (the mount shows only a part of the tree) below what is mounted."""
    for parent in (os.path.normpath(f"{mount}/{group}"), mount):
        path = f"{parent}/{folder}"
        try:
            os.makedirs(path, exist_ok=True)
            os.chmod(path, 0o755)  # noqa: S103 - the platform without root reads what its launcher makes, also an older one.
        except OSError:
            continue
        if os.access(f"{path}/cgroup.procs", os.W_OK):
            return path
    return None


def _detect_v2(own: Mapping[str, str], mounts: Mapping[str, str], folder: str) -> dict[str, str]:
    if "" not in own or "unified" not in mounts:
        return {}
    parent = os.path.normpath(f"{mounts['unified']}/{own['']}")
    if parent.endswith(f"/{folder}-platform"):
        parent = os.path.dirname(parent)  # An earlier start of ours moved us there.
    try:
        available = Path(f"{parent}/cgroup.controllers").read_text().split()
        if "memory" not in available:
            return {}
        _hand_down(parent, available, folder)
        base = _base(parent, "/", folder)
        if base is None:
            return {}
        _enable(base, available)
    except OSError:
        return {}
    return {"unified": base}


def _hand_down(parent: str, available: Sequence[str], folder: str) -> None:
    try:
        _enable(parent, available)
    except OSError:
        if not _is_delegated(parent):
            raise
        ours = f"{parent}/{folder}-platform"
        os.makedirs(ours, exist_ok=True)
        for pid in Path(f"{parent}/cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                Path(f"{ours}/cgroup.procs").write_text(pid)
        _enable(parent, available)


def _is_delegated(path: str) -> bool:
    """systemd marks what it delegates (systemd.resource-control(5), `Delegate=`)."""
    for attribute in ("trusted.delegate", "user.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(path, attribute) == b"1":
                return True
    return False


def _enable(path: str, available: Sequence[str]) -> None:
    Path(f"{path}/cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in _V2_CONTROLLERS if name in available))
    for name in _V2_OPTIONAL:
        with contextlib.suppress(OSError):
            Path(f"{path}/cgroup.subtree_control").write_text(f"+{name}")


def _own_groups(text: str) -> dict[str, str]:
    """Map each controller to our group; version 2 has the empty name."""
    groups = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = path
    return groups


def _mounts(text: str) -> dict[str, str]:
    mounts: dict[str, str] = {}
    for line in text.splitlines():
        _, target, kind, options, *_ = line.split(" ")
        if kind == "cgroup2":
            mounts.setdefault("unified", target)
        elif kind == "cgroup":
            for option in options.split(","):
                if option in _V1_CONTROLLERS:
                    mounts.setdefault(option, target)
    return mounts


def _limit(controller: str, path: str, limits: Limits) -> None:
    cpu_quota = max(1_000, limits.cpu_millis * _CPU_PERIOD_MICROSECONDS // 1000)  # The kernel's least is 1 ms.
    if controller in ("memory", "unified") and limits.memory_bytes:
        if controller == "memory":
            _write(f"{path}/memory.limit_in_bytes", str(limits.memory_bytes))
            with contextlib.suppress(OSError):
                _write(f"{path}/memory.memsw.limit_in_bytes", str(limits.memory_bytes))
        else:
            _write(f"{path}/memory.max", str(limits.memory_bytes))
            for file, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
                with contextlib.suppress(OSError):
                    _write(f"{path}/{file}", value)
    if controller in ("pids", "unified") and limits.processes_max:
        _write(f"{path}/pids.max", str(limits.processes_max))
    if controller in ("cpu", "unified") and limits.cpu_millis:
        if controller == "cpu":
            _write(f"{path}/cpu.shares", str(max(2, limits.cpu_millis * 1024 // 1000)))
            _write(f"{path}/cpu.cfs_quota_us", str(cpu_quota))
        else:
            _write(f"{path}/cpu.weight", str(min(10_000, max(1, limits.cpu_millis // 10))))
            _write(f"{path}/cpu.max", f"{cpu_quota} {_CPU_PERIOD_MICROSECONDS}")


def pin(groups: Sequence[str], cores: Sequence[int]) -> None:
    """Let a task's group run on these cores only; on all that ours may where none is named.

    Only version 2 with the controller `cpuset` holds it against a task that asks for other cores itself; elsewhere the affinity
    of its processes alone says where they run.
    """
    for path in groups:
        if os.path.exists(f"{path}/cpuset.cpus"):
            with contextlib.suppress(OSError):
                _write(f"{path}/cpuset.cpus", ",".join(map(str, cores)) or "\n")


def members(groups: Sequence[str]) -> set[int]:
    """Give the pids in a task's groups; all controllers hold the same ones, so the first that is there decides.

    Raises PermissionError where they cannot be read: that is not the same as empty.
    """
    for path in groups:
        try:
            with open(f"{path}/cgroup.procs", encoding="ascii") as file:
                return {int(pid) for pid in file.read().split()}
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENODEV):
                raise
    return set()


def places(groups: Sequence[str], *, proc: str = "/proc") -> tuple[tuple[str, str], ...]:
    """Pair each group with the place where its tree is mounted, as far as that is below `/sys/fs/cgroup`."""
    mounted = sorted(set(_mounts(Path(f"{proc}/self/mounts").read_text()).values()), key=len, reverse=True)
    found = ((group, next((place for place in mounted if group.startswith(f"{place}/")), "")) for group in groups)
    return tuple((group, place) for group, place in found if place == TREES or place.startswith(f"{TREES}/"))


def kill(groups: Sequence[str], *, forbid_new: bool) -> None:
    """Kill the whole group at once where the kernel can (version 2, Linux 5.14).

    `forbid_new` lets it make no further process: for one that forks as fast as it is killed, and not before, because a
    shell that cannot fork ends by itself with a code that says nothing of the kill.
    """
    files = (("cgroup.kill", "1"), ("pids.max", "0")) if forbid_new else (("cgroup.kill", "1"),)
    for path in groups:
        for file, value in files:
            with contextlib.suppress(OSError):
                _write(f"{path}/{file}", value)


def remove(groups: Sequence[str]) -> bool:
    """Remove a task's groups; False while something is still in them."""
    removed = True
    for path in groups:
        try:
            os.rmdir(path)
        except FileNotFoundError:
            continue
        except OSError:
            removed = False
    return removed


def memory_kills(groups: Sequence[str]) -> MemoryKills:
    """Read what the kernel counted; zeros where the groups are gone or do not limit memory."""
    for path in groups:
        events = _pairs(_read(f"{path}/memory.events"))
        if events:
            return MemoryKills(
                events.get("oom_kill", 0),
                events.get("oom", 0),
                _number(f"{path}/memory.peak"),
                _number(f"{path}/memory.max"),
            )
        control = _pairs(_read(f"{path}/memory.oom_control"))
        if control:
            peak, limit = _number(f"{path}/memory.max_usage_in_bytes"), _number(f"{path}/memory.limit_in_bytes")
            reached = peak >= limit - limit // 64  # Version 1 has no event of its own; pages are charged in batches.
            return MemoryKills(control.get("oom_kill", 0), int(reached), peak, limit)
    return MemoryKills()


def usage(groups: Sequence[str]) -> Usage:
    """Read what a task's groups use now."""
    cpu = memory = processes = None
    read_bytes = write_bytes = None
    for path in groups:
        if (text := _read(f"{path}/cpuacct.usage")) is not None:
            cpu = int(text)
        elif stat := _pairs(_read(f"{path}/cpu.stat")):
            cpu = stat["usage_usec"] * 1000 if "usage_usec" in stat else cpu
        if (stat := _pairs(_read(f"{path}/memory.stat"))) and memory is None:
            # Resident memory: anonymous and mapped pages; the page cache is given back under pressure.
            memory = (
                stat["total_rss"] + stat.get("total_shmem", 0)
                if "total_rss" in stat
                else stat.get("anon", 0) + stat.get("shmem", 0)
            )
        if (text := _read(f"{path}/pids.current")) is not None:
            processes = int(text)
        if text := _read(f"{path}/io.stat"):
            values = [item.split("=") for line in text.splitlines() for item in line.split()[1:]]
            read_bytes = sum(int(value) for key, value in values if key == "rbytes")
            write_bytes = sum(int(value) for key, value in values if key == "wbytes")
    return Usage(cpu, memory, processes, read_bytes, write_bytes)


def _write(path: str, value: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return None


def _pairs(text: str | None) -> dict[str, int]:
    lines = (line.split() for line in (text or "").splitlines())
    return {parts[0]: int(parts[1]) for parts in lines if len(parts) == 2 and parts[1].isdigit()}


def _number(path: str) -> int:
    text = (_read(path) or "").strip()
    return int(text) if text.isdigit() else 0
