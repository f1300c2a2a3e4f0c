"""When jobs are expected to start, and how well that came true."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from clusters.engines.fake import Script
from jobs.loading.history import predictor_of_history
from jobs.loading.state import SCHEDULE, load_state
from jobs.models import Attempt, Job, StartPrediction
from jobs.scheduling.questions.lookahead import SMALL
from jobs.scheduling.questions.whatif import Submit
from jobs.selectors.expected import KNOWN_AFTER, NOT_YET, ExpectedStart, expected_starts_of
from jobs.services.explaining import explain_job
from jobs.services.forecast import _row
from jobs.services.planned import planned_seconds
from jobs.services.predicted_starts import Outlook, accuracy, expect, predict_starts
from jobs.services.redaction import Redactor
from jobs.services.submit import prepare
from jobs.services.what_if_changes import read_changes
from reconciling import poison
from tenants.capacity.quota.accounting import mark
from tests.builders.quay import Quay

pytestmark = pytest.mark.database

ALL = {"cpu": 8, "memory": "1Gi"}


ENOUGH = 40  # Runs after which the longer one that was never seen is too rare to matter for a likely start, whatever is drawn.


def run_before(quay: Quay, *, seconds: int, times: int = ENOUGH) -> None:
    """A history of jobs called `train` that took so long: one that ran, and the others written down beside it."""
    job = quay.submit("train", script=Script(duration_seconds=seconds), resources=ALL)
    for _ in range(4):
        quay.turn()
        quay.pass_time(seconds)
    quay.settle()
    ran = Attempt.objects.get(job=job)
    like = {field.name: getattr(ran, field.name) for field in Attempt._meta.concrete_fields if field.name not in ("id", "number")}
    Attempt.objects.bulk_create(Attempt(**like, number=number) for number in range(2, times + 1))


def one_that_waits(quay: Quay, times: int = ENOUGH) -> Job:
    """Behind one of the same kind, with a history of so many that took 100 s; with none where that exists."""
    if not Job.objects.exists():
        run_before(quay, seconds=100, times=times)
    quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn(2)
    waits = quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn()
    return waits


def others_came(quay: Quay, *, told: int = 2, came: int = 2, days: int = 8) -> None:
    """So many days ago enough jobs were told so many minutes, for their error to be known, and waited for so many."""
    for number in range(60):
        job = quay.submit(f"other-{number}", hold=True)
        made = quay.now - timedelta(days=days)
        by = made + timedelta(minutes=told)
        StartPrediction.objects.create(
            job=job, tenant_id=job.tenant_id, made_at=made, started_at=made + timedelta(minutes=came),
            p50_at=by, p90_at=by, ahead_p50_at=by, ahead_p90_at=by, sure_p50_at=by,
        )  # fmt: skip


def test_a_job_behind_one_that_runs_is_expected_when_such_jobs_used_to_end(quay: Quay) -> None:
    run_before(quay, seconds=100)
    others_came(quay)
    quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn(2)
    waits = quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn()
    found = expect(load_state(quay.now), {str(waits.id)}, quay.now, SMALL)[str(waits.id)].told
    assert found.p50 is not None
    assert found.p90 is not None
    assert 60 <= found.p50 - mark(quay.now) <= 140
    assert found.p50 <= found.p90 <= mark(quay.now) + 400


@pytest.mark.capability("6.2", "A job is told its start in 50 % and in 90 % of cases, and how far such predictions came true")
def test_the_first_prediction_stays_and_is_judged_by_the_start(quay: Quay) -> None:
    run_before(quay, seconds=100)
    others_came(quay)
    quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn(2)
    waits = quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn()
    assert predict_starts(quay.now) == 0, "it has not waited for long enough"
    quay.pass_time(31)
    assert predict_starts(quay.now) == 1
    first = StartPrediction.objects.get(job_id=waits.id)
    quay.pass_time(10)
    assert predict_starts(quay.now) == 0
    quay.pass_time(60)
    for _ in range(4):
        quay.turn()
        quay.pass_time(2)
    assert predict_starts(quay.now) == 1
    kept = StartPrediction.objects.get(job_id=waits.id)
    assert (kept.p50_at, kept.p90_at) == (first.p50_at, first.p90_at)
    assert kept.started_at is not None
    past = accuracy([quay.cast.tenant.pk], quay.now)
    assert past["predictions"] == 1
    assert past["median_error_seconds"] <= 60
    assert accuracy([quay.cast.elsewhere.pk], quay.now)["predictions"] == 0


def test_a_job_that_began_to_wait_just_now_says_by_when_its_start_is_known(quay: Quay) -> None:
    waits = one_that_waits(quay)

    def told() -> ExpectedStart:
        return expected_starts_of([quay.job(waits.id)], quay.now)[waits.id]

    assert (told().reason, told().known_by) == (NOT_YET, quay.job(waits.id).queued_at + KNOWN_AFTER)
    assert told().as_json()["known_by"] is not None
    quay.pass_time(31)
    predict_starts(quay.now)
    first = StartPrediction.objects.get(job_id=waits.id)
    assert told().p90_at is not None

    StartPrediction.objects.update(started_at=quay.now)  # It ran, and was evicted.
    quay.pass_time(5)
    Job.objects.filter(id=waits.id).update(queued_at=quay.now, attempt_count=1)
    assert told().reason == NOT_YET
    quay.pass_time(31)
    predict_starts(quay.now)
    assert told().p90_at is not None
    assert StartPrediction.objects.get(job_id=waits.id).p90_at == first.p90_at, "what was told first is judged, and stays"

    StartPrediction.objects.all().delete()  # Its first start came before anything was told.
    predict_starts(quay.now)
    kept = StartPrediction.objects.get(job_id=waits.id)
    assert (kept.p90_at, kept.ahead_p90_at, kept.started_at is None) == (None, None, False)
    assert told().p90_at is not None
    assert accuracy(None, quay.now)["predictions"] == 0

    StartPrediction.objects.all().delete()
    Job.objects.filter(id=waits.id).update(hold=True, queued_at=quay.now)
    assert expected_starts_of([quay.job(waits.id)], quay.now) == {}, "what is held is not looked ahead"


@pytest.mark.capability("6.2", "A job is told its start in 50 % and in 90 % of cases, and how far such predictions came true")
def test_an_explanation_has_the_expected_start_and_how_far_to_trust_it(quay: Quay) -> None:
    run_before(quay, seconds=100)
    others_came(quay)
    quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn(2)
    waits = quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn()
    told = explain_job(quay.job(waits.id), actor=quay.cast.bob.actor, now=quay.now)
    assert told is not None
    assert told["expected"]["p50_at"] <= told["expected"]["p90_at"]
    assert told["expected"]["past"] == {"predictions": 0, "by_p90": None, "median_error_seconds": None}


def test_board_and_explanation_name_the_same_start_at_one_moment(quay: Quay, api: Any) -> None:
    run_before(quay, seconds=100)
    others_came(quay)
    quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn(2)
    waits = quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn()
    quay.pass_time(31)
    predict_starts(quay.now)

    def told() -> list[tuple[str | None, str | None, str]]:
        client = api(quay.cast.bob)
        waiting = client.get(f"/api/v1/queues/{waits.queue_id}/board").json()["waiting"]
        (row,) = (entry for entry in waiting if entry["job"]["id"] == str(waits.id))
        explained = client.get(f"/api/v1/jobs/{waits.id}/explain").json()["expected"]
        return [(start["p50_at"], start["p90_at"], start["reason"]) for start in (row["expected_start"], explained)]

    first = told()
    assert first[0] == first[1]
    quay.pass_time(20)
    assert told() == first, "nobody has looked ahead since"
    quay.pass_time(41)
    quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    assert predict_starts(quay.now) == 1
    again = told()
    assert again[0] == again[1]


def test_a_start_that_was_expected_and_did_not_come_is_said_to_be_overdue_and_not_predicted_anew(quay: Quay, api: Any) -> None:
    run_before(quay, seconds=100)
    quay.submit("train", script=Script(duration_seconds=100_000), resources=ALL)
    quay.turn(2)
    waits = quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn()
    quay.pass_time(31)
    predict_starts(quay.now)
    by = StartPrediction.objects.get(job_id=waits.id).p90_at
    assert by is not None
    for _ in range(3):  # Every look finds a later time that is as good as the first one was.
        quay.pass_time(900)
        quay.turn()
        predict_starts(quay.now)
        told = api(quay.cast.bob).get(f"/api/v1/jobs/{waits.id}/explain").json()["expected"]
        assert (told["p50_at"], told["p90_at"], told["reason"]) == (None, None, "overdue")
        assert told["was_by"] is not None
    kept = StartPrediction.objects.get(job_id=waits.id)
    assert kept.p90_at == by


def test_nothing_is_predicted_behind_what_never_ends(quay: Quay) -> None:
    quay.submit("forever", script=Script(duration_seconds=1_000_000), resources=ALL)
    quay.turn(2)
    waits = quay.submit("other", resources=ALL)
    quay.turn()
    found = expect(load_state(quay.now), {str(waits.id)}, quay.now, SMALL)[str(waits.id)].told
    assert (found.p50, found.p90) == (None, None)
    assert found.reason


def test_what_came_true_too_late_of_late_corrects_what_is_told_and_tells_the_error(quay: Quay) -> None:
    waits = one_that_waits(quay)

    def outlook() -> Outlook:
        return expect(load_state(quay.now), {str(waits.id)}, quay.now, SMALL)[str(waits.id)]

    plain = outlook()
    assert (plain.told.p50, plain.told.reason, plain.error) == (None, "uncertain", None), "how far off it would be is not known"
    assert plain.sure_p50 == plain.ahead.p50, "it is judged all the same"
    assert plain.sure_p50 is not None
    assert plain.told.p90 is not None
    assert plain.ahead.p90 is not None
    assert plain.told.p90 > plain.ahead.p90, "cautious before anything is known"
    others_came(quay, told=5, came=6)
    late = outlook()
    assert late.ahead == plain.ahead
    assert late.told.p50 == late.sure_p50
    assert late.told.p50 is not None
    assert late.told.p90 is not None
    assert late.told.p50 > plain.sure_p50
    assert late.told.p90 - mark(quay.now) > 1.5 * (plain.told.p90 - mark(quay.now)), "all were late"
    assert late.error == 166, "five minutes instead of six"
    StartPrediction.objects.update(sure_p50_at=quay.now - timedelta(days=8) + timedelta(minutes=2))
    far_off = outlook()
    assert (far_off.told.p50, far_off.told.reason, far_off.error) == (None, "uncertain", None), "two minutes instead of six"
    assert far_off.told.p90 == late.told.p90
    assert far_off.sure_p50 == late.sure_p50, "it is judged all the same"


def test_what_is_kept_and_told_are_the_quantiles_and_their_error(quay: Quay, api: Any) -> None:
    waits = one_that_waits(quay)
    others_came(quay)
    quay.pass_time(31)
    outlook = expect(load_state(quay.now), {str(waits.id)}, quay.now, SMALL)[str(waits.id)]
    assert predict_starts(quay.now) == 1
    kept = StartPrediction.objects.get(job_id=waits.id)
    moments = (kept.p50_at, kept.p90_at, kept.ahead_p50_at, kept.ahead_p90_at)
    expected = (outlook.told.p50, outlook.told.p90, outlook.ahead.p50, outlook.ahead.p90)
    assert tuple(moment and mark(moment) for moment in moments) == expected
    StartPrediction.objects.update(now_error_permille=250)
    told = api(quay.cast.bob).get(f"/api/v1/jobs/{waits.id}/explain").json()["expected"]
    assert (told["error"], told["reason"]) == (0.25, "")


def test_samples_that_are_too_far_apart_have_a_p90_alone_and_say_so(quay: Quay, api: Any) -> None:
    for seconds in (60, 4_000) * 6:
        run_before(quay, seconds=seconds, times=1)
    waits = one_that_waits(quay)
    quay.pass_time(31)
    predict_starts(quay.now)
    told = api(quay.cast.bob).get(f"/api/v1/jobs/{waits.id}/explain").json()["expected"]
    assert (told["p50_at"], told["error"], told["reason"]) == (None, None, "uncertain")
    assert told["p90_at"] is not None
    kept = StartPrediction.objects.get(job_id=waits.id)
    assert kept.p50_at is None
    assert kept.ahead_p50_at is not None, "it is judged all the same"


def test_with_too_little_history_no_start_is_told_and_why(quay: Quay, api: Any) -> None:
    waits = one_that_waits(quay, times=3)
    quay.pass_time(31)
    predict_starts(quay.now)
    client = api(quay.cast.bob)
    explained = client.get(f"/api/v1/jobs/{waits.id}/explain").json()["expected"]
    listed = client.get("/api/v1/jobs?standing=true").json()["items"]
    (row,) = (entry["expected_start"] for entry in listed if entry["id"] == str(waits.id))
    for told in (explained, row):
        assert (told["p50_at"], told["p90_at"], told["reason"]) == (None, None, "little_history")


def test_among_many_jobs_the_sweep_looks_ahead_once_in_ten_minutes_and_among_too_many_never(
    quay: Quay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.services.predicted_starts.SMALL_JOBS", 1)
    monkeypatch.setattr("jobs.services.predicted_starts.FEW_JOBS", 1)
    one_that_waits(quay)
    quay.pass_time(31)
    monkeypatch.setattr("jobs.scheduling.questions.lookahead.LARGE_JOBS", 1)
    assert predict_starts(quay.now) == 0
    monkeypatch.undo()
    monkeypatch.setattr("jobs.services.predicted_starts.SMALL_JOBS", 1)
    monkeypatch.setattr("jobs.services.predicted_starts.FEW_JOBS", 1)
    assert predict_starts(quay.now) == 1
    quay.pass_time(599)
    assert predict_starts(quay.now) == 0
    quay.pass_time(2)
    assert predict_starts(quay.now) == 1


def test_jobs_that_get_no_expectation_keep_none_behind_them_from_theirs(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs at which the scheduler failed are withheld from a look ahead for as long as they rest."""
    run_before(quay, seconds=100)
    quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn(2)
    withheld = [quay.submit("train", resources=ALL) for _ in range(2)]
    waits = quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn()
    poison.work_through(SCHEDULE, [job.id for job in withheld], _fail, now=quay.now, key=lambda job_id: job_id)
    monkeypatch.setattr("jobs.services.predicted_starts.PREDICTED_JOBS", 2)
    quay.pass_time(31)
    assert predict_starts(quay.now) == 1
    assert StartPrediction.objects.get().job_id == waits.id
    quay.pass_time(61)
    StartPrediction.objects.bulk_create(
        StartPrediction(id=job.id, job_id=job.id, tenant_id=job.tenant_id, made_at=quay.now) for job in withheld
    )
    assert predict_starts(quay.now) == 1, "and those that were looked at before are looked at again"


