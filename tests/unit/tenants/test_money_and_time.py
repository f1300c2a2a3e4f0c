"""The ledger's arithmetic at its edges: the second of a price, the last day of a use, thresholds, break-even, and texts."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from kernel.limits import GIB
from kernel.resources import Resources
from tenants.billing.idle_capacity import unused
from tenants.billing.ledger.breakeven import MONTH_HOURS, Assumptions, break_even
from tenants.billing.ledger.budgets import BudgetFacts, BudgetKind, Spent, budget_refusal, node_time, sums_along
from tenants.billing.ledger.entries import (
    DAY_SECONDS,
    WASTE,
    Entry,
    Fate,
    Key,
    Measured,
    Use,
    add_up,
    date_of,
    day_of,
    days,
    fate_of,
    month_bounds,
    month_text,
    postings,
    use_between,
)
from tenants.billing.ledger.fairness import HOUR, Limits, Share, ShareKey, divide, share_statement, week_of, week_starts
from tenants.billing.ledger.prices import PRICE_MAX, PriceBook, PriceFacts, cost_micros, whole_second
from tenants.billing.ledger.statements import as_csv, digest, hours_text, lines_of, money_text, safe_cell
from tenants.billing.shares import bounds_of, week_number, week_text
from tenants.capacity.quota.accounting import ResourceSeconds, mark
from tenants.capacity.quota.limits import Limit, LimitedQueue

POOL, ELSEWHERE = uuid.UUID(int=1), uuid.UUID(int=2)
TENANT, QUEUE, ABOVE, USER = (uuid.UUID(int=number) for number in (11, 12, 13, 14))
GPU = "gpu_millis"
MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def entry(begin: datetime, end: datetime, *, fate: Fate = Fate.USEFUL, measured: tuple[Measured, ...] = ()) -> Entry:
    amount = Resources(2_000, 4 * GIB, 1_000)
    return Entry(uuid.UUID(int=5), 1, uuid.UUID(int=6), TENANT, QUEUE, USER, POOL, amount, begin, end, fate, measured)


# --- Prices ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (MIDNIGHT, mark(MIDNIGHT)),
        (MIDNIGHT + timedelta(microseconds=1), mark(MIDNIGHT) + 1),
        (MIDNIGHT - timedelta(microseconds=1), mark(MIDNIGHT)),
    ],
)
def test_a_price_never_holds_before_its_moment(moment: datetime, expected: int) -> None:
    assert whole_second(moment) == expected


@pytest.mark.parametrize(
    ("resource", "amount", "expected"),
    [(GPU, 1_000, 7), (GPU, 500, 3), ("cpu_millis", 1_000, 7), ("memory_bytes", GIB, 7), (GPU, 0, 0), ("memory_bytes", 1, 0)],
)
def test_a_price_is_for_a_gpu_a_core_or_a_gib_and_an_hour(resource: str, amount: int, expected: int) -> None:
    assert cost_micros(resource, amount, 7, 0, 3_600) == expected


def test_a_cost_is_not_lost_in_parts_that_are_rounded() -> None:
    parts = [cost_micros(GPU, 1_000, 1, at, at + 1) for at in range(3_600)]
    assert sum(parts) == cost_micros(GPU, 1_000, 1, 0, 3_600) == 1
    assert cost_micros(GPU, 1_000, PRICE_MAX, 5, 5) == 0


def test_the_price_book_answers_for_each_pool_and_resource_alone() -> None:
    rows = [PriceFacts(POOL, GPU, 100, 5), PriceFacts(POOL, GPU, 200, 0), PriceFacts(ELSEWHERE, GPU, 0, 9)]
    book = PriceBook(reversed(rows))
    assert [book.at(POOL, GPU, at) for at in (99, 100, 199, 200, 10**12)] == [0, 5, 5, 0, 0]
    assert book.at(POOL, "cpu_millis", 150) == 0
    assert [(part.since, part.until, part.micros_per_hour) for part in book.stretches(POOL, GPU, 50, 250)] == [
        (50, 100, 0),
        (100, 200, 5),
        (200, 250, 0),
    ]
    assert list(book.stretches(POOL, GPU, 150, 150)) == []
    assert [(part.since, part.until) for part in book.stretches(POOL, GPU, 100, 200)] == [(100, 200)]


@pytest.mark.parametrize(
    ("since", "until", "found"),
    [(0, 100, []), (0, 101, [100]), (100, 200, [100]), (150, 201, [100, 200]), (200, 300, [200]), (500, 600, [200])],
)
def test_a_document_holds_the_prices_that_can_have_mattered(since: int, until: int, found: list[int]) -> None:
    book = PriceBook([PriceFacts(POOL, GPU, 100, 5), PriceFacts(POOL, GPU, 200, 6), PriceFacts(ELSEWHERE, GPU, 0, 9)])
    assert [row.since for row in book.between([POOL, POOL], since, until)] == found


# --- Entries and days --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "goes_on", "expected"),
    [
        ("succeeded", False, Fate.USEFUL),
        ("succeeded", True, Fate.USEFUL),
        ("preempted", False, Fate.EVICTED),
        ("preempted", True, Fate.EVICTED),
        ("stopped", False, Fate.STOPPED),
        ("stopped", True, Fate.EVICTED),
        ("failed", False, Fate.FAILED),
        ("failed", True, Fate.RETRIED),
    ],
)
def test_a_fate_follows_from_the_outcome_and_from_what_came_after(outcome: str, goes_on: bool, expected: Fate) -> None:
    assert fate_of(outcome, goes_on=goes_on) is expected
    assert (expected in WASTE) is (expected not in (Fate.USEFUL, Fate.STOPPED))


@pytest.mark.parametrize(
    ("end", "last", "month"),
    [
        (MIDNIGHT - SECOND, "2026-02-28", 202602),
        (MIDNIGHT, "2026-02-28", 202603),
        (MIDNIGHT + SECOND / 2, "2026-02-28", 202603),
        (MIDNIGHT + SECOND, "2026-03-01", 202603),
    ],
)
def test_what_ends_at_midnight_ran_on_the_day_before_and_is_billed_in_the_new_month(end: datetime, last: str, month: int) -> None:
    line = entry(MIDNIGHT - 10 * SECOND, end)
    assert (date_of(line.last_day).isoformat(), line.month) == (last, month)
    assert [key.billed for key, _ in days(line, PriceBook())] == [month] * (1 if last == "2026-02-28" else 2)


def test_an_attempt_over_three_days_is_counted_on_the_last_alone() -> None:
    line = entry(MIDNIGHT - timedelta(hours=30), MIDNIGHT + timedelta(hours=1))
    found = list(days(line, PriceBook([PriceFacts(POOL, GPU, 0, 3_600)])))
    assert [date_of(key.day) for key, _ in found] == [date(2026, 2, 27), date(2026, 2, 28), date(2026, 3, 1)]
    assert [use.attempts for _, use in found] == [0, 0, 1]
    assert [use.gpu_milli_seconds // 3_600_000 for _, use in found] == [6, 24, 1]
    assert [use.gpu_micros for _, use in found] == [6 * 3_600, 24 * 3_600, 3_600]
    assert sum((use for _, use in found), start=Use()).used == ResourceSeconds(
        2_000 * 111_600, 4 * GIB * 111_600, 1_000 * 111_600
    )


def test_a_day_that_was_measured_is_cut_in_proportion_and_adds_up() -> None:
    day = day_of(MIDNIGHT)
    line = entry(MIDNIGHT, MIDNIGHT + timedelta(hours=4), measured=(Measured(day, 1_001, 7), Measured(day + 1, 50, 50)))
    start = mark(MIDNIGHT)
    parts = [use_between(line, PriceBook(), start + 3_600 * hour, start + 3_600 * (hour + 1)) for hour in range(4)]
    assert sum(part.gpu_measured_milli_seconds for part in parts) == 1_001
    assert sum(part.gpu_busy_milli_seconds for part in parts) == 7
    assert max(part.gpu_measured_milli_seconds for part in parts) - min(part.gpu_measured_milli_seconds for part in parts) <= 1


def test_a_resource_that_was_not_held_has_no_postings_and_all_pairs_cancel_out() -> None:
    line = replace(entry(MIDNIGHT, MIDNIGHT + timedelta(hours=2)), amount=Resources(gpu_millis=1_000))
    book = PriceBook([PriceFacts(POOL, GPU, 0, 10), PriceFacts(POOL, GPU, mark(MIDNIGHT) + 3_600, 30)])
    rows = postings(line, book)
    assert {row.resource for row in rows} == {GPU}
    assert [(row.account, row.micros) for row in rows] == [("use", 10), ("supply", -10), ("use", 30), ("supply", -30)]
    assert {row.account_id for row in rows if row.account == "use"} == {TENANT}
    assert sum(row.unit_seconds for row in rows) == sum(row.micros for row in rows) == 0


def test_days_of_many_entries_stand_apart_by_fate_and_a_month_takes_its_own() -> None:
    useful, failed = entry(MIDNIGHT, MIDNIGHT + SECOND), entry(MIDNIGHT, MIDNIGHT + 2 * SECOND, fate=Fate.FAILED)
    found = add_up([useful, failed, useful], PriceBook())
    assert {key.fate: use.attempts for key, use in found.items()} == {"useful": 2, "failed": 1}
    assert {line.fate for line in lines_of(found, month=202603)} == {"useful", "failed"}
    assert lines_of(found.items(), month=202602) == {}
    doubled = [*found.items(), *found.items()]
    assert {line.fate: use.attempts for line, use in lines_of(doubled, month=202603).items()} == {"useful": 4, "failed": 2}


@pytest.mark.parametrize(
    ("month", "first", "after", "text"),
    [
        (202612, datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC), "2026-12"),
        (202802, datetime(2028, 2, 1, tzinfo=UTC), datetime(2028, 3, 1, tzinfo=UTC), "2028-02"),
        (197001, datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 2, 1, tzinfo=UTC), "1970-01"),
    ],
)
def test_a_month_ends_where_the_next_begins(month: int, first: datetime, after: datetime, text: str) -> None:
    assert month_bounds(month) == (first, after)
    assert month_text(month) == text


def test_keys_are_in_the_order_of_days() -> None:
    early, late = Key(1, 9, TENANT, QUEUE, USER, POOL, "useful"), Key(2, 1, TENANT, QUEUE, USER, POOL, "failed")
    assert sorted([late, early]) == [early, late]


# --- Budgets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amount", "spent", "is_over", "percent", "level"),
    [
        (0, 0, True, 100, 100),
        (100, 0, False, 0, 0),
        (100, 79, False, 79, 0),
        (100, 80, False, 80, 80),
        (100, 99, False, 99, 80),
        (100, 100, True, 100, 100),
        (1_000, 799, False, 79, 0),
        (3, 2, False, 66, 0),
        (2**62, 2**62 - 1, False, 99, 80),
    ],
)
def test_a_budget_is_over_at_its_amount_and_warns_at_its_thresholds(
    amount: int, spent: int, is_over: bool, percent: int, level: int
) -> None:
    found = Spent(BudgetFacts(QUEUE, BudgetKind.MONEY, amount), spent)
    assert (found.is_over, found.percent, found.level) == (is_over, percent, level)


@pytest.mark.parametrize(("stops", "spent", "refused"), [(True, 10, True), (True, 9, False), (False, 10, False)])
def test_new_jobs_wait_where_a_budget_on_the_way_stops_and_is_spent(stops: bool, spent: int, refused: bool) -> None:
    found = {ABOVE: Spent(BudgetFacts(ABOVE, BudgetKind.GPU_TIME, 10, stops=stops), spent)}
    refusal = budget_refusal([QUEUE, ABOVE], found)
    assert (refusal is not None) is refused
    assert budget_refusal([QUEUE], found) is None
    if refusal is not None:
        assert refusal.as_dict() == {"queue": str(ABOVE), "kind": "gpu_time", "amount": 10, "spent": spent}


@pytest.mark.parametrize(
    ("used", "capacity", "nodes", "expected"),
    [
        (ResourceSeconds(), Resources(8_000, GIB, 4_000), 2, 0),
        (ResourceSeconds(4_000, 0, 0), Resources(8_000, GIB, 4_000), 2, 1_000),
        (ResourceSeconds(4_000, 0, 4_000), Resources(8_000, GIB, 4_000), 2, 2_000),
        (ResourceSeconds(0, 0, 4_000), Resources(8_000, GIB, 0), 2, 0),
        (ResourceSeconds(4_000, GIB, 4_000), Resources(8_000, GIB, 4_000), 0, 0),
        (ResourceSeconds(1, 0, 0), Resources(8_000, GIB, 4_000), 1, 0),
    ],
)
def test_node_time_follows_what_is_most_of_a_node(used: ResourceSeconds, capacity: Resources, nodes: int, expected: int) -> None:
    assert node_time(used, capacity, nodes) == expected


def test_sums_go_up_the_tree_and_stay_where_no_way_is_known() -> None:
    assert sums_along({QUEUE: (QUEUE, ABOVE)}, [(QUEUE, 3), (QUEUE, 4), (ABOVE, 5)]) == {QUEUE: 7, ABOVE: 12}
    assert sums_along({}, []) == {}


# --- Shares ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "claims", "expected"),
    [
        (10, {}, {}),
        (0, {"a": (1, 5)}, {"a": 0}),
        (10, {"a": (1, 5)}, {"a": 5}),
        (10, {"a": (1, 9), "b": (1, 9)}, {"a": 5, "b": 5}),
        (10, {"a": (3, 99), "b": (1, 99)}, {"a": 7, "b": 3}),
        (10, {"a": (3, 2), "b": (1, 99)}, {"a": 2, "b": 8}),
        (10, {"a": (0, 99), "b": (1, 4)}, {"a": 6, "b": 4}),
        (10, {"a": (0, 99), "b": (1, 99)}, {"a": 0, "b": 10}),
        (10, {"a": (1, 0), "b": (1, 99)}, {"a": 0, "b": 10}),
        (1, {"a": (1, 1), "b": (1, 1)}, {"a": 0, "b": 1}),
    ],
)
def test_a_total_is_divided_by_weight_up_to_what_each_wants(
    total: int, claims: dict[str, tuple[int, int]], expected: dict[str, int]
) -> None:
    assert divide(total, claims) == expected


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 1, 4, 23, 59, 59, tzinfo=UTC), "2026-W01"),
        (datetime(2026, 1, 5, tzinfo=UTC), "2026-W02"),
        (datetime(2024, 12, 30, tzinfo=UTC), "2025-W01"),
        (datetime(2027, 1, 3, 23, 59, 59, tzinfo=UTC), "2026-W53"),
    ],
)
def test_a_week_begins_on_monday_at_midnight_and_belongs_to_the_year_of_its_thursday(moment: datetime, text: str) -> None:
    week = week_of(mark(moment))
    assert week_text(week) == text
    assert week_number(text) == week
    since, until = bounds_of(week)
    assert since <= mark(moment) < until
    assert (since, until - since) == (week_starts(week), 7 * DAY_SECONDS)


@pytest.mark.parametrize(
    "text", ["", "2026", "2026-W", "2026-W1", "26-W01", "2026-W54", "2025-W53", "2026-W00", "2026-Wxx", "a-W-W01"]
)
def test_what_is_no_week_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        week_number(text)


def test_parts_of_nothing_are_nothing() -> None:
    assert Share().as_dict()["fair_ppm"] == Share().as_dict()["delivered_ppm"] == 0
    found = Share(delivered=1, fair=3, delivered_by_all=4).as_dict()
    assert (found["deficit"], found["fair_ppm"], found["delivered_ppm"]) == (2, 750_000, 250_000)


def test_a_statement_of_shares_tells_each_change_of_a_limit_once() -> None:
    def at(since: int, limit: Limit) -> Limits:
        return Limits(since, (LimitedQueue(QUEUE, ABOVE, "q", {POOL: {GPU: limit}}),))

    history = [at(0, Limit(1)), at(10, Limit(1)), at(20, Limit(2)), Limits(30, ()), at(40, Limit(2)), at(50, Limit(1))]
    document = share_statement(
        tenant_id=TENANT, queue_id=QUEUE, week="2026-W01", since=0, until=HOUR,
        found={ShareKey(QUEUE, POOL, GPU): Share(), ShareKey(ABOVE, POOL, GPU): Share()}, history=history,
    )  # fmt: skip
    assert [(row["since"], row["guarantee"]) for row in document["limits"]] == [(0, 1), (20, 2), (50, 1)]  # type: ignore[attr-defined]
    assert len(document["lines"]) == 1  # type: ignore[arg-type]


# --- Own or rent -------------------------------------------------------------------------------------------------------

PLAIN = Assumptions(
    gpus=1, capex_micros=1_000_000, lifetime_months=12, staff_micros_per_month=0, site_micros_per_month=0, busy_watts=0,
    idle_watts=0, overhead_percent=0, kwh_micros=0, rent_micros_per_gpu_hour=1_000, horizon_months=24,
)  # fmt: skip


@pytest.mark.parametrize(
    ("hours", "month", "stays"),
    [(0, None, False), (1, None, False), (100, 10, False), (MONTH_HOURS, 2, True), (10 * MONTH_HOURS, 2, True)],
)
def test_the_month_of_the_crossing_is_the_first_in_which_owning_has_cost_no_more(
    hours: int, month: int | None, stays: bool
) -> None:
    found = break_even(hours * 1_000, PLAIN)
    assert (found.crossover_month, found.stays_below) == (month, stays)
    assert found.use_percent == hours * 100 // MONTH_HOURS
    assert found.curve[0].own_micros == PLAIN.capex_micros
    assert found.saved_micros == found.curve[-1].rent_micros - found.curve[-1].own_micros


@pytest.mark.parametrize(("month", "bought"), [(0, 1), (1, 1), (12, 1), (13, 2), (24, 2)])
def test_machines_are_bought_again_in_the_month_after_their_last(month: int, bought: int) -> None:
    assert break_even(0, PLAIN).curve[month].own_micros == bought * PLAIN.capex_micros


def test_power_is_that_of_work_and_of_waiting_with_its_losses() -> None:
    given = replace(PLAIN, busy_watts=1_000, idle_watts=100, overhead_percent=50, kwh_micros=1_000)
    per_month = PLAIN.capex_micros // 12
    assert break_even(0, given).own_micros_per_month - per_month == 730 * 150
    assert break_even(MONTH_HOURS * 1_000, given).own_micros_per_month - per_month == 730 * 1_500


@pytest.mark.parametrize(("rent", "percent"), [(0, None), (1, None), (115, 100), (1_000, 12), (10**9, 1)])
def test_the_use_from_which_owning_pays_off_is_a_percentage_or_none(rent: int, percent: int | None) -> None:
    assert break_even(0, replace(PLAIN, rent_micros_per_gpu_hour=rent)).use_percent_needed == percent


# --- Texts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("micros", "text"),
    [(0, "0.000000"), (1, "0.000001"), (-1, "-0.000001"), (1_000_000, "1.000000"), (-12_500_000, "-12.500000")],
)
def test_money_is_written_with_all_of_its_decimals(micros: int, text: str) -> None:
    assert money_text(micros) == text


@pytest.mark.parametrize(
    ("units", "unit", "text"), [(0, 1_000, "0.000000"), (3_600_000, 1_000, "1.000000"), (1, GIB, "0.000000")]
)
def test_hours_are_of_whole_units(units: int, unit: int, text: str) -> None:
    assert hours_text(units, unit) == text


@pytest.mark.parametrize(
    ("cell", "text"),
    [(None, ""), (-5, "-5"), ("-5", "'-5"), ("=1+1", "'=1+1"), ("@x", "'@x"), ("\tx", "'\tx"), ("a=b", "a=b"), ("", "")],
)
def test_a_cell_that_would_be_calculated_is_marked_and_no_other(cell: object, text: str) -> None:
    assert safe_cell(cell) == text


def test_a_table_quotes_what_would_break_its_rows() -> None:
    assert as_csv(("a", "b"), [("x,y", 'say "hi"'), ("two\nlines", None)]) == 'a,b\r\n"x,y","say ""hi"""\r\n"two\nlines",\r\n'
    assert digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


# --- What was held and not used ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], [(0, 10, 4)]),
        ([(0, 10, 4)], []),
        ([(0, 10, 9)], []),
        ([(0, 10, 1)], [(0, 10, 3)]),
        ([(5, 5, 4)], [(0, 10, 4)]),
        ([(7, 3, 4)], [(0, 10, 4)]),
        ([(-5, 3, 4), (8, 20, 4)], [(3, 8, 4)]),
        ([(0, 5, 2), (5, 10, 2)], [(0, 5, 2), (5, 10, 2)]),
        ([(2, 6, 3), (4, 8, 3)], [(0, 2, 4), (2, 4, 1), (6, 8, 1), (8, 10, 4)]),
    ],
)
def test_of_a_booking_what_no_run_held_is_left(runs: list[tuple[int, int, int]], expected: list[tuple[int, int, int]]) -> None:
    assert list(unused(4, 0, 10, runs)) == expected
