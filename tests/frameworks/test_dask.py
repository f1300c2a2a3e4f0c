"""Dask clusters of real processes."""

from __future__ import annotations

import pytest

from tests.builders.frameworks import SYSTEM_PATH, framework_path
from tests.builders.live import Json, LivePlatform

pytestmark = pytest.mark.frameworks

SMALL = {"cpu": 1, "memory": "512Mi"}
SQUARES = """
from dask.distributed import Client

client = Client()
print("workers", len(client.scheduler_info()["workers"]), "squares", sum(client.gather(client.map(lambda x: x * x, range(10)))))
"""


def a_cluster(program: str, **more: object) -> Json:
    """A job of a scheduler and two workers."""
    roles = {
        "scheduler": {"resources": SMALL, "command": ["python3", "-c", program]},
        "worker": {"replicas": 2, "resources": SMALL},
    }
    env = {"PATH": f"{framework_path('dask')}:{SYSTEM_PATH}"}
    return {"name": "dask", "framework": "dask", "roles": roles, "env": env, "max_runtime": "5m", **more}


def test_a_computation_runs_on_two_workers(live_platform: LivePlatform) -> None:
    job = live_platform.submit(a_cluster(SQUARES), wait=True)
    text = live_platform.logs(job)
    print(text)
    assert job["state"] == "succeeded", text
    assert "workers 2 squares 285" in text
