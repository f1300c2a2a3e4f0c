"""Processes that the supervisor starts: each has a role, says when it is ready, is asked to end and then killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from controlplane.processes.signs import LISTEN_FD, READY_FD, SUPERVISOR

READY_TARGET, LISTEN_TARGET = 3, 4  # The numbers under which a child finds what it is given.
LIFT_FLOOR = 10
_RESET_SIGNALS = [number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]


@dataclass(slots=True)
class Child:
    """One process. Times are of the monotonic clock, which a supervisor that replaced itself goes on with."""

    role: str
    pid: int
    started_at: float
    ready_fd: int  # The reading end of its pipe; -1 once it has spoken or closed it.
    is_ready: bool = False
    kill_at: float = 0.0  # Asked to end; past this it is killed.

    @property
    def is_ending(self) -> bool:
        return self.kill_at > 0

    def hear(self) -> None:
        """Read what it says; call it when the pipe has something."""
        word = b""
        with contextlib.suppress(OSError):
            word = os.read(self.ready_fd, 64)
        self.is_ready = self.is_ready or word.startswith(b"ready")
        self.forget_pipe()

    def forget_pipe(self) -> None:
        if self.ready_fd >= 0:
            os.close(self.ready_fd)
            self.ready_fd = -1

    def ask_to_end(self, *, within_seconds: float) -> None:
        """SIGTERM once; `kill_overdue` does the rest."""
        if not self.is_ending:
            self.kill_at = time.monotonic() + within_seconds
            self.send(signal.SIGTERM)

    def kill_overdue(self) -> bool:
        """Kill it if its time is over; whether that was so."""
        if not self.is_ending or time.monotonic() < self.kill_at:
            return False
        self.send(signal.SIGKILL)
        self.kill_at = time.monotonic() + 1.0
        return True

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def document(self) -> dict[str, Any]:
        """Itself as JSON can hold it."""
        return asdict(self)


def start(role: str, program: list[str], *, environment: Mapping[str, str], listener: int | None) -> Child:
    """Start `program` in a process group of its own, with a pipe to say that it is ready and, if given, the listening socket."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    reading, writing = lift(reading), lift(writing)
    actions: list[tuple[Any, ...]] = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, writing, READY_TARGET),
    ]
    given = {READY_FD: str(READY_TARGET), SUPERVISOR: str(os.getpid())}
    if listener is not None:
        actions.append((os.POSIX_SPAWN_DUP2, listener, LISTEN_TARGET))
        given[LISTEN_FD] = str(LISTEN_TARGET)
    try:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, *program],
            {**environment, **given},
            file_actions=actions,
            setpgroup=0,  # A terminal's Ctrl+C is the supervisor's, which then ends all in order.
            setsigmask=[],
            setsigdef=_RESET_SIGNALS,
        )
    finally:
        os.close(writing)
    return Child(role, pid, time.monotonic(), reading)


def lift(descriptor: int) -> int:
    """Move a descriptor above the numbers that a child is given; it closes when a program is run."""
    lifted = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, LIFT_FLOOR)
    os.close(descriptor)
    return lifted
