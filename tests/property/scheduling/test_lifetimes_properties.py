"""Futures: conditional on what has run, the same for the same input in any order, and quantiles in order."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from jobs.scheduling.core.core import Policy
from jobs.scheduling.core.snapshot import State, build, export
from jobs.scheduling.questions.lifetimes import KnownJob, Lifetimes, life_table
from jobs.scheduling.questions.lookahead import Effort, expected_starts, quantile
from jobs.scheduling.questions.predict import BANDS, Corrections, EndedRun, Predictor, kinds_of
from tenants.capacity.quota.limits import Limit
from tests.property.scheduling.test_state_properties import a_state
from tests.unit.scheduling.test_core import a_job, submit

SAMPLES, EFFORT = 8, Effort(futures=8, passes=60)
LIMITS = {"a": Limit(), "b": Limit(), "c": Limit()}
SECONDS = st.integers(0, 500_000)


def a_scene(asks: list[tuple[int, int]], at: int) -> State:
    state = a_state(LIMITS, Policy())
    core = build(state)
    submit(core, *(a_job(f"job-{n}", 1 + n % 3, tasks=tasks, gpus=gpus, at=n) for n, (tasks, gpus) in enumerate(asks)))
    core.decide(20)
    core.decide(at)
    return export(core, state)


def lifetimes(state: State, ended: list[int], *, backwards: bool = False) -> Lifetimes:
    predictor = Predictor()
    for number, seconds in enumerate(ended):
        predictor.add(user="alice", name=f"kind-{seconds % 2}", queue="q", seconds=seconds, ended_at=number)
    jobs = [*state.waiting, *(held.job for held in state.running)]
    known = {job.id: KnownJob(kinds_of("alice", f"kind-{len(job.id) % 2}", "q", "")) for job in jobs}
    return Lifetimes(state, predictor, dict(reversed(known.items())) if backwards else known)


asks = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=12)
scenes = st.builds(a_scene, asks, st.integers(20, 90_000))


@given(scenes, st.lists(SECONDS, max_size=30))
def test_no_draw_ends_before_now_and_quantiles_are_in_order(state: State, ended: list[int]) -> None:
    futures = lifetimes(state, ended).futures(SAMPLES)
    for held in state.running:
        assert all(held.started_at + future.get(held.job.id, 10**9) > state.at for future in futures)
    for forecast in expected_starts(state, [job.id for job in state.waiting], futures, EFFORT).values():
        assert (forecast.p50 is None) == (forecast.p90 is None)
        if forecast.p50 is not None and forecast.p90 is not None:
            assert state.at <= forecast.p50 <= forecast.p90
        else:
            assert forecast.reason


@given(scenes, st.lists(SECONDS, max_size=30))
def test_the_same_input_in_any_order_has_the_same_futures_and_starts(state: State, ended: list[int]) -> None:
    other = replace(state, waiting=state.waiting[::-1], running=state.running[::-1])
    futures, again = lifetimes(state, ended).futures(SAMPLES), lifetimes(other, ended, backwards=True).futures(SAMPLES)
    assert futures == again
    ids = [job.id for job in state.waiting]
    assert expected_starts(state, ids, futures, EFFORT) == expected_starts(other, ids[::-1], again, EFFORT)


@given(st.lists(SECONDS, max_size=80), st.lists(SECONDS, max_size=20), SECONDS, st.floats(0.001, 0.998))
def test_a_table_falls_and_its_draws_are_beyond_what_has_run(ended: list[int], alive: list[int], ran: int, part: float) -> None:
    table = life_table([EndedRun(seconds, 500_000 + n) for n, seconds in enumerate(ended)], alive, 600_000)
    assert all(0 < after < before for before, after in zip((1.0, *table.left), table.left, strict=False))
    assert ran < table.draw(ran, part) <= table.draw(ran, part + 0.001)


@given(st.lists(SECONDS, min_size=1, max_size=16), st.integers(0, 8))
def test_quantiles_rise_with_their_part(waits: list[int], missing: int) -> None:
    ordered = sorted(waits)
    found = [quantile(ordered, len(ordered) + missing, part, 10) for part in range(11)]
    told = [value for value in found if value is not None]
    assert told == sorted(told)
    assert found[: len(told)] == told, "the longest are those that are missing"


@given(st.lists(st.tuples(SECONDS, SECONDS, SECONDS, st.booleans()), max_size=40), SECONDS, SECONDS)
def test_corrected_waits_are_in_order_too(history: list[tuple[int, int, int, bool]], first: int, second: int) -> None:
    corrections = Corrections()
    for soon, late, waited, started in history:
        corrections.add(
            typical=min(soon, late), cautious=max(soon, late), kept_by=max(soon, late), waited=waited, has_started=started
        )
    soon, late = corrections.correct(typical=min(first, second), cautious=max(first, second))
    assert 0 <= soon <= late
    assert len(BANDS) == 3
