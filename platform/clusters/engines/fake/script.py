"""What a pretended task does: how long it runs, how it ends, what it writes, how it takes a stop."""

from __future__ import annotations

from dataclasses import dataclass

from clusters.engines.interface import ExitReason, TaskExit, TaskWorkload, Workload

LABEL_PREFIX = "fake."


@dataclass(frozen=True, slots=True)
class Script:
    """`duration_seconds` None runs until it is stopped. `stop_seconds` is how long a stop signal takes to end it; None
    ignores it and is killed after the grace. `output` is there from the start of the task."""

    duration_seconds: float | None = 0.0
    code: int | None = 0
    signal: int | None = None
    reason: ExitReason = ExitReason.NONE
    evidence: str = ""
    stop_seconds: float | None = 0.0
    stop_code: int = 143
    start_seconds: float = 0.0
    pull_seconds: float = 0.0  # Of `start_seconds`, how long its image is pulled.
    stdout: bytes = b""
    stderr: bytes = b""
    saves: bytes = b""  # What it leaves in its checkpoint directory at once; printed by the next attempt that `reads_saved`.
    reads_saved: bool = False

    def natural_exit(self) -> TaskExit:
        return TaskExit(self.code, self.signal, self.reason, evidence=self.evidence)


def script_from_labels(workload: Workload, task: TaskWorkload) -> Script:
    """Read a script from the workload's labels `fake.duration`, `fake.code`, `fake.stop` and `fake.reason`.

    Nothing given is a task that succeeds at once. A `duration` or `stop` of `never` runs on, or ignores the signal.
    """
    labels = workload.labels
    return Script(
        duration_seconds=_seconds(labels.get(f"{LABEL_PREFIX}duration", "0")),
        code=int(labels.get(f"{LABEL_PREFIX}code", "0")),
        reason=ExitReason(labels.get(f"{LABEL_PREFIX}reason", ExitReason.NONE)),
        stop_seconds=_seconds(labels.get(f"{LABEL_PREFIX}stop", "0")),
    )


def _seconds(text: str) -> float | None:
    return None if text == "never" else float(text)
