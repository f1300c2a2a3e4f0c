"""Ray clusters of real processes: what a tutorial does runs as it stands, and losses end as the page says."""

from __future__ import annotations

import pytest

from tests.builders.frameworks import SYSTEM_PATH, framework_path
from tests.builders.live import Json, LivePlatform

pytestmark = pytest.mark.frameworks

SMALL = {"cpu": 1, "memory": "1Gi", "shm": "128Mi"}
SQUARES = """
import ray

ray.init()

@ray.remote(num_cpus=1)
def square(number):
    return number * number, ray.get_runtime_context().get_node_id()

@ray.remote(num_cpus=0, resources={"worker": 1})
class Counter:
    def __init__(self):
        self.count = 0

    def add(self, number):
        self.count += number
        return self.count

values = ray.get([square.remote(number) for number in range(8)])
print("squares", [value for value, _ in values], flush=True)
counter = Counter.remote()
for value, _ in values:
    total = counter.add.remote(value)
print("total", ray.get(total), "cpus", ray.cluster_resources()["CPU"], "workers", ray.cluster_resources()["worker"], flush=True)
"""


def a_cluster(program: str, *, workers: int = 2, **more: object) -> Json:
    """A job of a head without CPUs and of workers with one each."""
    roles = {
        "head": {"resources": {**SMALL, "cpu": "500m"}, "command": ["python3", "-c", program]},
        "worker": {"replicas": workers, "resources": SMALL},
    }
    env = {"PATH": f"{framework_path('ray')}:{SYSTEM_PATH}"}
    return {"name": "ray", "framework": "ray", "roles": roles, "env": env, "max_runtime": "5m", **more}


def test_a_remote_function_and_an_actor_run_on_two_workers(live_platform: LivePlatform) -> None:
    job = live_platform.submit(a_cluster(SQUARES), wait=True)
    text = live_platform.logs(job)
    assert job["state"] == "succeeded", text
    assert "squares [0, 1, 4, 9, 16, 25, 36, 49]" in text
    assert "total 140 cpus 2.0 workers 2.0" in text
