"""What tests of clusters look at: the processes that a job has on this machine, and programs run beside its tasks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import yaml

import berth
from tests.builders.live import Json, LivePlatform, LiveUser

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NO_CONFIG = Path("/nonexistent/config.toml")


@contextlib.contextmanager
def signed_in(user: LiveUser) -> Iterator[berth.Client]:
    """The Python SDK as this user has it."""
    with berth.Client(user.platform.url, user.token, tenant=user.tenant, config_path=NO_CONFIG) as client:
        yield client


def submit_example(user: LiveUser, name: str, env: Json) -> Json:
    """Submit an example as it stands, with its code, and with these variables."""
    spec = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    with signed_in(user) as client:
        job = client.jobs.submit({**spec, "code": {"path": str(EXAMPLES / spec["code"]["path"])}, "env": env})
    return user.job(job.id)


def processes_of(job: Json) -> list[str]:
    """The names of all processes on this machine that belong to the job, whatever has become of their parents."""
    mark = f"BERTH_JOB_ID={job['id']}".encode()
    return sorted(name for name, environment in _environments() if mark in environment.split(b"\0"))


def _environments() -> Iterator[tuple[str, bytes]]:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield (folder / "comm").read_text().strip(), (folder / "environ").read_bytes()


def beside(user: LiveUser, job: Json, task: str, *argv: str) -> str:
    """What a command printed that ran beside a task of a running job, as by `berth exec`."""
    role, _, index = task.rpartition("-")
    with signed_in(user) as client:
        result = client.jobs.exec(job["id"], ["timeout", "60", *argv], role=role, index=int(index))
    assert result.exit_code == 0, result.text
    return result.text


def ended_with_nothing_left(platform: LivePlatform, job: Json, *, state: str) -> str:
    """Wait for the end of the job; gives its log."""
    ended = platform.wait(job)
    text = platform.logs(job)
    assert ended["state"] == state, text
    assert processes_of(job) == [], text
    return text
