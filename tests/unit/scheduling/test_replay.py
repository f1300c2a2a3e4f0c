"""A simulated clock over the core: waits, lost work and windows of a few jobs that one can follow by hand."""

from __future__ import annotations

from dataclasses import replace

from jobs.scheduling.core.core import Core
from jobs.scheduling.replay.run import Arrival, Replay, ReplayOutcome
from tests.unit.scheduling.test_core import Limit, a_core, a_job, owed


def replayed(core: Core, *arrivals: Arrival) -> ReplayOutcome:
    return Replay(core, arrivals, grace_seconds=10, window_seconds=100).run()


def test_jobs_run_one_after_the_other_where_there_is_room_for_one() -> None:
    found = replayed(a_core(nodes=1), *(Arrival(a_job(f"job-{number}", gpus=4), 50) for number in range(3)))
    assert [found.stays[f"job-{number}"].wait for number in range(3)] == [0, 50, 100]
    assert found.useful == 3 * 50 * 4000
    assert found.lost == 0


def test_who_is_evicted_resumes_from_its_last_checkpoint_and_waits_for_what_it_lost() -> None:
    core = a_core(nodes=1, limits={"a": owed(4), "b": Limit()}, least_runtime_seconds=0)
    lent = replace(a_job("lent", 2, gpus=4), checkpoint_seconds=60)
    found = replayed(core, Arrival(lent, 200), Arrival(a_job("owner", 1, gpus=4, at=100), 50))
    assert found.stays["owner"].first_started_at == 110
    assert found.reclaim_seconds == [10]
    assert found.evictions == 1
    assert found.lost == (40 + 10) * 4000
    assert found.stays["lent"].finished_at == 160 + 140
    assert found.stays["lent"].wait == 100


def test_who_comes_to_its_end_within_the_grace_loses_nothing() -> None:
    core = a_core(nodes=1, limits={"a": owed(4), "b": Limit()}, least_runtime_seconds=0)
    found = replayed(core, Arrival(a_job("lent", 2, gpus=4), 105), Arrival(a_job("owner", 1, gpus=4, at=100), 50))
    assert found.stays["lent"].finished_at == 105
    assert found.stays["owner"].first_started_at == 105
    assert (found.lost, found.evictions) == (0, 0)


def test_windows_tell_what_each_queue_held_and_asked_for() -> None:
    found = replayed(a_core(nodes=1), Arrival(a_job("first", 1, gpus=4), 150), Arrival(a_job("second", 2, gpus=2, at=20), 150))
    assert [(window.at, window.held, window.wanted) for window in found.windows] == [
        (100, {1: 4000}, {1: 4000, 2: 2000}),
        (200, {2: 2000}, {2: 2000}),
        (300, {2: 2000}, {2: 2000}),  # Just before it ended.
    ]


def test_the_same_arrivals_give_the_same_outcome_in_any_order() -> None:
    arrivals = [
        Arrival(a_job(f"job-{number}", 1 + number % 2, tasks=1 + number % 3, at=number % 4), 30 + number) for number in range(9)
    ]
    forth, back = replayed(a_core(nodes=1), *arrivals), replayed(a_core(nodes=1), *reversed(arrivals))
    assert repr(sorted(forth.stays.items(), key=str)) == repr(sorted(back.stays.items(), key=str))
    assert repr(forth.windows) == repr(back.windows)
