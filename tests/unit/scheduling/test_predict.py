"""How long a job will run, by who ran what."""

from __future__ import annotations

from jobs.scheduling.questions.predict import Corrections, Prediction, Predictor, band_of, size_of


def after(*runs: tuple[str, str, str, int]) -> Predictor:
    predictor = Predictor()
    for user, name, queue, seconds in runs:
        predictor.add(user=user, name=name, queue=queue, seconds=seconds)
    return predictor


def test_the_last_two_runs_of_the_same_user_and_name_decide_where_they_agree() -> None:
    predictor = after(*(("alice", "train", "q", seconds) for seconds in (5, 9000, 100, 120)))
    assert predictor.predict(user="alice", name="train", queue="q") == Prediction(110, 9000, "name", 4)


def test_where_they_do_not_agree_the_median_does() -> None:
    predictor = after(*(("alice", "train", "q", seconds) for seconds in (100, 110, 120, 5, 5000)))
    assert predictor.predict(user="alice", name="train", queue="q") == Prediction(110, 5000, "name", 5)


def test_what_is_known_of_too_few_is_asked_of_more() -> None:
    predictor = after(*(("alice", name, "q", 60) for name in "abcd"), ("bob", "x", "q", 100), ("bob", "x", "r", 100))
    assert predictor.predict(user="alice", name="new", queue="q") == Prediction(60, 60, "user", 4)
    assert predictor.predict(user="bob", name="x", queue="q") == Prediction(80, 100, "queue", 5)
    assert predictor.predict(user="carol", name="x", queue="r") == Prediction(100, 100, "all", 6)


def test_nothing_lasts_longer_than_it_may_and_nothing_is_known_of_nothing() -> None:
    predictor = after(("alice", "a", "q", 60), ("alice", "a", "q", 60))
    assert predictor.predict(user="alice", name="a", queue="q", longest=50) == Prediction(50, 50, "name", 2)
    assert Predictor().predict(user="alice", name="a", queue="q") is None
    assert Predictor().predict(user="alice", name="a", queue="q", longest=70) == Prediction(70, 70, "asked", 0)


def test_of_what_runs_already_those_count_that_ran_for_longer() -> None:
    predictor = after(*(("alice", "a", "q", seconds) for seconds in (10, 20, 30, 400, 500)))
    assert predictor.predict(user="alice", name="a", queue="q", ran=100) == Prediction(500, 500, "name", 2)
    assert predictor.predict(user="alice", name="a", queue="q", ran=600) == Prediction(1200, 6000, "ran", 0)
    assert predictor.predict(user="alice", name="a", queue="q", ran=600, longest=700) == Prediction(700, 700, "ran", 0)


def corrected(corrections: Corrections, wait: int) -> tuple[int, int]:
    return corrections.correct(typical=wait, cautious=wait)


def test_waits_that_came_late_lengthen_those_of_their_band_and_fade_towards_the_next() -> None:
    corrections = Corrections()
    before = {wait: corrected(corrections, wait) for wait in (0, 100, 1_500, 4_000, 9_000, 100_000)}
    assert before[0] == (0, 0), "it starts now"
    assert all(soon == wait < late for wait, (soon, late) in before.items() if wait), "a p90 is cautious before anything is known"
    kept_by = before[1_500][1]
    for _ in range(50):
        corrections.add(typical=1_500, cautious=1_500, kept_by=kept_by, waited=4_000, has_started=True)
    after = {wait: corrected(corrections, wait) for wait in before}
    assert after[1_500][0] > 1_600
    assert after[1_500][1] > 2 * kept_by
    assert before[4_000][1] < after[4_000][1] < 2 * before[4_000][1]
    assert all(after[wait] == before[wait] for wait in (0, 100, 9_000, 100_000))


def test_a_cautious_wait_settles_where_nine_in_ten_keep_it() -> None:
    corrections, kept = Corrections(), 0
    for number in range(3_000):
        told = corrections.correct(typical=2_000, cautious=2_000)[1]
        waited = 1_000 + (number * 7_919) % 4_000  # Spread evenly.
        kept += waited <= told
        corrections.add(typical=2_000, cautious=2_000, kept_by=told, waited=waited, has_started=True)
    assert 0.88 <= kept / 3_000 <= 0.92


