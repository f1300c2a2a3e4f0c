"""Web, worker, scheduler and observer as processes of their own: whichever reaches a crash point dies there, the others go on.

The small profile dies as a whole at each point in `test_crash_points.py`, one test each. Here one test goes through all points
that processes reach in everyday work, without ever starting anything again by hand, and decides about all of it at the end.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernel.crashpoints import POINTS
from tests.builders.live import wait_until
from tests.builders.receiver import Receiver, receiving
from tests.chaos.clients import PAYLOAD
from tests.faults.ground import Ground

pytestmark = [pytest.mark.engines, pytest.mark.alone, pytest.mark.database, pytest.mark.timeout(1800)]

# Builds, evictions, checkpoints, uploads, whose protocol asks its client to think, and what orders waiting jobs die in
# `test_crash_points.py`; the rest here.
ELSEWHERE = (
    "images.build.",
    "jobs.build.",
    "jobs.checkpoint.",
    "jobs.evict.",
    "storage.checkpoint.",
    "storage.upload.",
    "jobs.priority.",
    "jobs.move.",
    "tenants.quota_request.",
    "clusters.maintenance.",
)
REACHED = [point for point in POINTS if not point.startswith(ELSEWHERE)]
WITH_OUTPUT = f"mkdir -p model; echo w > model/weights\n{PAYLOAD}"


@pytest.fixture
def receiver(ground: Ground) -> Iterator[Receiver]:
    with receiving() as made:
        body = {"channel": "webhook", "target": made.url, "kinds": ["succeeded", "failed", "stopped"], "jobs": "mine"}
        subscription = ground.client.user.api("POST", "/subscriptions", body)
        yield made
        ground.client.user.api("DELETE", f"/subscriptions/{subscription['id']}")


@pytest.mark.capability("35", "After a crash at any step, of the platform or of one process, everything is done once")
def test_whichever_process_dies_at_a_crash_point_everything_is_done_once(ground: Ground, receiver: Receiver) -> None:
    jobs: dict[str, str] = {}
    for number, point in enumerate(REACHED):
        ground.platform.crash_at(point)
        if point == "storage.volume.before_commit":
            ground.client.write("volume", "POST", "/volumes", {"name": f"volume-{number}", **ground.client.user.in_tenant})
        worked = ground.submit(lines=20, command=["/bin/sh", "-c", WITH_OUTPUT], outputs=["model"])
        endless = ground.submit(seconds=1000)
        wait_until(lambda job=endless: ground.state(job) == "running", "a job that runs")  # type: ignore[misc]
        ground.client.stop(endless)
        wait_until(lambda: not ground.platform.is_armed, f"a process that dies at {point}", timeout=180)
        # A lease on deliveries lasts two minutes, because sending takes that long; let them pass.
        ground.platform.execute("UPDATE activity_delivery SET lease_expires_at = NULL")
        jobs |= {worked: "succeeded", endless: "stopped"}
    for job, state in jobs.items():
        ground.wait(job, state)
    ground.check()
    wait_until(lambda: all(receiver.about(job) for job in jobs), "a message about every job")
    assert {job: [message.body["state"] for message in receiver.about(job)] for job in jobs} == {
        job: [state] for job, state in jobs.items()
    }
