"""Pretended GPUs are leased like real ones, one to one job at a time, and are called simulated wherever they are seen."""

from __future__ import annotations

import pytest

from tests.builders.live import Json, LivePlatform

pytestmark = [pytest.mark.engines, pytest.mark.database]

SHOW = 'echo "devices=$CUDA_VISIBLE_DEVICES simulated=$BERTH_GPUS_SIMULATED"; exec sleep 1000'


def devices(platform: LivePlatform, job: Json) -> str:
    text = platform.operator.wait_for_line(job, "simulated=")
    shown, marked = text.split()
    assert marked == "simulated=1"
    return shown.removeprefix("devices=")


def test_two_jobs_get_two_devices_and_a_third_waits_for_one(live_platform: LivePlatform) -> None:
    spec = {"name": "gpu", "command": SHOW, "resources": {"gpu": 1, "cpu": 1, "memory": "64Mi"}}
    first, second = (live_platform.submit(spec, wait=["running"]) for _ in range(2))
    third = live_platform.submit(spec)
    held = {devices(live_platform, job) for job in (first, second)}
    assert len(held) == 2
    waiting = live_platform.operator.wait_for_reason(third, "no_room")
    assert waiting["reason"]["detail"]["need"]["gpu_millis"] == 1000
    live_platform.operator.stop(first, grace_seconds=0)
    live_platform.wait(third, ["running"])
    assert devices(live_platform, third) == devices(live_platform, first)
    for job in (second, third):
        live_platform.operator.stop(job, grace_seconds=0)
        live_platform.wait(job)


def test_they_are_called_simulated_everywhere(live_platform: LivePlatform) -> None:
    spec = {"name": "gpu", "command": SHOW, "resources": {"gpu": 2}}
    job = live_platform.submit(spec, wait=["running"])
    assert len(devices(live_platform, job).split(",")) == 2
    assert live_platform.operator.job(job)["gpus_simulated"] is True
    [attempt] = live_platform.operator.items(f"/jobs/{job['id']}/attempts")
    assert attempt["gpus_simulated"] is True
    [task] = live_platform.operator.items(f"/jobs/{job['id']}/tasks")
    assert (task["gpus_simulated"], len(task["gpus"])) == (True, 2)
    [node] = live_platform.operator.items("/nodes")
    assert node["gpus_simulated"] is True
    assert [(gpu["model"], gpu["simulated"]) for gpu in node["gpus"]] == [("SIM", True), ("SIM", True)]
    [pool] = live_platform.operator.items("/pools")
    assert (pool["gpus_simulated"], pool["allocated"]["gpu_millis"]) == (True, 2000)
    metrics = live_platform.operator.request("GET", "//metrics").text
    [capacity] = [line for line in metrics.splitlines() if line.startswith("berth_gpu_capacity{")]
    assert 'simulated="true"' in capacity
    assert capacity.endswith(" 2.0")
    live_platform.operator.stop(job, grace_seconds=0)
    live_platform.wait(job)


def test_a_job_without_gpus_sees_none_and_is_not_called_simulated(live_platform: LivePlatform) -> None:
    job = live_platform.submit({"name": "plain", "command": 'echo "[$CUDA_VISIBLE_DEVICES]"'}, wait=True)
    assert live_platform.logs(job) == "[]\n"
    assert job["gpus_simulated"] is False


@pytest.mark.simulated_gpus
@pytest.mark.capability("90", "Parts of a GPU are lent where operators say so")
def test_two_halves_get_one_device_where_the_pool_lends_parts_and_a_whole_one_the_other(live_platform: LivePlatform) -> None:
    [pool] = live_platform.operator.items("/pools")
    half = {"name": "half", "command": SHOW, "resources": {"gpu": 0.5, "cpu": 0.5, "memory": "64Mi"}}
    live_platform.api("PATCH", f"/pools/{pool['id']}", {"gpu_shares": True})
    first = live_platform.submit(half, wait=["running"])
    jobs = [first, live_platform.submit(half, wait=["running"])]
    jobs.append(live_platform.submit({**half, "name": "whole", "resources": {"gpu": 1, "cpu": 0.5}}, wait=["running"]))
    device, other, whole = (devices(live_platform, job) for job in jobs)
    assert device == other != whole
    late = live_platform.submit(half)
    live_platform.operator.wait_for_reason(late, "no_room")
    live_platform.restart()
    live_platform.operator.stop(jobs[0], grace_seconds=0)
    live_platform.wait(late, ["running"])
    assert devices(live_platform, late) == device
    for job in (late, *jobs[1:]):
        live_platform.operator.stop(job, grace_seconds=0)
        live_platform.wait(job)
    live_platform.api("PATCH", f"/pools/{pool['id']}", {"gpu_shares": None})
