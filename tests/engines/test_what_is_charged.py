"""What the ledger charges is what a job's own program wrote down of its time, also where the platform was away meanwhile."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.builders.live import Json, LivePlatform, wait_until
from tests.builders.operating import manage
from tests.chaos.watching import Pulse
from tests.histories.billing import BILL_SECONDS, STARTS

pytestmark = [pytest.mark.engines, pytest.mark.database]

# A file has its name once it is written: it is read as soon as it is there.
PROGRAM = """
now() { date +%s.%N > "/witness/$1.part"; mv "/witness/$1.part" "/witness/$1"; }
now started; while ! test -e /witness/enough; do sleep 0.05; done; now ended
"""
AWAY_SECONDS = 6.0

Spare = Callable[[], float]


@pytest.fixture
def spare() -> Iterator[Spare]:
    """How far a bill may be from what a program saw of itself: a second, and what the machine took to start the processes that
    come before its first word."""
    slow = [0.0]
    pulse = Pulse(lambda source, event, *, seconds: slow.append(seconds))
    pulse.start()
    yield lambda: BILL_SECONDS + STARTS * max(slow)
    pulse.stopping.set()
    pulse.join(30)


def seconds_by_witness(folder: Path) -> float:
    return float((folder / "ended").read_text()) - float((folder / "started").read_text())


def begun(platform: LivePlatform) -> tuple[Json, Path]:
    """A job that goes on until it is told, and where it says when it began and ended."""
    volume = platform.operator.make_volume(f"witness-{uuid.uuid4().hex[:8]}")
    folder = Path(platform.rows(f"SELECT location FROM storage_volume WHERE name = '{volume['name']}'")[0][0])
    mounts = [{"volume": volume["name"], "path": "/witness"}]
    job = platform.submit({"name": "charged", "command": PROGRAM, "mounts": mounts, "resources": {"cpu": 1, "memory": "64Mi"}})
    wait_until(lambda: (folder / "started").exists(), "the start of the program")
    return job, folder


def charged(platform: LivePlatform, job: Json) -> Json:
    (attempt,) = platform.api("GET", f"/jobs/{job['id']}/cost")["attempts"]
    return dict(attempt)


def test_what_the_program_ran_is_charged_though_the_platform_was_killed_meanwhile(
    live_platform: LivePlatform, spare: Spare
) -> None:
    job, folder = begun(live_platform)
    live_platform.wait(job, ["running"])
    live_platform.kill()
    (folder / "enough").touch(mode=0o666)
    wait_until(lambda: (folder / "ended").exists(), "the end of the program")
    ended = float((folder / "ended").read_text())
    wait_until(lambda: time.time() > ended + AWAY_SECONDS, "a while in which nobody looks")
    live_platform.start()
    live_platform.wait(job, ["succeeded"])

    found = charged(live_platform, job)
    assert abs(found["cpu_milli_seconds"] / 1_000 - seconds_by_witness(folder)) <= min(spare(), AWAY_SECONDS - 1)
    assert found["held_seconds"] >= seconds_by_witness(folder) + AWAY_SECONDS - 1
    assert "Everything agrees." in manage(live_platform, "ledger", "--fold").stdout


def test_what_the_program_ran_is_charged_while_somebody_looks(live_platform: LivePlatform, spare: Spare) -> None:
    job, folder = begun(live_platform)
    (folder / "enough").touch(mode=0o666)
    live_platform.wait(job, ["succeeded"])

    assert abs(charged(live_platform, job)["cpu_milli_seconds"] / 1_000 - seconds_by_witness(folder)) <= spare()
