"""How a task ended, from what the wrapper, the kernel and our own intents recorded. Says only what is known."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from clusters.engines.interface import ExitReason, StopCause, TaskExit
from clusters.engines.local import cgroups
from clusters.engines.local.records import StopIntent

_SIGNAL_BASE = 128  # A shell reports an end by signal n as 128 + n (POSIX, Shell Command Language 2.8.2).
_CANNOT_EXECUTE = frozenset({126, 127})
CANNOT_START = "berth: cannot start "
"""What the task's shell writes as its last line if the program could not be executed."""
_TAIL_BYTES = 1_024


def read_exit(path: str) -> tuple[int, float] | None:
    """Give the code that the wrapper wrote and when, or None as long as it has not."""
    try:
        with open(path, "rb") as file:
            text = file.read(16)
            written_at = os.fstat(file.fileno()).st_mtime
    except FileNotFoundError:
        return None
    number = text.split(b"\n")[0].strip()
    return (int(number), written_at) if text.endswith(b"\n") and number.isdigit() else None


def classify(code: int, *, groups: Sequence[str], stop: StopIntent | None, memory_verdict: str, stderr_path: str) -> TaskExit:
    """Give the exit of a task that left a code. The task's own memory limit outweighs a polite stop, our kill both."""
    number = code - _SIGNAL_BASE if _SIGNAL_BASE < code <= _SIGNAL_BASE + signal.NSIG else None
    if number is not None and number not in signal.valid_signals():
        number = None
    kills = cgroups.memory_kills(groups)
    if code != 0 and (memory_verdict or kills.kills) and not (stop and stop.killed):
        return _memory(code, number, kills, memory_verdict)
    if stop is not None:
        how = "killed after its grace" if stop.killed and number == signal.SIGKILL else "ended after the stop signal"
        evidence = f"Stopped ({stop.cause}): {how}."
        return TaskExit(code, number, ExitReason.STOPPED, StopCause(stop.cause), evidence)
    if code in _CANNOT_EXECUTE:
        tail = _tail(stderr_path)
        last = tail.rstrip().rsplit("\n", 1)[-1]
        if last.startswith(CANNOT_START):
            return TaskExit(code, None, ExitReason.START_FAILED, evidence=tail.strip()[-_TAIL_BYTES:])
    if number is not None:
        return TaskExit(code, number, evidence=f"Ended by signal {signal.Signals(number).name if number < 32 else number}.")
    if kills.kills:
        return TaskExit(code, evidence=f"The kernel killed {kills.kills} of its processes for memory; the task itself went on.")
    return TaskExit(code)


def vanished(stop: StopIntent | None, *, rebooted: bool) -> TaskExit:
    """Give the exit of a task that is certainly gone and left no code."""
    if rebooted:
        return TaskExit(None, reason=ExitReason.NODE_LOST, evidence="The machine was restarted while the task ran.")
    if stop is not None:
        return TaskExit(
            None,
            reason=ExitReason.STOPPED,
            stop_cause=StopCause(stop.cause),
            evidence=f"Stopped ({stop.cause}); no exit code was left.",
        )
    return TaskExit(None, evidence="The process is gone and left no exit code: it was killed together with its supervisor.")


def _memory(code: int, number: int | None, kills: cgroups.MemoryKills, verdict: str) -> TaskExit:
    if verdict:
        return TaskExit(code, number, ExitReason.OOM, evidence=verdict)
    if kills.limit_hits:
        evidence = f"Killed by the kernel at the task's memory limit of {kills.limit_bytes} bytes (peak {kills.peak_bytes})."
        return TaskExit(code, number, ExitReason.OOM, evidence=evidence)
    evidence = f"Killed by the kernel because the machine ran out of memory (the task's peak: {kills.peak_bytes} bytes)."
    return TaskExit(code, number, ExitReason.NODE_OOM, evidence=evidence)


def _tail(path: str) -> str:
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return ""
