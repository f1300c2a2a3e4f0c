"""What the self-test makes of what a job could reach."""

from __future__ import annotations

import re

import pytest

from clusters import isolation_facts as facts
from controlplane.selftest import boundaries
from controlplane.selftest.boundaries import BOUNDARIES, Unreadable, judge_boundaries, read, sentence

OPEN = {boundary.name: "reached" for boundary in BOUNDARIES}
WHOLE = (facts.OWN_USERS.en, facts.SANDBOX.en, facts.FILTER.en, facts.NETWORK.en)


def holes(*claims: str) -> set[str]:
    return {item.boundary.name for item in judge_boundaries(OPEN, claims) if item.is_finding}


def test_what_a_cluster_claims_to_be_closed_is_a_finding_when_it_is_open() -> None:
    network = {"socket_names", "loopback"}
    assert holes(*WHOLE) == {boundary.name for boundary in BOUNDARIES} - network
    assert holes(facts.OWN_USERS.en, facts.NO_SANDBOX.en, facts.NO_FILTER.en, facts.NETWORK.en) == {"process_memory", "signals"}
    assert holes(facts.TURNED_OFF.en, facts.NETWORK.en) == set()


def test_a_wall_that_holds_is_no_finding_whatever_is_claimed() -> None:
    closed = dict.fromkeys(OPEN, "")
    assert not [item for item in judge_boundaries(closed, WHOLE) if item.is_finding or item.is_open]


def test_a_wall_that_was_not_tried_is_not_told() -> None:
    assert [item.boundary.name for item in judge_boundaries({"mounts": "", "of another release": "x"}, WHOLE)] == ["mounts"]


@pytest.mark.parametrize("boundary", BOUNDARIES, ids=lambda boundary: boundary.name)
def test_every_wall_is_told_in_both_languages(boundary: boundaries.Boundary) -> None:
    assert f'"{boundary.name}"' in boundaries.PROBE
    for outcome, words in (("closed", boundary.closed), ("open", boundary.open), ("hole", boundary.open)):
        assert sentence(boundary.name, outcome, "en") == words.en
        assert re.search(r"[\u4e00-\u9fff]", sentence(boundary.name, outcome, "zh"))
    assert sentence("", "not_tried", "en") == "The walls around a job were not tried."
    assert sentence("of another release", "open", "en") == "of another release"


def test_output_that_is_no_answer_is_said_to_be_none() -> None:
    assert read('warning: x\n{"mounts": ""}\n') == {"mounts": ""}
    for text in ("", "Traceback (most recent call last):\n", "{broken\n", "[]"):
        with pytest.raises(Unreadable):
            read(text)
