"""Enter the view of a task in a container image, and start a program there. A process of its own, which `entering` starts.

The image is a stranger's, and so is all that runs in it. What the process may do is therefore given up before it touches
anything of theirs, in an order that the kernel holds it to:

1. With the launcher's rights it opens the namespaces that it was given by descriptor, and joins the task's control groups.
2. It becomes the tenant for good: groups, user, and with the user every capability of the host.
3. It enters the task's namespaces. bubblewrap made them with the tenant's rights, so their owner may enter them; if they were
   somebody else's, it could not, or would gain nothing.
4. It gives up the capabilities that a process gets in a user namespace that it enters, and those that it could ever get.
5. Only then it opens the terminal by its name, makes the child that belongs to the sandbox's processes, loads the task's filter
   of system calls in it, and becomes the image's shell, with an empty environment and no descriptors but its own three and the
   script.

nsenter, setsid and setpriv cannot do this: the mount namespace is entered before the inner user namespace, and the next program
in the line would be the image's, with capabilities over the view. Here everything is in memory by then: between 3 and 5 no file
is read and no module is loaded. Nor can the tenant's processes look in: the process cannot be traced until it is their shell.

A second bubblewrap with the same arguments would be simpler, but show another view: other processes, another /dev/shm, mounts
made anew; and it would not end with the task.

It uses nothing of the platform, and runs as `python -I -S becoming.py ORDER program arguments`.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
import termios
from collections.abc import Sequence
from typing import Any

SCRIPT, REPORT = 3, 4
"""Descriptors: what the shell reads before it becomes the program, and the connection on which the launcher hears of it."""

_SHELL = "/bin/sh"
_BECOME = f'. /proc/self/fd/{SCRIPT} && exec {SCRIPT}<&-\nexec "$@"'
_TERMINAL = "/dev/pts/ptmx"
_TIOCSPTLCK, _TIOCGPTPEER = 0x40045431, 0x5441  # asm-generic/ioctls.h: the lock of a new terminal; its other end, by descriptor.
_SET_PARENT_DEATH_SIGNAL, _SET_DUMPABLE, _SET_SECCOMP, _DROP_BOUNDING = 1, 4, 22, 24  # prctl(2), linux/prctl.h.
_SET_NO_NEW_PRIVILEGES, _AMBIENT, _AMBIENT_CLEAR_ALL = 38, 47, 4
_MODE_FILTER, _INSTRUCTION_BYTES = 2, 8  # linux/seccomp.h; struct sock_filter: linux/filter.h.
_CAPABILITIES_VERSION = 0x20080522  # linux/capability.h, version 3: two words for each of three sets.
_CAPABILITIES_END = 64
_DESCRIPTORS_END = 1 << 30

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    """struct sock_fprog: linux/filter.h."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def main(arguments: Sequence[str]) -> None:
    """Carry out an order; never returns. Ends with the program's code, or with 126 where the report says what went wrong."""
    sys.excepthook = lambda *_: os._exit(126)  # Not to look for source lines in the image.
    order: dict[str, Any] = json.loads(arguments[0])
    try:
        child, master = _enter(order, arguments[1:])
    except OSError as error:
        _report({"error": error.errno or 0})
        os._exit(126)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # A stop of the task is the program's to answer, not ours.
    _report({"error": None}, master)
    os.closerange(0, _DESCRIPTORS_END)  # The end of its output is the program's, not ours.
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _enter(order: dict[str, Any], argv: Sequence[str]) -> tuple[int, int | None]:
    """The child that becomes the program, and our end of its terminal. Raises OSError."""
    spaces = [(os.open(path, os.O_RDONLY | os.O_CLOEXEC), kind) for path, kind in order["spaces"]]
    instructions = _read(order["filter"]) if order["filter"] else b""
    for path in order["joins"]:
        with open(path, "wb", buffering=0) as file:
            file.write(b"0")
    _give_up_users(order["owner"])
    for descriptor, kind in spaces:
        _check(_libc.setns(descriptor, kind))
        os.close(descriptor)
    _give_up_capabilities()
    os.chdir("/")
    master = _open_terminal(order["rows"], order["columns"]) if order["terminal"] else None
    child = os.fork()
    if not child:
        _become(argv, master, instructions)
    return child, master


def _give_up_users(owner: dict[str, Any] | None) -> None:
    """Become the tenant, out of reach of the tenant's other processes. None: the launcher has no rights, and is the tenant."""
    if owner is not None:
        os.setgroups(owner["groups"])
        os.setresgid(owner["gid"], owner["gid"], owner["gid"])
        os.setresuid(owner["uid"], owner["uid"], owner["uid"])
    _prctl(_SET_NO_NEW_PRIVILEGES, 1)
    _prctl(_SET_DUMPABLE, 0)


def _give_up_capabilities() -> None:
    """Those that entering a user namespace has given, in every set; a program that is started gets none, either."""
    for number in range(_CAPABILITIES_END):
        if _libc.prctl(_DROP_BOUNDING, *map(ctypes.c_ulong, (number, 0, 0, 0))) != 0:
            break  # The kernel knows no further ones.
    _prctl(_AMBIENT, _AMBIENT_CLEAR_ALL)
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0), (ctypes.c_uint32 * 6)()
    _check(_libc.capset(header, none))


def _open_terminal(rows: int, columns: int) -> int:
    """Our end of a terminal of the sandbox, whose own name programs in it can open."""
    master = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC)
    fcntl.ioctl(master, _TIOCSPTLCK, struct.pack("i", 0))
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    return master


def _become(argv: Sequence[str], master: int | None, instructions: bytes) -> None:
    """In the child: become the program. Never returns."""
    try:
        _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)  # It lives no longer than what brings its end home.
        os.setsid()
        if master is not None:
            slave = fcntl.ioctl(master, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY)
            os.fchmod(slave, 0o600)
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for number in range(SCRIPT):
                os.dup2(slave, number)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # The interpreter ignores them.
            signal.signal(number, signal.SIG_DFL)
        os.closerange(REPORT, _DESCRIPTORS_END)
        if instructions:
            filled = _Program(len(instructions) // _INSTRUCTION_BYTES, instructions)
            _check(_libc.prctl(_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), ctypes.byref(filled), *map(ctypes.c_ulong, (0, 0))))
        os.execve(_SHELL, [_SHELL, "-c", _BECOME, "berth-exec", *argv], {})  # noqa: S606 - the tenant's, in its view.
    except OSError as error:
        os.write(2, f"berth: {_SHELL} of the image cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(126)


def _report(message: dict[str, Any], descriptor: int | None = None) -> None:
    """As `wire.send` does."""
    body = json.dumps(message).encode()
    rights = [] if descriptor is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
    with socket.socket(fileno=REPORT) as connection:
        connection.sendmsg([struct.pack("!I", len(body))], rights)
        connection.sendall(body)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _prctl(option: int, value: int) -> None:
    _check(_libc.prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0))))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    main(sys.argv[1:])
