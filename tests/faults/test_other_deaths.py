"""The launcher dies, the whole platform freezes past its leases, or it dies again and again: jobs do not notice."""

from __future__ import annotations

import os
import signal
import time
import uuid
from pathlib import Path

import pytest

from tests.builders.live import Json, LivePlatform, wait_until
from tests.faults.conftest import Steadfast

pytestmark = [pytest.mark.engines, pytest.mark.database]

SMALL = {"cpu": 1, "memory": "64Mi"}


def counting(user: Steadfast) -> Json:
    """A job that prints numbers until it was told that it is enough, with a witness."""
    witness = user.make_volume(f"witness-{uuid.uuid4().hex[:8]}")
    count = "n=0; while ! test -e /witness/enough; do echo $n; n=$((n+1)); sleep 0.01; done; echo last $n"
    command = f"echo start >> /witness/log; {count}; echo stop >> /witness/log"
    mounts = [{"volume": witness["name"], "path": "/witness"}]
    job: Json = user.submit({"name": "counting", "command": command, "mounts": mounts, "resources": SMALL}, wait=["running"])
    return {**job, "witness": witness}


def say_enough(user: Steadfast, job: Json) -> None:
    (user.platform.folder_of(job["witness"]) / "enough").touch(mode=0o666)


def assert_ran_once(user: Steadfast, job: Json) -> None:
    ended = user.wait(job)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1)
    *numbers, last = user.logs(job).splitlines()
    assert numbers == [str(number) for number in range(len(numbers))]
    assert last == f"last {len(numbers)}"
    assert user.download(f"/volumes/{job['witness']['id']}/content", path="log") == b"start\nstop\n"


def launcher_of(platform: LivePlatform) -> int | None:
    """The process that acts with root for this platform; its parent, which does nothing but replace it, looks the same."""
    word = f"{platform.data_dir}/run/launcher.sock".encode()
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if word in (path / "cmdline").read_bytes():
                found[int(path.name)] = int((path / "stat").read_text().rpartition(") ")[2].split()[1])
        except OSError:
            continue
    return next((pid for pid, parent in found.items() if parent in found), None)


def test_a_launcher_that_is_killed_takes_no_job_with_it(steadfast: Steadfast) -> None:
    if os.geteuid() != 0:
        pytest.skip("without root there is no launcher")
    platform = steadfast.platform
    job = counting(steadfast)
    first = launcher_of(platform)
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: launcher_of(platform) not in (None, first), "another launcher")
    beside = steadfast.submit({"name": "beside", "command": "true", "resources": SMALL}, wait=True)
    assert (beside["state"], beside["attempt"]) == ("succeeded", 1)
    say_enough(steadfast, job)
    assert_ran_once(steadfast, job)
    strays = steadfast.submit({"name": "strays", "command": "exec sleep 1000", "resources": SMALL}, wait=["running"])
    second = launcher_of(platform)
    assert second is not None
    os.kill(second, signal.SIGKILL)
    steadfast.stop(strays, grace_seconds=1)
    assert steadfast.wait(strays)["state"] == "stopped"


def test_a_platform_that_freezes_past_its_leases_goes_on_as_if_nothing_had_been(steadfast: Steadfast) -> None:
    platform = steadfast.platform
    job = counting(steadfast)
    witness = platform.folder_of(job["witness"])
    assert platform.process is not None
    platform.process.send_signal(signal.SIGSTOP)
    time.sleep(3.5)  # Three times the lease.
    (witness / "enough").touch(mode=0o666)
    wait_until(lambda: "stop" in (witness / "log").read_text(), "the job's end while nobody looks")
    platform.process.send_signal(signal.SIGCONT)
    assert_ran_once(steadfast, job)
    assert steadfast.deaths == []


def test_a_platform_that_dies_many_times_in_a_row_loses_nothing(steadfast: Steadfast) -> None:
    platform = steadfast.platform
    job = counting(steadfast)
    stopped = steadfast.submit({"name": "stopped", "command": "exec sleep 1000", "resources": SMALL}, wait=["running"])
    steadfast.stop(stopped, grace_seconds=1)
    for _ in range(4):
        platform.kill()
        platform.start_unready()
        time.sleep(0.8)  # Somewhere between the first import and the first request.
    platform.kill()
    platform.start()
    say_enough(steadfast, job)
    assert_ran_once(steadfast, job)
    assert steadfast.wait(stopped)["state"] == "stopped"
    assert platform.rows("SELECT count(*) FROM tenants_reservation WHERE released_at IS NULL") == [(0,)]
