"""The cluster of a simulation: a fake engine whose truth is written into the history, whatever it answers to whom."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from clusters.engines.fake import FakeEngine, Script
from clusters.engines.interface import (
    AttemptId,
    Cursor,
    Ensured,
    Forgotten,
    GiveUp,
    Observations,
    ObservedNode,
    OutputFile,
    Retry,
    Stop,
    TaskName,
    TaskWorkload,
    Workload,
)

OUTPUT = b"weights"
Tell = Callable[..., None]
ScriptFor = Callable[[Workload, TaskWorkload], Script]


class Harbour(FakeEngine):
    """Runs what it is told to, on virtual time. `tell(t, source, event, **ids)` hears what really happened."""

    def __init__(
        self,
        *,
        clock: Callable[[], datetime],
        script_for: Callable[[Workload, TaskWorkload], Script],
        nodes: Sequence[ObservedNode],
        tell: Tell,
    ) -> None:
        super().__init__(clock=clock, script_for=script_for, nodes=nodes)
        self._tell = tell
        self._lost_at: dict[tuple[AttemptId, TaskName], datetime] = {}
        self._spoiled: set[AttemptId] = set()  # Their output is gone with them.
        self.created: dict[AttemptId, tuple[uuid.UUID, int]] = {}
        self.lifted: Observations | None = None

    def _ensure(self, workload: Workload) -> Ensured | Retry | GiveUp:
        answer = super()._ensure(workload)
        if isinstance(answer, Ensured) and answer.created:
            self.created[workload.attempt_id] = (workload.job_id, workload.number)
            self._tell(
                self._clock(), "engine", "create", attempt=workload.attempt_id, job=workload.job_id, number=workload.number
            )
        return answer

    def forget(self, attempts: Sequence[AttemptId]) -> Sequence[Forgotten | Retry]:
        for attempt_id in attempts:
            found = self.state.attempts.get(attempt_id)
            if found is not None and not self._alive(found, self._clock()):
                self.testify(attempt_id)
        return super().forget(attempts)

    def observe(self, cursor: Cursor | None) -> Observations:
        self.lifted = super().observe(cursor)
        return self.lifted

    def lose_node(self, node: str) -> None:
        """The machine is gone for certain, with everything on it."""
        now = self._clock()
        for attempt_id, attempt in self.state.attempts.items():
            for name, task in attempt.tasks.items():
                if (task.workload.node or self._nodes[0].name) == node and not task.lost:
                    self._lost_at[(attempt_id, name)] = now
                    self._spoiled.add(attempt_id)
        super().lose_node(node)

    def delete(self, attempt_id: AttemptId) -> None:
        """Somebody removed the attempt by hand: its tasks die now."""
        self._spoiled.add(attempt_id)
        self.testify(attempt_id)
        super().delete(attempt_id)

    def testify(self, attempt_id: AttemptId) -> None:
        """Write down what the tasks of an attempt did up to now."""
        now = self._clock()
        attempt = self.state.attempts[attempt_id]
        for name, task in attempt.tasks.items():
            began = task.started_at + timedelta(seconds=task.script.start_seconds)
            ended = min(self._end(attempt, task)[0], self._lost_at.get((attempt_id, name), now), now)
            ids = {**self._ids(attempt_id), "task": name}
            if began < ended or (began == ended and task.script.start_seconds == 0):
                self._tell(began, "payload", "start", **ids)
                self._tell(ended, "payload", "stop", **ids)
            lines = task.script.stdout.count(b"\n")
            if lines and attempt_id not in self._spoiled:
                self._tell(ended, "payload", "printed", lines=lines, **ids)

    def _ids(self, attempt_id: AttemptId) -> dict[str, object]:
        job_id, number = self.created[attempt_id]
        return {"attempt": attempt_id, "job": job_id, "number": number}

    def list_objects(self) -> list[tuple[AttemptId, bool]]:
        """All attempts that it still knows, and whether they live."""
        now = self._clock()
        return [(attempt_id, self._alive(attempt, now)) for attempt_id, attempt in self.state.attempts.items()]

    # --- Outputs -----------------------------------------------------------------------------------------------------

    def list_outputs(self, attempt: AttemptId, paths: Sequence[str]) -> Sequence[OutputFile]:
        self.faults.enter("list_outputs")
        return [OutputFile(path, len(OUTPUT), 0o644) for path in paths]

    def open_output(self, attempt: AttemptId, path: str) -> int:
        self.faults.enter("open_output")
        descriptor = os.memfd_create("output")
        os.write(descriptor, OUTPUT)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor


__all__ = ["Harbour", "Stop"]
