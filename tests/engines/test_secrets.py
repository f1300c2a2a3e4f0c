"""A secret reaches the job's environment, and no file, table, command line, answer or log of the platform."""

from __future__ import annotations

import hashlib
import uuid
from pathlib import Path

import pytest

from tests.builders.files import content, paths_below
from tests.builders.live import LivePlatform

pytestmark = [pytest.mark.engines, pytest.mark.database]


def test_a_secret_is_in_the_job_and_nowhere_else(live_platform: LivePlatform) -> None:
    canary = f"canary-{uuid.uuid4().hex}"
    operator = live_platform.operator
    operator.api("PUT", "/tenants/default/secrets/API_TOKEN", {"value": canary})
    spec = {
        "name": "discreet",
        "command": 'printf %s "$TOKEN" | sha256sum; exec sleep 1000',
        "secrets": {"TOKEN": "API_TOKEN"},
    }
    job = operator.submit(spec, wait=["running"])
    assert hashlib.sha256(canary.encode()).hexdigest() in operator.wait_for_line(job, "-")
    assert where_found(live_platform, canary, str(job["id"])) == []
    operator.stop(job, grace_seconds=0)
    operator.wait(job)
    assert where_found(live_platform, canary, str(job["id"])) == []
    operator.api("DELETE", "/tenants/default/secrets/API_TOKEN")
    lost = operator.request("POST", "/jobs", json={"spec": spec, **operator.in_tenant})
    assert lost.json()["fields"][0]["code"] == "secret_missing"


def where_found(platform: LivePlatform, canary: str, job_id: str) -> list[str]:
    """Everywhere that a word is found: files, rows, command lines, answers of the API, the platform's log."""
    word = canary.encode()
    found = [str(path) for path in [*paths_below(platform.data_dir), platform.log] if word in content(path)]
    found += [f"table {name}" for name in platform.tables_with(canary)]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [str(path)] if word in path.read_bytes() else []
        except OSError:
            continue
    addresses = [f"/jobs/{job_id}{tail}" for tail in ("", "/spec", "/events?all=1", "/attempts", "/tasks", "/logs")]
    addresses += ["/tenants/default/secrets", "/audit", "/events", "/jobs"]
    found += [address for address in addresses if canary in platform.operator.request("GET", address).text]
    return found
