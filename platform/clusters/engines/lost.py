"""What stands in for the engine of a cluster that an operator has declared lost.

It says that nothing runs, so that attempts end and their jobs start elsewhere by the same steps as ever. What only the cluster
itself could give, logs, outputs and the last traces, is unreachable: it is asked for again if the cluster comes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from clusters.engines.interface import (
    AttemptId,
    Cursor,
    Ensured,
    Forgotten,
    GiveUp,
    Gone,
    Inventory,
    LogChunks,
    LogCursor,
    Observations,
    Retry,
    Stop,
    Stopping,
    Stream,
    TaskName,
    Workload,
)
from clusters.engines.interface import EngineUnreachable as Unreachable

LOST = "An operator has declared this cluster lost."
AGAIN_SECONDS = 60.0  # Until what is left there is asked for again.


class LostEngine:
    """An `Engine` of which nothing is left, as was known at `asked_at`. It says nothing of what was started later: the cluster
    may have come back since, and another process may use it."""

    def __init__(self, asked_at: datetime) -> None:
        self._asked_at = asked_at

    def ensure(self, workloads: Sequence[Workload]) -> Sequence[Ensured | Retry | GiveUp]:
        return [GiveUp(workload.attempt_id, "cluster_lost", LOST) for workload in workloads]

    def observe(self, cursor: Cursor | None) -> Observations:
        return Observations((), "", complete=True, read_at=self._asked_at)

    def stop(self, stops: Sequence[Stop]) -> Sequence[Stopping | Gone | Retry]:
        return [Gone(stop.attempt_id) for stop in stops]

    def forget(self, attempts: Sequence[AttemptId]) -> Sequence[Forgotten | Retry]:
        return [Retry(attempt_id, "cluster_lost", LOST, AGAIN_SECONDS) for attempt_id in attempts]

    def logs(self, attempt: AttemptId, task: TaskName, stream: Stream, cursor: LogCursor | None) -> LogChunks:
        raise Unreachable(LOST)

    def inventory(self) -> Inventory:
        raise Unreachable(LOST)
