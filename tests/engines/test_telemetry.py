"""What a job used is measured while it runs and can be read when it has ended."""

from __future__ import annotations

import uuid

import pytest

from tests.builders.live import Json, LivePlatform, wait_until

pytestmark = pytest.mark.engines  # Once is enough: nothing here depends on the database.

MIB = 1024**2
# One core until somebody says that it is enough, with a hundred megabytes in hand.
BUSY = "import os; block = bytearray(100 << 20)\nwhile not os.path.exists('/told/enough'): pass"


def highest(series: list[Json], metric: str) -> float:
    values = [value for item in series if item["metric"] == metric for value in item["highs"]]
    return max((value for value in values if value is not None), default=0.0)


@pytest.mark.capability("41", "What a task uses is measured and kept")
def test_what_a_task_uses_is_measured_and_kept(live_platform: LivePlatform) -> None:
    operator = live_platform.operator
    resources = {"cpu": 1, "memory": "256Mi"}
    volume = operator.make_volume(f"told-{uuid.uuid4().hex[:8]}")
    mounts = [{"volume": volume["name"], "path": "/told"}]
    command = ["/usr/bin/python3", "-c", BUSY]
    job = operator.submit({"name": "busy", "command": command, "resources": resources, "mounts": mounts}, wait=["running"])

    def measured() -> list[Json]:
        found: list[Json] = operator.api("GET", f"/jobs/{job['id']}/metrics")["items"]
        return found

    wait_until(lambda: highest(measured(), "cpu_millis") > 100, "the core that it uses")
    wait_until(lambda: highest(measured(), "memory_bytes") >= 100 * MIB, "the memory that it holds")
    operator.upload({"volume": volume["id"], "path": "enough"}, b"enough")
    assert operator.wait(job)["state"] == "succeeded"
    series = measured()
    assert all(item["subject"].endswith(":worker:0") for item in series)
    assert 100 < highest(series, "cpu_millis") < 1_500  # A loaded machine gives less than the core that was asked for.
    assert 100 * MIB <= highest(series, "memory_bytes") < 256 * MIB
    assert all(len(item["times"]) == len(item["values"]) for item in series)


@pytest.mark.capability("49", "Nodes and engines are measured and scraped")
def test_the_node_is_measured_and_scraped(live_platform: LivePlatform) -> None:
    operator = live_platform.operator
    [node] = operator.items("/nodes")

    def used_bytes() -> float:
        return highest(operator.api("GET", f"/nodes/{node['id']}/metrics")["items"], "memory_bytes")

    wait_until(lambda: used_bytes() > 100 * MIB, "the node's measurements")
    families = ("berth_node_cpu_used_cores", "berth_node_memory_used_bytes", "berth_reconcile_lag_seconds", "berth_engine_up")
    scraped = ""

    def are_scraped() -> bool:
        """What is used needs two measurements."""
        nonlocal scraped
        scraped = operator.request("GET", "//metrics").text
        return all(f"\n{family}" in scraped for family in families)

    wait_until(are_scraped, "all of the families")
    job_id = operator.items("/jobs")[0]["id"]
    assert job_id not in scraped
