"""Expected starts by running the core forward: they come true where things run for as long as was thought."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jobs.scheduling.core.core import Core, Policy
from jobs.scheduling.core.snapshot import State, build, export
from jobs.scheduling.core.state.decisions import Admit, WaitReason
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.questions.lookahead import (
    ASKED_JOBS,
    LARGE_JOBS,
    UNKNOWN_ENDS,
    Effort,
    StartForecast,
    effort_of,
    expected_starts,
    quantile,
    rounded,
)
from tenants.capacity.quota.limits import Limit
from tests.property.scheduling.test_state_properties import a_state
from tests.unit.scheduling.test_core import a_job, owed, submit

EXACT = Effort(futures=1, passes=750)
LIMITS = {"a": Limit(), "b": Limit(), "c": Limit()}


def certain(at: int, reason: str = "") -> StartForecast:
    return StartForecast(at, at, reason)


def none(reason: str) -> StartForecast:
    return StartForecast(None, None, reason, is_sure=False)


def a_busy_state(*jobs: JobAsk, at: int = 10, limits: dict[str, Limit] | None = None, **policy: Any) -> tuple[Core, State]:
    """Four machines of four GPUs."""
    state = a_state(limits or LIMITS, Policy(**{"overrun_seconds": 0, **policy}))
    core = build(state)
    submit(core, *jobs)
    core.decide(at)
    return core, export(core, state)


def test_what_is_told_are_quantiles_of_the_starts_in_the_futures() -> None:
    _, state = a_busy_state(a_job("runs", tasks=4, gpus=4), a_job("next", tasks=4, gpus=4, at=1), a_job("last", gpus=4, at=2))
    futures = [{"runs": 100 * n, "next": 50, "last": 5} for n in range(1, 5)]
    found = expected_starts(state, ["next", "last"], futures, EXACT)
    assert found == {"next": StartForecast(260, 410, is_sure=False), "last": StartForecast(310, 460, is_sure=True)}


def test_one_future_tells_one_time() -> None:
    _, state = a_busy_state(a_job("runs", tasks=4, gpus=4), a_job("next", gpus=4, at=1))
    assert expected_starts(state, ["next"], [{"runs": 100, "next": 1}], EXACT) == {"next": certain(110)}


def test_a_start_that_is_not_reached_in_one_future_of_ten_has_no_p90() -> None:
    _, state = a_busy_state(a_job("runs", tasks=4, gpus=4), a_job("next", gpus=4, at=1))
    futures = [{"runs": 100}] * 6 + [{"runs": 100_000}] * 2
    assert expected_starts(state, ["next"], futures, EXACT, horizon_seconds=1_000) == {"next": none("horizon")}


def test_quantiles_lie_between_the_two_nearest_of_the_sample() -> None:
    assert [quantile([10, 20, 30, 40], 4, part, 10) for part in (0, 1, 5, 9, 10)] == [10, 10, 25, 40, 40]
    assert quantile([10, 20, 30, 40, 50, 60, 70, 80], 8, 9, 10) == 77
    assert quantile([10, 20, 30], 8, 1, 2) is None
    assert quantile([], 8, 1, 2) is None


def test_what_only_people_can_change_has_no_start_and_says_why() -> None:
    core, state = a_busy_state(
        a_job("runs", tasks=4, gpus=4),
        a_job("held", withheld=WaitReason("held")),
        a_job("later", not_before=500),
        a_job("huge", gpus=9),
    )
    found = expected_starts(state, ["held", "later", "huge"], [{"runs": 100}], EXACT)
    assert found["held"] == none("held")
    assert found["later"] == certain(500)
    assert found["huge"] == none(core.why("huge").code if core.why("huge") else "")


def test_nobody_starts_behind_what_never_ends_and_the_work_is_bounded() -> None:
    _, state = a_busy_state(a_job("endless", tasks=4, gpus=4), *(a_job(f"job-{n}", tasks=4, gpus=4, at=n) for n in range(1, 9)))
    assert expected_starts(state, ["job-1"], [{}], EXACT)["job-1"].p50 is None
    known = [{"endless": 100, **{f"job-{n}": 100 for n in range(1, 9)}}]
    assert expected_starts(state, ["job-8"], known, EXACT._replace(passes=4))["job-8"] == none("passes")
    assert expected_starts(state, ["job-8"], known, EXACT, horizon_seconds=300)["job-8"] == none("horizon")
    assert expected_starts(state, ["job-8"], known, EXACT)["job-8"] == certain(810)


def test_behind_a_job_of_unknown_end_that_is_the_reason_but_for_a_job_that_never_fits() -> None:
    core, state = a_busy_state(
        a_job("endless", tasks=4, gpus=4), a_job("next", gpus=4, at=1), a_job("huge", tasks=5, gpus=4, at=2)
    )
    refusal = core.why("huge")
    assert refusal is not None
    found = expected_starts(state, ["next", "huge"], [{}], EXACT)
    assert found == {"next": none(UNKNOWN_ENDS), "huge": none(refusal.code)}


def test_a_rounded_end_is_off_by_half_of_the_part_at_most_and_many_ends_share_a_moment() -> None:
    for seconds in (1, 2, 7, 8, 100, 3_600, 86_399, 1_000_000):
        assert abs(rounded(1_000_003 + seconds, 1_000_003, 4) - 1_000_003 - seconds) * 8 <= seconds
        assert rounded(1_000_003 + seconds, 1_000_003, 0) == 1_000_003 + seconds
    assert len({rounded(seconds, 0, 4) for seconds in range(3_600, 7_200)}) <= 8


def test_rounded_ends_take_fewer_passes_to_about_the_same_start() -> None:
    jobs = [a_job(f"job-{n:02}", 1 + n % 3, gpus=4, at=n) for n in range(40)]
    _, state = a_busy_state(*jobs, at=50)
    lasts = [{job.id: 1_000 + 37 * n for n, job in enumerate(jobs)}]
    exact = expected_starts(state, ["job-39"], lasts, EXACT)["job-39"].p50
    assert exact is not None
    assert expected_starts(state, ["job-39"], lasts, EXACT._replace(passes=40))["job-39"].p50 is None
    about = expected_starts(state, ["job-39"], lasts, Effort(futures=1, passes=40, rounding=4))["job-39"].p50
    assert about is not None
    assert abs(about - exact) * 8 <= exact - state.at


def test_the_effort_falls_with_the_number_of_jobs_until_there_is_none() -> None:
    for is_asked, most in ((False, LARGE_JOBS), (True, ASKED_JOBS)):
        small, large = effort_of(1_000, is_asked=is_asked), effort_of(most, is_asked=is_asked)
        assert small is not None
        assert large is not None
        assert large.futures * large.passes < small.futures * small.passes
        assert effort_of(most + 1, is_asked=is_asked) is None


def test_evictions_are_looked_ahead_too() -> None:
    limits = {"a": owed(16), "b": Limit(), "c": Limit()}
    core, state = a_busy_state(a_job("lent", 2, tasks=4, gpus=4), limits=limits, grace_seconds=20)
    core.submit(a_job("owner", 1, gpus=4, at=11))
    core.decide(11)
    state = export(core, state)
    assert expected_starts(state, ["owner"], [{"lent": 10_000}], EXACT) == {"owner": certain(31)}


def test_they_come_true_where_everything_lasts_as_thought() -> None:
    jobs = [replace(a_job(f"job-{n}", 1 + n % 3, tasks=1 + n % 4, gpus=1 + n % 4, at=n)) for n in range(12)]
    core, state = a_busy_state(*jobs, at=20)
    waits = [job.id for job in core.waiting()]
    expected = expected_starts(state, waits, [{job.id: 40 + 7 * n for n, job in enumerate(jobs)}], EXACT)
    ends = {name: 20 + 40 + 7 * int(name[4:]) for name in core.running}
    started: dict[str, int] = {}
    while ends:
        now = min(ends.values())
        for name in sorted(name for name, end in ends.items() if end == now):
            core.ended(name)
            del ends[name]
        for decision in core.decide(now):
            if isinstance(decision, Admit):
                started[decision.id] = now
                ends[decision.id] = now + 40 + 7 * int(decision.id[4:])
    assert {name: forecast.p50 for name, forecast in expected.items()} == started
