"""Months and days as the ledger counts them, and money as documents write it."""

from __future__ import annotations

import calendar
import csv
import io
import uuid
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import ROUND_FLOOR, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.resources import Resources
from tenants.billing.ledger.breakeven import MONTH_HOURS, Assumptions, as_dict, break_even
from tenants.billing.ledger.entries import (
    Entry,
    Fate,
    Use,
    add_up,
    date_of,
    day_number,
    day_of,
    month_bounds,
    month_of,
    month_text,
    use_between,
)
from tenants.billing.ledger.prices import PRICE_MAX, PriceBook, PriceFacts, cost_micros, whole_second
from tenants.billing.ledger.statements import (
    as_csv,
    canonical,
    hours_text,
    lines_of_entries,
    money_text,
    statement,
    statement_csv,
)

POOL, TENANT, QUEUE, USER = (uuid.UUID(int=number) for number in (1, 2, 3, 4))
HOUR = timedelta(hours=1)
months = st.builds(lambda year, month: year * 100 + month, st.integers(1970, 2999), st.integers(1, 12))


def an_entry(started_at: datetime, ended_at: datetime, *, gpu_millis: int = 1_000) -> Entry:
    return Entry(
        attempt_id=uuid.UUID(int=5), number=1, job_id=uuid.UUID(int=6), tenant_id=TENANT, queue_id=QUEUE, user_id=USER,
        pool_id=POOL, amount=Resources(gpu_millis=gpu_millis), started_at=started_at, ended_at=ended_at, fate=Fate.USEFUL,
    )  # fmt: skip


def a_price(micros: int, since: datetime) -> PriceFacts:
    return PriceFacts(POOL, "gpu_millis", int(since.timestamp()), micros)


# --- Months and days -------------------------------------------------------------------------------------------------


