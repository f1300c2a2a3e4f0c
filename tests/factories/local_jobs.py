"""One-task jobs on the real local engine, for tests of what surrounds them."""

from __future__ import annotations

import time
import uuid

from clusters.engines.interface import Ensured, ImageRef, Stop, StopCause, TaskName, TaskState, TaskWorkload, Workload
from clusters.engines.local.engine import LocalEngine
from clusters.engines.local.factory import build
from kernel.config import current
from kernel.ids import new_id
from kernel.resources import Resources
from storage import logs

MAIN = TaskName("main", 0)


def make_engine() -> LocalEngine:
    """An engine of its own in the data directory of the tests."""
    return build(uuid.uuid4(), current())


def stop_all(engine: LocalEngine) -> None:
    attempts = [item.attempt_id for item in engine.observe(None).items]
    engine.stop([Stop(attempt, 0, StopCause.PLATFORM) for attempt in attempts])


def run(engine: LocalEngine, workload: Workload) -> int | None:
    """Run an attempt to its end, pumping its log; gives the exit code."""
    (answer,) = engine.ensure([workload])
    assert isinstance(answer, Ensured), answer
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        tasks = [task for item in engine.observe(None).items if item.attempt_id == workload.attempt_id for task in item.tasks]
        if tasks and all(task.state is TaskState.ENDED for task in tasks):
            return tasks[0].exit.code
        time.sleep(0.05)
    raise AssertionError("the attempt did not end in time")


def workload(tenant, image: ImageRef, argv, **more) -> Workload:
    task = {name: more.pop(name) for name in ("env",) if name in more}
    return Workload(
        attempt_id=new_id(),
        job_id=new_id(),
        number=1,
        name="test",
        isolation_key=tenant.slug,
        isolation_number=tenant.number,
        user_key="tests",
        labels={},
        image=image,
        tasks=(TaskWorkload(name=MAIN, argv=argv, env=task.get("env", {}), resources=Resources(100, 512 * 1024**2, 0)),),
        **more,
    )


def log_of(engine: LocalEngine, tenant, done: Workload) -> str:
    source = logs.LogSource(tenant.pk, done.job_id, done.attempt_id, (MAIN,))
    while not logs.pump(engine, [source]).complete:
        time.sleep(0.02)
    return "".join(item.text for item in logs.read_merged(done.attempt_id).items)
