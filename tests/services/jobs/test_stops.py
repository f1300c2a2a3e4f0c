"""What a stop makes of jobs that leave politely: exit 0 after the signal is no success."""

from __future__ import annotations

import pytest

from clusters.engines.fake import Script
from tests.builders.quay import Quay

pytestmark = pytest.mark.database


def test_a_job_that_leaves_politely_when_it_is_stopped_is_stopped(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=None, stop_code=0))
    after = quay.submit("after", after_ok=[str(job.id)])
    quay.turn(2)
    quay.stop(job)
    quay.settle()
    found = quay.job(job.id)
    assert (found.state, (found.exit or {})["class"]) == ("stopped", "stopped_by_user")
    assert quay.reason(after) == "dependency_never_met"


def test_a_job_that_leaves_politely_at_its_deadline_has_failed(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=None, stop_code=0), max_runtime="10s")
    quay.turn(2)
    quay.pass_time(11)
    quay.settle()
    found = quay.job(job.id)
    assert (found.state, (found.exit or {})["class"]) == ("failed", "deadline")


def test_a_job_that_had_ended_before_the_stop_reached_it_has_succeeded(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=5))
    quay.turn(2)
    quay.pass_time(6)  # It has ended, and nobody has looked yet.
    quay.stop(job)
    quay.settle()
    assert quay.state(job) == "succeeded"
