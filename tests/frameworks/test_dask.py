"""Dask clusters of real processes: a client without arguments computes, and losses end as the page says."""

from __future__ import annotations

import pytest

from tests.builders.frameworks import SYSTEM_PATH, framework_path, run_template
from tests.builders.live import Json, LivePlatform
from tests.frameworks.clusters import beside, ended_with_nothing_left, submit_example

pytestmark = pytest.mark.frameworks

SMALL = {"cpu": 1, "memory": "512Mi"}
SQUARES = """
from dask.distributed import Client

client = Client()
print("squares", sum(client.gather(client.map(lambda number: number * number, range(10)))))
"""
LOSS = """
import time
from dask.distributed import Client, wait

def step(number):
    time.sleep(0.1)
    return number

client = Client()
client.wait_for_workers(2, timeout=60)
steps = client.map(step, range(40))
wait(steps[:4])
print("under way", flush=True)
print("sum", sum(client.gather(steps)), flush=True)
"""
STRANGER = """
import os
from dask.distributed import Client

address = os.environ["ADDRESS"]
for attempt in (address, address.replace("tls", "tcp")):
    try:
        Client(attempt, timeout=2)
    except Exception as error:
        print("refused", attempt.partition(":")[0], repr(error))
"""


def a_cluster(program: str | None) -> Json:
    """A job of a scheduler and two workers."""
    scheduler: Json = {"resources": SMALL}
    if program is not None:
        scheduler["command"] = ["python3", "-c", program]
    roles = {"scheduler": scheduler, "worker": {"replicas": 2, "resources": SMALL}}
    return {"name": "dask", "framework": "dask", "roles": roles, "env": path(), "max_runtime": "5m"}


def path() -> Json:
    return {"PATH": f"{framework_path('dask')}:{SYSTEM_PATH}"}


def test_a_template_and_an_example_compute_on_two_workers(live_platform: LivePlatform) -> None:
    pi = submit_example(live_platform.operator, "dask", path())
    job = run_template(live_platform, "dask", framework_path("dask"))
    assert job["state"] == "succeeded", live_platform.logs(job)
    assert "sum of squares 140 on" in live_platform.logs(job)
    text = ended_with_nothing_left(live_platform, pi, state="succeeded")
    assert "pi is about 3.1" in text


def test_a_killed_worker_comes_back_and_its_work_is_done_again(live_platform: LivePlatform) -> None:
    job = live_platform.submit(a_cluster(LOSS))
    live_platform.operator.wait_for_line(job, "under way\n")
    beside(live_platform.operator, job, "worker-0", "pkill", "-9", "-f", "[d]ask worker")
    text = ended_with_nothing_left(live_platform, job, state="succeeded")
    assert "sum 780" in text
    assert "it is started again (1 of 3)" in text


def test_a_cluster_that_serves_refuses_strangers_and_dies_with_its_scheduler(live_platform: LivePlatform) -> None:
    job = live_platform.submit(a_cluster(None), wait=["running"])
    live_platform.operator.wait_for_line(job, "Starting established connection")
    assert "squares 285" in beside(live_platform.operator, job, "scheduler-0", "python3", "-c", SQUARES)
    address = beside(live_platform.operator, job, "scheduler-0", "sh", "-c", "echo $DASK_SCHEDULER_ADDRESS").strip()
    stranger = {"name": "stranger", "command": ["python3", "-c", STRANGER], "env": {**path(), "ADDRESS": address}}
    other = live_platform.person("olga", tenant="other")
    text = other.logs(other.submit({**stranger, "resources": SMALL}, wait=True))
    assert "refused tls" in text
    assert "refused tcp" in text
    beside(live_platform.operator, job, "scheduler-0", "pkill", "-SEGV", "-f", "[d]ask scheduler")
    ended_with_nothing_left(live_platform, job, state="failed")


def test_a_cluster_that_serves_is_stopped(live_platform: LivePlatform) -> None:
    job = live_platform.submit(a_cluster(None), wait=["running"])
    live_platform.operator.wait_for_line(job, "Starting established connection")
    live_platform.operator.stop(job)
    ended_with_nothing_left(live_platform, job, state="stopped")
