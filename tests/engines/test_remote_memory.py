"""RDMA as a running task has it: a device node that it can open, and memory that it may lock. Without asking, neither."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.live import LivePlatform, wait_until

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes"),
]

FOLDER = Path("/dev/infiniband")
CAP_SYS_RESOURCE = 24
NULL = os.makedev(1, 3)  # Behaves as /dev/null does: what is shown is that a task may open it, not what an adapter answers.
TRY = """
import os, resource
try:
    os.close(os.open("/dev/infiniband/uverbs-test", os.O_RDWR))
    print("opened")
except OSError as error:
    print(type(error).__name__)
print("locks", resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY)
"""


@pytest.fixture
def adapter() -> Iterator[None]:
    was_there = FOLDER.is_dir()
    FOLDER.mkdir(exist_ok=True)
    node = FOLDER / "uverbs-test"
    os.mknod(node, 0o666 | stat.S_IFCHR, NULL)
    node.chmod(0o666)  # As udev gives it on a host with adapters.
    yield
    node.unlink()
    if not was_there:
        FOLDER.rmdir()


@pytest.mark.usefixtures("adapter")
def test_a_task_opens_the_adapter_that_it_asked_for_and_locks_memory(live_platform: LivePlatform) -> None:
    wait_until(lambda: live_platform.api("GET", "/nodes")["items"][0]["labels"].get("rdma") == "yes", "a node with an adapter")
    command = ["python3", "-c", TRY]
    asks = live_platform.submit({"command": command, "resources": {"cpu": 0.1, "memory": "64Mi", "rdma": True}}, wait=True)
    does_not = live_platform.submit({"command": command, "resources": {"cpu": 0.1, "memory": "64Mi"}}, wait=True)
    assert live_platform.logs(asks) == f"opened\nlocks {_may_raise_limits()}\n"
    assert live_platform.logs(does_not).startswith("FileNotFoundError\n")


def _may_raise_limits() -> bool:
    """Whether this host lets root raise limits at all; some containers do not."""
    effective = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:"))
    return bool(int(effective.split()[1], 16) >> CAP_SYS_RESOURCE & 1)
