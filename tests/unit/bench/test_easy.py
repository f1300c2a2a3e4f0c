"""The peer of P9, EASY backfill on a count of processors, by hand; and the nodes that a log asks for."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from bench.frame import Bench, BenchError
from bench.reserved_starts import Line, LogMachine, _easy, arrivals_of, log_of, machine_of, state_of
from jobs.scheduling.core.snapshot import build
from jobs.scheduling.replay.run import Replay

GIB = 1 << 30


def line(number: int, at: int, runs: int, processors: int, asked: int = 0) -> Line:
    return Line(number, at, runs, processors, asked or runs, "user", "name")


def test_what_is_left_over_at_the_first_start_counts_all_that_end_in_that_second() -> None:
    """Two of 2 processors end at 10; the first that waits wants 3 of the 4 then, so a long one of 1 delays nobody."""
    waits = _easy([line(1, 0, 10, 2), line(2, 0, 10, 2), line(3, 1, 5, 3), line(4, 2, 100, 1)], 5)

    assert waits == {1: 0, 2: 0, 3: 9, 4: 0}


def test_nobody_passes_who_would_delay_the_first() -> None:
    waits = _easy([line(1, 0, 10, 3), line(2, 1, 5, 4), line(3, 2, 8, 1), line(4, 2, 9, 1)], 4)

    assert waits == {1: 0, 2: 9, 3: 0, 4: 13}


def test_memory_and_partition_of_a_log_are_read(tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text(
        "; a comment\n"
        "1 0 5 100 4 -1 -1 4 200 1048576 1 7 1 3 1 2 -1 -1\n"  # 1 GiB of each processor, partition 2.
        "2 9 5 100 4 -1 -1 4 200 -1 1 7 1 3 1 -1 -1 -1\n"
    )
    assert log_of(tmp_path, "log.swf") == [
        Line(1, 0, 100, 4, 200, "7", "3", GIB, 2),
        Line(2, 9, 100, 4, 200, "7", "3", 0, 0),
    ]


def test_memory_that_no_node_has_leaves_a_job_out_and_without_nodes_memory_it_counts_for_nothing() -> None:
    wide = Line(1, 0, 10, 4, 20, "user", "name", 2 * GIB, 1)  # A node of 3 GiB takes one processor of it.
    assert LogMachine({0: 6}).fitting(wide) == Line(1, 0, 10, 4, 20, "user", "name", 0, 1)
    assert LogMachine({0: 8}, 3 * GIB).fitting(wide) == wide
    assert LogMachine({0: 6}, 3 * GIB).fitting(wide) is None
    assert LogMachine({0: 100}, GIB).fitting(wide) is None


def test_jobs_of_two_partitions_wait_for_their_own_nodes_and_for_memory() -> None:
    machine = machine_of(Namespace(partitions="1=2,2=2", node_memory=2, processors=240))
    lines = [
        Line(1, 0, 100, 2, 100, "user", "a", 0, 1),
        Line(2, 1, 50, 1, 50, "user", "b", 0, 1),  # Its partition is full until 100.
        Line(3, 1, 50, 1, 50, "user", "c", 2 * GIB, 2),
        Line(4, 2, 10, 1, 10, "user", "d", GIB, 2),  # A processor is free there, but no memory until 51.
    ]
    arrivals = arrivals_of([fitting for entry in lines if (fitting := machine.fitting(entry)) is not None], machine)
    stays = Replay(build(state_of(machine)), arrivals, grace_seconds=0).run().stays
    assert {int(name): stay.first_started_at for name, stay in stays.items()} == {1: 0, 2: 100, 3: 1, 4: 51}


def test_processors_of_partitions_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(BenchError, match="1=200,2=40"):
        machine_of(Namespace(partitions="200", node_memory=0, processors=240))


def test_a_figure_between_two_levels_is_missed_above_and_below() -> None:
    bench = Bench("P9")
    kept = [bench.figure("started-by-p90-1h", value, "%", accept=85, accept_most=95) for value in (84.9, 85, 95, 95.1)]
    assert [figure.is_accepted for figure in kept] == [False, True, True, False]
    assert "accept>=85 accept<=95" in kept[0].line()
    assert ["MISSED" in figure.line() for figure in kept] == [True, False, False, True]
