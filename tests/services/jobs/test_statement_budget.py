"""What a batch of jobs costs in statements, step by step: as many for forty jobs as for four (design rule 4)."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.engines.fake import Script
from jobs.models import Attempt
from jobs.reconcile import finish, launch, poll, pump
from tests.builders.quay import Quay

pytestmark = pytest.mark.database

FEW, MANY = 4, 40
STEPS = ("schedule", "launch", "start", "pump", "end", "finish")


def _statements(act: Callable[[], object]) -> int:
    with CaptureQueriesContext(
        connection,
    ) as seen:
        act()
    return len(seen)


def _walk(quay: Quay, count: int) -> dict[str, int]:
    """Take so many equal jobs through their life together; the statements of each step."""
    for _ in range(count):
        quay.submit("noop", script=Script(duration_seconds=5, stdout=b"done\n"), resources={"cpu": "50m", "memory": "16Mi"})
    cluster = quay.cluster.pk
    quay.driver.forget()  # Each walk begins with a full load, whatever time has passed since the last.
    used = {"schedule": _statements(quay.schedule), "launch": _statements(lambda: launch.launch(cluster))}
    quay.pass_time(1)
    used["start"] = _statements(lambda: poll.poll(cluster))
    used["pump"] = _statements(lambda: pump.pump_live(cluster))
    quay.pass_time(10)
    used["end"] = _statements(lambda: poll.poll(cluster))
    used["finish"] = _statements(lambda: finish.finish(cluster))
    assert not Attempt.objects.filter(forgotten=False).exists()
    return used


def test_every_step_of_a_batch_takes_as_many_statements_however_many_jobs(quay: Quay) -> None:
    _walk(quay, FEW)  # Caches of specs and clusters are filled by the first ones.
    few, many = _walk(quay, FEW), _walk(quay, MANY)
    assert tuple(few) == STEPS
    assert many == few


def test_a_look_at_a_queue_in_which_nothing_changed_asks_as_little_however_many_wait(quay: Quay) -> None:
    quay.submit("hog", script=Script(duration_seconds=None), resources={"cpu": 8, "memory": "1Gi"})
    counts = []
    for waiting in (FEW, MANY):
        for number in range(waiting):
            quay.submit(f"waits-{number}", resources={"cpu": 8, "memory": "1Gi"})
        quay.turn(3)  # The pass that says why they wait tells of it in events, which the next look takes in.
        quay.driver.changes.full_load_at = math.inf
        counts.append(_statements(quay.schedule))
    assert counts[0] == counts[1] <= 19  # One of them: whether owners of waiting jobs have left.
