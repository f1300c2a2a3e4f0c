"""Which tasks are far behind the others, and how far."""

from __future__ import annotations

import pytest

from jobs.lifecycle.progress import Progress
from jobs.lifecycle.stragglers import Straggler, TaskMark, stragglers


def behind(shares: list[int], *, ended: frozenset[int] = frozenset(), total: int = 100) -> dict[int, tuple[int, int]]:
    """The stragglers of tasks with so much done of `total`, by their place."""
    marks = [TaskMark(place, Progress(done, total), place not in ended) for place, done in enumerate(shares)]
    return {place: (mark.behind_percent, mark.median_percent) for place, mark in stragglers(marks).items()}


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([], {}),
        ([10, 90], {}),
        ([10, 90, 90], {0: (80, 90)}),
        ([0, 50, 50, 50], {0: (50, 50)}),
        ([25, 50, 50], {}),
        ([24, 50, 50], {0: (26, 50)}),
        ([0, 19, 19], {}),
        ([0, 20, 20], {0: (20, 20)}),
        ([10, 10, 10, 90], {}),
        ([10, 10, 70, 90], {0: (30, 40), 1: (30, 40)}),
        ([10, 20, 60, 100], {0: (30, 40)}),
        ([100, 100, 100], {}),
    ],
)
def test_a_task_is_a_straggler_below_half_of_the_median_once_that_is_a_fifth(
    shares: list[int], expected: dict[int, tuple[int, int]]
) -> None:
    assert behind(shares) == expected


def test_a_task_that_has_ended_counts_for_the_median_and_is_none() -> None:
    assert behind([10, 100, 100], ended=frozenset({1, 2})) == {0: (90, 100)}
    assert behind([10, 100, 100], ended=frozenset({0, 1, 2})) == {}


def test_a_total_of_nothing_says_nothing() -> None:
    marks = [TaskMark("empty", Progress(0, 0), True), *(TaskMark(f"{place}", Progress(5, 10), True) for place in range(2))]
    assert stragglers(marks) == {}
    assert stragglers([*marks, TaskMark("slow", Progress(1, 10), True)]) == {"slow": Straggler(40, 50)}
