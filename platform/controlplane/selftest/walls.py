"""Run the probe of `boundaries` as a job would run, on this host's local cluster, and tell what it found.

It runs on an engine of its own beside the cluster's: the same launcher and the same isolation, under the throw-away tenant's
user, with a directory named by the run. So no queue, ledger or observer hears of it, and it says what holds on this machine,
not what a configuration says. Other kinds of clusters are not tried: their own engines stand between us and their nodes.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from clusters.engines.interface import (
    Ensured,
    Forgotten,
    ImageKind,
    ImageRef,
    Stop,
    StopCause,
    Stream,
    TaskName,
    TaskState,
    TaskWorkload,
    Workload,
)
from clusters.engines.local import LocalEngine, build
from clusters.selectors import ClusterFacts, list_clusters
from controlplane.selftest.boundaries import BY_NAME, PROBE, Tried, Unreadable, judge_boundaries, read
from controlplane.selftest.parties import NAME
from kernel.config import current
from kernel.resources import Resources

PYTHON = "/usr/bin/python3"  # Where Debian has it, also inside a sandbox, which shows /usr of the host.
SECONDS_MAX = 15.0  # The probe takes a second or two.
_PAUSE_SECONDS = 0.1
_TASK = TaskName("worker", 0)
_ENDED = (TaskState.ENDED, TaskState.GONE)


class NotTried(Exception):
    """The probe did not run to its end; the message says why."""


def try_walls(run_id: uuid.UUID, *, tenant_number: int, url: str) -> list[dict[str, Any]]:
    """Try each wall on each local cluster that is in service; gives rows as a report keeps them."""
    rows: list[dict[str, Any]] = []
    for cluster in list_clusters():
        if cluster.kind == "local" and cluster.is_enabled:
            rows += _rows(cluster, run_id, tenant_number, urlsplit(url).port or 0)
    return rows


def holes(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give the walls that are open although the cluster says that they are closed, as findings."""
    return [
        {
            "operation": f"a job on {row['cluster']}",
            "by": "job",
            "status": 0,
            "problem": f"{BY_NAME[row['boundary']].open.en} ({row['evidence']})",
        }
        for row in rows
        if row["outcome"] == "hole"
    ]


def remove_probe(run_id: uuid.UUID) -> bool:
    """End and remove what a run's probe left; False while it cannot go yet."""
    root = str(current().data_dir / "engine" / str(run_id))
    if not os.path.isdir(root):
        return True
    engine = build(run_id, current())
    try:
        left = [item.attempt_id for item in engine.observe(None).items]
        engine.stop([Stop(attempt, 0, StopCause.USER) for attempt in left])
        if not all(isinstance(answer, Forgotten) for answer in engine.forget(left)):
            return False
    finally:
        engine.close()
    shutil.rmtree(root, ignore_errors=True)
    return not os.path.isdir(root)


def _rows(cluster: ClusterFacts, run_id: uuid.UUID, tenant_number: int, port: int) -> list[dict[str, Any]]:
    engine = build(run_id, current())
    try:
        tried = judge_boundaries(read(_run(engine, tenant_number, port)), engine.inventory().isolation)
    except (NotTried, Unreadable, OSError) as error:
        return [{"cluster": cluster.name, "boundary": "", "outcome": "not_tried", "evidence": str(error)}]
    finally:
        engine.close()
    return [
        {"cluster": cluster.name, "boundary": item.boundary.name, "outcome": _outcome(item), "evidence": item.evidence}
        for item in tried
    ]


def _outcome(item: Tried) -> str:
    return "hole" if item.is_finding else "open" if item.is_open else "closed"


def _run(engine: LocalEngine, tenant_number: int, port: int) -> str:
    if not os.access(PYTHON, os.X_OK):
        raise NotTried(f"There is no {PYTHON} on this host.")
    workload = _workload(tenant_number, port)
    (answer,) = engine.ensure([workload])
    if not isinstance(answer, Ensured):
        raise NotTried(f"The probe did not start: {answer.detail}")
    deadline = time.monotonic() + SECONDS_MAX
    while not _has_ended(engine, workload.attempt_id):
        if time.monotonic() > deadline:
            raise NotTried(f"The probe did not end within {SECONDS_MAX:g} seconds.")
        time.sleep(_PAUSE_SECONDS)
    return _printed(engine, workload.attempt_id, Stream.OUT) or _printed(engine, workload.attempt_id, Stream.ERR)


def _has_ended(engine: LocalEngine, attempt_id: uuid.UUID) -> bool:
    seen = [item for item in engine.observe(None).items if item.attempt_id == attempt_id]
    return bool(seen) and all(task.state in _ENDED for task in seen[0].tasks)


def _printed(engine: LocalEngine, attempt_id: uuid.UUID, stream: Stream) -> str:
    chunks: Sequence[bytes] = [chunk.data for chunk in engine.logs(attempt_id, _TASK, stream, 0).chunks]
    return b"".join(chunks).decode(errors="replace")


def _workload(tenant_number: int, port: int) -> Workload:
    task = TaskWorkload(
        name=_TASK,
        argv=tuple((word,) for word in (PYTHON, "-I", "-c", PROBE, str(port))),
        env={},
        secret_env={},
        resources=Resources(cpu_millis=1000, memory_bytes=256 * 1024**2),
    )
    return Workload(
        attempt_id=uuid.uuid4(),
        job_id=uuid.uuid4(),
        number=1,
        name=NAME,
        isolation_key=NAME,
        isolation_number=tenant_number,
        user_key=NAME,
        labels={},
        image=ImageRef(ImageKind.HOST, ""),
        tasks=(task,),
    )
