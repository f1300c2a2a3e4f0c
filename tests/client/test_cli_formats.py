"""How values are written and read: amounts, durations, times and names at their edges, and what is refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from client_stub import QUEUE

from berth.cli import formats
from berth.cli.copy import split_remote
from berth.cli.costs import hours_text, money
from berth.cli.expected import unexpected_text
from berth.cli.limits import amount_text, parse_amount
from berth.cli.metrics import value_text
from berth.cli.paint import paint
from berth.naming import is_id, short_ids

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
KIB, MIB, GIB, TIB = 1024, 1024**2, 1024**3, 1024**4


@pytest.fixture
def in_shanghai(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This computer's clock is eight hours ahead of UTC."""
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


# --- Amounts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (99.94 * KIB, "99.9 KiB"),
        (100.4 * KIB, "100 KiB"),
        (MIB - 1, "1024 KiB"),
        (MIB, "1 MiB"),
        (16 * GIB, "16 GiB"),
        (2.5 * TIB, "2.5 TiB"),
        (1024**5, "1 PiB"),
        (5000 * 1024**5, "5000 PiB"),
    ],
)
def test_a_size_has_at_most_four_digits_before_its_unit(size: float | None, text: str) -> None:
    assert formats.size_text(size) == text


@pytest.mark.parametrize(
    ("millis", "text"),
    [(None, "-"), (0, "0"), (1, "0.001"), (500, "0.5"), (1000, "1"), (1500, "1.5"), (8_000_000, "8000"), (333, "0.333")],
)
def test_thousandths_are_written_as_a_number(millis: int | None, text: str) -> None:
    assert formats.millis_text(millis) == text


@pytest.mark.parametrize(
    ("amounts", "text"),
    [
        ({}, "-"),
        ({"cpu_millis": 0, "memory_bytes": 0, "gpu_millis": 0}, "-"),
        ({"cpu_millis": 4000, "memory_bytes": 16 * GIB, "gpu_millis": 1000, "gpu_model": "a100"}, "4 CPU, 16 GiB, 1 GPU a100"),
        ({"gpu_millis": 500}, "0.5 GPU"),
        ({"gpu_millis": 2000, "gpu_model": "a\x1b[31mb"}, "2 GPU ab"),
        ({"memory_bytes": 1}, "1 B"),
    ],
)
def test_an_ask_names_what_it_asks_for_alone(amounts: dict[str, Any], text: str) -> None:
    assert formats.resources_text(amounts) == text


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"gpu_millis": 2000, "cpu_millis": 8000, "memory_bytes": 16 * GIB}, "2 GPU, 8 cores, 16 GiB"),
        ({"gpu_millis": 0, "cpu_millis": 1000, "memory_bytes": 0}, "1 core"),
        ({"gpu_millis": 0, "cpu_millis": 0, "memory_bytes": 0}, ""),
    ],
)
def test_what_is_held_is_in_the_words_of_people(row: dict[str, int], text: str) -> None:
    assert formats.amounts_text(row) == text


def test_a_holder_that_may_not_be_seen_is_not_named() -> None:
    assert formats.holder_text({"queue": QUEUE}) == "vision"
    assert "None" not in formats.holder_text({"queue": None})


@pytest.mark.parametrize(
    ("text", "millis"),
    [("0", 0), ("1", 1000), (" 16 ", 16_000), ("0.5", 500), ("0.001", 1), ("1.500", 1500), ("999999", 999_999_000)],
)
def test_a_number_is_read_in_thousandths(text: str, millis: int) -> None:
    assert formats.parse_millis(text) == millis
    assert parse_amount("gpu_millis", text) == millis


@pytest.mark.parametrize(
    "text", ["", " ", "-1", "+1", "1e3", "0x10", "1,5", "٣", "０", "nan", "inf", "1.", ".5", "1 2", "9" * 16]
)
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(formats.BadAmount) as caught:
        formats.parse_millis(text)
    assert caught.value.exit_code == 2
    assert caught.value.hint


@pytest.mark.parametrize("text", ["0.0001", "1.0005", "0.000000001"])
def test_what_is_finer_than_a_thousandth_is_refused_and_not_rounded(text: str) -> None:
    with pytest.raises(formats.BadAmount, match="finer"):
        formats.parse_millis(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1", 1),
        ("64Gi", 64 * GIB),
        ("0.5Gi", GIB // 2),
        ("512M", 512_000_000),
        ("1k", 1000),
        ("1Ki", 1024),
        ("2Ti", 2 * TIB),
        ("1P", 10**15),
        (" 1Mi ", MIB),
    ],
)
def test_memory_is_read_as_in_a_job_file(text: str, size: int) -> None:
    assert formats.parse_size(text) == size
    assert parse_amount("memory_bytes", text) == size


