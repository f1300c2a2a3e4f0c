"""Processes of a platform whose supervisor was killed. Standard library only.

The kernel tells them to end when it dies, and a web process first answers what it has in hand: for that long it keeps the
port. `make up` waits for them, says which they are, and kills what does not end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from tools.place import Place
from tools.progress import Stop, step

SUPERVISOR = "BERTH_SUPERVISOR_PID"  # In the environment of each process that a supervisor started.
LEFT_SECONDS_MAX = 30  # Requests in hand have 20 seconds (BERTH_WEB_DRAIN_SECONDS), the rest needs fewer.
KILLED_SECONDS_MAX = 10
STOPPED = "Tt"  # States of proc(5): frozen, or in the hands of a debugger; the word to end does not reach them.


def end_left_over(place: Place) -> None:
    """Wait until the processes of a platform that was killed have ended; harmless where there are none."""
    if not left_over(place):
        return
    with step("processes before") as done:
        seen, killed = _wait(place)
        done.outcome = f"of the platform that was killed have ended: {_names(seen)}"
        if killed:
            done.outcome += f"; killed, because they did not end by themselves: {_names(killed)}"


def left_over(place: Place) -> dict[int, str]:
    """Process and role of those that had a supervisor on this data directory and have none any more."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            variables = (folder / "environ").read_bytes().split(b"\0")
            if f"BERTH_DATA_DIR={place.data}".encode() not in variables:
                continue
            [supervisor] = [word.partition(b"=")[2] for word in variables if word.startswith(SUPERVISOR.encode() + b"=")]
            state, parent = (folder / "stat").read_text().rpartition(") ")[2].split()[:2]
            if state not in "ZX" and int(parent) != int(supervisor):
                found[int(folder.name)] = _role((folder / "cmdline").read_bytes().split(b"\0"))
    return found


def _role(words: list[bytes]) -> str:
    """`manage.py run ROLE`, or what else it does."""
    position = next(place for place, word in enumerate(words) if word.endswith(b"manage.py"))
    rest = [word.decode(errors="replace") for word in words[position + 1 :] if word]
    return rest[1] if rest[:1] == ["run"] else rest[0]


def _wait(place: Place) -> tuple[dict[int, str], dict[int, str]]:
    """All that were there, and those of them that had to be killed."""
    seen: dict[int, str] = {}
    killed: dict[int, str] = {}
    began = time.monotonic()
    while there := left_over(place):
        seen |= there
        passed = time.monotonic() - began
        late = {pid: role for pid, role in there.items() if passed > LEFT_SECONDS_MAX or _is_stopped(pid)}
        for pid in late.keys() - killed.keys():
            _kill(pid)
        killed |= late
        if passed > LEFT_SECONDS_MAX + KILLED_SECONDS_MAX:
            raise Stop(f"processes of the platform that was killed do not end, not even by kill -9: {_names(there)}.")
        time.sleep(0.05)
    return seen, killed


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        try:
            os.kill(pid, signal.SIGKILL)
        except PermissionError:
            raise Stop(f"process {pid} of the platform that was killed belongs to somebody else; they can end it.") from None


def _is_stopped(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] in STOPPED
    return False


def _names(processes: dict[int, str]) -> str:
    return ", ".join(f"{role} {pid}" for pid, role in sorted(processes.items()))
