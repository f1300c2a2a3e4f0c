"""A job that counts under random kills, evictions, drains and restarts repeats at most what its interval allows.

The judge is a witness that the payload appends to in a volume: the platform never reads or writes it. The seed is printed, and
BERTH_TEST_SEED plays a run again. With servers it is the production profile that is restarted, without them the embedded one.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.builders.live import ENDED, Json, LivePlatform, running_platform, wait_until

pytestmark = [pytest.mark.engines, pytest.mark.database]

SECONDS, LONG_SECONDS = 20.0, 120.0  # The long one outlasts every wait: what a drain or a stop misses is still there then.
STEP_SECONDS = 0.25
STEPS_A_CHECKPOINT = 4  # A checkpoint a second.
COUNT = f"""
import os, time
place, last = os.environ["BERTH_CHECKPOINT_DIR"], int(os.environ["LAST"])
witness = os.open("/witness/steps", os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o660)
number = int(open(f"{{place}}/number").read()) if os.path.exists(f"{{place}}/number") else 0
os.write(witness, b"start %d\\n" % number)
while number < last:
    time.sleep({STEP_SECONDS})
    number += 1
    os.write(witness, b"%d\\n" % number)
    if number % {STEPS_A_CHECKPOINT} == 0 or number == last:
        with open(f"{{place}}/number.tmp", "w") as file:
            file.write(str(number))
        os.rename(f"{{place}}/number.tmp", f"{{place}}/number")
"""
GPUS = {"cpu": 1, "memory": "128Mi", "gpu": 2}


@pytest.fixture
def chance() -> random.Random:
    seed = int(os.environ.get("BERTH_TEST_SEED", time.time_ns() % 10**6))
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.fixture
def platform() -> Iterator[LivePlatform]:
    profile = "production" if os.environ.get("BERTH_DATABASE_URL") else "embedded"
    with running_platform(BERTH_SERVER_PROFILE=profile) as platform:
        yield platform


@pytest.mark.parametrize("seconds", [SECONDS, pytest.param(LONG_SECONDS, marks=[pytest.mark.slow, pytest.mark.timeout(1_200)])])
def test_a_job_under_random_deaths_repeats_at_most_its_interval(
    platform: LivePlatform, chance: random.Random, seconds: float
) -> None:
    last = round(seconds / STEP_SECONDS)
    witness = platform.operator.make_volume(f"witness-{chance.getrandbits(40):x}")
    job = platform.submit(
        {
            "name": "counting",
            "command": ["/usr/bin/python3", "-c", COUNT],
            "env": {"LAST": str(last)},
            "resources": GPUS,
            "priority": 100,
            "retry": {"limit": 19},
            "mounts": [{"volume": witness["name"], "path": "/witness"}],
            "checkpoint": {"path": "ckpt", "grace": "1s", "interval": "1s"},
        }
    )
    deaths = list(blows(platform, job, chance, until=time.monotonic() + seconds))
    assert platform.wait(job, timeout=seconds * 10 + 180)["state"] == "succeeded", deaths
    lines = (Path(witness_folder(platform, witness)) / "steps").read_text().splitlines()
    starts = [int(line.removeprefix("start ")) for line in lines if line.startswith("start ")]
    steps = [int(line) for line in lines if not line.startswith("start ")]
    assert steps[-1] == last
    assert set(steps) == set(range(1, last + 1)), "a step was left out"
    assert starts == sorted(starts), f"progress was lost: {starts} after {deaths}"
    assert len(steps) - last <= STEPS_A_CHECKPOINT * (len(starts) - 1), f"{len(steps) - last} steps repeated by {deaths}"


def blows(platform: LivePlatform, job: Json, chance: random.Random, *, until: float) -> Iterator[str]:
    """End the job's attempts in one way or another until the time is over; how each was ended."""
    ways: list[Callable[[LivePlatform, Json], None]] = [kill, evict, drain, restart]
    while time.monotonic() < until and platform.operator.job(job)["state"] not in ENDED:
        before = platform.operator.job(job)["attempt"]
        with contextlib.suppress(AssertionError):  # It ended by itself meanwhile.
            platform.wait(job, ["running", "succeeded"], timeout=30)
        time.sleep(chance.uniform(0.5, 3.0))  # How far it comes is a part of what is tried.
        way = chance.choice(ways)
        way(platform, job)
        yield f"{way.__name__} of attempt {before}"


def kill(platform: LivePlatform, job: Json) -> None:
    """The payload dies of a signal, as of a bug."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"BERTH_JOB_ID={job['id']}".encode() in path.read_bytes() and b"python3" in (path.parent / "cmdline").read_bytes():
                os.kill(int(path.parent.name), 9)


def evict(platform: LivePlatform, job: Json) -> None:
    urgent = platform.submit({"name": "urgent", "command": "true", "resources": GPUS, "priority": 900})
    platform.wait(urgent)


def drain(platform: LivePlatform, job: Json) -> None:
    [node] = platform.operator.items("/nodes")
    platform.operator.api("POST", f"/nodes/{node['id']}/drain", {"reason": "a test"})
    on_node = "SELECT count(*) FROM jobs_attempt WHERE state <> 'ended'"
    wait_until(lambda: platform.rows(on_node) == [(0,)], "an empty node")
    platform.operator.api("PATCH", f"/nodes/{node['id']}", {"cordoned": False})


def restart(platform: LivePlatform, job: Json) -> None:
    """The platform is gone at once and comes back; the job need not notice."""
    platform.kill()
    platform.start()


def witness_folder(platform: LivePlatform, volume: Json) -> str:
    return str(platform.data_dir / "volumes" / volume["id"])
