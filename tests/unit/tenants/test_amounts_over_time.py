"""Amounts multiplied by seconds, and use that fades: boundaries of a second, of an hour and of a half-life."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kernel.resources import Resources
from tenants.capacity.quota.accounting import ResourceSeconds, mark, seconds_between, seconds_within, used
from tenants.capacity.quota.decay import SCALE, faded, keep, left

START = datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC)
SECOND, MICRO = timedelta(seconds=1), timedelta(microseconds=1)
ONE = keep(0, 1)


# --- Second marks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(1970, 1, 1, tzinfo=UTC) - MICRO, -1),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC) - MICRO, 0),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 1),
        (datetime(2000, 1, 1, tzinfo=UTC), 946_684_800),
        (datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC), 2**31),
    ],
)
def test_a_mark_is_the_last_whole_second_at_or_before_a_moment(moment: datetime, expected: int) -> None:
    assert mark(moment) == expected


def test_a_mark_does_not_depend_on_the_zone_in_which_a_moment_is_written() -> None:
    shanghai = timezone(timedelta(hours=8))
    assert mark(START.astimezone(shanghai)) == mark(START)


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        (START, START, 0),
        (START, START + SECOND - MICRO, 0),
        (START, START + SECOND, 1),
        (START - MICRO, START, 1),
        (START + MICRO, START + SECOND, 1),
        (START, START + 2 * SECOND, 2),
    ],
)
def test_an_interval_counts_the_second_marks_that_it_passes(begin: datetime, end: datetime, expected: int) -> None:
    assert seconds_between(begin, end) == expected


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (None, None, 10),
        (START, None, 10),
        (START + 4 * SECOND, None, 6),
        (None, START + 4 * SECOND, 4),
        (START + 4 * SECOND, START + 7 * SECOND, 3),
        (START - SECOND, START + 11 * SECOND, 10),
        (START + 10 * SECOND, None, 0),
        (None, START, 0),
        (START + 7 * SECOND, START + 4 * SECOND, 0),
        (START - 5 * SECOND, START - 2 * SECOND, 0),
    ],
)
def test_a_window_holds_its_part_of_an_interval_and_never_less_than_none(
    since: datetime | None, until: datetime | None, expected: int
) -> None:
    assert seconds_within(START, START + 10 * SECOND, since=since, until=until) == expected


def test_one_gpu_for_an_hour_is_three_million_six_hundred_thousand() -> None:
    assert used(Resources(gpu_millis=1_000), 3_600) == ResourceSeconds(0, 0, 3_600_000)
    assert used(Resources(1, 2, 3), 0) == ResourceSeconds()
    assert used(Resources(1, 2**50, 3), 2) + ResourceSeconds(1, 1, 1) == ResourceSeconds(3, 2**51 + 1, 7)


# --- Fading ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "part"), [(-5, 1.0), (0, 1.0), (100, 0.5), (200, 0.25), (50, 0.5**0.5), (25, 0.5**0.25), (1, 0.5**0.01)]
)
def test_what_is_kept_halves_with_every_half_life(seconds: int, part: float) -> None:
    assert keep(seconds, 100) / ONE == pytest.approx(part, abs=1e-9)


def test_after_eighty_half_lives_nothing_is_left() -> None:
    assert keep(80 * 100 - 1, 100) <= ONE >> 60
    assert keep(80 * 100, 100) == 0
    assert keep(10**15, 1) == 0


def test_what_is_kept_never_grows_with_time() -> None:
    parts = [keep(seconds, 604_800) for seconds in range(0, 2_000_000, 9_973)]
    assert parts == sorted(parts, reverse=True)
    assert parts[0] == ONE


def test_a_history_stays_where_use_and_history_are_equal_and_is_forgotten_where_nothing_is_kept() -> None:
    assert faded(7 * SCALE, 7, keep(30, 60)) == 7 * SCALE
    assert faded(7 * SCALE, 0, 0) == 0
    assert faded(7 * SCALE, 3, 0) == 3 * SCALE
    assert faded(7 * SCALE, 3, ONE) == 7 * SCALE
    assert faded(8 * SCALE, 0, keep(60, 60)) == 4 * SCALE


@pytest.mark.parametrize(("begin", "end", "at"), [(5, 4, 10), (0, 11, 10), (11, 12, 10)])
def test_a_history_of_what_is_not_over_is_refused(begin: int, end: int, at: int) -> None:
    with pytest.raises(ValueError, match="history"):
        left(1, begin, end, at, 60)


def test_a_use_without_length_or_amount_leaves_no_history() -> None:
    assert left(1_000, 5, 5, 10, 60) == 0
    assert left(0, 0, 10, 10, 60) == 0


def test_a_use_of_one_half_life_leaves_half_of_its_amount_and_a_quarter_a_half_life_later() -> None:
    assert left(1_000, 0, 60, 60, 60) == 500 * SCALE
    assert left(1_000, 0, 60, 120, 60) == 250 * SCALE
    assert abs(left(1_000, 0, 30, 60, 60) + left(1_000, 30, 60, 60, 60) - left(1_000, 0, 60, 60, 60)) <= 1
