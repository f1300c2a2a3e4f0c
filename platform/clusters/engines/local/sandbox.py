"""The bubblewrap command line around a task: what of the host it sees, and nothing else.

bubblewrap runs with the launcher's rights and only builds the view; the task's shell starts inside it after setpriv has
dropped to the tenant. Nothing that a user wrote reaches this command line but mount targets, each one argument.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from clusters.engines.local import passwd
from clusters.engines.local.cgroups import TREES
from clusters.engines.local.containers.view import root_view
from clusters.engines.local.launching.verbs import StartMount

INSIDE = "/berth"
WORK, HOME, FILES, TEMPORARY = f"{INSIDE}/work", f"{INSIDE}/home", f"{INSIDE}/files", "/tmp"  # noqa: S108 - the task's private one.
CHECKPOINT = f"{INSIDE}/checkpoint"  # Beside the working directory: below it, tasks could put a link in the way of the mount.
_SHM_BYTES = 64 * 1024 * 1024  # As container runtimes have it.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/sys", "/nix/store")
_RESOLVER = ("/run/systemd/resolve", "/run/resolvconf", "/run/nscd")
_HOST_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/hostname")  # Of a container: names are found as on the host.
_OTHERS_KEYS = ("/proc/keys", "/proc/key-users")  # Of all users of the kernel, whatever the namespace.
RESERVED_TARGETS = (*_SYSTEM, "/proc", "/dev", "/run", INSIDE)


@dataclass(frozen=True, slots=True)
class View:
    """Host directories that make up one task's view."""

    work: str
    home: str
    temporary: str
    files: str = ""
    image: str = ""
    checkpoint: str = ""
    users: str = ""  # A folder with the files passwd and group that it sees, as far as they are there.
    mounts: tuple[StartMount, ...] = ()
    devices: tuple[str, ...] = ()
    shm_bytes: int = 0
    network: bool = True
    groups: tuple[tuple[str, str], ...] = ()  # The task's own control groups, and where each is seen.
    root: str = ""  # An unpacked container image; empty: the host's own system.
    filter: int | None = None  # The descriptor of the compiled filter of system calls; None: none is loaded.
    builds_image: bool = False  # bubblewrap has the tenant's own rights, and gives those of user 0 in a namespace of that user.