@pytest.mark.parametrize("text", ["", "Gi", "1gi", "1GiB", "1 Gi", "-1Gi", "1K", "1.2.3Gi", "0.3", "1e3", "1Ei"])
def test_what_is_no_memory_is_refused(text: str) -> None:
    with pytest.raises(formats.BadAmount):
        formats.parse_size(text)


@pytest.mark.parametrize("resource", ["gpu_millis", "cpu_millis", "memory_bytes"])
@pytest.mark.parametrize("text", ["none", "NONE", " None "])
def test_none_is_no_limit_and_not_zero(resource: str, text: str) -> None:
    assert parse_amount(resource, text) is None
    assert amount_text(resource, None) != amount_text(resource, 0)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "bytes", "-"),
        (0.0, "bytes", "0 B"),
        (1.5 * GIB, "bytes", "1.5 GiB"),
        (2048.0, "bytes per second", "2 KiB/s"),
        (1234.0, "thousandths of a core", "1.23 cores"),
        (0.934, "ratio 0-1", "93 %"),
        (299.6, "watts", "300 W"),
        (71.2, "degrees Celsius", "71 °C"),
        (12.4, "requests", "12"),
    ],
)
def test_a_measure_is_written_in_its_unit(value: float | None, unit: str, text: str) -> None:
    assert value_text(value, unit) == text


# --- Money ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("micros", "currency", "text"),
    [
        (None, "EUR", "-"),
        (0, "EUR", "0.00 EUR"),
        (1, "EUR", "0.000001 EUR"),
        (10, "", "0.00001"),
        (500_000, "EUR", "0.50 EUR"),
        (125_000, "EUR", "0.125 EUR"),
        (1_000_000, "CNY", "1.00 CNY"),
        (1_999_999, "EUR", "2.00 EUR"),
        (1_234_567_890_000, "EUR", "1,234,567.89 EUR"),
        (-2_500_000, "EUR", "-2.50 EUR"),
        (-1, "EUR", "-0.000001 EUR"),
        (2_500_000, "E\x1b[0mUR", "2.50 EUR"),
    ],
)
def test_money_below_one_keeps_what_it_has(micros: int | None, currency: str, text: str) -> None:
    assert money(micros, currency) == text


@pytest.mark.parametrize(
    ("amount", "unit", "text"),
    [
        (0, 1000, "0.00"),
        (3_600_000, 1000, "1.00"),
        (36_000_000_000_000, 1000, "10,000,000.00"),
        (17_999, 1000, "0.00"),
        (18_001, 1000, "0.01"),
    ],
)
def test_hours_have_two_decimals(amount: int, unit: int, text: str) -> None:
    assert hours_text(amount, unit) == text


# --- Durations --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0s"),
        (0.0, "0s"),
        (-5, "0s"),
        (0.04, "0.0s"),
        (1.25, "1.2s"),
        (9.94, "9.9s"),
        (9.96, "9s"),
        (59, "59s"),
        (60, "1m"),
        (61, "1m 1s"),
        (3600, "1h"),
        (3601, "1h"),
        (3660, "1h 1m"),
        (7500, "2h 5m"),
        (86_400, "1d"),
        (90_000, "1d 1h"),
        (86_460, "1d"),
        (100 * 86_400, "100d"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float | None, text: str) -> None:
    assert formats.duration_text(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("90", 90),
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 5400),
        ("2d", 172_800),
        ("1w", 604_800),
        ("1w1d1h1m1s", 694_861),
        ("1h5", 3605),
        (" 5m ", 300),
        ("36525d", formats.DURATION_SECONDS_MAX),
    ],
)
def test_a_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert formats.parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", " ", "5 m", "m5", "1.5h", "-5m", "5y", "1m1h", "h", "five"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(formats.BadDuration) as caught:
        formats.parse_seconds(text)
    assert (caught.value.code, caught.value.exit_code) == ("bad_duration", 2)


@pytest.mark.parametrize("text", ["36526d", "999999w", "9" * 13])
def test_a_duration_beyond_a_century_is_too_long(text: str) -> None:
    with pytest.raises(formats.TooLong):
        formats.parse_seconds(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("none", None), (" NONE ", None), ("1s", 1), ("36h", 129_600), ("3650d", 315_360_000)]
)
def test_a_run_time_of_a_queue_is_seconds_or_none(text: str, seconds: int | None) -> None:
    assert formats.parse_runtime("vision", text) == seconds


