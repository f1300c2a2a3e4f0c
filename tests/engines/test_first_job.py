"""One job's whole life through the product: submitted, run, logged, brought home, charged."""

from __future__ import annotations

import hashlib

import pytest

from tests.builders.live import LivePlatform

pytestmark = [pytest.mark.engines, pytest.mark.database]


def test_a_job_ends_with_its_log_its_artifact_and_its_charge(live_platform: LivePlatform) -> None:
    script = "seq 1 2000; mkdir -p model; head -c 3000000 /dev/urandom > model/weights; sha256sum model/weights"
    job = live_platform.submit({"name": "first", "command": script, "outputs": ["model"], "resources": {"cpu": 2}}, wait=True)
    assert job["state"] == "succeeded"
    lines = live_platform.logs(job).splitlines()
    assert lines[:-1] == [str(number) for number in range(1, 2001)]
    digest = lines[-1].split()[0]
    [artifact] = live_platform.operator.artifacts(job)
    assert (artifact["path"], artifact["size_bytes"], artifact["sha256"]) == ("model/weights", 3_000_000, digest)
    content = live_platform.operator.download(f"/jobs/{job['id']}/artifacts/model/weights")
    assert hashlib.sha256(content).hexdigest() == digest
