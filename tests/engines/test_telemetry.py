"""What a job used is measured while it runs and can be read when it has ended."""

from __future__ import annotations

import pytest

from tests.builders.live import Json, LivePlatform, wait_until

pytestmark = pytest.mark.engines  # Once is enough: nothing here depends on the database.

MIB = 1024**2
# Some seconds of one core, with a hundred megabytes in hand.
BUSY = "import time; block = bytearray(100 << 20); end = time.monotonic() + 4\nwhile time.monotonic() < end: pass"


def highest(series: list[Json], metric: str) -> float:
    values = [value for item in series if item["metric"] == metric for value in item["highs"]]
    return max((value for value in values if value is not None), default=0.0)


def test_what_a_task_uses_is_measured_and_kept(live_platform: LivePlatform) -> None:
    operator = live_platform.operator
    resources = {"cpu": 1, "memory": "256Mi"}
    job = operator.submit({"name": "busy", "command": ["/usr/bin/python3", "-c", BUSY], "resources": resources}, wait=True)
    assert job["state"] == "succeeded"
    wait_until(lambda: operator.api("GET", f"/jobs/{job['id']}/metrics")["items"], "the job's measurements")
    series = operator.api("GET", f"/jobs/{job['id']}/metrics")["items"]
    assert all(item["subject"].endswith(":worker:0") for item in series)
    assert 100 < highest(series, "cpu_millis") < 1_500  # A loaded machine gives less than the core that was asked for.
    assert 100 * MIB <= highest(series, "memory_bytes") < 256 * MIB
    assert all(len(item["times"]) == len(item["values"]) for item in series)


def test_the_node_is_measured_and_scraped(live_platform: LivePlatform) -> None:
    operator = live_platform.operator
    [node] = operator.items("/nodes")
    wait_until(lambda: operator.api("GET", f"/nodes/{node['id']}/metrics")["items"], "the node's measurements")
    series = operator.api("GET", f"/nodes/{node['id']}/metrics")["items"]
    assert highest(series, "memory_bytes") > 100 * MIB
    scraped = operator.request("GET", "//metrics").text
    for family in ("berth_node_cpu_used_cores", "berth_node_memory_used_bytes", "berth_reconcile_lag_seconds", "berth_engine_up"):
        assert f"\n{family}" in scraped
    job_id = operator.items("/jobs")[0]["id"]
    assert job_id not in scraped
