"""What a job wrote to its checkpoint directory is there for the next attempt, whatever ended the one before."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest

from tests.builders.live import Json, LivePlatform, wait_until

pytestmark = [pytest.mark.engines, pytest.mark.database]

CHECKPOINT = {"path": "ckpt", "signal": "TERM", "grace": "5s"}
# Adds one to a counter, as a program should: written beside, then renamed.
COUNT = """
cd "$BERTH_CHECKPOINT_DIR"
number=$(cat number 2>/dev/null || echo 0)
echo "found $number"
echo $((number + 1)) >number.tmp && mv number.tmp number
cd - >/dev/null
"""


def checkpoint(platform: LivePlatform, job: Json) -> Json:
    found: Json = platform.api("GET", f"/jobs/{job['id']}/checkpoint")
    return found


def folder_of(platform: LivePlatform, job: Json) -> Path:
    """The directory on this host, past all of our code."""
    [found] = (platform.data_dir / "checkpoints").glob(f"*/{job['id']}")
    return found


def test_a_checkpoint_directory_is_there_before_the_program_starts(live_platform: LivePlatform) -> None:
    command = (
        'test -d "$BERTH_CHECKPOINT_DIR" && test -d ckpt && echo same >ckpt/x && cat "$BERTH_CHECKPOINT_DIR/x"; stat -c %a ckpt/'
    )
    job = live_platform.submit({"command": command, "checkpoint": CHECKPOINT}, wait=True)
    assert live_platform.logs(job) == "same\n700\n"


@pytest.mark.capability("117", "What an attempt saved is there for the next one, after a failure and after a preemption")
def test_what_an_attempt_saved_is_there_after_a_retry(live_platform: LivePlatform) -> None:
    spec = {"command": COUNT + '[ "$number" -ge 2 ]', "retry": {"limit": 3}, "checkpoint": CHECKPOINT}
    job = live_platform.submit(spec, wait=True)
    assert job["state"] == "succeeded"
    logs = [live_platform.logs(job, attempt=number) for number in (1, 2, 3)]
    assert logs == ["found 0\n", "found 1\n", "found 2\n"]


@pytest.mark.capability("117", "What an attempt saved is there for the next one, after a failure and after a preemption")
def test_what_an_attempt_saved_is_there_after_a_higher_priority_evicted_it(live_platform: LivePlatform) -> None:
    gpus = {"gpu": 2, "cpu": 1, "memory": "64Mi"}
    script = COUNT + 'echo saved; [ "$number" -ge 1 ] && exit 0; while :; do sleep 0.1; done'
    job = live_platform.submit({"command": script, "resources": gpus, "priority": 100, "checkpoint": CHECKPOINT})
    live_platform.operator.wait_for_line(job, "saved")
    urgent = live_platform.submit({"name": "urgent", "command": "true", "resources": gpus, "priority": 900})
    assert live_platform.wait(urgent)["state"] == "succeeded"
    ended = live_platform.wait(job)
    assert ended["state"] == "succeeded"
    attempts = live_platform.operator.items(f"/jobs/{job['id']}/attempts")
    assert sorted(attempt["outcome"] for attempt in attempts) == ["preempted", "succeeded"]
    assert live_platform.logs(job, attempt=2) == "found 1\nsaved\n"


def test_what_was_half_written_is_gone_before_the_next_attempt(live_platform: LivePlatform) -> None:
    script = (
        COUNT
        + 'ls ckpt; mkdir -p ckpt/step-2.tmp; echo half >ckpt/step-2.tmp/weights; echo half >ckpt/x.partial; [ "$number" -ge 1 ]'
    )
    job = live_platform.submit({"command": script, "retry": {"limit": 1}, "checkpoint": CHECKPOINT}, wait=True)
    assert live_platform.logs(job, attempt=2) == "found 1\nnumber\n"


def test_each_role_and_each_task_has_a_directory_of_its_own_where_the_job_says_so(live_platform: LivePlatform) -> None:
    script = 'echo "$BERTH_CHECKPOINT_DIR" && echo mine >"$BERTH_CHECKPOINT_DIR/x"'
    spec = {"command": script, "replicas": 2, "checkpoint": {**CHECKPOINT, "per": "task"}}
    job = live_platform.submit(spec, wait=True)
    assert job["state"] == "succeeded"
    assert sorted(path.name for path in folder_of(live_platform, job).iterdir()) == ["worker-0", "worker-1"]


def test_children_of_an_array_do_not_share_a_checkpoint(live_platform: LivePlatform) -> None:
    spec = {"command": COUNT + "exit 0", "array": 2, "checkpoint": CHECKPOINT}
    parent = live_platform.submit(spec, wait=True)
    children = live_platform.operator.items("/jobs", parent=parent["id"])
    assert [live_platform.logs(child) for child in children] == ["found 0\n"] * 2


def test_a_checkpoint_inside_a_mount_is_made_and_left_to_its_owner(live_platform: LivePlatform) -> None:
    volume = live_platform.operator.make_volume(f"kept-{uuid.uuid4().hex[:8]}")
    mounts = [{"volume": volume["name"], "path": "/data"}]
    spec = {"command": COUNT + "exit 0", "mounts": mounts, "checkpoint": {**CHECKPOINT, "path": "/data/runs/one"}}
    for expected in ("found 0\n", "found 1\n"):
        assert live_platform.logs(live_platform.submit(spec, wait=True)) == expected


def test_a_job_whose_checkpoint_is_lost_is_held_before_it_gets_machines_and_goes_on_once_that_is_mended(
    live_platform: LivePlatform,
) -> None:
    script = COUNT + '[ "$number" -ge 1 ] && exit 0; while [ ! -e ckpt/fail ]; do sleep 0.05; done; exit 1'
    job = live_platform.submit({"command": script, "checkpoint": CHECKPOINT, "retry": {"limit": 1}}, wait=["running"])
    wait_until(lambda: checkpoint(live_platform, job)["saved_at"], "the first measurement")
    folder = folder_of(live_platform, job)
    aside = folder.rename(folder.with_name(f"aside-{uuid.uuid4().hex}"))
    (aside / "fail").touch()
    held = live_platform.operator.wait_for_reason(job, "checkpoint_unreadable")
    assert held["hold"]
    assert held["attempt"] == 1
    assert "berth release" in held["reason"]["hint"]
    folder.exists() and shutil.rmtree(folder)
    aside.rename(folder)
    live_platform.operator.api("PATCH", f"/jobs/{job['id']}", {"hold": False})
    assert live_platform.wait(job)["state"] == "succeeded"
    assert live_platform.logs(job, attempt=2) == "found 1\n"