@pytest.mark.parametrize("text", ["0", "0s", "3651d", "999999w"])
def test_a_run_time_out_of_range_names_the_queue(text: str) -> None:
    with pytest.raises(formats.BadDuration, match="vision"):
        formats.parse_runtime("vision", text)


@pytest.mark.parametrize(
    ("about", "text"),
    [
        ({}, ""),
        ({"max_runtime_seconds": 60, "planned_runtime_seconds": 60}, ""),
        ({"max_runtime_seconds": None, "planned_runtime_seconds": 7200}, "2h"),
    ],
)
def test_only_a_job_without_a_limit_has_a_planned_time(about: dict[str, Any], text: str) -> None:
    assert formats.planned_text(about) == text


def test_a_job_that_is_planned_without_end_says_so() -> None:
    assert formats.planned_text({"planned_runtime_seconds": None}) not in ("", "-")


# --- Times ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", [None, "", 7, {}, "soon", "2026-13-01T00:00:00Z", "2026-11-20T25:00:00Z"])
def test_what_is_no_time_is_shown_as_nothing(odd: Any) -> None:
    assert formats.moment(odd) is None
    assert (formats.time_text(odd), formats.age_text(odd), formats.until_text(odd), formats.span_text(odd, None)) == ("-",) * 4


@pytest.mark.parametrize(
    ("at", "text"),
    [
        ("2026-11-20T12:00:00Z", "0s"),
        ("2026-11-20T11:59:01Z", "59s"),
        ("2026-11-20T11:58:59Z", "1m"),
        ("2026-11-20T10:30:00+00:00", "1h"),
        ("2026-11-20T12:00:00+08:00", "8h"),
        ("2025-11-20T12:00:00Z", "365d"),
        ("2026-11-21T12:00:00Z", "0s"),
    ],
)
def test_an_age_is_in_its_largest_unit_and_never_negative(at: str, text: str) -> None:
    assert formats.age_text(at, NOW) == text


def test_a_time_is_on_the_clock_of_this_computer(in_shanghai: None) -> None:
    assert formats.time_text("2026-11-20T20:30:00Z") == "2026-11-21 04:30:00+08:00"
    assert (
        formats.localized("Until 2026-11-20 20:30 UTC, or 2026-11-21 00:00 UTC.")
        == "Until 2026-11-21 04:30+08:00, or 2026-11-21 08:00+08:00."
    )
    assert formats.localized("Until 2026-99-20 20:30 UTC.") == "Until 2026-99-20 20:30 UTC.", "what is no time stays"
    assert formats.said("a\nb\x1b[2J at 2026-11-20 20:30 UTC") == "a b at 2026-11-21 04:30+08:00"


def test_a_time_without_a_zone_is_of_this_computer(in_shanghai: None) -> None:
    assert formats.iso_time("2027-01-31T18:00") == "2027-01-31T10:00:00Z"
    assert formats.iso_time("2027-01-31T18:00+02:00") == "2027-01-31T16:00:00Z"
    assert formats.iso_time("2027-01-31") == "2027-01-30T16:00:00Z"
    assert formats.parse_when("2027-01-31T18:00").hour == 10


@pytest.mark.parametrize(("text", "seconds"), [("10m", 600), ("2h30m", 9000), ("1w", 604_800), ("0", 0)])
def test_a_duration_is_before_now_or_after_now(text: str, seconds: int) -> None:
    assert formats.parse_since(text, NOW) == NOW - timedelta(seconds=seconds)
    assert formats.parse_when(text, NOW) == NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-02-30", "2026-11-20T24:61", "10:30", "-5m"])
def test_what_is_neither_a_time_nor_a_duration_is_refused(text: str) -> None:
    for parse in (formats.parse_since, formats.parse_when, formats.iso_time):
        with pytest.raises(formats.BadDuration):
            parse(text)


@pytest.mark.parametrize(
    ("started", "ended", "text"),
    [
        (None, None, "-"),
        (None, "2026-11-20T12:00:00Z", "-"),
        ("2026-11-20T12:00:00Z", "2026-11-20T12:00:00Z", "0s"),
        ("2026-11-20T12:00:00Z", "2026-11-20T14:05:30Z", "2h 5m"),
        ("2026-11-20T12:00:05Z", "2026-11-20T12:00:00Z", "0s"),
    ],
)
def test_a_span_is_from_its_start_to_its_end(started: str | None, ended: str | None, text: str) -> None:
    assert formats.span_text(started, ended) == text


def test_what_goes_on_is_measured_to_now() -> None:
    hour_ago = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    assert formats.span_text(hour_ago, None) == "1h"
    assert formats.until_text(hour_ago) == "0s"
    assert formats.until_text((datetime.now(UTC) + timedelta(hours=2, seconds=30)).isoformat()) == "2h"


