"""Holding and releasing jobs: an array is held and released as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jobs.models import Job
from tests.builders.quay import Quay

pytestmark = pytest.mark.database

Api = Callable[..., Any]


def children(job: Job) -> list[tuple[bool, str]]:
    return list(Job.objects.filter(parent_id=job.id).order_by("id").values_list("hold", "state"))


@pytest.mark.parametrize("held", [True, False])
def test_an_array_is_held_and_released_by_its_own_name(quay: Quay, api: Api, held: bool) -> None:
    job = quay.submit("array", array={"size": 3}, hold=held)
    client = api(quay.cast.bob)
    for hold in (True, False):
        answer = client.patch(f"/api/v1/jobs/{job.id}", {"hold": hold}, format="json")
        assert answer.status_code == 200, answer.content
        assert answer.json()["hold"] is hold
        assert children(job) == [(hold, "queued")] * 3
    quay.turn(3)
    assert {state for _, state in children(job)} <= {"running", "succeeded"}


@pytest.mark.parametrize("reason", ["参数错误\u3000请重跑", "a\u00a0b", "👨\u200d👩\u200d👧", "نص\u200f"])
def test_ordinary_text_of_any_script_is_a_reason(quay: Quay, api: Api, reason: str) -> None:
    job = quay.submit("ends")
    answer = api(quay.cast.bob).post(f"/api/v1/jobs/{job.id}/stop", {"reason": reason}, format="json")
    assert answer.status_code in (200, 202), answer.content


@pytest.mark.parametrize("reason", ["a\x07b", "a\nb", "\u202eabc", "a\u2066b"])
def test_controls_and_what_turns_the_text_around_are_not(quay: Quay, api: Api, reason: str) -> None:
    job = quay.submit("ends")
    answer = api(quay.cast.bob).post(f"/api/v1/jobs/{job.id}/stop", {"reason": reason}, format="json")
    assert answer.status_code == 422
    assert answer.json()["fields"][0]["path"] == "/reason"
