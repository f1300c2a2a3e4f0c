"""What a task's shell is told before it becomes the program."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from clusters.engines.interface import ImageKind, ImageRef, TaskName, TaskWorkload, Workload
from clusters.engines.local import plan
from clusters.engines.local.config import LocalEngineConfig
from clusters.engines.local.containers.store import ReadyImage
from clusters.engines.local.leases import Lease
from kernel.resources import Resources

TASK = TaskWorkload(
    name=TaskName("worker", 0), argv=(("true",),), env={"BERTH_CPUS": ("3",)}, resources=Resources(3000, 1024**2, 0)
)
WORKLOAD = Workload(
    attempt_id=uuid.UUID(int=1),
    job_id=uuid.UUID(int=2),
    number=1,
    name="threads",
    isolation_key="vision",
    isolation_number=1,
    user_key="alice",
    labels={},
    image=ImageRef(ImageKind.HOST, ""),
    tasks=(TASK,),
)


@pytest.mark.parametrize(
    ("own", "image", "threads"),
    [({}, None, "3"), ({"OMP_NUM_THREADS": ("2",)}, None, "2"), ({}, {}, "3"), ({}, {"OMP_NUM_THREADS": "1"}, "1")],
)
def test_threads_are_as_many_as_the_cores_unless_job_or_image_say_otherwise(own, image, threads):
    task = replace(TASK, env={**TASK.env, **own})
    container = ReadyImage("sha256:0", "/images/0", image) if image is not None else None
    started = plan.plan(
        replace(WORKLOAD, tasks=(task,)),
        Lease("/data", 0.0),
        LocalEngineConfig(root="/data", node="here"),
        sandboxed=True,
        simulated=False,
        devices={},
        container=container,
    )
    assert [line for line in started.tasks[0].script.splitlines() if "OMP_NUM_THREADS" in line] == [
        f"export OMP_NUM_THREADS={threads}"
    ]