def test_one_that_waits_counts_once_it_is_late_and_not_before() -> None:
    waiting = Corrections()
    waiting.add(typical=1_000, cautious=2_000, kept_by=2_000, waited=900, has_started=False)
    assert waiting.correct(typical=1_000, cautious=2_000) == (1_000, 2_000)
    waiting.add(typical=1_000, cautious=2_000, kept_by=2_000, waited=1_500, has_started=False)
    soon, late = waiting.correct(typical=1_000, cautious=2_000)
    assert soon > 1_000
    assert late == 2_000
    waiting.add(typical=1_000, cautious=2_000, kept_by=2_000, waited=2_500, has_started=False)
    assert waiting.correct(typical=1_000, cautious=2_000)[1] > 2_000


def test_a_history_that_begins_late_goes_on_from_what_was_told_then() -> None:
    corrections = Corrections()
    corrections.add(typical=1_000, cautious=1_000, kept_by=3_000, waited=3_000, has_started=True)
    assert 2_900 <= corrections.correct(typical=1_000, cautious=1_000)[1] <= 3_000


def came(corrections: Corrections, *waited: int, sure: int = 1_000) -> None:
    for wait in waited:
        corrections.add(typical=sure, cautious=2 * sure, kept_by=2 * sure, waited=wait, has_started=True, sure=sure)


def test_the_error_is_that_of_likely_waits_in_the_same_band_once_enough_have_started() -> None:
    corrections = Corrections()
    came(corrections, *[1_000, 1_250, 2_000, 2_000, 2_000] * 9, 2_000, 2_000, 2_000, 2_000)
    assert corrections.error(1_000) is None
    came(corrections, 2_000)
    assert corrections.error(900) == 500
    assert corrections.error(60) is None
    assert [band_of(wait) for wait in (0, 599, 600, 3_600, 21_599, 21_600)] == [0, 0, 1, 2, 2, 3]


def test_a_likely_wait_is_near_only_once_three_in_four_of_its_band_were() -> None:
    corrections = Corrections()
    assert not corrections.is_near(1_000), "nothing is known"
    came(corrections, *[1_000] * 49)
    assert not corrections.is_near(1_000), "too little is known"
    came(corrections, 1_000)
    assert corrections.is_near(1_000)
    assert not corrections.is_near(60), "of another band nothing is known"
    came(corrections, *[4_000] * 16)
    assert corrections.is_near(1_000), "the others were near"
    came(corrections, 4_000)
    assert corrections.error(1_000) == 0
    assert not corrections.is_near(1_000), "a burst was far off"
    came(corrections, *[1_200] * 200)
    assert corrections.is_near(1_000), "what was long ago counts no more"


def test_a_new_name_does_not_inherit_the_time_of_jobs_of_another_size() -> None:
    predictor = Predictor()
    small, large = size_of(0, 3_600), size_of(8_000, 86_400)
    for _ in range(5):
        predictor.add(user="alice", name="check", queue="q", seconds=20, size=small)

    assert predictor.predict(user="alice", name="new", queue="q", longest=3_600, size=small) == Prediction(20, 20, "user", 5)
    assert predictor.predict(user="alice", name="new", queue="q", longest=86_400, size=large) == Prediction(
        86_400, 86_400, "asked", 0
    )
    assert predictor.predict(user="alice", name="new", queue="q", size=size_of(8_000, None)) is None
    assert predictor.predict(user="alice", name="check", queue="q", size=large) == Prediction(20, 20, "name", 5)


def test_sizes_are_alike_to_the_next_power() -> None:
    assert [size_of(gpus, None) for gpus in (0, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 8_000)] == [
        "0/-", "1/-", "1/-", "2/-", "3/-", "3/-", "4/-", "4/-",
    ]  # fmt: skip
    assert size_of(0, 3_600) == size_of(0, 2_400) != size_of(0, 86_400)
