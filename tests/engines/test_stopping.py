"""Stops reach everything that a job started, in the order that was promised, and every end is named for what it was."""

from __future__ import annotations

import time
import uuid
from datetime import datetime
from pathlib import Path

import pytest

from tests.builders.live import ENDED, Json, LivePlatform, wait_until
from tests.contract.engines.bench import FORMS, command_that_saves_on
from tests.engines.test_frameworks import DEBIANS_TORCHRUN

pytestmark = [pytest.mark.engines, pytest.mark.database]

# Grandchildren in sessions of their own, whose parents are gone, and who hear no polite signal.
STRAYS = """
import os, signal, sys, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.execv("/bin/sleep", ["/bin/sleep", sys.argv[1]])
        os._exit(0)
print("ready", flush=True)
time.sleep(1000)
"""
HOG = """
import time
held = []
while True:
    held.append(bytearray(8 << 20))
    time.sleep(0.01)
"""


def processes_with(word: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def unique_seconds() -> str:
    """A time to sleep that no other process sleeps."""
    return f"1000.{uuid.uuid4().int % 10**12}"


def started(platform: LivePlatform, **spec: object) -> Json:
    job = platform.submit(spec, wait=["running"])
    platform.operator.wait_for_line(job, "ready")
    return job


def test_a_stop_leaves_nothing_of_the_job_running(live_platform: LivePlatform) -> None:
    word = unique_seconds()
    job = started(live_platform, name="strays", command=["/usr/bin/python3", "-c", STRAYS, word])
    wait_until(lambda: len(processes_with(word)) >= 4, "the grandchildren")
    live_platform.operator.stop(job, grace_seconds=1)
    assert live_platform.wait(job)["state"] == "stopped"
    assert processes_with(word) == []


def test_a_job_that_ends_leaves_nothing_behind_it(live_platform: LivePlatform) -> None:
    word = unique_seconds()
    script = STRAYS.replace("time.sleep(1000)", "time.sleep(0.5)")
    job = live_platform.submit({"name": "strays", "command": ["/usr/bin/python3", "-c", script, word]}, wait=True)
    assert job["state"] == "succeeded"
    wait_until(lambda: processes_with(word) == [], "the end of the grandchildren")


def test_a_job_has_its_grace_to_save_its_work(live_platform: LivePlatform) -> None:
    script = "trap 'echo saving; sleep 1; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    job = started(live_platform, name="graceful", command=script)
    asked = time.monotonic()
    live_platform.operator.stop(job, grace_seconds=60)
    ended = live_platform.wait(job)
    assert time.monotonic() - asked < 50
    assert live_platform.logs(job, stream="stdout").endswith("saving\nsaved\n")
    assert ended["state"] == "stopped"


def test_the_checkpoint_signal_of_a_job_is_sent(live_platform: LivePlatform) -> None:
    script = "trap 'echo saved; exit 0' USR1; trap '' TERM; echo ready; while :; do sleep 0.05; done"
    checkpoint = {"path": "ckpt", "signal": "USR1", "grace": "60s"}
    job = started(live_platform, name="checkpointing", command=script, checkpoint=checkpoint)
    live_platform.operator.stop(job)
    assert live_platform.wait(job)["state"] == "stopped"
    assert live_platform.logs(job, stream="stdout").endswith("saved\n")


SIGNALS = ("USR1", "TERM", "INT")
WAYS = ("stop", "deadline", "eviction", "drain")


def saving(platform: LivePlatform, form: str, way: str) -> Json:
    """A running job whose program saves at a signal, a different one for each pair of neighbours in the table."""
    name = SIGNALS[(list(FORMS).index(form) + WAYS.index(way)) % len(SIGNALS)]
    return platform.submit(
        {
            "name": f"saving-{way}",
            "command": command_that_saves_on(name, form),
            "resources": {"cpu": 5 if way == "eviction" else "10m", "memory": "128Mi"},
            "priority": 100,
            "max_runtime": "1h",
            "retry": {"limit": 9, "on": ["deadline"]},
            "checkpoint": {"path": "ckpt", "signal": name, "grace": "60s", "before_deadline": "1m"},
        }
    )


def limit_time(platform: LivePlatform, job: Json, seconds: int) -> None:
    """A job whose state changes at this moment is to be changed once more (412)."""
    change = {"max_runtime_seconds": seconds}
    wait_until(lambda: platform.operator.request("PATCH", f"/jobs/{job['id']}", json=change).is_success, "another time limit")


def has_saved(platform: LivePlatform, job: Json, form: str) -> bool:
    return form in [item["path"] for item in platform.api("GET", f"/jobs/{job['id']}/checkpoint/files")["items"]]


def test_a_program_saves_in_whatever_form_it_is_written_and_whatever_stops_it(live_platform: LivePlatform) -> None:
    platform = live_platform
    table = {(form, way): saving(platform, form, way) for way in WAYS for form in FORMS}
    for job in table.values():
        platform.operator.wait_for_line(job, "ready")
    for (_, way), job in table.items():
        if way == "stop":
            platform.operator.stop(job)
        if way == "deadline":
            limit_time(platform, job, 1)
    for (_, way), job in table.items():
        if way == "deadline":
            platform.wait(job, ["stopping", "queued", *ENDED])
            limit_time(platform, job, 3_600)  # The next attempt has its time.
    all_of_it = {"name": "urgent", "command": "true", "resources": {"cpu": 60, "memory": "128Mi"}, "priority": 900}
    assert platform.submit(all_of_it, wait=True)["state"] == "succeeded"
    for (_, way), job in table.items():
        if way != "drain":
            assert platform.wait(job)["state"] == ("stopped" if way == "stop" else "succeeded"), (way, job)
    [node] = platform.operator.items("/nodes")
    platform.api("POST", f"/nodes/{node['id']}/drain", {"reason": "a test"})
    for (_, way), job in table.items():
        if way == "drain":
            platform.wait(job, ["queued"])
    platform.api("PATCH", f"/nodes/{node['id']}", {"cordoned": False})
    for (form, way), job in table.items():
        ended = platform.wait(job)
        assert ended["state"] == ("stopped" if way == "stop" else "succeeded"), (form, way)
        assert (ended["attempt"] > 1) == (way != "stop"), (form, way)
        assert has_saved(platform, job, form), (form, way)


WORKER = """
import os, signal, time
def save(number, frame):
    time.sleep(0.3)
    open(f"{os.environ['BERTH_CHECKPOINT_DIR']}/saved-by-{os.environ['RANK']}", "w").close()
    raise SystemExit(0)
signal.signal(signal.SIGUSR1, save)
print("ready", os.environ["RANK"], flush=True)
while True:
    time.sleep(0.02)
"""


def test_the_workers_of_torchrun_save_and_so_does_what_waits_for_them(live_platform: LivePlatform) -> None:
    """torchrun does not handle USR1: it would end of it, and its workers with it."""
    run = "torchrun --standalone --nproc_per_node 2 worker.py 2>&1 | tee log"
    command = f"cat >worker.py <<'END'{WORKER}END\n{run}\nls $BERTH_CHECKPOINT_DIR"
    spec = {
        "name": "torchrun",
        "command": command,
        "env": {**DEBIANS_TORCHRUN, "PYTHONUNBUFFERED": "1"},
        "checkpoint": {"path": "ckpt", "signal": "USR1", "grace": "60s"},
    }
    job = live_platform.submit(spec, wait=["running"])
    for rank in (0, 1):
        live_platform.operator.wait_for_line(job, f"ready {rank}")
    live_platform.operator.stop(job)
    assert live_platform.wait(job)["state"] == "stopped"
    assert live_platform.logs(job, stream="stdout").endswith("saved-by-0\nsaved-by-1\n")


def test_a_job_that_does_not_listen_is_killed_when_the_grace_is_over(live_platform: LivePlatform) -> None:
    job = started(live_platform, name="deaf", command="trap '' TERM; echo ready; while :; do sleep 0.05; done")
    live_platform.operator.stop(job, grace_seconds=2)
    ended = live_platform.wait(job)
    assert (ended["state"], ended["exit"]["class"]) == ("stopped", "stopped_by_user")
    events = live_platform.operator.items(f"/jobs/{job['id']}/events")
    moments = {event["to_state"]: datetime.fromisoformat(event["at"]) for event in events if event["subject"]["kind"] == "job"}
    assert 1.9 <= (moments["stopped"] - moments["stopping"]).total_seconds() < 30


def test_a_stop_survives_the_platform_that_was_told(live_platform: LivePlatform) -> None:
    word = unique_seconds()
    job = started(live_platform, name="strays", command=["/usr/bin/python3", "-c", STRAYS, word])
    live_platform.operator.stop(job, grace_seconds=1)
    live_platform.kill()
    live_platform.start()
    assert live_platform.wait(job)["state"] == "stopped"
    assert processes_with(word) == []


def test_exit_137_is_told_apart(live_platform: LivePlatform) -> None:
    """A hog is ended for its memory and named so, a stop is a stop, a kill from inside is a kill; the neighbour goes on."""
    small = {"cpu": 1, "memory": "64Mi"}
    neighbour = started(live_platform, name="neighbour", command="echo ready; sleep 1000", resources=small)
    hog = live_platform.submit({"name": "hog", "command": ["/usr/bin/python3", "-c", HOG], "resources": small})
    killed = live_platform.submit({"name": "killed", "command": "kill -9 $$", "resources": small})
    stopped = started(live_platform, name="stopped", command="trap '' TERM; echo ready; while :; do sleep 0.05; done")
    live_platform.operator.stop(stopped, grace_seconds=0)
    ends = {job["name"]: live_platform.wait(job) for job in (hog, killed, stopped)}
    assert {name: end["exit"]["class"] for name, end in ends.items()} == {
        "hog": "oom",
        "killed": "killed",
        "stopped": "stopped_by_user",
    }
    assert {name: end["state"] for name, end in ends.items()} == {"hog": "failed", "killed": "failed", "stopped": "stopped"}
    assert ends["hog"]["exit"]["who_pays"] == "user"
    assert "memory" in ends["hog"]["exit"]["hint"]
    assert live_platform.operator.job(neighbour)["state"] == "running"
    live_platform.operator.stop(neighbour)
    assert live_platform.wait(neighbour)["state"] == "stopped"


def test_max_runtime_ends_a_job(live_platform: LivePlatform) -> None:
    job = live_platform.submit({"name": "late", "command": "sleep 1000", "max_runtime": "1s"}, wait=True)
    assert (job["state"], job["exit"]["class"]) == ("failed", "deadline")
