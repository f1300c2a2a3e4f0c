"""Who runs, waits and borrows in a queue, who holds which GPU: for whoever may see it, in a constant number of queries."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.engines.fake import Script
from jobs.models import StartPrediction, Task
from tenants.models import QueueLimit
from tests.builders.quay import Quay
from tests.factories.clusters import node_facts
from tests.factories.tenants import make_queue, top_queue

pytestmark = pytest.mark.database
Api = Callable[..., Any]
ENDLESS = Script(duration_seconds=100_000)


def asks(gpus: int) -> dict[str, Any]:
    return {"cpu": 1, "memory": "64Mi", "gpu": gpus}


@pytest.fixture
def quay(cast: Any) -> Quay:
    return Quay(cast, nodes=[node_facts("node-1", cores=32, gpus=4)])


def board(api: Api, quay: Quay, who: Any, queue: Any = None, **query: Any) -> Any:
    return api(who).get(f"/api/v1/queues/{(queue or top_queue(quay.cast.tenant)).pk}/board", query)


def test_the_board_says_who_runs_who_waits_and_who_borrows(quay: Quay, api: Api) -> None:
    top = top_queue(quay.cast.tenant)
    QueueLimit.objects.create(queue=top, pool_id=quay.pool.pk, resource="gpu_millis", deserved=2000)
    first = quay.submit("first", script=ENDLESS, resources=asks(2))
    quay.turn(2)
    quay.pass_time(5)
    second = quay.submit("second", script=ENDLESS, resources=asks(2))
    quay.turn(2)
    third = quay.submit("third", script=ENDLESS, resources=asks(1))
    urgent = quay.submit("held", hold=True, resources=asks(1))
    fourth = quay.submit("fourth", script=ENDLESS, resources=asks(1))
    quay.turn(2)
    said = quay.now
    StartPrediction.objects.create(
        job=third, tenant_id=third.tenant_id, made_at=said, p50_at=said + timedelta(hours=1), p90_at=said + timedelta(hours=2)
    )

    shown = board(api, quay, quay.cast.vera).json()

    assert [(row["job"]["name"], row["gpus"], row["borrowed"]) for row in shown["running"]] == [
        (first.name, 2.0, False),
        (second.name, 2.0, True),
    ]
    assert [(row["job"]["name"], row["position"]) for row in shown["waiting"]] == [("third", 1), ("fourth", 2), ("held", None)]
    assert shown["waiting"][0]["reason"]["code"]
    assert shown["waiting"][0]["expected_start"]["p90_at"] > shown["waiting"][0]["expected_start"]["p50_at"]
    assert (shown["running_count"], shown["borrowed_count"], shown["waiting_count"]) == (2, 1, 3)
    assert board(api, quay, quay.cast.vera, limit=1).json()["waiting"][0]["job"]["id"] == str(third.id)
    assert board(api, quay, quay.cast.carol).status_code == 404
    assert board(api, quay, quay.cast.otto).status_code == 200
    assert {urgent.id, fourth.id}


def test_more_that_run_than_is_told_of_who_borrows_are_counted_all_the_same(
    quay: Quay, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.selectors.board.RUNNING_MAX", 1)
    for number in range(3):
        quay.submit(f"run-{number}", script=ENDLESS, resources=asks(1))
    quay.turn(3)

    shown = board(api, quay, quay.cast.vera).json()
    assert (shown["running_count"], len(shown["running"])) == (3, 2)
    assert board(api, quay, quay.cast.vera, limit=1).json()["running_count"] == 3


def test_jobs_of_queues_below_are_on_the_board_with_their_own_positions(quay: Quay, api: Api) -> None:
    below = make_queue(quay.cast.tenant, "below")
    quay.submit("above", hold=False, resources=asks(4), script=ENDLESS)
    quay.turn(2)
    quay.submit("one", resources=asks(1))
    quay.submit("two", resources=asks(1), queue="below")
    rows = board(api, quay, quay.cast.bob).json()["waiting"]
    assert {(row["queue"]["name"], row["position"]) for row in rows} == {("vision", 1), ("below", 1)}
    assert [row["job"]["name"] for row in board(api, quay, quay.cast.bob, below).json()["waiting"]] == ["two"]


def test_every_gpu_is_told_with_its_holder_for_those_who_may_see_it(quay: Quay, api: Api) -> None:
    job = quay.submit("train", script=ENDLESS, resources=asks(3))
    quay.turn(4)
    assert len(Task.objects.get(job_id=job.id).gpus) == 3

    (node,) = api(quay.cast.vera).get("/api/v1/occupancy", {"pool": quay.pool.name}).json()["nodes"]

    assert [gpu["job_name"] for gpu in node["gpus"]].count("train") == 3
    held = next(gpu for gpu in node["gpus"] if gpu["held"])
    assert (held["job_id"], held["tenant"], held["user"], held["held_millis"]) == (str(job.id), "vision", "bob", 1000)
    assert [gpu["index"] for gpu in node["gpus"]] == [0, 1, 2, 3]
    assert node["undecided_gpu_millis"] == 0
    hidden = api(quay.cast.carol).get(f"/api/v1/nodes/{node['node_id']}/occupancy").json()["gpus"]
    assert sum(gpu["held"] for gpu in hidden) == 3
    assert {gpu["job_name"] for gpu in hidden} == {gpu["user"] for gpu in hidden} == {gpu["tenant"] for gpu in hidden} == {None}
    assert api(quay.cast.otto).get(f"/api/v1/nodes/{node['node_id']}/occupancy").json()["gpus"] == node["gpus"]


def test_board_and_occupancy_cost_the_same_however_many(cast: Any, api: Api) -> None:
    quay = Quay(cast, nodes=[node_facts(f"node-{number}", cores=32, gpus=4) for number in range(1, 6)])

    def queries(path: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert api(cast.bob).get(path).status_code == 200
        return len(captured)

    paths = (f"/api/v1/queues/{top_queue(cast.tenant).pk}/board", "/api/v1/occupancy")
    for number in range(11):  # One more than there is room for.
        quay.submit(f"first-{number}", script=ENDLESS, resources=asks(2))
    quay.submit("waits", hold=True)
    quay.turn(2)
    [queries(path) for path in paths]
    few = [queries(path) for path in paths]
    for number in range(12):
        quay.submit(f"job-{number}", script=ENDLESS, resources=asks(2))
    quay.turn(3)
    assert [queries(path) for path in paths] == few
    assert few[0] <= 13
    assert few[1] <= 6


def test_users_are_found_by_name_and_by_address_for_operators_alone(cast: Any, api: Api) -> None:
    def names(who: Any, **query: str) -> list[str]:
        return [row["name"] for row in api(who).get("/api/v1/users", query).json()["items"]]

    assert names(cast.otto, q="ALI") == ["alice"]
    assert names(cast.otto, q="carol@example") == ["carol"]
    assert names(cast.bob, q="alice@example") == []
    assert names(cast.otto, operator="true") == ["otto"]
    assert "bob" in names(cast.otto, active="true", kind="person")
    assert api(cast.otto).get("/api/v1/users", {"kind": "x", "active": "y"}).status_code == 422
