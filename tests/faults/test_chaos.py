"""A short chaos round on each commit; `make chaos MINUTES=20` is a long one. And what is drawn from the seed."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path

import pytest

from kernel.crashpoints import POINTS
from tests.chaos import report
from tests.chaos.faults import WEIGHTS, plan, points_in_source
from tests.chaos.rest import STILL_SECONDS, Look, wait_for_rest
from tests.chaos.rounds import Options, Round

SECONDS = 60.0
LONG_SECONDS = 600.0
SEED = 20


@pytest.mark.capability("6.16", "The same seed plans the same faults")
def test_the_same_seed_breaks_the_same_things_and_another_one_others() -> None:
    first, again, other = (plan(seed, seconds=600, every_seconds=5) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_round_knows_every_crash_point_without_the_platform() -> None:
    assert sorted(points_in_source()) == sorted(POINTS)


def test_a_round_sees_every_kind_of_fault_before_chance_decides() -> None:
    planned = plan(3, seconds=600, every_seconds=5)
    assert {fault.kind for fault in planned[: len(WEIGHTS)]} == set(WEIGHTS)
    assert all(earlier.at < later.at for earlier, later in pairwise(planned))


class Watch:
    """A clock that moves when somebody waits, and what is left at each look, the last for ever."""

    def __init__(self, *looks: Look) -> None:
        self.looks = list(looks)
        self.now = 0.0

    def look(self) -> Look:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, seconds: float = 600.0) -> str:
        times = {"clock": lambda: self.now, "pause": self.pause}
        return wait_for_rest(self.look, lambda: ["job j: stopping"], seconds=seconds, say=lambda line: None, **times)


def test_a_platform_on_which_nothing_changes_any_more_is_called_stuck_with_what_keeps_it() -> None:
    watch = Watch(Look({"jobs": 2}, 7), Look({"jobs": 1}, 8))
    assert watch.wait() == f"nothing changed for {STILL_SECONDS:.0f} s once everything was healed: 1 jobs; job j: stopping"
    assert watch.now < STILL_SECONDS + 2


def test_a_platform_that_goes_round_in_circles_is_given_up_in_the_end() -> None:
    watch = Watch(*(Look({"jobs": 1}, changes) for changes in range(10_000)))
    assert watch.wait(seconds=300).startswith("not at rest after 300 s")


def test_a_platform_that_comes_to_rest_slowly_is_waited_for() -> None:
    assert Watch(*(Look({"jobs": left}, 0) for left in range(900, -1, -1))).wait() == ""


@pytest.mark.capability("6.16", "Every promise is kept while processes, Redis and the database are broken under load")
@pytest.mark.engines
@pytest.mark.alone
@pytest.mark.database
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("profile", "seconds"),
    [
        ("production", SECONDS),
        pytest.param("production", LONG_SECONDS, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)]),
        pytest.param("embedded", LONG_SECONDS, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)]),
    ],
)
def test_under_load_and_faults_every_promise_is_kept(tmp_path: Path, profile: str, seconds: float) -> None:
    if not os.environ.get("BERTH_DATABASE_URL"):
        pytest.skip("runs once, in the stage with servers: it brings its own")
    outcome = Round(Options(seed=SEED, seconds=seconds, folder=tmp_path, profile=profile, lease_seconds=2.0), print).run()
    assert outcome.holds, report.text(outcome)
    figures = json.loads(report.as_json(outcome))
    assert figures["jobs"]["promised"] > 0
    assert figures["quota"]["samples"] > 0
    assert all(outcome.stops.values()), f"a state that no stop met: {outcome.stops}"
    assert not outcome.report.not_checked(), "an invariant was decided over nothing"
    assert report.picture(outcome).count("<line") == len(report.broken(outcome))
