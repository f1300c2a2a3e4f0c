"""When jobs are expected to start, and how well that came true."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from clusters.engines.fake import Script
from jobs.models import Job, StartPromise
from jobs.reconcile import aside
from jobs.reconcile.loading import load_state
from jobs.services.explaining import explain_job
from jobs.services.promises import accuracy, expect, promise_starts
from reconciling import poison
from tenants.quota.accounting import mark
from tests.builders.quay import Quay

pytestmark = pytest.mark.database

ALL = {"cpu": 8, "memory": "1Gi"}


def run_before(quay: Quay, *, seconds: int, times: int = 3) -> None:
    """A history of jobs called `train` that took so long."""
    for _ in range(times):
        quay.submit("train", script=Script(duration_seconds=seconds), resources=ALL)
        for _ in range(4):
            quay.turn()
            quay.pass_time(seconds)
        quay.settle()


def test_a_job_behind_one_that_runs_is_expected_when_such_jobs_used_to_end(quay: Quay) -> None:
    run_before(quay, seconds=100)
    quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn(2)
    waits = quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn()
    found = expect(load_state(quay.now), {str(waits.id)}, quay.now)[str(waits.id)].told
    assert found.p50 is not None
    assert found.p90 is not None
    assert 60 <= found.p50 - mark(quay.now) <= 140
    assert found.p50 <= found.p90 <= mark(quay.now) + 200


def test_the_first_promise_stays_and_is_judged_by_the_start(quay: Quay) -> None:
    run_before(quay, seconds=100)
    quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn(2)
    waits = quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn()
    assert promise_starts(quay.now) == 0, "it has not waited for long enough"
    quay.pass_time(31)
    assert promise_starts(quay.now) == 1
    first = StartPromise.objects.get(job_id=waits.id)
    quay.pass_time(10)
    assert promise_starts(quay.now) == 0
    quay.pass_time(60)
    for _ in range(4):
        quay.turn()
        quay.pass_time(2)
    assert promise_starts(quay.now) == 1
    kept = StartPromise.objects.get(job_id=waits.id)
    assert (kept.p50_at, kept.p90_at) == (first.p50_at, first.p90_at)
    assert kept.started_at is not None
    past = accuracy([quay.cast.tenant.pk], quay.now)
    assert past["promises"] == 1
    assert past["median_error_seconds"] <= 60
    assert accuracy([quay.cast.elsewhere.pk], quay.now)["promises"] == 0


def test_an_explanation_has_the_expected_start_and_how_far_to_trust_it(quay: Quay) -> None:
    run_before(quay, seconds=100)
    quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn(2)
    waits = quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn()
    told = explain_job(quay.job(waits.id), actor=quay.cast.bob.actor, now=quay.now)
    assert told is not None
    assert told["expected"]["p50_at"] <= told["expected"]["p90_at"]
    assert told["expected"]["past"] == {"promises": 0, "by_p90": None, "median_error_seconds": None}


def test_board_and_explanation_name_the_same_start_at_one_moment(quay: Quay, api: Any) -> None:
    run_before(quay, seconds=100)
    quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn(2)
    waits = quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn()
    quay.pass_time(31)
    promise_starts(quay.now)

    def told() -> list[tuple[str | None, str | None, str]]:
        client = api(quay.cast.bob)
        waiting = client.get(f"/api/v1/queues/{waits.queue_id}/board").json()["waiting"]
        (row,) = (one for one in waiting if one["job"]["id"] == str(waits.id))
        explained = client.get(f"/api/v1/jobs/{waits.id}/explain").json()["expected"]
        return [(one["p50_at"], one["p90_at"], one["reason"]) for one in (row["expected_start"], explained)]

    first = told()
    assert first[0] == first[1]
    quay.pass_time(20)
    assert told() == first, "nobody has looked ahead since"
    quay.pass_time(41)
    quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    assert promise_starts(quay.now) == 1
    again = told()
    assert again[0] == again[1]


def test_a_start_that_was_expected_and_did_not_come_is_said_to_be_overdue_and_not_promised_anew(quay: Quay, api: Any) -> None:
    run_before(quay, seconds=100)
    quay.submit("train", script=Script(duration_seconds=100_000), resources=ALL)
    quay.turn(2)
    waits = quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn()
    quay.pass_time(31)
    promise_starts(quay.now)
    by = StartPromise.objects.get(job_id=waits.id).p90_at
    assert by is not None
    for _ in range(3):  # Every look finds a later time that is as good as the first one was.
        quay.pass_time(900)
        quay.turn()
        promise_starts(quay.now)
        told = api(quay.cast.bob).get(f"/api/v1/jobs/{waits.id}/explain").json()["expected"]
        assert (told["p50_at"], told["p90_at"], told["reason"]) == (None, None, "overdue")
        assert told["was_by"] is not None
    kept = StartPromise.objects.get(job_id=waits.id)
    assert kept.p90_at == by


def test_nothing_is_promised_behind_what_never_ends(quay: Quay) -> None:
    quay.submit("forever", script=Script(duration_seconds=1_000_000), resources=ALL)
    quay.turn(2)
    waits = quay.submit("other", resources=ALL)
    quay.turn()
    found = expect(load_state(quay.now), {str(waits.id)}, quay.now)[str(waits.id)].told
    assert (found.p50, found.p90) == (None, None)
    assert found.reason


def test_what_came_true_too_late_of_late_corrects_what_is_told(quay: Quay) -> None:
    run_before(quay, seconds=100)
    quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn(2)
    waits = quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn()
    plain = expect(load_state(quay.now), {str(waits.id)}, quay.now)[str(waits.id)].told
    for job in Job.objects.exclude(id=waits.id):
        StartPromise.objects.create(
            job=job, tenant_id=job.tenant_id, made_at=quay.now - timedelta(hours=1), started_at=quay.now,
            p50_at=quay.now, p90_at=quay.now,
            ahead_p50_at=quay.now - timedelta(minutes=30), ahead_p90_at=quay.now - timedelta(minutes=15),
        )  # fmt: skip
    assert StartPromise.objects.count() < 20
    few = expect(load_state(quay.now), {str(waits.id)}, quay.now)[str(waits.id)].told
    assert few == plain, "a few prove nothing"
    for number in range(20):
        job = quay.submit(f"other-{number}", hold=True)
        StartPromise.objects.create(
            job=job, tenant_id=job.tenant_id, made_at=quay.now - timedelta(hours=1), started_at=quay.now,
            p50_at=quay.now, p90_at=quay.now,
            ahead_p50_at=quay.now - timedelta(minutes=30), ahead_p90_at=quay.now - timedelta(minutes=15),
        )  # fmt: skip
    outlook = expect(load_state(quay.now), {str(waits.id)}, quay.now)[str(waits.id)]
    assert outlook.ahead == plain
    assert outlook.told.p50 is not None
    assert plain.p50 is not None
    assert outlook.told.p50 - mark(quay.now) == pytest.approx(2 * (plain.p50 - mark(quay.now)), abs=2), "it took twice as long"


def test_jobs_that_get_no_expectation_keep_none_behind_them_from_theirs(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs at which the scheduler failed are withheld from a look ahead for as long as they rest."""
    run_before(quay, seconds=100)
    quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn(2)
    withheld = [quay.submit("train", resources=ALL) for _ in range(2)]
    waits = quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn()
    poison.work_through(aside.SCHEDULE, [job.id for job in withheld], _fail, now=quay.now, key=lambda job_id: job_id)
    monkeypatch.setattr("jobs.services.promises.PROMISED_JOBS", 2)
    quay.pass_time(31)
    assert promise_starts(quay.now) == 1
    assert StartPromise.objects.get().job_id == waits.id
    quay.pass_time(61)
    StartPromise.objects.bulk_create(
        StartPromise(id=job.id, job_id=job.id, tenant_id=job.tenant_id, made_at=quay.now) for job in withheld
    )
    assert promise_starts(quay.now) == 1, "and those that were looked at before are looked at again"


def _fail(job_ids: Sequence[uuid.UUID]) -> None:
    raise KeyError("wish")
