"""Wait codes that have other names than in the release before: its rows are renamed, and what it still writes is read by them."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest
from django.apps import apps
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.models import DecisionRecord, Job, StartPrediction
from jobs.selectors.expected import expected_starts_of
from jobs.selectors.for_room import FOR_ROOM
from jobs.selectors.holders import WANT_ROOM
from jobs.services.decision_records import DecisionRow, record_decisions
from kernel.wait_codes import RENAMED
from tests.factories.tenants import Cast, now

if TYPE_CHECKING:
    from rest_framework.test import APIClient

pytestmark = pytest.mark.database
Api = Callable[..., "APIClient"]
migration = importlib.import_module("jobs.migrations.0020_wait_codes")

BEFORE = ("reserved", "booked", "no_room", "reserved", "booked", "reserved", "held", "scheduling")
PRESENT = (
    "advance_reservation", "backfill_reservation", "no_room", "advance_reservation", "backfill_reservation",
    "advance_reservation", "held", "scheduling",
)  # fmt: skip


def waiting_jobs(api: Api, cast: Cast, codes: tuple[str, ...]) -> list[Job]:
    """A job that waits for each code, as it, its prediction and its decisions name it. The newest has no decision."""
    spec = {"name": "waits", "command": "true", "array": {"size": len(codes)}}
    assert api(cast.alice).post("/api/v1/jobs", {"tenant": cast.tenant.name, "spec": spec}, format="json").status_code == 201
    jobs = list(Job.objects.filter(parent__isnull=False).order_by("array_index"))
    for job, code in zip(jobs, codes, strict=True):
        Job.objects.filter(id=job.id).update(reason_code=code, reason_detail={"pool": "a100"})
        StartPrediction.objects.create(job=job, tenant_id=job.tenant_id, made_at=now(), looked_at=now(), now_reason=code)
    record_decisions(
        [
            DecisionRow(job.id, job.tenant_id, kind, "a100", payload_of(kind, code))
            for job, code in zip(jobs[:-1], codes[:-1], strict=True)
            for kind in ("refuse", "wait_turned_start", "start")
        ],
        now=now(),
    )
    return jobs


def payload_of(kind: str, code: str) -> Mapping[str, Any]:
    """What a decision keeps of a reason: that of the refusal, that of the wait before a start, or none."""
    reason = {"code": code, "pool": "a100", "until": 7}
    return {"refuse": {"reason": reason, "jobs": 1}, "wait_turned_start": {"waited_for": reason}}.get(kind, {"nodes": [code]})


def check(jobs: list[Job], codes: tuple[str, ...]) -> None:
    """Whether exactly these codes are stored, and all else is as it was."""
    ids = [job.id for job in jobs]
    stored = dict(Job.objects.filter(id__in=ids).values_list("id", "reason_code"))
    predicted = dict(StartPrediction.objects.filter(job_id__in=ids).values_list("job_id", "now_reason"))
    assert [stored[job_id] for job_id in ids] == [predicted[job_id] for job_id in ids] == list(codes)
    kept = {(row.job_id, row.kind): row.payload for row in DecisionRecord.objects.all()}
    for job, code, before in zip(jobs[:-1], codes, BEFORE, strict=False):
        assert kept.pop((job.id, "refuse")) == payload_of("refuse", code)
        assert kept.pop((job.id, "wait_turned_start")) == payload_of("wait_turned_start", code)
        assert kept.pop((job.id, "start")) == payload_of("start", before), "no code, so it keeps its text"
    assert kept == {}


def test_rows_of_the_release_before_get_the_present_codes_in_batches_and_go_back(
    api: Api, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migration, "BATCH", 2)
    monkeypatch.setattr(migration, "RECORDS", 2)
    jobs = waiting_jobs(api, cast, BEFORE)

    migration.name_anew(apps, None)
    check(jobs, PRESENT)
    with CaptureQueriesContext(connection) as found:
        migration.name_anew(apps, None)  # A run that was broken off begins again.
    assert not [query for query in found.captured_queries if query["sql"].startswith("UPDATE")]
    check(jobs, PRESENT)
    migration.name_as_before(apps, None)
    check(jobs, BEFORE)


def test_a_job_that_waits_no_longer_is_left_alone(api: Api, cast: Cast) -> None:
    ended, waits = waiting_jobs(api, cast, ("reserved", "reserved"))
    Job.objects.filter(id=ended.id).update(state="stopped")

    migration.name_anew(apps, None)
    assert [Job.objects.get(id=job.id).reason_code for job in (ended, waits)] == ["reserved", "advance_reservation"]


def test_it_knows_the_names_that_are_read(db: None) -> None:
    assert dict(RENAMED) == migration.NAMES


def test_what_a_process_of_the_release_before_writes_is_shown_with_the_present_codes(api: Api, cast: Cast) -> None:
    jobs = waiting_jobs(api, cast, BEFORE)
    client = api(cast.alice)

    shown = [client.get(f"/api/v1/jobs/{job.id}").json()["reason"] for job in jobs]
    assert tuple(reason["code"] for reason in shown) == PRESENT
    assert "are booked from" in shown[0]["text"]
    assert "a reserved start there" in shown[1]["text"]
    assert "berth reserve list" in shown[0]["hint"]
    expected = expected_starts_of(jobs, now())
    assert tuple(expected[job.id].reason for job in jobs) == PRESENT
    for job, code in zip(jobs[:-1], PRESENT, strict=False):
        found = {row["kind"]: row["detail"] for row in client.get(f"/api/v1/jobs/{job.id}/decisions").json()["items"]}
        assert found["refuse"]["reason"]["code"] == found["wait_turned_start"]["waited_for"]["code"] == code


def test_jobs_that_wait_for_room_are_found_by_either_name() -> None:
    for names in (FOR_ROOM, WANT_ROOM):
        assert names >= {*RENAMED, *RENAMED.values()}
    assert max(Counter(RENAMED.values()).values()) == 1
