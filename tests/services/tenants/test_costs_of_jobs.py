"""What running and ended jobs cost, what an ask would cost, what statements and budgets read: amounts, seconds, statements."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kernel.limits import GIB
from kernel.resources import Resources
from tenants.billing.budgets import spent_budgets
from tenants.billing.costs import estimate, hourly, job_cost
from tenants.billing.ledger.budgets import BudgetKind
from tenants.billing.ledger.entries import Use
from tenants.billing.ledger.prices import PriceBook, PriceFacts
from tenants.billing.ledger_rows import currency, day_columns, price_book, steady, summed
from tenants.billing.services.ledger import close_statement, fold_days
from tenants.billing.statements import closed_months, made_statement, statement_of
from tenants.billing.usage import UsageFilter, count_lines, job_costs, usage_lines, usage_report
from tenants.models import Budget, Counter, Price
from tenants.services import LedgerLine, append_ledger, reserve
from tests.factories.tenants import Cast, ask, make_queue, now, top_queue

pytestmark = pytest.mark.database
POOL, ELSEWHERE = uuid.UUID(int=1), uuid.UUID(int=2)
START = datetime(2026, 1, 31, 23, tzinfo=UTC)
HOUR = timedelta(hours=1)
GPU = Resources(gpu_millis=2_000)
Queries = Callable[[int], Any]


def price(micros: int, since: datetime = START - 24 * HOUR, resource: str = "gpu_millis", pool: uuid.UUID = POOL) -> None:
    Price.objects.create(
        pool_id=pool, resource=resource, micros_per_hour=micros, currency="EUR", effective_at=since, created_at=since
    )


def line(cast: Cast, start: datetime, end: datetime, **changes: Any) -> LedgerLine:
    values: dict[str, Any] = {
        "attempt_id": uuid.uuid4(), "number": 1, "job_id": uuid.uuid4(), "tenant_id": cast.tenant.pk,
        "queue_id": top_queue(cast.tenant).pk, "user_id": cast.bob.user.pk, "pool_id": POOL, "cluster_id": uuid.UUID(int=9),
        "cpu_millis": 0, "memory_bytes": 0, "gpu_millis": 2_000, "started_at": start, "ended_at": end, "outcome": "succeeded",
    }  # fmt: skip
    made = LedgerLine(**{**values, **changes})
    append_ledger([made], now=now())
    return made


def held(cast: Cast, amount: Resources, *, job_id: uuid.UUID, attempt_id: uuid.UUID) -> None:
    wanted = ask(top_queue(cast.tenant), POOL, amount, attempt_id=attempt_id, job_id=job_id)
    assert reserve([wanted], now=START)


# --- Jobs --------------------------------------------------------------------------------------------------------------


def test_a_job_costs_what_its_ended_attempts_and_the_running_one_have_used(cast: Cast) -> None:
    price(3_000_000)
    job_id, attempt_id = uuid.uuid4(), uuid.uuid4()
    line(cast, START, START + HOUR, job_id=job_id, outcome="failed", goes_on=True, held_seconds=4_000)
    held(cast, GPU, job_id=job_id, attempt_id=attempt_id)
    found = job_cost([job_id], running=[(attempt_id, 2, START + 2 * HOUR)], now=START + 2 * HOUR + HOUR / 2)
    assert [(row.number, row.fate, row.use.gpu_micros, row.held_seconds) for row in found.attempts] == [
        (1, "retried", 6_000_000, 4_000),
        (2, "", 3_000_000, None),
    ]
    assert (found.total.micros, found.total.attempts, found.micros_per_hour) == (9_000_000, 2, 6_000_000)


@pytest.mark.parametrize("offset", [timedelta(0), -HOUR])
def test_what_has_just_begun_costs_nothing_yet_also_where_a_clock_is_ahead(cast: Cast, offset: timedelta) -> None:
    price(3_000_000)
    job_id, attempt_id = uuid.uuid4(), uuid.uuid4()
    held(cast, GPU, job_id=job_id, attempt_id=attempt_id)
    found = job_cost([job_id], running=[(attempt_id, 1, START)], now=START + offset)
    assert (found.total.micros, found.total.gpu_milli_seconds, found.micros_per_hour) == (0, 0, 6_000_000)


def test_what_is_held_and_has_not_started_costs_nothing(cast: Cast) -> None:
    price(3_000_000)
    job_id = uuid.uuid4()
    held(cast, GPU, job_id=job_id, attempt_id=uuid.uuid4())
    found = job_cost([job_id], running=[], now=START + HOUR)
    assert (found.attempts, found.total.micros, found.micros_per_hour) == ((), 0, 0)
    assert job_cost([], running=[], now=START).attempts == ()


def test_a_job_of_many_children_is_read_in_as_many_queries_as_one(cast: Cast, django_assert_num_queries: Queries) -> None:
    ids = [uuid.uuid4() for _ in range(30)]
    line(cast, START, START + HOUR, job_id=ids[0])
    with django_assert_num_queries(4):
        job_cost(ids[:1], running=[], now=START)
    for job_id in ids[1:]:
        line(cast, START, START + HOUR, job_id=job_id)
    with django_assert_num_queries(4):
        assert len(job_cost(ids, running=[], now=START).attempts) == 30


# --- Asks --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (Resources(), 0),
        (Resources(gpu_millis=1_000), 9),
        (Resources(gpu_millis=500), 4),
        (Resources(cpu_millis=2_000), 14),
        (Resources(memory_bytes=3 * GIB), 15),
        (Resources(1_000, GIB, 1_000), 21),
    ],
)
def test_an_hour_costs_the_sum_of_its_resources(amount: Resources, expected: int) -> None:
    book = PriceBook(
        [PriceFacts(POOL, "gpu_millis", 0, 9), PriceFacts(POOL, "cpu_millis", 0, 7), PriceFacts(POOL, "memory_bytes", 0, 5)]
    )
    assert hourly(POOL, amount, book, START) == expected
    assert hourly(ELSEWHERE, amount, book, START) == 0


def test_an_estimate_counts_a_price_that_is_planned_from_its_moment_on(db: None) -> None:
    price(1_000_000)
    price(3_000_000, since=START + HOUR)
    found = estimate([POOL, ELSEWHERE], Resources(gpu_millis=1_000), 7_200, START)
    assert found == {POOL: (1_000_000, 4_000_000), ELSEWHERE: (0, 0)}
    assert estimate([POOL], Resources(gpu_millis=1_000), 0, START) == {POOL: (1_000_000, 0)}
    assert estimate([], Resources(gpu_millis=1), 1, START) == {}


def test_the_currency_is_that_of_the_prices_and_else_of_the_settings(db: None, configure: Callable[..., Any]) -> None:
    configure(currency="CNY")
    assert currency() == "CNY"
    price(1)
    assert currency() == "EUR"
    assert price_book().at(POOL, "gpu_millis", 10**12) == 1


# --- Reports -----------------------------------------------------------------------------------------------------------


def test_costs_of_jobs_are_cut_at_the_window_and_none_are_asked_for_none(cast: Cast, django_assert_num_queries: Queries) -> None:
    price(1_000_000)
    made = line(cast, START, START + 4 * HOUR)
    other = uuid.uuid4()
    whole = job_costs([made.job_id, other], since=None, until=None)
    assert whole == {made.job_id: 8_000_000, other: 0}
    assert job_costs([made.job_id], since=START + HOUR, until=START + 2 * HOUR) == {made.job_id: 2_000_000}
    assert job_costs([made.job_id], since=START + 9 * HOUR, until=None) == {made.job_id: 0}
    with django_assert_num_queries(0):
        assert job_costs([], since=None, until=None) == {}


@pytest.mark.parametrize("is_folded", [False, True])
def test_a_report_has_nothing_outside_its_filters(cast: Cast, is_folded: bool) -> None:
    price(1_000_000)
    queue = make_queue(cast.tenant)
    line(cast, START, START + HOUR, queue_id=queue.pk, outcome="failed")
    line(cast, START, START + 2 * HOUR)
    if is_folded:
        fold_days(now())
    base = UsageFilter(frozenset({cast.tenant.pk}))

    def hours(**changes: Any) -> int:
        wanted = UsageFilter(**{**asdict(base), **changes})
        rows = usage_report(**asdict(wanted), group_by="tenant")
        assert sum(use.gpu_milli_seconds for use in usage_lines(wanted).values()) == sum(
            row.used.gpu_milli_seconds for row in rows
        )
        return sum(row.used.gpu_milli_seconds for row in rows) // 7_200_000

    assert hours() == 3
    assert hours(queue_ids=frozenset({queue.pk})) == hours(fate="failed") == 1
    assert hours(user_id=cast.alice.user.pk) == hours(pool_ids=frozenset({ELSEWHERE})) == hours(tenant_ids=frozenset()) == 0
    assert hours(since=START + HOUR) == 1
    assert hours(until=START) == hours(since=START + 2 * HOUR) == 0


def test_an_attempt_over_midnight_is_two_days_and_ends_with_the_later_month(cast: Cast) -> None:
    price(1_000_000)
    line(cast, START, START + 3 * HOUR)
    rows = usage_report(tenant_ids=None, since=None, until=None, group_by="day")
    assert [(row.attempts, row.used.gpu_milli_seconds // 7_200_000, row.micros) for row in rows] == [
        (0, 1, 2_000_000),
        (1, 2, 4_000_000),
    ]
    assert made_statement(cast.tenant.pk, 202601).document["lines"] == []
    lines = made_statement(cast.tenant.pk, 202602).document["lines"]
    assert [(row["used_in"], row["micros"]) for row in lines] == [("2026-01", 2_000_000), ("2026-02", 4_000_000)]


def test_lines_of_an_export_are_counted_before_they_are_made(cast: Cast) -> None:
    wanted = UsageFilter()
    assert count_lines(wanted) == 0
    line(cast, START, START + 30 * HOUR)
    assert count_lines(wanted) == 0, "nothing is in a day yet"
    fold_days(now())
    assert count_lines(wanted) == 3
    assert count_lines(UsageFilter(since=START + 25 * HOUR)) == 1, "from midnight on that is a whole day"
    assert count_lines(UsageFilter(since=START + 26 * HOUR)) == 0
    assert count_lines(UsageFilter(fate="failed")) == 0


@pytest.mark.parametrize("tail", [0, 1, 2**20 - 1, 2**20, 2**60 + 5])
def test_memory_is_kept_in_two_columns_and_is_whole_again(tail: int) -> None:
    use = Use(1, 2, tail, 3, 4, 5, 6, 7, 8)
    columns = day_columns(use)
    assert columns["memory_rest_seconds"] < 2**20
    assert summed({f"sum_{name}": value for name, value in columns.items()}) == use
    assert summed({f"sum_{name}": None for name in columns}) == Use()


def test_what_is_read_while_days_are_counted_is_read_again_and_at_last_under_a_lock(db: None) -> None:
    reads: list[int] = []

    def read_while_counted() -> int:
        Counter.objects.update_or_create(name="ledger.fold", defaults={"value": len(reads) + 1})
        reads.append(1)
        return len(reads)

    assert steady(read_while_counted) == 4
    assert steady(lambda: "still") == "still"


# --- Statements and budgets --------------------------------------------------------------------------------------------


def test_a_month_is_open_until_it_is_closed_and_stays_as_it_was(cast: Cast) -> None:
    price(1_000_000)
    line(cast, START - HOUR, START)
    opened = statement_of(cast.tenant.pk, 202601)
    assert (opened.closed_at, closed_months(cast.tenant.pk)) == (None, [])
    assert json.loads(opened.data) == opened.document
    fold_days(now())
    close_statement(cast.tenant.pk, 202601, now=now())
    closed = statement_of(cast.tenant.pk, 202601)
    assert closed.closed_at is not None
    assert (closed.data, closed.sha256) == (opened.data, opened.sha256)
    assert [row.month for row in closed_months(cast.tenant.pk)] == [202601]
    assert closed_months(cast.elsewhere.pk) == []


@pytest.mark.parametrize(
    ("stops", "spent", "month", "holds"),
    [
        (True, 10, 202601, True),
        (True, 11, 202601, True),
        (True, 9, 202601, False),
        (False, 10, 202601, False),
        (True, 10, 202512, False),
    ],
)
def test_a_budget_holds_jobs_back_in_the_month_in_which_it_is_spent(
    cast: Cast, stops: bool, spent: int, month: int, holds: bool
) -> None:
    queue = top_queue(cast.tenant)
    Budget.objects.create(
        queue=queue,
        kind=BudgetKind.MONEY,
        amount=10,
        warn_at=[80],
        stops=stops,
        spent=spent,
        spent_month=month,
        spent_at=START,
        created_at=START,
    )
    assert (queue.pk in spent_budgets(START)) is holds
    assert queue.pk not in spent_budgets(START + HOUR), "the next month has begun"
