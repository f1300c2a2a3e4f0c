"""How a process and its supervisor speak: the process says that it is ready, and ends when its supervisor has died.

Two who may have started it: our supervisor (a pipe whose number is in the environment) and systemd (`Type=notify`: a
datagram to the socket of NOTIFY_SOCKET, sd_notify(3)). Standard library only: the launcher, which has root, uses it, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys

READY_FD = "BERTH_READY_FD"
LISTEN_FD = "BERTH_LISTEN_FD"
SUPERVISOR = "BERTH_SUPERVISOR_PID"
_SYSTEMD_FIRST_FD = 3  # SD_LISTEN_FDS_START of sd_listen_fds(3)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def say_ready() -> None:
    """Say once that this process does its work."""
    number = os.environ.pop(READY_FD, "")
    if number.isdigit():
        with contextlib.suppress(OSError):
            os.write(int(number), b"ready\n")
            os.close(int(number))
    _tell_systemd(b"READY=1")


def say_stopping() -> None:
    """Say that this process ends what it has in hand."""
    _tell_systemd(b"STOPPING=1")


def end_with_supervisor() -> None:
    """Have the kernel send us SIGTERM when the supervisor dies. Call it after the change of users, which would undo it."""
    pid = os.environ.get(SUPERVISOR, "")
    if not pid.isdigit():
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != int(pid):
        sys.exit(0)  # It died before we asked.


def given_listener() -> socket.socket | None:
    """The listening socket that the supervisor or systemd opened for all web processes, if one did.

    One queue of connections for all: what waits in it is lost neither when a process is replaced nor when it dies.
    """
    number = os.environ.pop(LISTEN_FD, "")
    if number.isdigit():
        return socket.socket(fileno=int(number))
    if os.environ.pop("LISTEN_PID", "") == str(os.getpid()) and os.environ.pop("LISTEN_FDS", "") == "1":
        return socket.socket(fileno=_SYSTEMD_FIRST_FD)
    return None


def _tell_systemd(word: bytes) -> None:
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
        to.sendto(word, "\0" + address[1:] if address.startswith("@") else address)
