"""A stop that comes while a job is on its way to the engine: it waits for no lease, and what it stops does not run on."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from tests.builders.live import LivePlatform, LiveUser, running_platform

pytestmark = [pytest.mark.engines, pytest.mark.database]

GRACE_SECONDS = 2.0
LATE_SECONDS = 25.0  # What a loaded machine may add to the grace, or to a hand-over to the engine.
LEASE_SECONDS = "120"  # Far beyond both: a stop that waits for a lease is seen.
JOBS = 12
SMALL = {"cpu": "50m", "memory": "64Mi"}

# A beat each tenth of a second, on the clock that the test reads, deaf to the polite signal.
WITNESS = (
    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "while True:\n print(time.time(), flush=True); time.sleep(0.1)"
)


@pytest.fixture(scope="module")
def platform() -> Iterator[LivePlatform]:
    profile = os.environ.get("BERTH_TEST_PROFILE", "embedded")
    with running_platform(BERTH_SERVER_PROFILE=profile, BERTH_LEASE_SECONDS=LEASE_SECONDS) as platform:
        yield platform


def stopped_as_soon_as_admitted(user: LiveUser, number: int) -> tuple[str, float]:
    """A job that is stopped at the first look that shows it admitted; its id, and when the stop was acknowledged."""
    job = user.submit({"name": f"witness-{number}", "command": ["/usr/bin/python3", "-c", WITNESS], "resources": SMALL})
    deadline = time.monotonic() + 30
    while user.job(job)["state"] == "queued" and time.monotonic() < deadline:
        pass
    user.stop(job, grace_seconds=GRACE_SECONDS)
    return str(job["id"]), time.time()


def test_what_is_stopped_as_soon_as_it_is_admitted_is_silent_when_its_grace_is_over(platform: LivePlatform) -> None:
    user = platform.operator
    stops = [stopped_as_soon_as_admitted(user, number) for number in range(JOBS)]
    went_on, began = {}, {}
    for job, acknowledged_at in stops:
        assert user.wait(job)["state"] == "stopped"
        beats = [float(line) for line in user.logs(job).split()]
        if beats and beats[-1] > acknowledged_at + GRACE_SECONDS + LATE_SECONDS:
            went_on[job] = beats[-1] - acknowledged_at
        starts = [task["started_at"] for task in user.items(f"/jobs/{job}/tasks") if task["started_at"]]
        # What was being handed over as the stop came may still begin; it is ended with its grace.
        if any(datetime.fromisoformat(start).timestamp() > acknowledged_at + LATE_SECONDS for start in starts):
            began[job] = starts
    assert went_on == {}, "they ran on after a stop with a short grace"
    assert began == {}, "they started long after their stop was acknowledged"
