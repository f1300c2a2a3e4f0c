"""Processes of the local cluster: killed keepers, a reboot, a reused pid, a child that fled, a broken record.

The engine's own part is in `tests/contract/engines/test_local_engine.py`; here the whole platform has to make the right thing of
it: one attempt at a time, nobody else's process touched, no process left.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.live import Json, LivePlatform, LiveUser, running_platform, wait_until

pytestmark = [pytest.mark.engines, pytest.mark.database]

SMALL = {"cpu": 1, "memory": "64Mi"}


@pytest.fixture(scope="module")
def platform() -> Iterator[LivePlatform]:
    with running_platform() as made:
        yield made


@pytest.fixture
def user(platform: LivePlatform) -> LiveUser:
    if not platform.is_running:
        platform.start()
    return platform.operator


def record_of(platform: LivePlatform, job: Json) -> Path:
    """What the engine wrote down when it started the job's present attempt."""
    [(attempt,)] = platform.rows(f"SELECT attempt_id FROM jobs_job WHERE id = '{_stored(platform, job['id'])}'")
    [found] = platform.data_dir.glob(f"engine/*/attempts/{uuid.UUID(str(attempt))}/control/started.json")
    return found


def _stored(platform: LivePlatform, text: str) -> str:
    return text if platform.is_on_servers else uuid.UUID(text).hex


def kill_all(word: str) -> None:
    """Kill whatever has this word, and wait for its end: until then it may write down how it ended."""
    for pid in processes_with(word):
        with contextlib.suppress(ProcessLookupError):  # It ended with its parent, which was before it.
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not processes_with(word), "the end of what was killed")


def rewrite(path: Path, change: Any) -> None:
    document = json.loads(path.read_bytes())
    change(document)
    facts = path.stat()
    path.write_text(json.dumps(document))
    os.chown(path, facts.st_uid, facts.st_gid)


