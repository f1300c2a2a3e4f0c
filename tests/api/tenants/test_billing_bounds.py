"""Prices, estimates, use, statements and budgets over HTTP, at their bounds: who reads what, odd queries, pages, statements."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.request import Request
from rest_framework.test import APIRequestFactory

from activity.models import AuditEvent
from kernel.errors import InvalidInput
from tenants.billing.api import usage
from tenants.billing.api.queries import one_pool, read_month, usage_filter, whole_number
from tenants.billing.models import Budget
from tenants.billing.services.ledger import fold_days
from tenants.identity.services.names import Problems
from tests.api.tenants.test_ledger import book, price
from tests.factories.clusters import a_cluster
from tests.factories.tenants import Cast, make_queue, make_tenant, now, top_queue

pytestmark = pytest.mark.database
Api = Callable[..., Any]
V1 = "/api/v1"
START = datetime(2026, 1, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def pool(db: None) -> Any:
    return a_cluster("here").with_nodes(1, gpus=8).build().pools.get()


def codes(answer: Any) -> set[tuple[str, str]]:
    assert answer.status_code == 422, answer.content
    return {(field["path"], field["code"]) for field in answer.json()["fields"]}


# --- Words of queries --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1), ("007", 7), ("10", 10),
        ("0", None), ("11", None), ("-1", None), ("1.0", None), ("", None), (" 1", None), ("1e1", None),
        ("\uff11", None), ("9" * 19, None), ("9" * 5_000, None),
    ],
)  # fmt: skip
def test_a_number_of_a_query_is_whole_and_within_its_bounds(text: str, expected: int | None) -> None:
    problems = Problems()
    found = whole_number(text, "days", problems, lowest=1, highest=10)
    assert found == (1 if expected is None else expected)
    assert [(field.path, field.code) for field in problems.fields] == ([("/days", "out_of_range")] if expected is None else [])


@pytest.mark.parametrize("text", ["2026-1", "2026-13", "2026-00", "1999-12", "20260-1", "2026-01 ", "\uff12026-01", "", "x"])
def test_what_is_no_month_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_month(text)
    assert [(field.path, field.code) for field in refused.value.fields] == [("/month", "invalid")]


@pytest.mark.parametrize(("text", "expected"), [("2000-01", 200001), ("2026-12", 202612), ("2999-09", 299909)])
def test_a_month_is_a_number(text: str, expected: int) -> None:
    assert read_month(text) == expected


def test_a_pool_is_meant_by_id_name_or_cluster_and_name_and_not_guessed_between_two(pool: Any) -> None:
    other = a_cluster("there").with_nodes(1, gpus=1).build().pools.get()
    other.name = pool.name
    other.save()
    for text in (str(pool.pk), str(pool.pk).upper(), f"here/{pool.name}"):
        problems = Problems()
        found = one_pool(text, problems)
        assert found is not None
        assert (found.id, problems.fields) == (pool.pk, [])
    for text, code in ((pool.name, "ambiguous"), ("nothing", "not_found"), (f"elsewhere/{pool.name}", "not_found")):
        problems = Problems()
        assert one_pool(text, problems) is None
        assert [field.code for field in problems.fields] == [code]
    assert one_pool("", Problems()) is None


def test_all_that_is_wrong_with_a_query_is_told_at_once_and_me_is_the_caller(cast: Cast, pool: Any) -> None:
    def asked(**query: str) -> Any:
        request = Request(APIRequestFactory().get("/", query))
        return usage_filter(request, cast.bob.actor, frozenset({cast.tenant.pk}), Problems())

    with pytest.raises(InvalidInput) as refused:
        asked(since="yesterday", user="carol", queue="none", pool="none", fate="lost")
    assert {(field.path, field.code) for field in refused.value.fields} >= {
        ("/user", "not_found"), ("/queue", "not_found"), ("/pool", "not_found"), ("/fate", "invalid"),
    }  # fmt: skip
    assert "/since" in {field.path for field in refused.value.fields}
    with pytest.raises(InvalidInput) as backwards:
        asked(since="2026-01-02T00:00:00Z", until="2026-01-01T00:00:00Z")
    assert [field.code for field in backwards.value.fields] == ["before_since"]
    found = asked(user="me", pool=pool.name, since="2026-01-01T00:00:00Z", until="2026-01-01T00:00:00Z")
    assert (found.user_id, found.pool_ids, found.since == found.until) == (cast.bob.user.pk, frozenset({pool.pk}), True)
    assert asked() == usage_filter(
        Request(APIRequestFactory().get("/")), cast.otto.actor, frozenset({cast.tenant.pk}), Problems()
    )


# --- Prices ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("person", "status", "shown"), [("alice", 200, 1), ("vera", 200, 1), ("carol", 200, 1), ("otto", 200, 1)]
)
def test_members_of_any_tenant_read_prices(api: Api, cast: Cast, pool: Any, person: str, status: int, shown: int) -> None:
    price(pool, 2_000_000)
    answer = api(getattr(cast, person)).get(f"{V1}/prices")
    assert (answer.status_code, len(answer.json()["items"])) == (status, shown)
    assert api().get(f"{V1}/prices").status_code == 401


def test_prices_are_those_that_hold_or_will_and_those_that_held_for_who_asks(api: Api, cast: Cast, pool: Any) -> None:
    for micros, since in ((1, START), (2, START + HOUR), (3, now() + HOUR)):
        price(pool, micros, since)

    def states(**query: str) -> list[tuple[int, str]]:
        rows = api(cast.vera).get(f"{V1}/prices", query).json()["items"]
        return [(row["micros_per_hour"], row["state"]) for row in rows]

    assert states() == [(2, "now"), (3, "planned")]
    assert states(all="true") == [(1, "past"), (2, "now"), (3, "planned")]
    assert states(pool=f"here/{pool.name}") == states()
    assert codes(api(cast.vera).get(f"{V1}/prices", {"pool": "none"})) == {("/pool", "not_found")}
    assert api(cast.vera).get(f"{V1}/prices", {"pools": "x"}).status_code == 422


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"seconds": "1"}, None),
        ({"seconds": str(366 * 86_400)}, None),
        ({"seconds": "0"}, {("/seconds", "out_of_range")}),
        ({"seconds": str(366 * 86_400 + 1), "gpu_millis": "x"}, {("/seconds", "out_of_range"), ("/gpu_millis", "out_of_range")}),
        ({"memory_bytes": str(2**50)}, None),
        ({"memory_bytes": str(2**50 + 1), "pool": "none"}, {("/memory_bytes", "out_of_range"), ("/pool", "not_found")}),
    ],
)
def test_an_estimate_is_for_a_second_to_a_year(
    api: Api, cast: Cast, pool: Any, query: dict[str, str], expected: set[tuple[str, str]] | None
) -> None:
    price(pool, 3_600_000)
    answer = api(cast.bob).get(f"{V1}/prices:estimate", {"gpu_millis": "1000", **query})
    if expected is None:
        (row,) = answer.json()["items"]
        assert row["micros"] == 1_000 * int(query.get("seconds", 3_600))
        assert row["micros_per_hour"] == 3_600_000
    else:
        assert codes(answer) == expected


# --- Use ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("person", "rows"), [("alice", {"vision"}), ("vera", {"vision"}), ("carol", {"elsewhere"}), ("otto", {"vision", "elsewhere"})]
)
def test_use_is_that_of_the_tenants_that_one_sees(api: Api, cast: Cast, pool: Any, person: str, rows: set[str]) -> None:
    book(cast.bob, cast.tenant, 1, pool)
    book(cast.carol, cast.elsewhere, 1, pool)
    found = api(getattr(cast, person)).get(f"{V1}/usage").json()["items"]
    assert {row["name"] for row in found} == rows


def test_a_report_is_paged_without_losing_or_repeating_a_job(api: Api, cast: Cast, pool: Any) -> None:
    jobs = {str(book(cast.bob, cast.tenant, 1 + number % 3, pool)) for number in range(7)}
    seen: list[str] = []
    query: dict[str, str] = {"group_by": "job", "limit": "3"}
    for _ in range(5):
        answer = api(cast.alice).get(f"{V1}/usage", query).json()
        seen += [row["id"] for row in answer["items"]]
        if not answer["next"]:
            break
        query["cursor"] = answer["next"]
    assert len(seen) == len(set(seen)) == 7
    assert set(seen) == jobs
    foreign = {**query, "group_by": "user"}
    assert api(cast.alice).get(f"{V1}/usage", foreign).status_code == 400, "a cursor is of its own query"


@pytest.mark.parametrize(
    ("person", "lines"),
    [("alice", {"alice", "bob"}), ("bob", {"bob"}), ("vera", set()), ("carol", set()), ("otto", {"alice", "bob"})],
)
def test_an_export_holds_the_lines_whose_cost_one_may_see(api: Api, cast: Cast, pool: Any, person: str, lines: set[str]) -> None:
    book(cast.bob, cast.tenant, 1, pool)
    book(cast.alice, cast.tenant, 1, pool)
    answer = api(getattr(cast, person)).get(f"{V1}/usage:export")
    assert answer.status_code == 200
    assert answer["Content-Disposition"].startswith("attachment")
    assert {row["user_name"] for row in csv.DictReader(io.StringIO(answer.content.decode()))} == lines


def test_an_export_that_is_too_large_is_refused_before_it_is_made(
    api: Api, cast: Cast, pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "EXPORT_LINES", 1)
    book(cast.bob, cast.tenant, 20, pool)
    fold_days(now())
    assert api(cast.alice).get(f"{V1}/usage:export").status_code == 200
    book(cast.bob, cast.tenant, 30, pool)
    fold_days(now())
    assert codes(api(cast.alice).get(f"{V1}/usage:export")) == {("/since", "too_many")}


# --- Statements and budgets --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("person", "status"), [("alice", 200), ("bob", 403), ("vera", 403), ("carol", 404), ("otto", 200)])
@pytest.mark.parametrize("path", ["statements", "statements/2026-01", "statements/2026-01?format=csv"])
def test_statements_are_for_managers_and_operators(api: Api, cast: Cast, path: str, person: str, status: int) -> None:
    assert api(getattr(cast, person)).get(f"{V1}/tenants/{cast.tenant.slug}/{path}").status_code == status


@pytest.mark.parametrize(
    ("month", "query", "status"),
    [
        ("2026-01", "", 200),
        ("2026-13", "", 422),
        ("2999-01", "", 404),
        ("2026-01", "?format=pdf", 422),
        ("2026-01", "?fmt=csv", 422),
    ],
)
def test_a_statement_is_of_a_month_that_has_begun(api: Api, cast: Cast, month: str, query: str, status: int) -> None:
    assert api(cast.alice).get(f"{V1}/tenants/{cast.tenant.slug}/statements/{month}{query}").status_code == status


@pytest.mark.parametrize(
    ("person", "read", "write"),
    [("alice", 200, 403), ("bob", 200, 403), ("vera", 200, 403), ("carol", 404, 404), ("otto", 200, 200)],
)
def test_a_budget_is_read_in_the_tenant_and_set_from_above(api: Api, cast: Cast, person: str, read: int, write: int) -> None:
    path, client = f"{V1}/queues/{top_queue(cast.tenant).pk}/budget", api(getattr(cast, person))
    body = {"kind": "money", "amount": 1_000_000, "stops": False}
    assert client.get(path).status_code == 404, "there is none yet"
    assert client.put(path, body, format="json").status_code == write
    api(cast.otto).put(path, body, format="json")
    assert client.get(path).status_code == read
    assert len(client.get(f"{V1}/budgets").json()["items"]) == (read == 200)
    assert client.delete(path).status_code == (204 if write == 200 else write)
    assert Budget.objects.exists() is (write != 200)


def test_a_manager_sets_the_budget_of_a_queue_below_with_its_version_and_leaves_audit_rows(api: Api, cast: Cast) -> None:
    path = f"{V1}/queues/{make_queue(cast.tenant, 'nightly').pk}/budget"
    body = {"kind": "gpu_time", "amount": 3_600_000, "warn_at": [100, 50], "stops": True}
    made = api(cast.alice).put(path, body, format="json")
    assert (made.status_code, made["ETag"]) == (200, '"1"')
    assert (made.json()["warn_at"], made.json()["spent"], made.json()["percent"]) == ([50, 100], 0, 0)
    assert api(cast.alice).put(path, {**body, "amount": 1}, format="json", HTTP_IF_MATCH='"9"').status_code == 412
    assert api(cast.alice).put(path, {**body, "amount": 1}, format="json", HTTP_IF_MATCH='"1"')["ETag"] == '"2"'
    assert AuditEvent.objects.filter(verb="budget.edit").count() == 2


def test_lists_ask_as_often_for_many_budgets_and_prices_as_for_one(api: Api, cast: Cast, pool: Any) -> None:
    def statements(path: str) -> int:
        api(cast.otto).get(path)
        with CaptureQueriesContext(connection) as asked:
            assert api(cast.otto).get(path).status_code == 200
        return len(asked)

    def add() -> None:
        tenant = make_tenant()
        body = {"kind": "money", "amount": 1, "stops": False}
        api(cast.otto).put(f"{V1}/queues/{top_queue(tenant).pk}/budget", body, format="json")
        price(pool, 1, START + (Budget.objects.count() * HOUR))

    add()
    before = {path: statements(path) for path in (f"{V1}/budgets", f"{V1}/prices?all=true")}
    for _ in range(8):
        add()
    assert {path: statements(path) for path in before} == before
