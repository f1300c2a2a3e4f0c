"""The peer of P9, EASY backfill on a count of processors, by hand."""

from __future__ import annotations

from bench.promises import Line, _easy


def line(number: int, at: int, runs: int, processors: int, asked: int = 0) -> Line:
    return Line(number, at, runs, processors, asked or runs, "user", "name")


def test_what_is_left_over_at_the_first_start_counts_all_that_end_in_that_second() -> None:
    """Two of 2 processors end at 10; the first that waits wants 3 of the 4 then, so a long one of 1 delays nobody."""
    waits = _easy([line(1, 0, 10, 2), line(2, 0, 10, 2), line(3, 1, 5, 3), line(4, 2, 100, 1)], 5)

    assert waits == {1: 0, 2: 0, 3: 9, 4: 0}


def test_nobody_passes_who_would_delay_the_first() -> None:
    waits = _easy([line(1, 0, 10, 3), line(2, 1, 5, 4), line(3, 2, 8, 1), line(4, 2, 9, 1)], 4)

    assert waits == {1: 0, 2: 9, 3: 0, 4: 13}
