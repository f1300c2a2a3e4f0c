"""The same job through REST as JSON and as YAML, the command line and the SDK is stored as the same bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import berth
from tests.builders.live import LivePlatform

pytestmark = [pytest.mark.engines, pytest.mark.database]

SPEC = """\
name: doors
hold: true                     # It is stored and never runs.
command: printf '%s\\n' "$GREETING" "${HOME}" {{a}} $(id -u) 'naïve 中文'
resources: {cpu: 500m, memory: 256Mi, shm: 64M}
env: {GREETING: "hello, you", SEED: 7}
labels: {project: doors, number: 3}
tags: [one, two]
priority: high
max_runtime: 1h30m
retry: {limit: 2, on: [platform, oom]}
checkpoint: {path: ckpt, signal: USR1, grace: 60s}
outputs: [model]
"""
DOCUMENT = {
    "name": "doors",
    "hold": True,
    "command": """printf '%s\\n' "$GREETING" "${HOME}" {{a}} $(id -u) 'naïve 中文'""",
    "resources": {"cpu": "500m", "memory": "256Mi", "shm": "64M"},
    "env": {"GREETING": "hello, you", "SEED": "7"},
    "labels": {"project": "doors", "number": "3"},
    "tags": ["one", "two"],
    "priority": "high",
    "max_runtime": 5400,
    "retry": {"limit": 2, "on": ["platform", "oom"]},
    "checkpoint": {"path": "ckpt", "signal": "USR1", "grace": 60},
    "outputs": ["model"],
}
MAIN = "from berth.cli.root import main; import sys; sys.exit(main())"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "doors.yaml"
    path.write_text(SPEC)
    return path


def by_json(platform: LivePlatform, file: Path) -> str:
    return str(platform.api("POST", "/jobs", {"spec": DOCUMENT, **platform.operator.in_tenant})["id"])


def by_yaml(platform: LivePlatform, file: Path) -> str:
    headers = {"Content-Type": "application/yaml"}
    return str(
        platform.api("POST", "/jobs", content=file.read_bytes(), headers=headers, params=platform.operator.in_tenant)["id"]
    )


def by_command_line(platform: LivePlatform, file: Path) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "HOME": str(file.parent),
        "BERTH_SERVER": platform.url,
        "BERTH_TOKEN": platform.token,
        "BERTH_TENANT": platform.operator.tenant,
    }
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "submit", "-f", str(file), "--json"],
        env=environment, cwd=file.parent, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["id"])


def by_sdk(platform: LivePlatform, file: Path) -> str:
    nowhere = file.parent / "none.toml"
    with berth.Client(platform.url, platform.token, tenant=platform.operator.tenant, config_path=nowhere) as client:
        return client.jobs.submit(file).id


@pytest.mark.capability("36", "The same job as JSON, as YAML, by command line and by SDK is stored as the same bytes")
def test_the_same_job_through_every_door_is_stored_as_the_same_bytes(live_platform: LivePlatform, file: Path) -> None:
    doors = {door.__name__: door(live_platform, file) for door in (by_json, by_yaml, by_command_line, by_sdk)}
    stored = {name: live_platform.operator.spec(job_id) for name, job_id in doors.items()}
    assert len(set(stored.values())) == 1, stored
    assert len({live_platform.operator.job(job_id)["spec_digest"] for job_id in doors.values()}) == 1
    command = json.loads(stored["by_yaml"])
    assert "naïve 中文" in json.dumps(command, ensure_ascii=False)
    for job_id in doors.values():
        live_platform.operator.stop(job_id)


def test_a_stored_spec_submitted_again_is_stored_as_it_was(live_platform: LivePlatform, file: Path) -> None:
    first = by_json(live_platform, file)
    before = live_platform.operator.spec(first)
    second = live_platform.submit(json.loads(before))
    assert live_platform.operator.spec(second) == before
    for job_id in (first, second["id"]):
        live_platform.operator.stop(job_id)
