"""Lists of jobs: their orders, page by page; text in names and tags; how many there are of each state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from structlog.testing import capture_logs

from activity.models import AuditEvent
from jobs.models import Job, JobCount
from jobs.services.counts import FOLD_FROM, fold_counts, recount_jobs
from tests.builders.quay import Quay
from tests.factories.tenants import make_queue

pytestmark = pytest.mark.database

Api = Callable[..., Any]


def walk(client: Any, query: str, *, limit: int = 2) -> list[dict[str, Any]]:
    """All rows of a list, page by page."""
    rows: list[dict[str, Any]] = []
    cursor = ""
    while True:
        answer = client.get(f"/api/v1/jobs?limit={limit}&{query}{cursor}")
        assert answer.status_code == 200, answer.content
        rows += answer.json()["items"]
        if not answer.json()["next"]:
            return rows
        cursor = f"&cursor={answer.json()['next']}"


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [row["name"] for row in rows]


@pytest.mark.parametrize("limit", [1, 2, 50])
def test_pages_by_priority_give_every_job_once_the_highest_first(quay: Quay, api: Api, limit: int) -> None:
    for number, priority in enumerate((500, 900, 500, 100, 900, 500)):
        quay.submit(f"job-{number}", by=quay.cast.alice, priority=priority)
    found = walk(api(quay.cast.bob), "sort=priority", limit=limit)
    assert names(found) == ["job-4", "job-1", "job-5", "job-2", "job-0", "job-3"]


def test_pages_by_end_hold_only_what_ended_the_latest_first(quay: Quay, api: Api) -> None:
    jobs = [quay.submit(f"job-{number}", hold=True) for number in range(5)]
    for minutes, number in enumerate((3, 0, 4)):
        Job.objects.filter(id=jobs[number].id).update(ended_at=quay.now + timedelta(minutes=minutes), state="failed")
    assert names(walk(api(quay.cast.bob), "sort=finished", limit=1)) == ["job-4", "job-0", "job-3"]


def test_an_order_that_does_not_exist_is_refused_with_those_that_do(quay: Quay, api: Api) -> None:
    answer = api(quay.cast.bob).get("/api/v1/jobs?sort=name")
    assert answer.status_code == 422 or answer.status_code == 400
    assert "created, finished, priority" in answer.json()["hint"]


def test_a_cursor_of_one_order_is_refused_by_another(quay: Quay, api: Api) -> None:
    for number in range(3):
        quay.submit(f"job-{number}")
    client = api(quay.cast.bob)
    cursor = client.get("/api/v1/jobs?limit=1&sort=priority").json()["next"]
    assert client.get(f"/api/v1/jobs?limit=1&cursor={cursor}").json()["code"] == "invalid_cursor"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("resnet", ["train-ResNet-50"]),
        ("NIGHT", ["eval", "train-ResNet-50"]),
        ("t-5", ["train-ResNet-50"]),
        ("ai", ["train-ResNet-50"]),
        ("%", []),
        ("nothing like it", []),
    ],
)
def test_text_is_found_in_names_and_tags_in_whatever_case(quay: Quay, api: Api, text: str, found: list[str]) -> None:
    quay.submit("train-ResNet-50", tags=["nightly"])
    quay.submit("eval", tags=["midnight", "small"])
    quay.submit("other")
    answer = api(quay.cast.bob).get("/api/v1/jobs", {"q": text})
    assert names(answer.json()["items"]) == found


def test_text_is_found_in_a_tag_that_was_added_and_not_in_one_that_was_taken_away(quay: Quay, api: Api) -> None:
    job = quay.submit("train", tags=["before"])
    client = api(quay.cast.bob)
    assert client.put(f"/api/v1/jobs/{job.id}/tags/afterwards").status_code == 200
    assert client.delete(f"/api/v1/jobs/{job.id}/tags/before").status_code == 200
    assert names(walk(client, "q=afterw")) == ["train"]
    assert walk(client, "q=before") == []


def test_times_bound_a_list_though_clocks_differ(quay: Quay, api: Api) -> None:
    jobs = [quay.submit(f"job-{number}") for number in range(3)]
    for hours, job in enumerate(jobs):
        Job.objects.filter(id=job.id).update(submitted_at=job.submitted_at + timedelta(hours=hours))
    since = (jobs[0].submitted_at + timedelta(minutes=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
    until = (jobs[0].submitted_at + timedelta(minutes=90)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert names(walk(api(quay.cast.bob), f"since={since}&until={until}")) in ([], ["job-1"])


@pytest.mark.capability("53", "Lists cost the same statements whatever they hold, and are found by indexes")
def test_times_bound_what_ended_by_its_end_along_the_index_of_that_order(quay: Quay, api: Api) -> None:
    jobs = [quay.submit(f"job-{number}", hold=True) for number in range(3)]
    for hours, job in enumerate(jobs):
        Job.objects.filter(id=job.id).update(ended_at=job.submitted_at + timedelta(days=30, hours=hours), state="stopped")
    since, until = (
        (jobs[0].submitted_at + timedelta(days=30, minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ") for minutes in (30, 90)
    )
    assert names(walk(api(quay.cast.bob), f"sort=finished&since={since}&until={until}")) == ["job-1"]
    assert names(walk(api(quay.cast.bob), f"sort=finished&until={since}")) == ["job-0"]


@pytest.mark.capability("53", "Lists cost the same statements whatever they hold, and are found by indexes")
def test_a_page_costs_the_same_statements_whatever_it_holds(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)
    client.get("/api/v1/jobs")  # Whose token it is gets remembered.
    costs = []
    for _ in range(2):
        for number in range(5):
            quay.submit(f"job-{number}")
        with CaptureQueriesContext(connection) as queries:
            assert client.get("/api/v1/jobs?queue=vision&user=bob&state=queued").status_code == 200
        costs.append(len(queries))
    assert costs[0] == costs[1] <= 7


# --- How many there are -----------------------------------------------------------------------------------------------


def counted() -> dict[tuple[Any, Any, str], int]:
    """The sums of the kept numbers."""
    sums: Counter[tuple[Any, Any, str]] = Counter()
    for row in JobCount.objects.all():
        sums[row.tenant_id, row.queue_id, row.state] += row.number
    return {key: number for key, number in sums.items() if number}


def real() -> dict[tuple[Any, Any, str], int]:
    rows = Job.objects.filter(parent_id__isnull=True).values_list("tenant_id", "queue_id", "state")
    return dict(Counter(rows))


def test_kept_numbers_follow_every_change_of_state_and_queue(quay: Quay, api: Api) -> None:
    night = make_queue(quay.cast.tenant, "night")
    quay.submit("array", array=5)
    jobs = [quay.submit(f"job-{number}") for number in range(4)]
    assert counted() == real()
    quay.turn(3)
    assert counted() == real()
    Job.objects.filter(id=jobs[0].id).update(queue_id=night.id)
    assert counted() == real()
    Job.objects.filter(id=jobs[1].id, state="queued").delete()
    assert counted() == real()


def test_folding_changes_no_sum(quay: Quay) -> None:
    jobs = [quay.submit(f"job-{number}") for number in range(3)]
    JobCount.objects.bulk_create(
        JobCount(tenant_id=jobs[0].tenant_id, queue_id=jobs[0].queue_id, state="queued", number=(-1) ** number)
        for number in range(2 * FOLD_FROM)
    )
    before = counted()
    assert fold_counts(quay.now) > FOLD_FROM
    assert (counted(), JobCount.objects.count()) == (before, len(before))
    assert fold_counts(quay.now) == 0


def test_a_recount_corrects_wrong_numbers_and_raises_an_alarm(quay: Quay) -> None:
    jobs = [quay.submit(f"job-{number}") for number in range(3)]
    JobCount.objects.filter(state="queued").delete()
    JobCount.objects.create(tenant_id=jobs[0].tenant_id, queue_id=jobs[0].queue_id, state="running", number=-2)
    with capture_logs() as told:
        drifts = recount_jobs(quay.now)

    assert counted() == real()
    assert {(drift.state, drift.number) for drift in drifts} == {("queued", 3), ("running", 2)}
    assert [entry["event"] for entry in told] == ["job_count_drift"] * 2
    assert AuditEvent.objects.filter(verb="job_count.repair").count() == 1
    assert recount_jobs(quay.now) == []


def test_counts_are_those_of_what_the_reader_sees(quay: Quay, api: Api) -> None:
    quay.submit("held", hold=True)
    quay.submit("array", array=3, hold=True)
    mine = api(quay.cast.bob).get("/api/v1/jobs:counts").json()
    assert (mine["states"]["queued"], mine["states"]["failed"], mine["total"]) == (2, 0, 2)
    assert api(quay.cast.carol).get("/api/v1/jobs:counts").json()["total"] == 0
    assert api(quay.cast.otto).get("/api/v1/jobs:counts?queue=vision").json()["total"] == 2
    assert api(quay.cast.bob).get("/api/v1/jobs:counts?queue=elsewhere").json()["total"] == 0
    assert api(quay.cast.carol).get(f"/api/v1/jobs:counts?tenant={quay.cast.tenant.slug}").status_code == 404


def test_counts_are_told_of_each_queue_that_the_reader_sees(quay: Quay, api: Api) -> None:
    quay.submit("held", hold=True)
    mine = api(quay.cast.bob).get("/api/v1/jobs:counts?by_queue=true").json()
    assert [queue["states"] for queue in mine["queues"]] == [
        {"queued": 1, "admitted": 0, "starting": 0, "running": 0, "stopping": 0}
    ]
    assert api(quay.cast.carol).get("/api/v1/jobs:counts?by_queue=true").json()["queues"] == []
    assert "queues" not in api(quay.cast.bob).get("/api/v1/jobs:counts").json()


@pytest.mark.parametrize("text", ["[", '"', ", ", "[]", '","', "%", "u6a"])
def test_what_the_database_writes_between_names_and_tags_is_not_found(quay: Quay, api: Api, text: str) -> None:
    quay.submit("train", tags=["ocr", "模型"])
    client = api(quay.cast.bob)
    for asked, found in ((text, []), ("模型", ["train"]), ("OC", ["train"]), ("train", ["train"])):
        assert names(client.get("/api/v1/jobs", {"q": asked}).json()["items"]) == found
