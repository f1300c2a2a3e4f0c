"""The page of capabilities is that of the tests, and README names the rows that no test claims."""

from __future__ import annotations

import pytest

from tools import capabilities
from tools.capabilities import PAGE, README, Claim

AGAIN = "run `python tools/capabilities.py`"


def test_every_claim_is_of_a_known_row():
    assert {claim.row for claim in capabilities.claims()} <= set(capabilities.titles())


def test_every_row_has_one_place():
    numbers = [number for rows in capabilities.groups().values() for number in rows]
    assert sorted(numbers) == sorted(set(numbers))


def test_the_page_names_the_claims_and_tests_of_the_markers():
    said = {claim: tests for claim, (_, tests) in capabilities.read(PAGE.read_text(encoding="utf-8")).items()}
    assert said == capabilities.claims(), AGAIN


def test_the_page_is_as_it_is_made_and_says_nothing_of_its_own():
    text = PAGE.read_text(encoding="utf-8")
    outcomes = {claim: outcome for claim, (outcome, _) in capabilities.read(text).items()}
    assert text == capabilities.page(outcomes), AGAIN
    assert set(outcomes.values()) <= capabilities.OUTCOMES, AGAIN


def test_readme_names_every_row_that_no_test_claims():
    text = README.read_text(encoding="utf-8")
    assert text == capabilities.with_rows_without_a_claim(text), AGAIN
    claimed = {claim.row for claim in capabilities.claims()}
    plain = " ".join(text.split())
    assert not [title for number, title in capabilities.titles().items() if number not in claimed and title not in plain]


@pytest.mark.parametrize(
    "arguments", [(), ("18",), ("18", "It holds", "too"), (18, "It holds"), ("no such row", "It holds"), ("18", "a | b")]
)
def test_a_marker_that_says_no_row_and_claim_is_refused(arguments: tuple[object, ...]):
    with pytest.raises(capabilities.MarkerError, match="capability"):
        Claim.of(arguments)
