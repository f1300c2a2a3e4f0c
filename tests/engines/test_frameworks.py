"""Each framework runs two real processes through the product, as its example has it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import berth
from tests.builders.live import LivePlatform
from tests.engines.test_images import built

pytestmark = pytest.mark.engines

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# PyTorch 1.13 under Python 3.11, as in Debian 12, loses its own default for where the output goes; told this, it does the same.
DEBIANS_TORCHRUN = {"PET_REDIRECTS": "1", "PET_TEE": "1"}
JAX = """
import os, jax, jax.numpy as jnp
jax.distributed.initialize(
    num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
)
from jax.experimental.multihost_utils import process_allgather
ranks = process_allgather(jnp.array([jax.process_index() + 1]))
print("process", jax.process_index(), "of", jax.process_count(), "sees", int(ranks.sum()), flush=True)
assert int(ranks.sum()) == 3
"""


def example(title: str, **changes: object) -> dict[str, object]:
    """An example's job file with its folder as seen from anywhere."""
    spec = yaml.safe_load((EXAMPLES / f"{title}.yaml").read_text())
    return {**spec, "code": {"path": str(EXAMPLES / spec["code"]["path"])}, **changes}


@pytest.mark.capability("74", "Two real processes meet over gloo")
@pytest.mark.parametrize("command", ["python3 allreduce.py", "torchrun allreduce.py"])
def test_pytorch_averages_gradients_over_two_processes(sdk: berth.Client, live_platform: LivePlatform, command: str) -> None:
    job = sdk.jobs.submit(example("pytorch", command=command, env=DEBIANS_TORCHRUN))
    ended = live_platform.wait(job.id)
    text = live_platform.logs(job.id)
    assert ended["state"] == "succeeded", text
    for rank in (0, 1):
        assert f"process {rank} of 2: y = " in text
    tasks = live_platform.operator.items(f"/jobs/{job.id}/tasks")
    assert [task["state"] for task in tasks] == ["succeeded", "succeeded"]


@pytest.mark.parametrize("name", ["pytorch-single", "pytorch-distributed"])
def test_a_pytorch_template_goes_on_from_what_it_saved(live_platform: LivePlatform, name: str) -> None:
    operator = live_platform.operator
    [template] = [shipped for shipped in operator.items("/templates") if shipped["name"] == name]
    values = {"gpus": 0, "memory": "1Gi"}
    spec = operator.api("POST", f"/templates/{template['id']}/render", {"parameters": values, **operator.in_tenant})["spec"]
    first = live_platform.submit(spec, wait=True)
    assert first["state"] == "succeeded", live_platform.logs(first)
    assert "goes on after step 0" in live_platform.logs(first)
    again = live_platform.submit({**spec, "checkpoint": {**spec["checkpoint"], "from": first["id"]}}, wait=True)
    assert again["state"] == "succeeded", live_platform.logs(again)
    assert "goes on after step 300" in live_platform.logs(again)
    assert "slope 3.000 offset 1.000" in live_platform.logs(again)


def test_one_failed_process_ends_the_other(sdk: berth.Client, live_platform: LivePlatform) -> None:
    command = "test $RANK = 0 || exit 7; exec python3 allreduce.py"
    job = sdk.jobs.submit(example("pytorch", command=command, name="broken-pair"))
    ended = live_platform.wait(job.id)
    assert (ended["state"], ended["exit"]["code"], ended["exit"]["task"]) == ("failed", 7, "worker-1")
    tasks = live_platform.operator.items(f"/jobs/{job.id}/tasks")
    assert [task["state"] for task in tasks] == ["stopped", "failed"]


def test_mpirun_starts_its_ranks_in_the_tasks_of_the_job(sdk: berth.Client, live_platform: LivePlatform) -> None:
    job = sdk.jobs.submit(example("mpi"))
    ended = live_platform.wait(job.id)
    text = live_platform.logs(job.id)
    assert ended["state"] == "succeeded", text
    assert "pi is about 3.14159" in text
    for rank in (0, 1):
        assert f"rank {rank} of 2 ran in worker-{rank}" in text


@pytest.mark.parametrize(("code", "state"), [(0, "succeeded"), (3, "failed")])
def test_the_end_of_the_launcher_is_the_end_of_the_job(live_platform: LivePlatform, code: int, state: str) -> None:
    small = {"cpu": "500m", "memory": "128Mi"}
    roles = {
        "launcher": {"resources": small, "command": f"mpirun true; exit {code}"},
        "worker": {"replicas": 2, "resources": small, "command": "echo prepared"},
    }
    job = live_platform.submit({"name": "launcher-decides", "framework": "mpi", "roles": roles}, wait=True)
    assert job["state"] == state
    assert live_platform.logs(job).count("prepared") == 2


@pytest.mark.timeout(600)
def test_jax_gathers_over_two_processes(live_platform: LivePlatform, jax_requirement: str) -> None:
    built(live_platform.operator, "jax", jax_requirement)
    spec = {
        "name": "jax",
        "image": "jax",
        "framework": "jax",
        "replicas": 2,
        "resources": {"cpu": 1, "memory": "1Gi"},
        "command": ["python", "-c", JAX],
        "env": {"JAX_PLATFORMS": "cpu"},
    }
    job = live_platform.submit(spec, wait=True, timeout=300)
    text = live_platform.logs(job)
    assert job["state"] == "succeeded", text
    for rank in (0, 1):
        assert f"process {rank} of 2 sees 3" in text


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_example_trains_on_two_workers_and_its_model_comes_home(
    sdk: berth.Client, live_platform: LivePlatform, example_requirements: str, tmp_path: Path
) -> None:
    built(live_platform.operator, "jax-cpu", example_requirements)
    job = sdk.jobs.submit(example("digits"))
    ended = live_platform.wait(job.id, timeout=300)
    text = live_platform.logs(job.id)
    assert ended["state"] == "succeeded", text
    assert "accuracy" in text
    live_platform.operator.artifacts(job.id)
    files = sdk.jobs.download(job.id, "model", tmp_path)
    assert files
    assert all(path.stat().st_size > 0 for path in files)
