"""The installation under a seed's storms: one short round for every crash point, and a long one for the night."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.fates import CALM, STORM
from tests.simulation.reach import COMMON_EDGES, IN_REACH, OUT_OF_REACH
from tests.simulation.regressions import SEEDS
from tests.simulation.rounds import Outcome, run_seed

ROOT = Path(__file__).resolve().parents[2]
STEPS = 5
TRIES_MAX = 3  # Of a seed at a point: five steps do not pass everywhere.
LONG_LIFECYCLES = int(os.environ.get("SIMULATED_LIFECYCLES", "20000"))  # 1,000,000 take a night.
LONG_HITS = 100


@pytest.fixture(autouse=True)
def _own_database(django_db_blocker: Any) -> Iterator[None]:
    """A simulation brings its own database; the one of the tests is never touched."""
    with django_db_blocker.unblock():
        yield


@pytest.fixture(scope="module")
def lived() -> Iterator[Counter[str]]:
    """Adds up what the short round did, and says it at the end."""
    counts: Counter[str] = Counter()
    yield counts
    print(f"\nsimulated: {dict(counts)}")


def assert_holds(outcome: Outcome) -> None:
    assert outcome.holds, outcome.text()


@pytest.mark.parametrize("point", IN_REACH)
def test_a_storm_around_a_crash_point_breaks_no_promise(point: str, lived: Counter[str]) -> None:
    for seed in range(1, TRIES_MAX + 1):
        outcome = run_seed(seed, steps=STEPS, favourite=point)
        assert_holds(outcome)
        lived["jobs"] += outcome.lifecycles
        lived["crashes"] += sum(outcome.crashed.values())
        if outcome.crashed[point]:
            return
    pytest.fail(f"{TRIES_MAX} seeds passed without a death at {point}")


def test_calm_is_calm() -> None:
    outcome = run_seed(3, steps=10, storm=CALM)
    assert_holds(outcome)
    assert outcome.lifecycles > 20
    assert not outcome.crashed


@pytest.mark.parametrize(("seed", "steps", "favourite"), SEEDS)
def test_a_seed_that_found_something_finds_it_no_more(seed: int, steps: int, favourite: str) -> None:
    assert_holds(run_seed(seed, steps=steps, favourite=favourite))


def test_the_same_seed_is_the_same_history_in_another_process(tmp_path: Path) -> None:
    here = run_seed(3, steps=3, storm=STORM).history
    path = tmp_path / "history.jsonl"
    command = [sys.executable, "-m", "tests.simulation", "--seed", "3", "--steps", "3", "--history", str(path)]
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    there = path.read_text().splitlines()
    different = [pair for pair in zip(here, there, strict=False) if pair[0] != pair[1]]
    assert not different, different[0]
    assert len(here) == len(there)


def test_points_out_of_reach_are_named_with_their_reason() -> None:
    assert all(reason.endswith(".") for reason in OUT_OF_REACH.values())


@pytest.mark.slow
@pytest.mark.timeout(24 * 3600)
def test_a_night_of_storms_reaches_everything_often() -> None:
    """Every seed differs in its favourite point, so that rare places are visited too."""
    ended = 0
    crashed: Counter[str] = Counter()
    edges: Counter[tuple[str, str, str]] = Counter()
    for seed in count(1_000):
        outcome = run_seed(seed, steps=30, favourite=IN_REACH[seed % len(IN_REACH)] if seed % 2 else "")
        assert_holds(outcome)
        ended += outcome.lifecycles
        crashed += outcome.crashed
        edges += outcome.edges
        if ended >= LONG_LIFECYCLES:
            break
    print(f"{ended} jobs; crashes {dict(crashed)}; edges {dict(edges)}")
    hits = min(LONG_HITS, ended // 1_000)
    assert not {point: crashed[point] for point in IN_REACH if crashed[point] < hits}
    assert not {edge: edges[edge] for edge in COMMON_EDGES if edges[edge] < hits}
