"""Start a program in the view of a task in a container image: the launcher's side of `becoming`.

The launcher opens the task's namespaces and hands them over; it touches nothing that lies in them, and runs nothing there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from clusters.engines.local import processes
from clusters.engines.local.launching import becoming, syscalls, wire
from clusters.engines.local.launching.verbs import Owner

_SECONDS = 20.0  # An interpreter starts in a tenth of a second; a machine under load takes its time.
_NS_GET_USERNS = 0xB701  # linux/nsfs.h: the user namespace that another namespace belongs to.
_TERMINALS = (5, 2)  # Device numbers of our end of a terminal: Documentation/admin-guide/devices.txt of Linux.
_DESCRIPTOR_FLOOR = 20  # Above the numbers that the process is given.
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
_KINDS = {
    "cgroup": 0x02000000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "mnt": 0x00020000,
}
"""CLONE_NEWCGROUP, NEWUTS, NEWIPC, NEWPID, NEWNET, NEWNS: linux/sched.h. The mounts come last, and between two user namespaces:
bubblewrap makes one in which it builds the view, and a second one below it for the task."""
_USER = 0x10000000


@dataclass(frozen=True, slots=True)
class Entrance:
    """What a program is started with. `owner` None: as this process. `size` None: plain pipes, else rows and columns."""

    frame: processes.Process
    owner: Owner | None
    groups: tuple[str, ...]
    filtered: bool
    argv: tuple[str, ...]
    size: tuple[int, int] | None


def enter(entrance: Entrance, *, standard: tuple[int, int], script: int) -> tuple[int, int | None]:
    """Start it; gives the pid of the child that brings its end home, and our end of its terminal.

    `standard` is what it reads and where it prints, without a terminal; `script` is read by its shell first. OSError where the
    task is gone, or its view cannot be entered.
    """
    with contextlib.ExitStack() as opened:
        spaces = _open_spaces(entrance.frame, opened)
        if not processes.is_alive(entrance.frame.pid, entrance.frame.start_ticks):
            raise _gone()  # What was opened may be another's.
        program = syscalls.open_compiled(syscalls.Filter.TASK) if entrance.filtered else None
        if program is not None:
            opened.callback(os.close, program)
        ours, theirs = map(opened.enter_context, socket.socketpair())
        order = {
            "spaces": [(_path(descriptor), kind) for descriptor, kind in spaces],
            "joins": [f"{group}/cgroup.procs" for group in entrance.groups],
            "owner": None if entrance.owner is None else asdict(entrance.owner),
            "filter": "" if program is None else _path(program),
            "terminal": entrance.size is not None,
            "rows": entrance.size[0] if entrance.size else 0,
            "columns": entrance.size[1] if entrance.size else 0,
        }
        given = {0: standard[0], 1: standard[1], 2: standard[1], becoming.SCRIPT: script, becoming.REPORT: theirs.fileno()}
        pid = _start([json.dumps(order), *entrance.argv], given)
        theirs.close()
        try:
            return pid, _hear(ours, entrance)
        except BaseException:
            os.kill(pid, signal.SIGKILL)  # Our own child, not collected yet: the number is no other process's.
            os.waitpid(pid, 0)
            raise


def _open_spaces(frame: processes.Process, opened: contextlib.ExitStack) -> list[tuple[int, int]]:
    """The namespaces in which the task is and we are not, in the order in which they are entered."""
    found = []
    for name, kind in _KINDS.items():
        with contextlib.suppress(FileNotFoundError):  # A kernel without this kind, or the task is gone, which is looked at next.
            path = f"/proc/{frame.pid}/ns/{name}"
            if os.stat(path).st_ino != os.stat(f"/proc/self/ns/{name}").st_ino:
                found.append((_open(path, opened), kind))
    if not found or found[-1][1] != _KINDS["mnt"]:
        raise _gone()
    inner = _open(f"/proc/{frame.pid}/ns/user", opened)
    outer = fcntl.ioctl(found[-1][0], _NS_GET_USERNS)  # Of the mounts: a container always has its own.
    opened.callback(os.close, outer)
    both = [outer] if os.fstat(outer).st_ino == os.fstat(inner).st_ino else [outer, inner]
    return [(outer, _USER), *found, *((descriptor, _USER) for descriptor in both[1:])]


def _open(path: str, opened: contextlib.ExitStack) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    opened.callback(os.close, descriptor)
    return descriptor


def _path(descriptor: int) -> str:
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def _start(arguments: Sequence[str], given: Mapping[int, int]) -> int:
    line = [sys.executable, "-I", "-S", "-B", becoming.__file__, *arguments]
    with contextlib.ExitStack() as opened:
        lifted = {}
        for number, source in given.items():
            lifted[number] = fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, _DESCRIPTOR_FLOOR)
            opened.callback(os.close, lifted[number])
        return os.posix_spawn(
            line[0],
            line,
            _ENVIRONMENT,
            file_actions=[(os.POSIX_SPAWN_DUP2, source, number) for number, source in lifted.items()],
            setsid=True,
            setsigmask=[],
            setsigdef=[number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)],
        )


def _hear(ours: socket.socket, entrance: Entrance) -> int | None:
    """Wait until the program runs; our end of its terminal."""
    ours.settimeout(_SECONDS)
    received: tuple[int, ...] = ()
    number = errno.EIO
    try:
        message, received = wire.receive(ours)
        number = message["error"]
        if number is None and len(received) == (entrance.size is not None) and all(map(_is_terminal, received)):
            return received[0] if received else None
    except (wire.Broken, TimeoutError):
        pass
    for descriptor in received:
        os.close(descriptor)
    if not processes.is_alive(entrance.frame.pid, entrance.frame.start_ticks):
        raise _gone()
    number = number or errno.EIO
    raise OSError(number, f"The view of the task cannot be entered: {os.strerror(number)}")


def _is_terminal(descriptor: int) -> bool:
    found = os.fstat(descriptor)
    return stat.S_ISCHR(found.st_mode) and (os.major(found.st_rdev), os.minor(found.st_rdev)) == _TERMINALS


def _gone() -> OSError:
    return ProcessLookupError(errno.ESRCH, "The task does not run any more")
