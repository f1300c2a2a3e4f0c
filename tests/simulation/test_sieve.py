"""For every call of a golden run: death behind it, what it saw lost, an old view after it. All must end as the golden run did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulation.sieve import MEDDLERS, PATTERNS, Run, golden, run

EVERY = 4  # The short round takes every fourth call of each pattern, another one per pattern; the long one takes all.


@pytest.fixture(autouse=True)
def _own_database(django_db_blocker: Any) -> Iterator[None]:
    with django_db_blocker.unblock():
        yield


@pytest.fixture(scope="module")
def golden_run(django_db_blocker: Any) -> Run:
    with django_db_blocker.unblock():
        return golden()


def test_the_golden_run_does_a_bit_of_everything(golden_run: Run) -> None:
    assert golden_run.report.holds, golden_run.report.text()
    assert golden_run.states == {
        "works": "succeeded after 1 attempts",
        "fails": "failed after 1 attempts",
        "again": "succeeded after 2 attempts",
        "stops": "stopped after 1 attempts",
    }
    assert {"ensure", "observe", "stop", "forget", "logs"} <= set(golden_run.calls)
    assert not golden_run.errors


@pytest.mark.parametrize("pattern", PATTERNS)
def test_whatever_is_lost_around_a_call_the_end_is_the_same(golden_run: Run, pattern: str) -> None:
    places = interesting(golden_run)
    _assert_same(golden_run, pattern, places[PATTERNS.index(pattern) :: EVERY])


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_whatever_is_lost_around_any_call_the_end_is_the_same(golden_run: Run, pattern: str) -> None:
    _assert_same(golden_run, pattern, list(range(1, len(golden_run.calls) + 1)))


def interesting(golden_run: Run) -> list[int]:
    """Calls that change something, and observations; of the many reads of logs every tenth."""
    numbers = [number for number, verb in enumerate(golden_run.calls, start=1) if verb in ("ensure", "stop", "forget", "observe")]
    reads = [number for number, verb in enumerate(golden_run.calls, start=1) if verb == "logs"]
    return sorted([*numbers, *reads[::10]])


def _assert_same(golden_run: Run, pattern: str, places: list[int]) -> None:
    assert places
    for k in places:
        done = run(MEDDLERS[pattern](k))
        where = f"{pattern} at call {k} ({golden_run.calls[k - 1]})"
        assert done.report.holds, f"{where}\n{done.report.text()}"
        assert done.states == golden_run.states, where
        assert not done.errors, (where, done.errors)
