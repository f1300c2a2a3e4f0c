"""Berth's server with an engine that runs nothing: tasks of `sleep SECONDS` end when that time is over, and that is all they do.

    BENCH_RELEASE=/path/of/a/server python bench/simulated_server.py serve --bootstrap

For benchmarks whose peers simulate the runs as well. Everything else is the product: API, database, scheduler, launches,
observation, logs, ends. One process only, because what is pretended is kept in its memory.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

RELEASE = os.environ["BENCH_RELEASE"]
sys.path[:0] = [RELEASE, f"{RELEASE}/platform"]

import manage  # noqa: E402 - the server's own, as it was copied.
from clusters.engines import local  # noqa: E402
from clusters.engines.fake import FakeEngine, Script  # noqa: E402
from clusters.engines.interface import (  # noqa: E402
    AttemptId,
    Cursor,
    Ensured,
    Forgotten,
    GiveUp,
    Gone,
    LogChunks,
    LogCursor,
    Observations,
    ObservedNode,
    Retry,
    Stop,
    Stopping,
    Stream,
    TaskName,
    TaskWorkload,
    Workload,
)
from kernel.resources import Resources  # noqa: E402

if TYPE_CHECKING:
    from kernel.config import Config


class Pretended(FakeEngine):
    """May be called by several threads at once; they take turns."""

    def __init__(self, config: Config) -> None:
        whole = Resources(config.local_cpu_millis or 0, config.local_memory_bytes or 0, 0)
        super().__init__(script_for=_script, nodes=[ObservedNode("pretended", whole)])
        self._lock = threading.Lock()

    def ensure(self, workloads: Sequence[Workload]) -> Sequence[Ensured | Retry | GiveUp]:
        with self._lock:
            return super().ensure(workloads)

    def observe(self, cursor: Cursor | None) -> Observations:
        with self._lock:
            return super().observe(cursor)

    def stop(self, stops: Sequence[Stop]) -> Sequence[Stopping | Gone | Retry]:
        with self._lock:
            return super().stop(stops)

    def forget(self, attempts: Sequence[AttemptId]) -> Sequence[Forgotten | Retry]:
        with self._lock:
            return super().forget(attempts)

    def logs(self, attempt: AttemptId, task: TaskName, stream: Stream, cursor: LogCursor | None) -> LogChunks:
        with self._lock:
            return super().logs(attempt, task, stream, cursor)


def _script(workload: Workload, task: TaskWorkload) -> Script:
    words: Sequence[Any] = ["".join(str(part) for part in text) for text in task.argv]
    return Script(duration_seconds=float(words[-1]))


if __name__ == "__main__":
    local.build = lambda _, config: Pretended(config)  # type: ignore[assignment]
    manage.main()
