"""MXNet's key-value store over real processes."""

from __future__ import annotations

import pytest

from tests.builders.frameworks import SYSTEM_PATH, framework_path, run_template
from tests.builders.live import Json, LivePlatform

pytestmark = pytest.mark.frameworks

DIES = """
import os
import mxnet as mx
store = mx.kv.create("dist_sync")
if store.rank == 1:
    os.kill(os.getpid(), 9)
store.init(3, mx.nd.zeros((2, 2)))
store.push(3, mx.nd.ones((2, 2)))
"""


def a_job() -> Json:
    small: Json = {"resources": {"cpu": 1, "memory": "1Gi"}}
    return {
        "name": "mx",
        "framework": "mxnet",
        "roles": {
            "scheduler": small,
            "server": small,
            "worker": {**small, "replicas": 2, "command": ["python3", "-c", DIES], "policies": [{"on": "failed", "do": "abort"}]},
        },
        "env": {"PATH": f"{framework_path('mxnet')}:{SYSTEM_PATH}"},
    }


@pytest.mark.capability("77", "Scheduler, server and workers meet by DMLC_*, and all end well")
def test_workers_push_and_pull_over_a_server(live_platform: LivePlatform) -> None:
    """By the template's own program."""
    job = run_template(live_platform, "mxnet", framework_path("mxnet"))
    text = live_platform.logs(job)
    assert job["state"] == "succeeded", text
    assert "worker 0 of 2 pulled 12.0" in text
    assert "worker 1 of 2 pulled 12.0" in text


@pytest.mark.capability("77", "A lost worker ends the job instead of hanging it")
def test_a_lost_worker_ends_the_job(live_platform: LivePlatform) -> None:
    job = live_platform.submit(a_job(), wait=True)
    assert job["state"] == "failed"
    assert job["exit"]["task"].startswith("worker-")
    states = {task["role"]: task["state"] for task in live_platform.operator.items(f"/jobs/{job['id']}/tasks")}
    assert (states["scheduler"], states["server"]) == ("stopped", "stopped")
