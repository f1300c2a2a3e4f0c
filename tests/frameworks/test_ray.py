"""Ray clusters of real processes: what a tutorial does runs as it stands, and losses end as the page says."""

from __future__ import annotations

import pytest

from tests.builders.frameworks import SYSTEM_PATH, framework_path, run_template
from tests.builders.live import Json, LivePlatform
from tests.frameworks.clusters import beside, ended_with_nothing_left, processes_of, submit_example

pytestmark = pytest.mark.frameworks

SMALL = {"cpu": 1, "memory": "1Gi", "shm": "128Mi"}
SQUARES = """
import ray

ray.init()

@ray.remote
def square(number):
    return number * number, ray.get_runtime_context().get_node_id()

@ray.remote(resources={"worker": 1})
class Counter:
    def __init__(self):
        self.count = 0

    def add(self, number):
        self.count += number
        return self.count

values = ray.get([square.remote(number) for number in range(8)])
counter = Counter.remote()
for value, _ in values:
    total = counter.add.remote(value)
print("squares", [value for value, _ in values], "total", ray.get(total))
"""
LOSS = """
import time
import ray

ray.init()

@ray.remote(max_retries=-1)
def step(number):
    time.sleep(0.25)
    return number

def alive():
    return [node for node in ray.nodes() if node["Alive"]]

deadline = time.monotonic() + 100
while len(alive()) < 3 and time.monotonic() < deadline:
    time.sleep(0.1)
steps = [step.remote(number) for number in range(40)]
ray.wait(steps, num_returns=4)
print("under way", flush=True)
print("sum", sum(ray.get(steps)), flush=True)
while (len(alive()) != 3 or len(ray.nodes()) < 4) and time.monotonic() < deadline:
    time.sleep(0.1)
print("alive", len(alive()), "of", len(ray.nodes()))
"""
STRANGER = """
import os, subprocess, sys

for mode, token in (("disabled", ""), ("token", "0" * 32)):
    env = {**os.environ, "RAY_AUTH_MODE": mode, "RAY_AUTH_TOKEN": token, "RAY_NUM_REDIS_GET_RETRIES": "1"}
    done = subprocess.run([sys.executable, "-c", "import ray; ray.init()"], env=env, capture_output=True, text=True, timeout=60)
    print("mode", mode, "ended with", done.returncode, "refused" if "InvalidAuthToken" in done.stderr else done.stderr[-2000:])
"""


def a_cluster(program: str | None, *, workers: int = 2, **resources: str) -> Json:
    """A job of a head without CPUs and of workers with one each."""
    head: Json = {"resources": {**SMALL, "cpu": "500m", **resources}}
    if program is not None:
        head["command"] = ["python3", "-c", program]
    roles = {"head": head, "worker": {"replicas": workers, "resources": SMALL}}
    return {"name": "ray", "framework": "ray", "roles": roles, "env": path(), "max_runtime": "5m"}


def path() -> Json:
    return {"PATH": f"{framework_path('ray')}:{SYSTEM_PATH}"}


@pytest.mark.capability("7", "A driver, remote functions, an actor and a search run as they stand, two clusters on one machine")
def test_a_tutorial_and_a_search_run_unchanged_on_one_machine_at_once(live_platform: LivePlatform) -> None:
    """The tutorial by the template, the search by the example."""
    other = live_platform.person("olga", tenant="other")
    search = submit_example(other, "ray", path())
    job = run_template(live_platform, "ray", framework_path("ray"))
    text = live_platform.logs(job)
    assert job["state"] == "succeeded", text
    assert "sum of squares 140 on" in text
    ended = other.wait(search)
    text = other.logs(search)
    assert ended["state"] == "succeeded", text
    assert "best x 3 of 4 trials" in text
    assert "on role worker" in text


@pytest.mark.capability("7", "A lost worker is started again alone, and its work runs again")
def test_a_killed_worker_comes_back_and_the_job_succeeds(live_platform: LivePlatform) -> None:
    job = live_platform.submit(a_cluster(LOSS))
    live_platform.operator.wait_for_line(job, "under way\n")
    beside(live_platform.operator, job, "worker-0", "pkill", "-9", "raylet")
    text = ended_with_nothing_left(live_platform, job, state="succeeded")
    assert "sum 780" in text
    assert "alive 3 of 4" in text
    assert live_platform.operator.job(job)["attempt"] == 1


@pytest.mark.capability("7", "A program without the job's token is refused, and the head's death fails the job")
def test_a_cluster_that_serves_refuses_strangers_and_dies_with_its_head(live_platform: LivePlatform) -> None:
    job = live_platform.submit(a_cluster(None, workers=1))
    live_platform.operator.wait_for_line(job, "Ray runtime started", timeout=100)
    assert "total 140" in beside(live_platform.operator, job, "head-0", "python3", "-c", SQUARES)
    address = beside(live_platform.operator, job, "head-0", "sh", "-c", "echo $RAY_ADDRESS").strip()
    stranger = {
        "name": "stranger",
        "command": ["python3", "-c", STRANGER],
        "env": {**path(), "RAY_ADDRESS": address.replace("127.0.0.1", "127.0.0.2")},
        "resources": SMALL,
    }
    other = live_platform.person("olga", tenant="other")
    text = other.logs(other.submit(stranger, wait=True))
    assert "mode disabled ended with 1 refused" in text
    assert "mode token ended with 1 refused" in text
    assert "gcs_server" in processes_of(job)
    beside(live_platform.operator, job, "head-0", "pkill", "-9", "gcs_server")
    ended_with_nothing_left(live_platform, job, state="failed")
