"""The page of threats is complete, and what it says is kept by tests that exist."""

from __future__ import annotations

import re

import pytest

from tests.architecture.sources import ROOT, has_test

PAGE = ROOT / "docs" / "security.md"
ROW = re.compile(r"^\| ([TC]\d+) \|(.+)\|$", re.MULTILINE)
TEST = re.compile(r"`([\w/]+\.py::\w+)`")
FILE = re.compile(r"`([\w./-]+)`")
NUMBERS = [*(f"T{number}" for number in range(1, 24)), *(f"C{number}" for number in range(1, 49))]
ROWS = {name: [cell.strip() for cell in cells.split(" | ")] for name, cells in ROW.findall(PAGE.read_text(encoding="utf-8"))}


def test_every_threat_and_every_published_hole_has_its_row() -> None:
    assert list(ROWS) == NUMBERS


@pytest.mark.parametrize("number", NUMBERS)
def test_a_row_names_tests_that_exist_or_says_what_is_missing(number: str) -> None:
    shown_by = ROWS[number][-1]
    named = TEST.findall(shown_by)

    assert named or shown_by.startswith("not yet: "), shown_by
    assert not [test for test in named if not has_test(test)]


@pytest.mark.parametrize("number", [number for number in NUMBERS if number.startswith("T")])
def test_a_control_is_where_the_page_says(number: str) -> None:
    where = ROWS[number][2]

    assert not [name for name in FILE.findall(where) if not (ROOT / name).exists()]