def _fail(job_ids: Sequence[uuid.UUID]) -> None:
    raise KeyError("wish")


def test_a_job_in_thought_is_planned_with_the_history_of_its_kind_as_a_real_one_is(quay: Quay) -> None:
    run_before(quay, seconds=100)
    document = {"name": "train", "command": "true", "resources": ALL}
    reader = Redactor(quay.cast.bob.actor, load_state(quay.now))
    (change,), _ = read_changes([{"submit": {"spec": document}}], tenant=None, reader=reader)
    assert isinstance(change, Submit)
    (thought,) = change.jobs
    submission = prepare(actor=quay.cast.bob.actor, tenant=None, document=document)
    bob = quay.cast.bob.actor
    assert bob.user_id is not None
    planned = planned_seconds(predictor_of_history(), submission, bob.user_id, submission.ask.gpu_millis)
    forecast = _row(submission, planned, bob, quay.now)

    real = quay.submit("train", script=Script(duration_seconds=100), resources=ALL)
    quay.turn()
    found = quay.job(real.id)
    assert found.predicted_seconds is not None
    assert (thought.predicted, thought.cautious) == (found.predicted_seconds, found.cautious_seconds)
    assert (forecast.predicted_seconds, forecast.cautious_seconds) == (found.predicted_seconds, found.cautious_seconds)
