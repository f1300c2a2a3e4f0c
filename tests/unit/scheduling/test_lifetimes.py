"""How long jobs may last, given how long they have run."""

from __future__ import annotations

import pytest

from jobs.scheduling.core.core import Policy
from jobs.scheduling.core.snapshot import build, export
from jobs.scheduling.questions.lifetimes import LONGEST_SECONDS, KnownJob, Lifetimes, Table, life_table
from jobs.scheduling.questions.predict import KEPT, EndedRun, Predictor, kinds_of
from tenants.capacity.quota.limits import Limit
from tests.property.scheduling.test_state_properties import a_state
from tests.unit.scheduling.test_core import a_job, submit


def runs(*seconds: int) -> list[EndedRun]:
    return [EndedRun(length, 1_000_000) for length in seconds]


def test_the_next_of_n_alike_is_the_longest_with_one_chance_in_n_and_one() -> None:
    table = life_table(runs(10, 20, 30, 40), (), 1_000_000)
    assert table.ends == (10, 20, 30, 40)
    assert table.left == pytest.approx((0.8, 0.6, 0.4, 0.2))
    assert [table.draw(0, part) for part in (0.1, 0.3, 0.5, 0.7)] == [10, 20, 30, 40]
    assert table.draw(0, 0.9) > 40


def test_equal_runs_leave_the_same_chance_of_a_longer_one() -> None:
    assert life_table(runs(*[100] * 9), (), 1_000_000).left[-1] == pytest.approx(0.1)


def test_of_what_has_run_already_those_count_that_ran_for_longer() -> None:
    table = life_table(runs(10, 20, 30, 400, 500), (), 1_000_000)
    assert table.draw(100, 0.3) == 400
    assert table.draw(100, 0.6) == 500


def test_longer_than_anything_known_half_run_twice_as_long_and_a_tenth_ten_times() -> None:
    table = life_table(runs(10, 20), (), 1_000_000)
    assert (table.draw(600, 0.5), table.draw(600, 0.9)) == (1_200, 6_000)
    assert Table().draw(600, 0.5) == 1_200
    assert table.draw(600, 1.0) <= LONGEST_SECONDS


def test_those_that_run_now_for_long_make_the_kind_longer() -> None:
    ended = runs(10, 20, 30, 40)
    assert life_table(ended, (), 1_000_000).draw(0, 0.5) == 30
    assert life_table(ended, (500,) * 8, 1_000_000).draw(0, 0.5) > 40


def test_what_ran_long_before_the_window_counts_only_from_the_age_that_it_had_then() -> None:
    """Else a few long ones that never end would weigh among all the short ones of ages ago."""
    ended = [EndedRun(10, 1_000_000 + number) for number in range(KEPT)]
    at = 1_000_000 + KEPT
    alone, beside = life_table(ended, (), at), life_table(ended, (5_000,) * 10, at)
    assert beside.left[0] == pytest.approx(alone.left[0], abs=0.02)


def test_a_kind_whose_runs_all_ended_in_one_second_has_a_table_all_the_same() -> None:
    table = life_table(runs(*range(100, 100 + KEPT)), (), 1_000_000)
    assert len(table.ends) == KEPT
    assert 100 <= table.draw(0, 0.5) < 100 + KEPT


def test_a_few_runs_after_an_array_that_ended_in_one_second_do_not_stand_for_all() -> None:
    array = [EndedRun(1_000, 1_000_000)] * (KEPT - 5)
    assert life_table([*array, *(EndedRun(10, 1_000_100 + n) for n in range(5))], (), 1_000_200).draw(0, 0.5) == 1_000


def a_scene(*names: str, ran: int = 0) -> Lifetimes:
    """Jobs of these names, of which the first has run for so long where it has, after what `history` tells."""
    jobs = [a_job(name) for name in names]
    state = a_state({"a": Limit(), "b": Limit(), "c": Limit()}, Policy())
    core = build(state)
    submit(core, *jobs)
    core.decide(0)
    core.decide(ran)
    return Lifetimes(export(core, state), history(), {job.id: KnownJob(kinds_of("alice", job.id, "q", "1")) for job in jobs})


def history() -> Predictor:
    """Alice's `equal` always takes 100 s, all ended in one second; her others 5,000 s and more, and those of others a day."""
    predictor = Predictor()
    for _ in range(KEPT):
        predictor.add(user="alice", name="equal", queue="q", size="1", seconds=100, ended_at=-100_000)
    for number in range(KEPT):
        predictor.add(
            user="alice", name=f"other-{number}", queue="q", size="1", seconds=5_000 + number, ended_at=number - 100_000
        )
    for number in range(KEPT):
        predictor.add(user="bob", name="day", queue="q", size="1", seconds=86_400 + number, ended_at=number - 10_000)
    return predictor


def test_a_kind_of_which_all_runs_are_equal_is_drawn_from_itself() -> None:
    drawn = sorted(future["equal"] for future in a_scene("equal").futures(8))
    assert drawn[:6] == [100] * 6
    assert drawn[-1] >= 100


def test_a_job_that_outlasts_its_kind_is_drawn_from_the_next_wider_kind_and_at_last_from_a_tail() -> None:
    drawn = sorted(future["equal"] for future in a_scene("equal", ran=200).futures(8))
    assert 5_000 <= drawn[3] <= 5_064
    drawn = sorted(future["equal"] for future in a_scene("equal", ran=6_000).futures(8))
    assert 86_400 <= drawn[3] <= 86_464
    drawn = sorted(future["equal"] for future in a_scene("equal", ran=100_000).futures(8))
    assert drawn[0] > 100_000
    assert drawn[-1] > 2 * drawn[0]


def test_of_what_nothing_alike_has_ended_no_future_tells_an_end() -> None:
    lifetimes = a_scene("unlike", ran=50)
    lifetimes = Lifetimes(lifetimes.state, history(), {"unlike": KnownJob(kinds_of("alice", "unlike", "q", "9"))})
    assert lifetimes.futures(8) == [{}] * 8


def test_the_same_moment_draws_the_same_and_another_one_draws_anew() -> None:
    early, late = a_scene("other", ran=10).futures(8), a_scene("other", ran=11).futures(8)
    assert early == a_scene("other", ran=10).futures(8)
    assert early != late
