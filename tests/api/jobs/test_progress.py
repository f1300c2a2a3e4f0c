"""How far a job and its tasks are, and which are far behind, over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clusters.engines.fake import Script
from jobs.models import Attempt, Job, Task
from kernel.clock import utc_text
from tests.builders.quay import Quay

pytestmark = pytest.mark.database

Api = Callable[..., Any]
SMALL = {"cpu": "50m", "memory": "16Mi"}


def running(quay: Quay, done: list[int | None], *, total: int = 10) -> Job:
    """A job with a task for each of these, that has done so much; None: it has said nothing."""
    role = {"command": "true", "replicas": len(done), "resources": SMALL}
    job = quay.submit("train", script=Script(duration_seconds=600), roles={"worker": role})
    quay.turn(2)
    for index, number in enumerate(done):
        if number is not None:
            stored = {"done": number, "total": total, "at": utc_text(quay.now)}
            Task.objects.filter(job_id=job.id, index=index).update(progress=stored)
    return job


def tasks(client: Any, job: Job, **query: object) -> list[dict[str, Any]]:
    answer = client.get(f"/api/v1/jobs/{job.id}/tasks", query)
    assert answer.status_code == 200, answer.content
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def test_a_task_says_how_far_it_is_and_a_straggler_how_far_behind(quay: Quay, api: Api) -> None:
    job = running(quay, [6, 5, 7, 1, None])
    items = tasks(api(quay.cast.bob), job)
    assert [item["progress"] and item["progress"]["done"] for item in items] == [6, 5, 7, 1, None]
    assert items[0]["progress"] == {"done": 6, "total": 10, "at": utc_text(quay.now)}
    assert [item["straggler"] for item in items] == [None] * 3 + [{"behind_percent": 45, "median_percent": 55}, None]


def test_a_page_of_tasks_measures_them_by_all_of_their_role(quay: Quay, api: Api) -> None:
    job = running(quay, [1, 6, 6, 6])
    (item,) = tasks(api(quay.cast.bob), job, limit=1)
    assert item["straggler"] == {"behind_percent": 50, "median_percent": 60}
    (attempt,) = api(quay.cast.bob).get(f"/api/v1/jobs/{job.id}/attempts").json()["items"]
    assert [task["straggler"] is None for task in attempt["tasks"]] == [False, True, True, True]
    assert [task["progress"]["done"] for task in attempt["tasks"]] == [1, 6, 6, 6]


def test_roles_and_attempts_are_measured_apart_and_a_stopped_task_is_no_straggler(quay: Quay, api: Api) -> None:
    job = running(quay, [1, 6, 6, 6])
    Task.objects.filter(job_id=job.id, index__in=[2, 3]).update(role="server")
    assert [item["straggler"] for item in tasks(api(quay.cast.bob), job)] == [None] * 4
    Task.objects.filter(job_id=job.id).update(role="worker")
    Task.objects.filter(job_id=job.id, index=0).update(state="stopped")
    assert [item["straggler"] for item in tasks(api(quay.cast.bob), job)] == [None] * 4


def test_a_job_has_done_what_its_tasks_have_done_together(quay: Quay, api: Api) -> None:
    job = running(quay, [6, 5, None])
    client = api(quay.cast.bob)
    assert client.get(f"/api/v1/jobs/{job.id}").json()["progress"] == {"done": 11, "total": 20, "at": utc_text(quay.now)}
    assert "progress" not in client.get("/api/v1/jobs").json()["items"][0], "a list asks for no tasks"
    silent = quay.submit("silent")
    assert client.get(f"/api/v1/jobs/{silent.id}").json()["progress"] is None
    assert Attempt.objects.filter(job_id=silent.id).count() == 0