@given(months)
def test_a_month_has_its_days_and_the_next_begins_where_it_ends(month: int) -> None:
    first, after = month_bounds(month)

    assert (after - first).days == calendar.monthrange(month // 100, month % 100)[1]
    assert month_of(day_of(first)) == month_of(day_of(after - timedelta(seconds=1))) == month
    following = month_of(day_of(after))
    assert month_bounds(following)[0] == after
    assert month < following


@given(st.dates(date(1970, 1, 1), date(2999, 12, 31)))
def test_a_day_and_its_number_are_each_others(day: date) -> None:
    assert date_of(day_number(day)) == day
    assert month_text(month_of(day_number(day))) == day.isoformat()[:7]


@pytest.mark.parametrize(("year", "days"), [(2024, 29), (2025, 28), (2000, 29), (2100, 28)])
def test_february_has_a_leap_day_every_fourth_year_but_for_most_centuries(year: int, days: int) -> None:
    first, after = month_bounds(year * 100 + 2)
    last = an_entry(after - HOUR, after)

    assert (after - first).days == days
    assert last.month == month_of(day_of(after)) == year * 100 + 3, "it is billed in the month of its end"
    assert date_of(last.last_day) == date(year, 2, days), "it is counted on the day of its last second"


@given(st.datetimes(datetime(1971, 1, 1), datetime(2900, 1, 1)), st.integers(-14 * 60, 14 * 60))
def test_a_moment_belongs_to_the_same_day_and_month_from_whatever_zone_it_is_written(at: datetime, minutes: int) -> None:
    moment = at.replace(tzinfo=UTC)
    written = moment.astimezone(timezone(timedelta(minutes=minutes)))

    assert day_of(written) == day_of(moment) == day_number(moment.date())


def test_the_night_in_which_clocks_change_elsewhere_has_its_three_hours() -> None:
    """On 29 March 2026, clocks of Berlin go from 2 to 3: the ledger counts in UTC, where no hour is missing."""
    night = an_entry(datetime(2026, 3, 29, 0, tzinfo=UTC), datetime(2026, 3, 29, 3, tzinfo=UTC))

    assert use_between(night, PriceBook(), night.since, night.until).gpu_milli_seconds == 3 * 3_600 * 1_000


def test_an_attempt_over_new_year_stands_in_the_new_years_statement_with_both_months_of_use() -> None:
    over = an_entry(datetime(2026, 12, 31, 23, tzinfo=UTC), datetime(2027, 1, 1, 2, tzinfo=UTC))
    book = PriceBook([a_price(1_000_000, datetime(2026, 1, 1, tzinfo=UTC))])

    lines = lines_of_entries([over], book, month=202701)

    assert {key.used_in: (use.attempts, use.micros) for key, use in lines.items()} == {
        202612: (0, 1_000_000),
        202701: (1, 2_000_000),
    }
    assert lines_of_entries([over], book, month=202612) == {}


def test_an_attempt_without_length_counts_once_and_costs_nothing() -> None:
    at = datetime(2026, 5, 31, 23, 59, 59, tzinfo=UTC)
    ((key, use),) = add_up([an_entry(at, at)], PriceBook([a_price(PRICE_MAX, at)])).items()

    assert (use, date_of(key.day)) == (Use(attempts=1), date(2026, 5, 31))


def test_an_end_before_the_start_is_no_time() -> None:
    at = datetime(2026, 5, 31, tzinfo=UTC)
    (use,) = add_up([an_entry(at, at - HOUR)], PriceBook([a_price(PRICE_MAX, at - HOUR)])).values()

    assert (use.gpu_milli_seconds, use.micros, use.attempts) == (0, 0, 1)


# --- Prices within a month -------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 744), st.integers(0, 10**9)), min_size=1, max_size=8, unique_by=lambda row: row[0]))
def test_a_month_with_many_prices_costs_what_its_hours_cost_one_by_one(changes: list[tuple[int, int]]) -> None:
    """By a model that looks up the price of every hour: prices change on the hour, and a GPU is held all of January."""
    first, after = month_bounds(202601)
    book = PriceBook([a_price(micros, first + at * HOUR) for at, micros in changes])
    whole = an_entry(first, after)

    expected = 0
    for hour in range(744):
        holding = [row for row in changes if row[0] <= hour]
        expected += max(holding)[1] if holding else 0
    assert use_between(whole, book, whole.since, whole.until).gpu_micros == expected


def test_a_price_holds_from_its_own_second_on_and_not_before() -> None:
    at = datetime(2026, 5, 15, tzinfo=UTC)
    since = int(at.timestamp())
    book = PriceBook([a_price(7, at)])

    assert [book.at(POOL, "gpu_millis", since + offset) for offset in (-1, 0, 1)] == [0, 7, 7]
    assert book.at(POOL, "cpu_millis", since) == book.at(uuid.UUID(int=99), "gpu_millis", since) == 0
    assert list(book.stretches(POOL, "gpu_millis", since, since)) == []


def test_a_price_that_is_set_within_a_second_holds_from_the_next_one() -> None:
    at = datetime(2026, 5, 15, 12, tzinfo=UTC)

    assert whole_second(at) == int(at.timestamp())
    assert whole_second(at + timedelta(microseconds=1)) == int(at.timestamp()) + 1
    assert whole_second(at + timedelta(microseconds=999_999)) == int(at.timestamp()) + 1


def test_a_free_stretch_between_two_prices_costs_nothing() -> None:
    at = datetime(2026, 5, 15, tzinfo=UTC)
    book = PriceBook([a_price(5_000_000, at), a_price(0, at + HOUR), a_price(1_000_000, at + 2 * HOUR)])
    entry = an_entry(at, at + 3 * HOUR)

    assert use_between(entry, book, entry.since, entry.until).micros == 6_000_000
    assert use_between(entry, book, entry.since + 3_600, entry.since + 7_200).micros == 0


def test_a_year_of_ten_thousand_gpus_at_a_hundredth_of_the_largest_price_fits_a_column() -> None:
    start = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())

    assert 0 < cost_micros("gpu_millis", 10_000 * 1_000, PRICE_MAX // 100, start, start + 365 * 86_400) < 2**63


# --- Words of money --------------------------------------------------------------------------------------------------


@given(st.integers(-(2**63), 2**63))
def test_money_is_written_with_six_decimals_and_is_read_back_to_the_millionth(micros: int) -> None:
    text = money_text(micros)

    assert Decimal(text) * 10**6 == micros
    assert len(text.rpartition(".")[2]) == 6
    assert text.startswith("-") == (micros < 0)


@given(st.integers(0, 2**70), st.sampled_from([1_000, 2**30]))
def test_hours_are_rounded_down_to_a_millionth(unit_seconds: int, unit: int) -> None:
    exact = Decimal(unit_seconds) / (unit * 3_600)

    shown = Decimal(hours_text(unit_seconds, unit))

    assert 0 <= unit_seconds * 10**6 - shown * 10**6 * unit * 3_600 < unit * 3_600
    assert shown <= exact + Decimal("1e-15")
    assert shown == shown.quantize(Decimal("0.000001"), ROUND_FLOOR)


def test_a_statement_as_a_table_has_a_row_for_each_line_with_names_where_there_are_any() -> None:
    start = datetime(2026, 5, 1, tzinfo=UTC)
    book = PriceBook([a_price(2_500_001, start)])
    other = replace(an_entry(start, start + HOUR / 2), user_id=uuid.UUID(int=7), fate=Fate.FAILED)
    lines = lines_of_entries([an_entry(start, start + HOUR), other], book, month=202605)
    document = statement(tenant_id=TENANT, month=202605, currency="EUR", lines=lines, book=book)

    rows = list(csv.DictReader(io.StringIO(statement_csv(document, {str(POOL): "=a100", str(USER): "bob"}))))

    assert [(row["user_name"], row["pool_name"], row["gpu_hours"], row["cost"], row["fate"]) for row in rows] == [
        ("bob", "'=a100", "1.000000", "2.500001", "useful"),
        ("", "'=a100", "0.500000", "1.250000", "failed"),
    ]


def test_a_month_without_use_is_a_document_too_always_of_the_same_bytes() -> None:
    made = [canonical(statement(tenant_id=TENANT, month=202602, currency="EUR", lines={}, book=PriceBook())) for _ in range(2)]

    assert made[0] == made[1]
    assert b'"lines":[]' in made[0]
    assert b'"prices":[]' in made[0]
    assert b'"micros":0' in made[0]
    assert b" " not in made[0]


def test_a_statement_is_written_in_utf_8_and_with_no_number_that_is_none() -> None:
    assert canonical({"b": 1, "a": "数据"}) == '{"a":"数据","b":1}'.encode()
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"a": float("nan")})


