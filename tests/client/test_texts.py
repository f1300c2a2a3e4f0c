"""Files of people: the encodings that are read, and what the others are told; and times of a clock that is changed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from berth.cli import formats
from berth.errors import BerthError, TextUnreadable
from berth.texts import decode
from kernel.errors import InvalidInput
from kernel.texts import decode_file

TEXT = "name;email\nJörg;j@example.org\n"


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        TEXT.encode("utf-8-sig"),
        TEXT.encode("utf-16"),
        TEXT.encode("utf-16-le"),
        TEXT.encode("utf-16-be"),
        b"\xfe\xff" + TEXT.encode("utf-16-be"),
    ],
)
def test_forms_of_unicode_are_read_here_and_by_the_server(data: bytes) -> None:
    assert decode(data, "people.csv") == decode_file(data) == TEXT


def test_another_encoding_is_refused_with_its_line_and_what_to_do() -> None:
    with pytest.raises(TextUnreadable) as refused:
        decode(TEXT.encode("latin-1"), "people.csv")
    assert (refused.value.detail, "iconv" in refused.value.hint) == (
        "people.csv cannot be read: line 2 holds the byte 0xF6, which is not UTF-8.",
        True,
    )
    with pytest.raises(InvalidInput) as also:
        decode_file(TEXT.encode("latin-1"))
    assert also.value.fields[0].code == "not_utf8"


def test_a_file_that_says_its_encoding_is_believed() -> None:
    assert decode("# -*- coding: latin-1 -*-\n# für\nnumpy\n".encode("latin-1"), "requirements.txt").endswith("# für\nnumpy\n")


@pytest.fixture
def berlin() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    yield
    os.environ.pop("TZ") if before is None else os.environ.__setitem__("TZ", before)
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("2027-03-28T02:30", "2027-03-28T03:30+02:00"),
        ("2027-10-31T02:30", "2027-10-31T02:30+02:00   ·   2027-10-31T02:30+01:00"),
    ],
)
def test_a_time_that_clocks_leave_out_or_show_twice_is_refused_with_what_is_meant(text: str, hint: str) -> None:
    with pytest.raises(BerthError) as refused:
        formats.parse_when(text)
    assert refused.value.hint == hint
    assert formats.parse_when(hint.split(" ")[0]).minute == 30


@pytest.mark.usefixtures("berlin")
def test_times_are_printed_with_their_distance_from_utc() -> None:
    assert formats.time_text("2027-06-01T10:00:00Z") == "2027-06-01 12:00:00+02:00"
    assert formats.said("It starts at 2027-12-01 10:00 UTC.") == "It starts at 2027-12-01 11:00+01:00."
