"""Process ids that files keep, for processes that outlive their parents.

A process id is kept with the time at which its process started, as the kernel counts it: a dead process's id may be
another's by now.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from tools.progress import Stop

FORK_SECONDS_MAX = 30.0  # A machine that is busy with other tests.
KILL_SECONDS_MAX = 60.0  # A process that waits for the disk dies when the disk has answered.
POLL_SECONDS = 0.02

# Children of this process, kept until they have ended: the kernel keeps the entry of a child that is not collected.
_children: list[subprocess.Popen[bytes]] = []


def adopt(child: subprocess.Popen[bytes]) -> None:
    """Collect this child when it ends, whenever that is."""
    _children.append(child)


@atexit.register
def _leave() -> None:
    """Children that run on are meant to: Python would warn of each."""
    _collect()
    for child in _children:
        child.returncode = 0


def remember(pidfile: Path, pid: int) -> None:
    """Write the process down in one step."""
    building = pidfile.with_suffix(".building")
    building.write_text(f"{pid} {_started_at(pid)}\n")
    building.replace(pidfile)


def remembered(pidfile: Path) -> int:
    """The process of the file if it still runs, or 0."""
    _collect()
    try:
        pid, start = pidfile.read_text().split()
    except (FileNotFoundError, ValueError):
        return 0
    return int(pid) if _started_at(int(pid)) == start else 0


def end(pidfile: Path, stop_signal: signal.Signals, seconds: float) -> bool:
    """Send the signal and wait until the process is gone, and the file with it; whether it is."""
    pid = remembered(pidfile)
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, stop_signal)
    deadline = time.monotonic() + seconds
    while remembered(pidfile):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    pidfile.unlink(missing_ok=True)
    return True


def only_child(parent: subprocess.Popen[bytes], log: Path) -> int:
    """The process that `nsenter` or `unshare` forked, because only a new process can be in another process namespace."""
    deadline = time.monotonic() + FORK_SECONDS_MAX
    while parent.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            words = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
            if words:
                return int(words[0])
        time.sleep(0.001)
    raise Stop(f"a process ended at once, or did not start: {last_lines(log)}")


def last_lines(log: Path, lines: int = 5) -> str:
    """The end of a log, for messages."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) or "its log is empty"
    except FileNotFoundError:
        return "it has no log"


def _started_at(pid: int) -> str:
    """When it started, in ticks since the machine did (proc(5)); "" for one that does not run, or is dead and not collected."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if words[0] in "ZX" else words[19]


def _collect() -> None:
    for child in list(_children):
        if child.poll() is not None:
            with contextlib.suppress(ValueError):  # Another thread was faster.
                _children.remove(child)
