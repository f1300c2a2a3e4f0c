"""What a worker brings that was paused past its lease is dropped, and counted by the work that it came from."""

from __future__ import annotations

import uuid

import pytest

from jobs.models import Attempt
from jobs.reconcile import launch
from kernel import crashpoints
from reconciling import fencing
from tests.builders.quay import Quay

pytestmark = pytest.mark.database


@pytest.mark.capability("35", "A process that was paused with work in hand changes nothing when it wakes")
@pytest.mark.parametrize("point", ["jobs.launch.after_claim", "jobs.launch.before_ensure", "jobs.launch.after_ensure"])
def test_a_launch_whose_lease_passed_to_another_worker_changes_nothing_and_is_counted(quay: Quay, point: str) -> None:
    job = quay.submit()
    quay.schedule()
    other = uuid.uuid4()

    def lose_the_lease() -> None:
        Attempt.objects.filter(job_id=job.id).update(lease_token=other)

    crashpoints.arm(point, lose_the_lease)
    launch.launch(quay.cluster.pk)
    attempt = Attempt.objects.get(job_id=job.id)
    assert (attempt.state, attempt.lease_token) == ("admitted", other)
    assert fencing.dropped() == {"jobs.launch": 1}


def test_a_row_that_somebody_changed_without_a_lease_is_not_counted(quay: Quay) -> None:
    token, attempt_id = uuid.uuid4(), uuid.uuid4()
    assert fencing.note_dropped("jobs.stop", Attempt, token=token, brought=[attempt_id], written=[]) == 0
    assert fencing.note_dropped("jobs.stop", Attempt, token=token, brought=[attempt_id], written=[attempt_id]) == 0
    assert fencing.dropped() == {}