@given(st.lists(st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=8)), min_size=2, max_size=2), max_size=5))
def test_no_cell_of_a_table_is_taken_for_a_formula_and_no_number_changes(rows: list[list[object]]) -> None:
    found = list(csv.reader(io.StringIO(as_csv(["a", "b"], rows), newline="")))[1:]

    for row, cells in zip(rows, found, strict=True):
        for value, cell in zip(row, cells, strict=True):
            assert isinstance(value, int) or not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
            assert cell in {str(value), f"'{value}"} if value is not None else cell == ""


# --- Own or rented ---------------------------------------------------------------------------------------------------


def test_machines_that_are_given_and_cost_nothing_are_cheaper_from_the_first_month_on() -> None:
    given_away = Assumptions(
        gpus=1, capex_micros=0, staff_micros_per_month=0, site_micros_per_month=0, busy_watts=0, idle_watts=0
    )

    found = break_even(100_000, given_away)

    assert (found.crossover_month, found.stays_below, found.use_percent_needed) == (1, True, 1)
    assert found.saved_micros == 60 * found.rent_micros_per_month > 0


def test_renting_for_nothing_is_never_overtaken() -> None:
    found = break_even(MONTH_HOURS * 8 * 1_000, Assumptions(rent_micros_per_gpu_hour=0))

    assert (found.crossover_month, found.stays_below, found.use_percent_needed) == (None, False, None)
    assert found.saved_micros < 0


def test_a_purchase_that_falls_due_again_takes_the_lead_back() -> None:
    """Bought for 10, worn out every second month, against a rent of 7 a month: ahead in the second, behind in the third."""
    short = Assumptions(
        gpus=1, capex_micros=10_000_000, lifetime_months=2, staff_micros_per_month=0, site_micros_per_month=0, busy_watts=0,
        idle_watts=0, rent_micros_per_gpu_hour=7_000_000, horizon_months=3,
    )  # fmt: skip

    found = break_even(1_000, short)

    assert [(point.own_micros, point.rent_micros) for point in found.curve] == [
        (10_000_000, 0),
        (10_000_000, 7_000_000),
        (10_000_000, 14_000_000),
        (20_000_000, 21_000_000),
    ]
    assert found.crossover_month == 2
    assert break_even(1_000, replace(short, rent_micros_per_gpu_hour=6_000_000)).stays_below is False


def test_the_answer_repeats_what_it_rests_on() -> None:
    given_gpus = Assumptions(gpus=3)
    shown = as_dict(break_even(0, given_gpus), given_gpus)

    assert shown["assumptions"] == {**shown["assumptions"], "gpus": 3, "horizon_months": 60}  # type: ignore[dict-item]
    assert (shown["use_percent"], shown["rent_micros_per_month"], len(shown["curve"])) == (0, 0, 61)  # type: ignore[arg-type]