# --- Names and states -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        ("", "-"),
        ({}, "-"),
        ("local", "local"),
        ({"name": "n", "id": "i"}, "n"),
        ({"path": "a/b", "id": "i"}, "a/b"),
        ({"slug": "s", "id": "i"}, "s"),
        ({"id": "i"}, "i"),
        ({"name": "", "id": "i"}, "i"),
        ({"name": "a\x07b"}, "a b"),
        (0, "0"),
    ],
)
def test_a_thing_is_called_by_the_best_that_it_has(value: Any, text: str) -> None:
    assert formats.name_of(value) == text


@pytest.mark.parametrize("state", ["succeeded", "failed", "stopped", "running", "queued", "held", "unreachable", "ready"])
def test_a_state_has_a_sign_of_its_own_beside_its_word(state: str) -> None:
    text, style = formats.state_text(state)
    sign, _blank, word = text.partition(" ")
    assert word == state
    assert len(sign) == 1
    assert style


@pytest.mark.parametrize(
    ("state", "text"), [(None, "· unknown"), ("", "· unknown"), ("Hibernating", "· hibernating"), ("x\x1b[1m", "· x")]
)
def test_a_state_of_a_newer_server_is_shown_as_it_is(state: str | None, text: str) -> None:
    assert formats.state_text(state) == (text, "")


def test_ids_are_as_short_as_they_may_be_and_no_shorter() -> None:
    first, other, far = (
        "0198c0de-0001-7000-8000-000000000001",
        "0198c0de-0001-7000-8000-000000000002",
        "0198c0df-0001-7000-8000-0",
    )
    assert short_ids([first]) == {first: "0198c0de-0001"}
    assert short_ids([first, other, far]) == {first: first, other: other, far: "0198c0df-0001"}
    assert short_ids([first, first]) == {first: "0198c0de-0001"}
    assert short_ids([]) == {}


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("0198c0de-0001-7000-8000-000000000001", True),
        ("0198C0DE-0001-7000-8000-000000000001", False),
        ("0198c0de-0001-7000-8000-00000000000", False),
        ("0198c0de-0001-7000-8000-000000000001\n", False),
        ("0198c0de", False),
        ("", False),
    ],
)
def test_only_a_whole_id_is_taken_for_one(text: str, is_one: bool) -> None:
    assert is_id(text) is is_one


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("train:model", ("train", "model")),
        ("train:", ("train", "")),
        ("train:a:b", ("train", "a:b")),
        ("数据:原始", ("数据", "原始")),
        ("./a:b", None),
        ("a/b:c", None),
        ("data", None),
        (":x", None),
        (".:x", None),
        ("..:x", None),
        ("C:\\data", None),
        ("c:data", ("c", "data")),
    ],
)
def test_a_name_before_a_colon_is_on_the_server(text: str, parts: tuple[str, str] | None) -> None:
    assert split_remote(text) == parts


@pytest.mark.parametrize("reason", ["too_many", "little_history", "unknown_ends", "horizon", "passes", "of_a_newer_server", None])
def test_why_no_start_can_be_told_is_a_sentence(reason: str | None) -> None:
    text = unexpected_text({"reason": reason})
    assert "_" not in text
    assert text


def test_when_a_start_will_be_known_is_told_with_its_time() -> None:
    times = {"was_by": "2026-11-20T12:00:00Z", "known_by": "2026-11-21T12:00:00Z"}
    assert formats.time_text(times["was_by"]) in unexpected_text({"reason": "overdue", **times})
    assert formats.time_text(times["known_by"]) in unexpected_text({"reason": "not_yet", **times})
    assert "None" not in unexpected_text({"reason": "overdue", "was_by": None})


@pytest.mark.parametrize(
    ("values", "width", "text"),
    [
        ([], 8, ""),
        ([None, None], 8, ""),
        ([0.0, 0.0], 8, "▁▁"),
        ([5.0], 8, "█"),
        ([0.0, 7.0], 8, "▁█"),
        ([1.0, None, 2.0], 8, "▄ █"),
        ([9.0, 0.0, 7.0], 2, "▁█"),
        ([-1.0, 1.0], 8, "▁█"),
    ],
)
def test_a_trend_shows_the_last_values_from_zero_on(values: list[float | None], width: int, text: str) -> None:
    assert formats.sparkline(values, width) == text


def test_a_style_is_written_only_where_colour_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert paint("x", "bold red") == "x"
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert paint("x", "bold red") == "\x1b[1;31mx\x1b[0m"
    assert paint("x", "") == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("x", "bold red") == "x"
