"""Use, prices, statements, budgets and break-even over HTTP: who sees what, and what is refused how."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.apps import apps
from django.db import connection
from django.test.utils import CaptureQueriesContext

from activity.models import AuditEvent, Event
from kernel.resources import Resources
from tenants.billing.services.ledger import close_months, fold_days
from tenants.models import Price
from tenants.services import LedgerLine, append_ledger, reserve
from tests.factories.tenants import Cast, ask, make_member, make_queue, make_tenant, now, top_queue

if TYPE_CHECKING:
    from rest_framework.test import APIClient

pytestmark = pytest.mark.database
Api = Callable[..., "APIClient"]
START = datetime(2026, 1, 10, tzinfo=UTC)
PRICES, BUDGETS, USAGE = "/api/v1/prices", "/api/v1/budgets", "/api/v1/usage"
EXPORT, BREAK_EVEN = "/api/v1/usage:export", "/api/v1/breakeven"


@pytest.fixture
def pool(db: None) -> Any:
    cluster = apps.get_model("clusters.Cluster").objects.create(name="here", kind="fake", created_at=now())
    return apps.get_model("clusters.Pool").objects.create(cluster=cluster, name="a100", created_at=now())


def price(pool: Any, micros: int, since: datetime = START) -> None:
    Price.objects.create(
        pool_id=pool.pk, resource="gpu_millis", micros_per_hour=micros, currency="EUR", effective_at=since, created_at=since
    )


def book(person: Any, tenant: Any, hours: int, pool: Any, start: datetime = START, **changes: Any) -> uuid.UUID:
    values: dict[str, Any] = {
        "attempt_id": uuid.uuid4(), "number": 1, "job_id": uuid.uuid4(), "tenant_id": tenant.pk,
        "queue_id": top_queue(tenant).pk, "user_id": person.user.pk, "pool_id": pool.pk, "cluster_id": uuid.uuid4(),
        "cpu_millis": 0, "memory_bytes": 0, "gpu_millis": 1000, "started_at": start, "ended_at": start + timedelta(hours=hours),
        "outcome": "succeeded",
    }  # fmt: skip
    line = LedgerLine(**{**values, **changes})
    append_ledger([line], now=now())
    return line.job_id


def codes(answer: Any) -> set[tuple[str, str]]:
    assert answer.status_code == 422, answer.content
    return {(entry["path"], entry["code"]) for entry in answer.json()["fields"]}


# --- Use ---------------------------------------------------------------------------------------------------------------


@pytest.mark.capability("110", "Without billing nothing says a cost")
def test_use_without_billing_says_what_was_used_and_no_cost(api: Api, cast: Cast, pool: Any) -> None:
    """In rows of the tenant, in sums, in the table and in forecasts; switched off for the tenant or for all."""
    price(pool, 2_000_000)
    book(cast.bob, cast.tenant, 3, pool)

    def micros(person: Any, **query: str) -> list[int | None]:
        return [item["micros"] for item in api(person).get(USAGE, query).json()["items"]]

    def switch(enabled: bool | None, tenant: str | None) -> None:
        api(cast.otto).put("/api/v1/features/billing", {"enabled": enabled, "tenant": tenant}, format="json")

    assert micros(cast.alice) == micros(cast.otto) == [6_000_000]
    for tenant in ("vision", None):
        switch(False, tenant)
        for group_by in ("tenant", "user", "queue", "pool", "job", "day", "fate"):
            assert micros(cast.alice, group_by=group_by) == [None], group_by
            assert micros(cast.bob, group_by=group_by, user="me") == [None], group_by
        assert micros(cast.otto) == [None]
        lines = list(csv.DictReader(io.StringIO(api(cast.alice).get(EXPORT).content.decode())))
        assert [(line["gpu_hours"], line["cost"], line["currency"]) for line in lines] == [("3.000000", "", "")]
        switch(None, tenant)
    assert micros(cast.alice) == [6_000_000]


def test_who_belongs_to_two_tenants_sees_the_cost_of_the_one_with_billing(api: Api, cast: Cast, pool: Any) -> None:
    price(pool, 2_000_000)
    other = make_tenant("other")
    for tenant in (cast.tenant, other):
        book(cast.bob, tenant, 1, pool)
    make_member(other, cast.alice.user, "manager")
    api(cast.otto).put("/api/v1/features/billing", {"enabled": False, "tenant": "other"}, format="json")

    def micros(**query: str) -> list[int | None]:
        return [item["micros"] for item in api(cast.alice).get(USAGE, query).json()["items"]]

    assert sorted(micros(), key=str) == [2_000_000, None]
    assert micros(group_by="user") == [None]
    assert micros(group_by="user", tenant="vision") == [2_000_000]


@pytest.mark.capability("6.4", "Managers see what all jobs cost, members what their own did")
def test_a_manager_sees_what_all_cost_a_member_what_their_own_did(api: Api, cast: Cast, pool: Any) -> None:
    price(pool, 2_000_000)
    book(cast.bob, cast.tenant, 3, pool)
    book(cast.alice, cast.tenant, 1, pool, outcome="failed")

    def micros(person: Any, **query: str) -> dict[str | None, int | None]:
        return {item["name"]: item["micros"] for item in api(person).get(USAGE, query).json()["items"]}

    assert micros(cast.alice, group_by="user") == {"bob": 6_000_000, "alice": 2_000_000}
    assert micros(cast.otto, group_by="user") == {"bob": 6_000_000, "alice": 2_000_000}
    assert micros(cast.bob, group_by="user") == {"bob": 6_000_000, "alice": None}
    assert micros(cast.bob, group_by="fate", user="me") == {"useful": 6_000_000}
    assert micros(cast.vera, group_by="fate") == {"useful": None, "failed": None}
    assert micros(cast.alice, group_by="fate") == {"useful": 6_000_000, "failed": 2_000_000}
    assert micros(cast.alice, group_by="day") == {"2026-01-10": 8_000_000}
    assert api(cast.alice).get(USAGE, {"group_by": "job"}).json()["items"][0]["micros"] == 6_000_000
    assert api(cast.alice).get(USAGE).json()["currency"] == "EUR"


@pytest.mark.capability("60", "Use is split by what became of it, by tenant, user, queue, pool and job")
def test_use_is_filtered_by_user_queue_pool_and_fate_and_what_is_not_seen_does_not_exist(api: Api, cast: Cast, pool: Any) -> None:
    queue = make_queue(cast.tenant, "nightly")
    book(cast.bob, cast.tenant, 3, pool, queue_id=queue.pk, outcome="preempted")
    book(cast.alice, cast.tenant, 1, pool)

    def seconds(**query: str) -> int:
        return sum(item["gpu_milli_seconds"] for item in api(cast.alice).get(USAGE, query).json()["items"]) // 3_600_000

    assert [seconds(user="bob"), seconds(queue="nightly"), seconds(pool="here/a100"), seconds(fate="evicted")] == [3, 3, 4, 3]
    bad = {
        "group_by": "colour",
        "user": "carol",
        "queue": "elsewhere",
        "pool": "h100",
        "fate": "lost",
        "since": "2026-02-01T00:00:00Z",
        "until": "2026-01-01T00:00:00Z",
    }
    found = codes(api(cast.alice).get(USAGE, bad))
    assert found == {
        *((f"/{name}", "not_found") for name in ("user", "queue", "pool")),
        *((f"/{name}", "invalid") for name in ("group_by", "fate")),
        ("/until", "before_since"),
    }


def test_the_number_of_queries_does_not_depend_on_what_was_used(api: Api, cast: Cast, pool: Any) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as found:
            assert api(cast.alice).get(USAGE, {"group_by": "user", "since": "2026-01-10T05:00:00Z"}).status_code == 200
        return len(found)

    book(cast.bob, cast.tenant, 9, pool)
    few = [queries() for _ in range(3)][-1]
    for hours in range(1, 20):
        book(cast.alice, cast.tenant, hours, pool)
    assert queries() == few
    fold_days(now())
    assert queries() == few


def test_an_export_holds_ones_own_lines_the_tenants_or_all_and_is_safe_for_spreadsheets(api: Api, cast: Cast, pool: Any) -> None:
    price(pool, 2_000_000)
    queue = make_queue(cast.tenant, '=HYPERLINK("x")')
    book(cast.bob, cast.tenant, 2, pool, queue_id=queue.pk)
    book(cast.alice, cast.tenant, 30, pool)
    book(cast.carol, cast.elsewhere, 1, pool)

    def rows(person: Any, **query: str) -> list[dict[str, str]]:
        answer = api(person).get(EXPORT, query)
        assert answer["Content-Type"] == "text/csv; charset=utf-8"
        return list(csv.DictReader(io.StringIO(answer.content.decode())))

    assert {row["user_name"] for row in rows(cast.bob)} == {"bob"}
    assert {row["user_name"] for row in rows(cast.alice)} == {"alice", "bob"}
    assert {row["user_name"] for row in rows(cast.otto)} == {"alice", "bob", "carol"}
    assert rows(cast.vera) == []
    assert api(cast.vera).get(EXPORT, {"tenant": cast.tenant.slug}).status_code == 403
    assert api(cast.carol).get(EXPORT, {"tenant": cast.tenant.slug}).status_code == 404
    (mine,) = rows(cast.bob, tenant=cast.tenant.slug)
    assert mine["queue_name"] == '\'=HYPERLINK("x")'
    assert (mine["gpu_hours"], mine["cost"], mine["currency"]) == ("2.000000", "4.000000", "EUR")
    assert [row["day"] for row in rows(cast.alice, user="alice")] == ["2026-01-10", "2026-01-11"]
    assert sum(float(row["cost"]) for row in rows(cast.alice, user="alice")) == 60.0


# --- Prices ------------------------------------------------------------------------------------------------------------


def test_an_operator_sets_a_price_from_a_moment_to_come_and_everybody_sees_it(api: Api, cast: Cast, pool: Any) -> None:
    later = (now() + timedelta(days=1)).replace(microsecond=0).isoformat().replace("+00:00", "Z")
    body = {"pool": "a100", "gpu_hour_micros": 2_500_000, "cpu_hour_micros": 0, "effective_at": later}

    assert api(cast.alice).post(PRICES, body, format="json").status_code == 403
    made = api(cast.otto).post(PRICES, body, format="json")

    assert made.status_code == 201
    shown = api(cast.vera).get(PRICES).json()["items"]
    assert [(row["resource"], row["micros_per_hour"], row["state"]) for row in shown] == [
        ("cpu_millis", 0, "planned"),
        ("gpu_millis", 2_500_000, "planned"),
    ]
    assert shown[0]["created_by"]["name"] == "otto"
    audit = AuditEvent.objects.get(verb="price.edit")
    assert audit.after["gpu_millis"] == 2_500_000
    assert Event.objects.filter(kind="price.changed").count() == 1
    assert api(cast.otto).post(PRICES, {"pool": "a100", "gpu_hour_micros": 1}, format="json").status_code == 201


def test_a_price_for_the_past_or_on_top_of_another_is_refused_with_what_stands_there(api: Api, cast: Cast, pool: Any) -> None:
    price(pool, 2_000_000)
    later = now().replace(microsecond=0) + timedelta(days=1)
    price(pool, 3_000_000, later)

    past = api(cast.otto).post(
        PRICES, {"pool": "a100", "gpu_hour_micros": 1, "effective_at": "2026-01-12T00:00:00Z"}, format="json"
    )
    same = {"pool": "a100", "gpu_hour_micros": 1, "effective_at": later.isoformat()}
    taken = api(cast.otto).post(PRICES, same, format="json")

    assert codes(past) == {("/effective_at", "in_the_past")}
    assert "2.000000 EUR" in past.json()["detail"]
    assert codes(taken) == {("/gpu_hour_micros", "already_priced")}
    assert "3.000000 EUR" in taken.json()["detail"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"pool": "a100"}, {("", "required")}),
        ({"pool": "h100"}, {("/pool", "not_found"), ("", "required")}),
        (
            {"pool": "a100", "gpu_hour_micros": -1, "cpu_hour_micros": 10**13},
            {("/gpu_hour_micros", "min_value"), ("/cpu_hour_micros", "max_value")},
        ),
        ({"pool": "a100", "gpu_hour_micros": 1.5}, {("/gpu_hour_micros", "invalid")}),
        ({"pool": "a100", "gpu_hour_micros": 1, "price": 2}, {("/price", "unknown_field")}),
        ({"pool": "a100", "gpu_hour_micros": 1, "effective_at": "2126-01-01T00:00:00Z"}, {("/effective_at", "out_of_range")}),
        ({"pool": "a100", "gpu_hour_micros": 1, "effective_at": "2030-01-01T00:00:00.5Z"}, {("/effective_at", "invalid")}),
    ],
)  # fmt: skip
def test_a_bad_price_is_refused(api: Api, cast: Cast, pool: Any, body: dict[str, Any], expected: set[tuple[str, str]]) -> None:
    assert codes(api(cast.otto).post(PRICES, body, format="json")) == expected


def test_a_price_that_does_not_hold_yet_can_be_taken_back_and_no_other(api: Api, cast: Cast, pool: Any) -> None:
    price(pool, 2_000_000)
    price(pool, 3_000_000, now() + timedelta(days=1))
    holding, planned = [row["id"] for row in api(cast.otto).get(PRICES).json()["items"]]

    assert api(cast.alice).delete(f"{PRICES}/{planned}").status_code == 403
    assert api(cast.otto).delete(f"{PRICES}/{holding}").status_code == 409
    assert api(cast.otto).delete(f"{PRICES}/{planned}").status_code == 204
    assert [row["state"] for row in api(cast.otto).get(PRICES, {"all": "true"}).json()["items"]] == ["now"]


def test_an_estimate_names_the_cheapest_pool_first(api: Api, cast: Cast, pool: Any) -> None:
    other = type(pool).objects.create(cluster=pool.cluster, name="t4", created_at=now())
    price(pool, 2_000_000)
    price(other, 500_000)
    query = {"gpu_millis": "4000", "seconds": "7200"}

    answer = api(cast.vera).get(f"{PRICES}:estimate", query).json()

    assert [(row["pool"]["name"], row["micros_per_hour"], row["micros"]) for row in answer["items"]] == [
        ("t4", 2_000_000, 4_000_000),
        ("a100", 8_000_000, 16_000_000),
    ]
    assert len(api(cast.vera).get(f"{PRICES}:estimate", {**query, "pool": "a100"}).json()["items"]) == 1
    assert codes(api(cast.vera).get(f"{PRICES}:estimate", {"gpu_millis": "-1", "seconds": "0", "pool": "h100"})) == {
        ("/gpu_millis", "out_of_range"), ("/seconds", "out_of_range"), ("/pool", "not_found"),
    }  # fmt: skip


# --- Statements --------------------------------------------------------------------------------------------------------


def test_a_statement_is_the_same_to_the_byte_and_its_digest_is_that_of_its_bytes(api: Api, cast: Cast, pool: Any) -> None:
    price(pool, 2_000_000)
    book(cast.bob, cast.tenant, 3, pool)
    path = f"/api/v1/tenants/{cast.tenant.slug}/statements/2026-01"
    first = api(cast.alice).get(path).json()
    fold_days(now())
    close_months(now())

    closed = api(cast.alice).get(path).json()
    raw = api(cast.alice).get(path, {"format": "canonical"}).content

    assert first["closed_at"] is None
    assert closed["closed_at"] is not None
    assert first["document"] == closed["document"]
    assert hashlib.sha256(raw).hexdigest() == closed["sha256"] == first["sha256"]
    assert json.dumps(closed["document"], sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() == raw
    assert closed["document"]["totals"]["micros"] == 6_000_000
    assert closed["names"][str(cast.bob.user.pk)] == "bob"
    assert api(cast.alice).get(path, {"format": "csv"}).content.decode().splitlines()[1].endswith(",6.000000,EUR")
    assert [row["month"] for row in api(cast.alice).get(path.rpartition("/")[0]).json()["items"]] == ["2026-01"]


def test_statements_are_for_managers_also_from_above_and_for_operators(api: Api, cast: Cast, pool: Any) -> None:
    child = make_tenant("child", parent=cast.tenant)
    make_member(child, cast.carol.user, "member")
    path = f"/api/v1/tenants/{child.slug}/statements/2026-01"

    statuses = {name: api(getattr(cast, name)).get(path).status_code for name in ("alice", "bob", "vera", "carol", "otto")}

    assert statuses == {"alice": 200, "bob": 403, "vera": 403, "carol": 403, "otto": 200}


def test_a_month_that_is_none_or_still_to_come_is_refused(api: Api, cast: Cast) -> None:
    base = f"/api/v1/tenants/{cast.tenant.slug}/statements"
    for text in ("2026-13", "2026-1", "january", "1999-01"):
        assert codes(api(cast.alice).get(f"{base}/{text}")) == {("/month", "invalid")}
    assert api(cast.alice).get(f"{base}/2199-01").status_code == 404
    assert codes(api(cast.alice).get(f"{base}/2026-01", {"format": "pdf"})) == {("/format", "invalid")}


# --- Budgets -----------------------------------------------------------------------------------------------------------


def test_a_budget_comes_from_above_and_counts_what_ended_and_what_runs(api: Api, cast: Cast, pool: Any) -> None:
    price(pool, 3_600_000_000)  # A thousandth of the currency for a second of a thousandth of a GPU.
    queue = make_queue(cast.tenant, "nightly")
    path = f"/api/v1/queues/{top_queue(cast.tenant).pk}/budget"
    reserve([ask(queue, pool.pk, Resources(gpu_millis=1000))], now=now() - timedelta(seconds=30))
    body = {"kind": "money", "amount": 10_000_000, "stops": True}

    assert api(cast.alice).put(path, body, format="json").status_code == 403
    made = api(cast.otto).put(path, body, format="json")

    assert made.status_code == 200, made.content
    shown = api(cast.vera).get(path).json()
    assert shown["warn_at"] == [80, 100]
    assert shown["spent"] >= 29_000_000
    assert shown["percent"] >= 290
    assert Event.objects.get(kind="budget.spent").data["threshold"] == 100
    assert api(cast.alice).put(f"/api/v1/queues/{queue.pk}/budget", body, format="json").status_code == 200
    assert len(api(cast.vera).get(BUDGETS).json()["items"]) == 2
    assert api(cast.carol).get(BUDGETS).json()["items"] == []
    assert api(cast.carol).get(path).status_code == 404
    assert api(cast.otto).delete(path).status_code == 204
    assert api(cast.otto).get(path).status_code == 404


def test_a_bad_budget_is_refused_with_all_that_is_wrong(api: Api, cast: Cast) -> None:
    path = f"/api/v1/queues/{top_queue(cast.tenant).pk}/budget"
    bad = {"kind": "gold", "amount": -1, "warn_at": [0, 2000], "stop": True}
    assert codes(api(cast.otto).put(path, bad, format="json")) == {
        ("/kind", "invalid_choice"), ("/amount", "min_value"), ("/warn_at/0", "min_value"), ("/warn_at/1", "max_value"),
        ("/stop", "unknown_field"),
    }  # fmt: skip
    twice = {"kind": "money", "amount": 1, "warn_at": [80, 80]}
    assert codes(api(cast.otto).put(path, twice, format="json")) == {("/warn_at", "repeated")}


# --- Break-even --------------------------------------------------------------------------------------------------------


@pytest.mark.capability(
    "66", "Break-even of owning is computed from the hours in the ledger, with assumptions that are told and changed"
)
def test_break_even_rests_on_measured_hours_and_repeats_what_it_assumes(api: Api, cast: Cast, pool: Any) -> None:
    book(cast.bob, cast.tenant, 72, pool, start=now() - timedelta(days=5), gpu_millis=8000)

    answer = api(cast.alice).get(BREAK_EVEN, {"tenant": "vision", "pool": "a100", "gpus": "2", "days": "10"}).json()

    assert answer["gpu_milli_hours_per_month"] == 8 * 72 * 1_000 * 730 // 240
    assert answer["assumptions"]["gpus"] == 2
    assert len(answer["curve"]) == 61
    assert answer["pool"]["name"] == "a100"
    curve = api(cast.otto).get(BREAK_EVEN, {"gpu_hours_per_month": "5840", "format": "csv"}).content.decode().splitlines()
    assert curve[0] == "month,own,rent"
    assert curve[1].startswith("0,280000.000000,")
    assert api(cast.alice).get(BREAK_EVEN).status_code == 403
    assert api(cast.bob).get(BREAK_EVEN, {"tenant": "vision"}).status_code == 403
    assert api(cast.carol).get(BREAK_EVEN, {"tenant": cast.tenant.slug}).status_code == 404


def test_bad_assumptions_are_refused_all_at_once(api: Api, cast: Cast, pool: Any) -> None:
    bad = {"gpus": "0", "horizon_months": "9999", "kwh_micros": "-1", "days": "x", "pool": "h100", "format": "pdf"}
    assert codes(api(cast.otto).get(BREAK_EVEN, bad)) == {
        ("/gpus", "out_of_range"), ("/horizon_months", "out_of_range"), ("/kwh_micros", "out_of_range"),
        ("/days", "out_of_range"), ("/pool", "not_found"), ("/format", "invalid"),
    }  # fmt: skip


def test_a_manager_who_names_no_tenant_is_told_to_name_one(api: Api, cast: Cast) -> None:
    refused = api(cast.alice).get(BREAK_EVEN)

    assert refused.status_code == 403
    assert "manager" not in refused.json()["detail"], "a manager is not told that it is for managers"
    assert "Name a tenant" in refused.json()["hint"]
    assert api(cast.alice).get(BREAK_EVEN, {"tenant": cast.tenant.slug}).status_code == 200
