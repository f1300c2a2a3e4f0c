"""Scenes with caps, labels, taints, ceilings, wide gangs and cordoned machines: nearly all who wait are told what would help.

What they are told comes true on the core that has worked so far (`bench/waiting.py` says how).
"""

from __future__ import annotations

import pytest

from bench.waiting import Told, ask, moments_of

TOLD_LEAST = 0.95
LIVE_LEAST = 0.995
SHORT, FULL = 8, 200  # Scenes.
CAPS = {"user_cap", "tenant_cap"}
ROOM = {"no_room", "no_machine", "not_together"}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenes", [SHORT, pytest.param(FULL, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)])])
def test_nearly_all_who_wait_are_told_a_change_and_what_they_are_told_comes_true(scenes: int) -> None:
    found = Told()
    for seed in range(scenes):
        for moment in moments_of(seed):
            ask(moment, found)
    assert found.waiting.total() > 20 * scenes
    assert not found.untrue.total(), dict(found.untrue)
    assert found.untrue_live.total() <= (1 - LIVE_LEAST) * found.changes.total(), dict(found.untrue_live)
    for causes in ((), (CAPS,), (ROOM,), (CAPS, ROOM), ({"ceiling"}, ROOM), ({"behind"},)):
        had = {codes: count for codes, count in found.waiting.items() if all(codes & some for some in causes)}
        told = sum(found.told[codes] for codes in had)
        assert told >= TOLD_LEAST * sum(had.values()) - 1, (causes, told, sum(had.values()))  # One, where there are few.
