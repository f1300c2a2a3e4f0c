"""The platform dies and comes back while jobs run: each runs once, ends once, and its log has no gap and no line twice."""

from __future__ import annotations

import concurrent.futures
import time
import uuid
from pathlib import Path

import httpx2
import pytest

from tests.builders.live import ENDED, Json, LivePlatform, wait_until

pytestmark = [pytest.mark.engines, pytest.mark.database]

# Numbered lines until somebody says that it is enough; a witness of starts and ends that only the job writes to.
SCRIPT = """
import os, time
witness = os.open("/witness/log", os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o660)
os.write(witness, b"start %d\\n" % os.getpid())
number = 0
while not os.path.exists("/witness/enough"):
    print(number, flush=True)
    number += 1
    time.sleep(0.005)
print("last", number, flush=True)
os.write(witness, b"stop %d\\n" % os.getpid())
"""


class Counting:
    """A job that counts, with its witness."""

    def __init__(self, platform: LivePlatform) -> None:
        self.platform = platform
        self.volume = platform.operator.make_volume(f"witness-{uuid.uuid4().hex[:8]}")
        self.job: Json = platform.submit(
            {
                "name": "counting",
                "command": ["/usr/bin/python3", "-c", SCRIPT],
                "mounts": [{"volume": self.volume["name"], "path": "/witness"}],
            },
            wait=["running"],
        )
        self.wait_for_lines(50)

    def wait_for_lines(self, count: int) -> None:
        wait_until(lambda: self.platform.logs(self.job).count("\n") >= count, f"{count} lines")

    def say_enough(self) -> None:
        self.platform.operator.upload({"volume": self.volume["id"], "path": "enough"}, b"enough")

    def assert_ran_once(self) -> None:
        ended = self.platform.wait(self.job)
        assert (ended["state"], ended["attempt"]) == ("succeeded", 1)
        *numbers, last = self.platform.logs(self.job).splitlines()
        assert numbers == [str(number) for number in range(len(numbers))]
        assert last == f"last {len(numbers)}"
        witness = self.platform.operator.download(f"/volumes/{self.volume['id']}/content", path="log").decode().split()
        assert witness[::2] == ["start", "stop"]
        assert witness[1] == witness[3]


@pytest.mark.capability("9", "After a crash of the platform the job goes on, once, and its log is whole")
def test_a_killed_platform_takes_up_its_running_job_and_its_log(live_platform: LivePlatform) -> None:
    counting = Counting(live_platform)
    pid = live_platform.operator.items(f"/jobs/{counting.job['id']}/attempts")[0]["id"]
    live_platform.kill()
    live_platform.start()
    seen = live_platform.logs(counting.job).count("\n")
    counting.wait_for_lines(seen + 50)
    assert live_platform.operator.items(f"/jobs/{counting.job['id']}/attempts")[0]["id"] == pid
    live_platform.kill()
    live_platform.start_unready()  # Killed again while it starts.
    time.sleep(1.0)
    live_platform.kill()
    live_platform.start()
    counting.say_enough()
    counting.assert_ran_once()


def test_a_platform_that_is_stopped_leaves_its_job_running(live_platform: LivePlatform) -> None:
    counting = Counting(live_platform)
    assert live_platform.stop() == 0
    live_platform.start()
    seen = live_platform.logs(counting.job).count("\n")
    counting.wait_for_lines(seen + 50)
    counting.say_enough()
    counting.assert_ran_once()


def test_a_job_that_ends_while_nobody_looks_is_found_ended(live_platform: LivePlatform) -> None:
    counting = Counting(live_platform)
    [(location,)] = live_platform.rows(f"SELECT location FROM storage_volume WHERE name = '{counting.volume['name']}'")
    live_platform.kill()
    (Path(location) / "enough").touch()
    wait_until(lambda: "stop" in (Path(location) / "log").read_text(), "the job's end")
    live_platform.start()
    counting.assert_ran_once()


def test_no_acknowledged_job_is_lost_and_none_is_made_twice(live_platform: LivePlatform) -> None:
    """Many submit while the platform is killed; whoever had no answer asks again with the same key."""
    keys = [uuid.uuid4().hex for _ in range(60)]
    witness = live_platform.operator.make_volume(f"crowd-{uuid.uuid4().hex[:8]}")["name"]

    def send(key: str) -> str | None:
        spec = {
            "name": f"crowd-{key}",
            "command": f"echo {key} >> /witness/log",
            "resources": {"cpu": 1, "memory": "32Mi"},
            "mounts": [{"volume": witness, "path": "/witness"}],
        }
        try:
            body = {"spec": spec, **live_platform.operator.in_tenant}
            answer = live_platform.operator.request("POST", "/jobs", json=body, headers={"Idempotency-Key": key})
        except httpx2.HTTPError:
            return None
        return str(answer.json()["id"]) if answer.is_success else None

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        sending = [pool.submit(send, key) for key in keys]
        concurrent.futures.wait(sending[:20])
        live_platform.kill()
        acknowledged = {key: future.result() for key, future in zip(keys, sending, strict=True)}
    assert sum(found is not None for found in acknowledged.values()) >= 20
    live_platform.start()
    again = {key: send(key) for key in keys}
    assert None not in again.values()
    assert {key: found for key, found in acknowledged.items() if found} == {
        key: again[key] for key, found in acknowledged.items() if found
    }
    assert len(set(again.values())) == len(keys)
    for job_id in again.values():
        assert job_id
        assert live_platform.wait(job_id, ENDED)["state"] == "succeeded"
    assert len(live_platform.operator.items("/jobs", q="crowd-")) == len(keys)
    [(location,)] = live_platform.rows(f"SELECT location FROM storage_volume WHERE name = '{witness}'")
    assert sorted((Path(location) / "log").read_text().split()) == sorted(keys)
