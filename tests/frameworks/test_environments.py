"""Jobs see the environments of the frameworks, read only, and run what is in them."""

from __future__ import annotations

import pytest

from tests.builders.frameworks import SYSTEM_PATH, framework_path
from tests.builders.live import Json, LivePlatform
from tools.frameworks import FRAMEWORKS, Environments

pytestmark = pytest.mark.frameworks

pinned_version = Environments.cached().version


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


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_job_imports_the_framework(live_platform: LivePlatform, framework: str) -> None:
    module = FRAMEWORKS[framework].module
    command = f"python3 -c 'import {module}; print(\"version\", {module}.__version__)'"
    job, text = run_with(live_platform, framework, command)
    assert job["state"] == "succeeded", text
    assert f"version {pinned_version(framework)}\n" in text


@pytest.mark.parametrize(("framework", "command"), [("ray", "ray --version"), ("dask", "dask --version")])
def test_programs_of_an_environment_run_where_jobs_see_them(live_platform: LivePlatform, framework: str, command: str) -> None:
    job, text = run_with(live_platform, framework, command)
    assert job["state"] == "succeeded", text
    assert pinned_version(framework) in text


def test_spark_finds_its_java_in_the_sandbox(live_platform: LivePlatform) -> None:
    job, text = run_with(live_platform, "spark", "spark-submit --version 2>&1")
    assert job["state"] == "succeeded", text
    assert f"version {pinned_version('spark')}" in text
    assert "Server VM, " in text


def test_a_job_changes_no_environment(live_platform: LivePlatform) -> None:
    folder = framework_path("dask")
    job, text = run_with(live_platform, "dask", f"touch {folder}/planted")
    assert job["state"] == "failed"
    assert "Read-only file system" in text
