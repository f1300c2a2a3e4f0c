"""Control groups as the kernel has them, read from the host beside a task of the running platform."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.live import LivePlatform, wait_until

pytestmark = pytest.mark.engines

TREES = Path("/sys/fs/cgroup")
MEMORY = 96 * 1024**2


@pytest.fixture
def pid(live_platform: LivePlatform) -> Iterator[int]:
    """The host's number of a process of a task with half a core and 96 MiB."""
    word = f"marked-{uuid.uuid4().hex}"
    command = ["/bin/sh", "-c", f"echo {word}; sleep 1000; :"]
    job = live_platform.submit({"command": command, "resources": {"cpu": 0.5, "memory": "96Mi"}}, wait=["running"])
    if not any("berth" in line for line in _groups(_process_with(word)).values()):
        live_platform.operator.stop(job, grace_seconds=0)
        pytest.skip("this machine lets nobody make control groups")
    yield _process_with(word)
    live_platform.operator.stop(job, grace_seconds=0)


def _process_with(word: str) -> int:
    found: list[int] = []

    def look() -> bool:
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                arguments = (place / "cmdline").read_bytes().split(b"\0")
                if arguments[0].endswith(b"/sh") and any(word.encode() in each and b"sleep" in each for each in arguments):
                    found.append(int(place.name))
        return bool(found)

    wait_until(look, "a process of the task")
    return max(found)


def _groups(pid: int) -> dict[str, str]:
    """Controller to path, of both versions; version 2 under the empty name."""
    rows = (line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines())
    return {controller: path for _, controllers, path in rows for controller in controllers.split(",")}


def _value(pid: int, controller: str, first: str, second: str) -> str:
    """A limit of the process's own group: a file of version 1, or of version 2."""
    groups = _groups(pid)
    if controller in groups:
        return (TREES / controller / groups[controller].lstrip("/") / first).read_text().strip()
    return (TREES / groups[""].lstrip("/") / second).read_text().strip()


def test_the_kernel_holds_a_task_to_the_memory_cores_and_processes_that_it_asked_for(pid: int) -> None:
    assert _value(pid, "memory", "memory.limit_in_bytes", "memory.max") == str(MEMORY)
    assert _value(pid, "cpu", "cpu.cfs_quota_us", "cpu.max").split()[0] == "50000"
    assert int(_value(pid, "pids", "pids.max", "pids.max")) > 0


@pytest.mark.usefixtures("pid")
def test_a_task_beyond_its_memory_is_killed_by_the_kernel_and_the_job_says_so(live_platform: LivePlatform) -> None:
    program = "held = []\nwhile True: held.append(b'x' * 2**24)"
    command = ["python3", "-c", program]
    job = live_platform.submit({"command": command, "resources": {"cpu": 0.5, "memory": "96Mi"}}, wait=True)
    assert job["state"] == "failed"
    assert (job["exit"]["class"], "memory" in job["reason"]["text"].lower()) == ("oom", True), job["reason"]
