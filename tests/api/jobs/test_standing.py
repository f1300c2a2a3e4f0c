"""A list of jobs that says where they stand: place and expected start of those that wait, and what those that run hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.engines.fake import Script
from tests.builders.quay import Quay
from tests.factories.tenants import make_queue

pytestmark = pytest.mark.database

Api = Callable[..., Any]
ENDLESS = Script(duration_seconds=1_000_000)
ALL = {"resources": {"cpu": 8, "memory": "1Gi"}, "max_runtime": "1h"}


def listed(api: Api, quay: Quay, query: str = "standing=true") -> dict[str, dict[str, Any]]:
    answer = api(quay.cast.bob).get(f"/api/v1/jobs?{query}")
    assert answer.status_code == 200, answer.content
    return {row["name"]: row for row in answer.json()["items"]}


def test_a_list_says_who_is_next_when_it_starts_and_what_runs_holds(quay: Quay, api: Api) -> None:
    quay.submit("runs", script=ENDLESS, **ALL)
    quay.turn(2)
    for name in ("first", "second"):
        quay.submit(name, script=ENDLESS, **ALL)
        quay.pass_time(1)
    quay.submit("held", hold=True, script=ENDLESS, **ALL)
    quay.turn(2)

    rows = listed(api, quay)

    assert {name: row["place"] for name, row in rows.items()} == {"runs": None, "first": 1, "second": 2, "held": None}
    assert rows["runs"]["held"]["cpu_millis"] == 8_000
    assert rows["runs"]["expected_start"] is None
    assert rows["first"]["held"] is None
    shown = listed(api, quay, "")
    assert {row["place"] for row in shown.values()} == {None}, "without asking nothing is looked up"
    assert not any("expected_start" in row or "held" in row for row in shown.values())


def test_places_count_in_each_queue_for_itself(quay: Quay, api: Api) -> None:
    make_queue(quay.cast.tenant, "night")
    for name, queue in (("day-1", None), ("night-1", "night"), ("day-2", None), ("night-2", "night")):
        quay.submit(name, hold=False, **({"queue": queue} if queue else {}), **ALL)
        quay.pass_time(1)

    places = {name: row["place"] for name, row in listed(api, quay).items()}

    assert places == {"day-1": 1, "day-2": 2, "night-1": 1, "night-2": 2}


def test_a_list_with_places_costs_as_many_statements_for_twenty_jobs_as_for_two(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)

    def statements(query: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert client.get(f"/api/v1/jobs?{query}").status_code == 200
        return len(queries)

    quay.submit("runs", script=ENDLESS, **ALL)
    quay.turn(2)
    quay.submit("waits", **ALL)
    quay.turn(2)
    statements("standing=true")
    plain, few = statements(""), statements("standing=true")
    for number in range(18):
        quay.submit(f"waits-{number}", **ALL)
    quay.turn(2)

    assert statements("standing=true") == few
    assert few <= plain + 7, "places, expected starts, what is held, the time; pools, what queues hold of them, and their names"


def test_a_list_says_who_holds_the_room_that_jobs_wait_for(quay: Quay, api: Api) -> None:
    """By name where one may read the queue; all others together, so that nobody can be counted."""
    quay.submit("mine", script=ENDLESS, **{**ALL, "resources": {"cpu": 5, "memory": "1Gi"}})
    quay.submit("foreign-canary", by=quay.cast.carol, script=ENDLESS, **{**ALL, "resources": {"cpu": 3, "memory": "1Gi"}})
    quay.turn(2)
    quay.submit("waits", script=ENDLESS, **ALL)
    quay.submit("held", hold=True, script=ENDLESS, **ALL)
    quay.turn(2)

    rows = listed(api, quay)

    assert rows["waits"]["reason"]["code"] == "no_room"
    assert [((holder["queue"] or {}).get("name"), holder["cpu_millis"]) for holder in rows["waits"]["held_by"]] == [
        (rows["mine"]["queue"]["name"], 5_000),
        (None, 3_000),
    ]
    assert (rows["held"]["held_by"], rows["mine"]["held_by"]) == ([], [])


def test_a_list_with_places_says_nothing_of_jobs_that_one_does_not_see(quay: Quay, api: Api) -> None:
    quay.submit("foreign-canary", by=quay.cast.carol, **ALL)
    quay.submit("own", **ALL)

    answer = api(quay.cast.bob).get("/api/v1/jobs?standing=true")

    assert "foreign-canary" not in answer.content.decode()
    assert [row["place"] for row in answer.json()["items"]] == [1]
