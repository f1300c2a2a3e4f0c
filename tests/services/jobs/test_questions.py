"""Questions to the scheduler: one at a time, with a clear answer for who comes second; and words where nobody looked ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clusters.engines.fake import Script
from jobs.loading.specs import forget_specs
from jobs.models import StoredSpec
from jobs.scheduling.questions import lookahead
from jobs.services import redaction
from jobs.services.redaction import one_question
from kernel.words import format_moment
from tests.builders.quay import Quay

pytestmark = pytest.mark.database

Api = Callable[..., Any]
ALL = {"resources": {"cpu": 8, "memory": "1Gi"}}


def waiting(quay: Quay, **runs: str) -> Any:
    quay.submit("runs", script=Script(duration_seconds=10_000), **ALL, **runs)
    quay.turn(2)
    job = quay.submit("waits", **ALL, max_runtime="1h")
    quay.turn()
    return job


def test_who_asks_while_another_is_answered_is_told_when_to_ask_again(
    quay: Quay, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, client = waiting(quay), api(quay.cast.bob)
    monkeypatch.setattr(redaction, "PATIENCE_SECONDS", 0.01)
    with one_question():
        for answer in (
            client.get(f"/api/v1/jobs/{job.id}/explain"),
            client.post("/api/v1/what-if", {"changes": [{"release": {"job": str(job.id)}}]}, format="json"),
        ):
            body = answer.json()
            assert (answer.status_code, body["code"], body["retryable"]) == (503, "unavailable", True)
            assert int(answer.headers["Retry-After"]) == redaction.AGAIN_SECONDS
            assert "Ask again" in body["hint"]
    assert client.get(f"/api/v1/jobs/{job.id}/explain").status_code == 200, "the turn was given back"


def test_a_question_that_fails_gives_its_turn_back(quay: Quay) -> None:
    with pytest.raises(RuntimeError), one_question():
        raise RuntimeError
    with one_question():
        pass


def test_a_job_that_nobody_can_read_keeps_no_answer_from_the_others(quay: Quay, api: Api) -> None:
    job = waiting(quay)
    broken = quay.submit("broken", command="false")
    StoredSpec.objects.filter(id=broken.spec_id).update(document='{"version": 1, "roles": {}}')
    forget_specs()
    client = api(quay.cast.bob)
    assert client.get(f"/api/v1/jobs/{job.id}/explain").json()["expected"] is not None
    assert client.get(f"/api/v1/jobs/{broken.id}/explain").status_code == 200


def test_among_too_many_jobs_it_is_said_that_nobody_looked_ahead(quay: Quay, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    job = waiting(quay, max_runtime="2h")
    monkeypatch.setattr(lookahead, "ASKED_JOBS", 1)
    told = api(quay.cast.bob).get(f"/api/v1/jobs/{job.id}/explain").json()["expected"]
    assert (told["p50_at"], told["p90_at"], told["reason"]) == (None, None, "too_many")


@pytest.mark.capability("6.11", "Members are told the latest start, with what it rests on")
def test_the_latest_start_is_told_with_what_it_rests_on(quay: Quay, api: Api) -> None:
    job = waiting(quay, max_runtime="2h")
    client = api(quay.cast.bob)
    told = client.get(f"/api/v1/jobs/{job.id}/explain?quick=true").json()["latest"]
    assert told["kind"] == "backfill_reservation"
    assert format_moment(told["at"]) in told["text"]
    (kept,) = quay.driver.kept.core.reservations.kept()  # type: ignore[union-attr]
    assert told["at"].startswith(redaction._moment(kept.at)[:19])  # type: ignore[index]
    chinese = client.get(f"/api/v1/jobs/{job.id}/explain?quick=true", headers={"Accept-Language": "zh-CN"}).json()["latest"]
    assert "最迟" in chinese["text"]
    assert told["next_reservation_from"] is not None


def test_where_others_may_run_for_any_time_no_latest_start_is_told_but_from_when_the_next_reserved_start_is_its(
    quay: Quay, api: Api
) -> None:
    job = waiting(quay)
    told = api(quay.cast.bob).get(f"/api/v1/jobs/{job.id}/explain?quick=true").json()["latest"]
    assert (told["at"], told["kind"], told["reason"]) == (None, None, "runtime_unknown")
    assert (
        f"From {format_moment(told['next_reservation_from'])} on the next reserved start in its pools goes to this job."
        in told["text"]
    )