@functools.cache
def bubblewrap() -> str | None:
    """Give bubblewrap's path if it is installed and really works for this user, else None."""
    path = shutil.which("bwrap")
    if path is None:
        return None
    probe = [path, *_system(), "--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--size", "4096", "--tmpfs", "/dev/shm"]  # noqa: S108
    try:
        done = subprocess.run(
            [*probe, "--unshare-pid", "--unshare-ipc", "--", "/bin/true"], capture_output=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return path if done.returncode == 0 else None


def command(program: str, view: View) -> list[str]:
    """Build the command line up to and with the `--` before the program. Raises CannotShow of a container image."""
    if view.root:
        return _container_command(program, view)
    line = [program, *_system()]
    line += ["--proc", "/proc", "--dev", "/dev"]
    line += ["--perms", "1777", "--size", str(view.shm_bytes or _SHM_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108
    line += ["--bind", view.temporary, TEMPORARY, "--perms", "0755", "--dir", "/var", "--symlink", "../tmp", "/var/tmp"]  # noqa: S108
    line += _control_groups(view)
    for path in filter(os.path.exists, _OTHERS_KEYS):
        line += ["--ro-bind", "/dev/null", path]
    for path in _RESOLVER:
        line += ["--ro-bind-try", path, path]
    line += _users(view)
    binds = [("--dev-bind-try", device, device) for device in view.devices]
    binds += [("--bind", view.work, WORK), ("--bind", view.home, HOME)]
    if view.files:
        binds.append(("--ro-bind", view.files, FILES))
    if view.image:
        binds.append(("--ro-bind", view.image, view.image))
    if view.checkpoint:
        binds.append(("--bind", view.checkpoint, CHECKPOINT))
    for mount in sorted(view.mounts, key=lambda item: item.target):
        binds.append(("--ro-bind" if mount.read_only else "--bind", mount.source, mount.target))
    made = {TEMPORARY, "/dev"}
    for option, source, target in binds:
        for parent in _parents(target):
            if parent not in made:
                made.add(parent)
                line += ["--perms", "0755", "--dir", parent]
        made.add(target)
        line += [option, source, target]
    return [*line, *_closing(view)]


def _container_command(program: str, view: View) -> list[str]:
    """The same in a container image. bubblewrap has the tenant's own rights then: others made what is in it."""
    mounts = sorted(view.mounts, key=lambda item: item.target)
    shown = root_view(view.root, [mount.target for mount in mounts])
    line = [program, *shown.line, "--proc", "/proc", "--dev", "/dev", "--ro-bind", "/sys", "/sys"]
    line += ["--perms", "1777", "--size", str(view.shm_bytes or _SHM_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108
    line += ["--bind", view.temporary, TEMPORARY, "--bind", view.temporary, "/var/tmp"]  # noqa: S108
    line += _control_groups(view)
    for path in filter(os.path.exists, _OTHERS_KEYS):
        line += ["--ro-bind", "/dev/null", path]
    for path in _HOST_FILES:
        line += ["--ro-bind-try", os.path.realpath(path), path]
    line += _users(view)
    for device in view.devices:
        line += ["--dev-bind-try", device, device]
    line += ["--bind", view.work, WORK, "--bind", view.home, HOME]
    line += ["--ro-bind", view.files, FILES] if view.files else []
    line += ["--bind", view.checkpoint, CHECKPOINT] if view.checkpoint else []
    for mount, place in zip(mounts, shown.places, strict=True):
        for parent in place.missing:
            line += ["--perms", "0755", "--dir", parent]
        line += ["--ro-bind" if mount.read_only else "--bind", mount.source, place.path]
    for path in shown.made:
        line += ["--remount-ro", path]
    return [*line, *_closing(view)]


def _closing(view: View) -> list[str]:
    line = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if view.builds_image:
        line += ["--unshare-user", "--uid", "0", "--gid", "0", "--cap-add", "ALL"]
    if not view.network:
        line.append("--unshare-net")
    if view.filter is not None:
        line += ["--seccomp", str(view.filter)]
    return [*line, "--"]


def _users(view: View) -> list[str]:
    """Files over files: the launcher makes one only where the system has a regular file to be covered."""
    names = (passwd.PASSWD, passwd.GROUP) if view.users else ()
    return [word for name in names for word in ("--ro-bind-try", f"{view.users}/{name}", f"/etc/{name}")]


def _control_groups(view: View) -> list[str]:
    """Show the task's own groups where the host mounts the whole trees: runtimes size themselves by what they read there."""
    if not os.path.isdir(TREES):
        return []
    line = []
    if TREES not in (target for _, target in view.groups):  # Version 1 has a tree for each controller, below it.
        line += ["--tmpfs", TREES]
    for source, target in view.groups:
        line += ["--ro-bind", source, target]
    return [*line, "--remount-ro", TREES]


def refuse_target(target: str, others: Sequence[str]) -> str:
    """Say why a mount cannot appear there, or "" if it can. `others`: targets of all mounts, and where an image appears."""
    crooked = os.path.normpath(target) != target or target.startswith("//")  # normpath keeps two slashes in front.
    if not target.startswith("/") or crooked or target == "/" or "\0" in target:
        return f"{target!r} is not a normal absolute path"
    # Below the private /tmp a mount hides nothing; the directory itself belongs to the task.
    if target == TEMPORARY or any(target == taken or target.startswith(taken + "/") for taken in RESERVED_TARGETS):
        return f"{target} is part of the system inside a job"
    if others.count(target) > 1:
        return f"{target} is the target of two mounts"
    return refuse_below(target, others)


def refuse_below(target: str, others: Sequence[str]) -> str:
    """Say that a mount lies below another one, or "".

    bubblewrap has the platform's rights and follows links on the way to a target. So none may lie below a directory in which a
    tenant can put a link: it would lead to the host's directories, or over the programs that give the rights up.
    """
    above = next((other for other in others if target.startswith(f"{other}/")), "")
    return f"{target} lies below {above}, which is a mount itself: choose targets beside each other" if above else ""


def _parents(target: str) -> list[str]:
    """Give the directories above a target, outermost first. bubblewrap would make them as closed as the source is."""
    parts = target.strip("/").split("/")[:-1]
    return ["/" + "/".join(parts[: depth + 1]) for depth in range(len(parts))]


def _system() -> list[str]:
    line: list[str] = []
    for path in _SYSTEM:
        if os.path.islink(path):
            line += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            line += ["--ro-bind", path, path]
    return line
