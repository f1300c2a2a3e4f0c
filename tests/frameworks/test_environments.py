"""Jobs see the environments of the frameworks, read only."""

from __future__ import annotations

import pytest

from tests.builders.frameworks import SYSTEM_PATH, framework_path
from tests.builders.live import Json, LivePlatform

pytestmark = pytest.mark.frameworks


def run_with(platform: LivePlatform, framework: str, command: str) -> tuple[Json, str]:
    """The job when it has ended, and what it printed."""
    spec = {
        "name": f"{framework}-imports",
        "command": command,
        "env": {"PATH": f"{framework_path(framework)}:{SYSTEM_PATH}"},
        "resources": {"cpu": 1, "memory": "2Gi"},
    }
    job = platform.submit(spec, wait=True)
    return job, platform.logs(job)


def test_a_job_changes_no_environment(live_platform: LivePlatform) -> None:
    folder = framework_path("dask")
    job, text = run_with(live_platform, "dask", f"touch {folder}/planted")
    assert job["state"] == "failed"
    assert "Read-only file system" in text
