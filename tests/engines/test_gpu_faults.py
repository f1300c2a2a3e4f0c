"""A card fails under a running job of the real product: what its node, its job and an operator see.

The product runs with a library in place of the driver's that says what the test wants (`tests/builders/nvml.py`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders.live import Json, LivePlatform, running_platform, wait_until
from tests.builders.nvml import GIB, GPU_IS_LOST, Card, StandIn

pytestmark = pytest.mark.engines  # Once is enough: nothing here depends on the database.

CARDS = {uuid: Card(uuid, utilisation=64, used_bytes=11 * GIB) for uuid in ("GPU-a", "GPU-b")}


@pytest.fixture(scope="module")
def nvml() -> Iterator[StandIn]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # The platform gives root up.
        yield StandIn.build(Path(folder)).put(*CARDS.values())


@pytest.fixture(scope="module")
def platform(nvml: StandIn) -> Iterator[LivePlatform]:
    with running_platform(release=None, BERTH_LOCAL_SIMULATED_GPUS="", **nvml.environment) as running:
        yield running


def node(platform: LivePlatform) -> Json:
    [found] = platform.operator.items("/nodes")
    return found


def devices(platform: LivePlatform, job: Json) -> list[str]:
    """Of the newest attempt."""
    wait_until(lambda: any(task["gpus"] for task in platform.operator.items(f"/jobs/{job['id']}/tasks")), "the device")
    return [gpu for task in platform.operator.items(f"/jobs/{job['id']}/tasks") for gpu in task["gpus"]][-1:]


def highest(platform: LivePlatform, job: Json, metric: str) -> float | None:
    items = platform.operator.api("GET", f"/jobs/{job['id']}/metrics")["items"]
    values = [value for item in items if item["metric"] == metric for value in item["highs"] if value is not None]
    return max(values, default=None)


@pytest.mark.capability("93", "The use of a task's GPUs is measured and kept, and a gap stays a gap")
@pytest.mark.capability("57", "Signs of ill health cordon a node by themselves, with the evidence")
@pytest.mark.capability("59", "A fault of the hardware cordons the node, with its evidence; an error of a program does not")
@pytest.mark.capability("59", "A job on a broken device goes on elsewhere, and the platform pays")
@pytest.mark.simulated_gpus
def test_a_card_that_falls_off_the_bus_cordons_its_node_and_the_job_goes_on_on_another(
    platform: LivePlatform, nvml: StandIn
) -> None:
    operator = platform.operator
    assert [(gpu["identifier"], gpu["model"], gpu["healthy"]) for gpu in node(platform)["gpus"]] == [
        ("GPU-a", "NVIDIA H200", True),
        ("GPU-b", "NVIDIA H200", True),
    ]
    spec = {"name": "train", "command": "exec sleep 1000", "resources": {"gpu": "h200:1", "cpu": 1, "memory": "64Mi"}}
    job = platform.submit(spec, wait=["running"])
    [lost] = devices(platform, job)
    wait_until(lambda: highest(platform, job, "gpu_utilization_ratio") == pytest.approx(0.64, abs=0.01), "the measured use")

    def shown() -> dict[str, tuple[bool, list[str]]]:
        return {gpu["identifier"]: (gpu["healthy"], [fault["kind"] for fault in gpu["faults"]]) for gpu in node(platform)["gpus"]}

    nvml.xid(lost, 13)
    wait_until(lambda: f'{lost}"' in xids(platform, 13), "the error of a program")
    assert not node(platform)["cordoned"], "an error of one program is no fault of the device"

    nvml.put(*(replace(card, status=GPU_IS_LOST) if uuid == lost else card for uuid, card in CARDS.items()))
    nvml.xid(lost, 79)
    # The error and the loss are found by looks of their own, in either order; the cordon tells both.
    said = f"{lost}: Xid 79, it has fallen off the bus"
    wait_until(lambda: said in (node(platform)["cordon_reason"] or ""), "the cordon and its reason")
    wait_until(lambda: {"xid", "lost"} <= set(shown()[lost][1]), "both faults")
    assert node(platform)["cordoned"]
    operator.wait_for_reason(job, "no_ready_node")
    wait_until(lambda: "Xid 79" in operator.job(job)["reason"]["text"], "the reason in the words of the fault")
    [attempt] = operator.items(f"/jobs/{job['id']}/attempts")
    assert (attempt["exit"]["class"], attempt["exit"]["who_pays"]) == ("gpu_fault", "platform")
    [other] = set(CARDS) - {lost}
    assert shown()[other] == (True, [])
    assert shown()[lost][0] is False

    platform.api("PATCH", f"/nodes/{node(platform)['id']}", {"cordoned": False})
    platform.wait(job, ["running"])
    assert devices(platform, job) == [other]
    operator.stop(job, grace_seconds=0)
    platform.wait(job)


def xids(platform: LivePlatform, code: int) -> str:
    lines = platform.operator.request("GET", "//metrics").text.splitlines()
    return "\n".join(line for line in lines if line.startswith("berth_gpu_xid_code{") and line.endswith(f" {code}.0"))
