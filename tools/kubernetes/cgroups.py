"""The control groups of a node: a root of its own for the kubelet, on cgroup v1 (each controller by itself), hybrid and v2."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
PREFIX = "berth-kubernetes-"  # All clusters are side by side: a group above them would be one that two make and remove at once.
CONTROLLERS = ("cpu", "cpuset", "memory", "pids", "io", "hugetlb")  # What a kubelet asks for on v2, where it is there.
EMPTY_SECONDS_MAX = 30.0  # A process that was killed leaves its group when it has really ended.


def make_cgroup(name: str) -> str:
    """Make the group in each hierarchy; its path for `cgroupRoot`."""
    for root in _hierarchies():
        group = root / f"{PREFIX}{name}"
        group.mkdir(exist_ok=True)
        _delegate(root)
        _inherit_cpuset(group)
    return f"/{PREFIX}{name}"


def remove_cgroup(name: str) -> None:
    """Remove the group with those below it, once their processes have ended. Nothing if there is none."""
    for root in _hierarchies():
        _remove_tree(root / f"{PREFIX}{name}")


def cgroups_of(cluster: str) -> list[str]:
    """The names of the groups that were made for a cluster, which begin with its own."""
    found = {path.name for root in _hierarchies() for path in root.glob(f"{PREFIX}{cluster}-*")}
    return sorted(name.removeprefix(PREFIX) for name in found)


def _hierarchies() -> list[Path]:
    """The only one of v2; of v1 one for each controller, with what is mounted beside them."""
    if (MOUNT / "cgroup.controllers").exists():
        return [MOUNT]
    return sorted(path for path in MOUNT.iterdir() if path.is_dir() and not path.is_symlink() and os.path.ismount(path))


def _delegate(group: Path) -> None:
    """v2: groups below may use the controllers that this one has."""
    with contextlib.suppress(FileNotFoundError):
        available = set((group / "cgroup.controllers").read_text().split())
        for controller in CONTROLLERS:
            if controller in available:
                (group / "cgroup.subtree_control").write_text(f"+{controller}")


def _inherit_cpuset(group: Path) -> None:
    """v1: a new group has no processor and no memory node, and no process may enter it."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        with contextlib.suppress(FileNotFoundError):
            inherited = (group.parent / name).read_text()
            if not (group / name).read_text().strip():
                (group / name).write_text(inherited)


def _remove_tree(group: Path) -> None:
    deadline = time.monotonic() + EMPTY_SECONDS_MAX
    while group.exists():
        for folder, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        if group.exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{group} has processes still: {(group / 'cgroup.procs').read_text().split()}")
            time.sleep(0.05)