def processes_with(word: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


@contextlib.contextmanager
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with the platform."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def witnessed(user: LiveUser, command: str, **spec: Any) -> tuple[Json, Json]:
    volume = user.make_volume(f"witness-{uuid.uuid4().hex[:8]}")
    mounts = [{"volume": volume["name"], "path": "/witness"}]
    job = user.submit({"name": "witnessed", "command": command, "mounts": mounts, "resources": SMALL, **spec}, wait=["running"])
    return job, volume


@pytest.mark.capability("57", "What a lost machine ended is tried again, and no retry of the user is spent")
def test_after_a_reboot_each_job_is_tried_once_more_and_nothing_of_before_is_signalled(
    platform: LivePlatform, user: LiveUser
) -> None:
    """A reboot ends every process and gives the machine another boot id: the platform comes back to records of another time."""
    sleep = f"1000.{uuid.uuid4().int % 10**12}"
    command = f"echo start >> /witness/log; test $BERTH_ATTEMPT = 2 && exit 0; exec sleep {sleep}"
    job, volume = witnessed(user, command)
    record = record_of(platform, job)
    platform.kill()
    wait_until(lambda: processes_with(sleep), "the job's process")
    wait_until(lambda: (platform.folder_of(volume) / "log").exists(), "its first word")
    kill_all(sleep)
    with bystander() as other:

        def reboot(document: Json) -> None:
            document["boot_id"] = str(uuid.uuid4())
            for task in document["tasks"].values():  # Numbers are given anew after a reboot.
                task["pid"] = other.pid

        for path in (path for path in record.parent.glob("*.exit")):
            path.write_bytes(b"pending\n")
        rewrite(record, reboot)
        platform.start()
        ended = user.wait(job)
        assert (ended["state"], ended["attempt"]) == ("succeeded", 2)
        assert other.poll() is None, "a process of somebody else was ended"
    assert user.download(f"/volumes/{volume['id']}/content", path="log") == b"start\nstart\n"
    first = next(item for item in user.items(f"/jobs/{job['id']}/attempts") if item["number"] == 1)
    assert first["exit"]["class"] == "node_lost"


def test_a_pid_that_is_somebody_elses_now_is_neither_adopted_nor_signalled(platform: LivePlatform, user: LiveUser) -> None:
    sleep = f"1000.{uuid.uuid4().int % 10**12}"
    job, _ = witnessed(user, f"exec sleep {sleep}", retry={"limit": 0})
    record = record_of(platform, job)
    platform.kill()
    kill_all(sleep)
    with bystander() as other:
        rewrite(record, lambda document: [task.update(pid=other.pid) for task in document["tasks"].values()])
        platform.start()
        user.stop(job, grace_seconds=0)
        assert user.wait(job, ["stopped", "failed"])["state"] in ("stopped", "failed")
        wait_until(lambda: not record.exists(), "the engine's forgetting")
        assert other.poll() is None, "a process of somebody else was ended"
    assert processes_with(sleep) == []


def test_children_that_fled_end_with_their_job_although_everybody_was_killed(platform: LivePlatform, user: LiveUser) -> None:
    """The job forks twice into a session of its own; launcher, keeper and platform die; the next one ends all of it."""
    sleep = f"1000.{uuid.uuid4().int % 10**12}"
    flees = f"os.setsid()\n if os.fork() == 0: os.execvp('sleep', ['sleep', '{sleep}'])\n os._exit(0)"
    fled = f"import os, time\nif os.fork() == 0:\n {flees}"
    command = ["/usr/bin/python3", "-c", f"{fled}\nprint('ready', flush=True)\ntime.sleep(1000)"]
    job = user.submit({"name": "fleeing", "command": command, "resources": SMALL}, wait=["running"])
    user.wait_for_line(job, "ready")
    wait_until(lambda: len(processes_with(sleep)) >= 1, "the child that fled")
    for pid in processes_with(f"{platform.data_dir}/run/launcher.sock"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    platform.kill()
    platform.start()
    assert user.job(job)["state"] == "running"
    user.stop(job, grace_seconds=0)
    assert user.wait(job)["state"] == "stopped"
    wait_until(lambda: processes_with(sleep) == [], "the end of every process")


def test_an_unreadable_record_hides_no_other_attempt_and_decides_nothing(platform: LivePlatform, user: LiveUser) -> None:
    sleep = f"1000.{uuid.uuid4().int % 10**12}"
    job, volume = witnessed(user, f"echo start >> /witness/log; exec sleep {sleep}")
    record = record_of(platform, job)
    kept = record.read_bytes()
    platform.kill()
    record.write_bytes(b"")  # As after a power failure: the name is there, the bytes are not.
    platform.start()
    wait_until(lambda: user.job(job)["condition"] == "lost_contact", "its condition")
    for _ in range(3):
        beside = user.submit({"command": "echo beside", "resources": SMALL}, wait=True)
        assert (beside["state"], beside["attempt"], user.logs(beside)) == ("succeeded", 1, "beside\n")
    assert (user.job(job)["state"], user.job(job)["attempt"]) == ("running", 1)
    assert len(processes_with(sleep)) >= 1
    record.write_bytes(kept)
    wait_until(lambda: user.job(job)["condition"] is None, "contact again")
    user.stop(job, grace_seconds=0)
    assert user.wait(job)["state"] == "stopped"
    assert user.download(f"/volumes/{volume['id']}/content", path="log") == b"start\n"
    wait_until(lambda: processes_with(sleep) == [], "the end of every process")


def test_what_a_job_prints_and_leaves_cannot_poison_the_platform(platform: LivePlatform, user: LiveUser) -> None:
    """NUL bytes where the platform looks for the cause of a failure: PostgreSQL holds them in no text."""
    nasty = [
        r"printf 'ModuleNotFoundError: No module named \000x\000\n' >&2; exit 1",
        r"printf 'berth: cannot start \000\n' >&2; exit 127",
        r"printf '\377\376\000\001RuntimeError: CUDA out of memory \000\n'; exit 1",
        r"printf '%b' '\0330\0230\0300\000'; exit 3",
    ]
    jobs = [user.submit({"name": "nasty", "command": command, "resources": SMALL, "retry": {"limit": 0}}) for command in nasty]
    good = [user.submit({"name": "good", "command": "echo fine", "resources": SMALL}) for _ in range(5)]
    began = time.monotonic()
    for job in good:
        assert user.wait(job)["state"] == "succeeded"
    for job in jobs:
        assert user.wait(job)["state"] == "failed"
    assert time.monotonic() - began < 180, "nobody waited for what is set aside"
    assert platform.log_events("poison") == [], "nothing had to be set aside"
    classes = [user.job(job)["exit"]["class"] for job in jobs]
    assert classes[0] == "python_import_error"
