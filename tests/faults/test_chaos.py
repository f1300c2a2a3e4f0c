"""A short chaos round on each commit; `make chaos MINUTES=20` is a long one. And what is drawn from the seed."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path

import pytest

from tests.chaos import report
from tests.chaos.faults import WEIGHTS, plan
from tests.chaos.rounds import Options, Round

SECONDS = 60.0
SEED = 20


def test_the_same_seed_breaks_the_same_things_and_another_one_others() -> None:
    first, again, other = (plan(seed, seconds=600, every_seconds=5) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_round_sees_every_kind_of_fault_before_chance_decides() -> None:
    planned = plan(3, seconds=600, every_seconds=5)
    assert {fault.kind for fault in planned[: len(WEIGHTS)]} == set(WEIGHTS)
    assert all(earlier.at < later.at for earlier, later in pairwise(planned))


@pytest.mark.engines
@pytest.mark.alone
@pytest.mark.database
@pytest.mark.timeout(900)
def test_under_load_and_faults_every_promise_is_kept(tmp_path: Path) -> None:
    if not os.environ.get("BERTH_DATABASE_URL"):
        pytest.skip("runs once, in the stage with servers: it brings its own")
    outcome = Round(Options(seed=SEED, seconds=SECONDS, folder=tmp_path, lease_seconds=2.0), print).run()
    assert outcome.holds, report.text(outcome)
    figures = json.loads(report.as_json(outcome))
    assert figures["jobs"]["promised"] > 0
    assert figures["quota"]["samples"] > 0
    assert not outcome.report.not_checked(), "an invariant was decided over nothing"
    assert report.picture(outcome).count("<line") == len(report.broken(outcome))
