"""Expected starts by running the core forward: they come true where things run for as long as was thought."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jobs.scheduling.core.core import Core, Policy
from jobs.scheduling.core.snapshot import State, build, export
from jobs.scheduling.core.state.decisions import Admit, Reason
from jobs.scheduling.core.state.work import Job
from jobs.scheduling.questions.lookahead import Expected, expected_starts
from jobs.scheduling.questions.predict import Prediction
from tenants.quota.limits import Limit
from tests.property.scheduling.test_state_properties import a_state
from tests.unit.scheduling.test_core import a_job, owed, submit

LIMITS = {"a": Limit(), "b": Limit(), "c": Limit()}


def lasts(typical: int, cautious: int | None = None) -> Prediction:
    return Prediction(typical, cautious or typical, "name", 3)


def a_busy_state(*jobs: Job, at: int = 10, limits: dict[str, Limit] | None = None, **policy: Any) -> tuple[Core, State]:
    """Four machines of four GPUs."""
    state = a_state(limits or LIMITS, Policy(**{"overrun_seconds": 0, **policy}))
    core = build(state)
    submit(core, *jobs)
    core.decide(at)
    return core, export(core, state)


def test_who_waits_starts_when_what_runs_has_ended_as_it_is_thought_to() -> None:
    _, state = a_busy_state(a_job("runs", tasks=4, gpus=4), a_job("next", tasks=4, gpus=4, at=1), a_job("last", gpus=4, at=2))
    known = {"runs": lasts(100, 300), "next": lasts(50, 60), "last": lasts(5)}
    assert expected_starts(state, ["next", "last"], known) == {"next": Expected(110, 310), "last": Expected(160, 370)}


def test_who_ran_for_longer_than_was_thought_is_thought_to_need_longer_still() -> None:
    core, _ = a_busy_state(a_job("runs", tasks=4, gpus=4), a_job("next", gpus=4, at=1))
    core.decide(210)
    state = export(core, a_state(LIMITS, core.policy))
    assert expected_starts(state, ["next"], {"runs": lasts(100), "next": lasts(1)}) == {"next": Expected(310, 610)}


def test_what_only_people_can_change_has_no_start_and_says_why() -> None:
    core, state = a_busy_state(
        a_job("runs", tasks=4, gpus=4),
        a_job("held", withheld=Reason("held")),
        a_job("later", not_before=500),
        a_job("huge", gpus=9),
    )
    found = expected_starts(state, ["held", "later", "huge"], {"runs": lasts(100)})
    assert found["held"] == Expected(None, None, "held")
    assert found["later"] == Expected(500, 500)
    assert found["huge"] == Expected(None, None, core.why("huge").code if core.why("huge") else "")


def test_nobody_starts_behind_what_never_ends_and_the_work_is_bounded() -> None:
    _, state = a_busy_state(a_job("endless", tasks=4, gpus=4), *(a_job(f"job-{n}", tasks=4, gpus=4, at=n) for n in range(1, 9)))
    assert expected_starts(state, ["job-1"], {})["job-1"].p50 is None
    known = {"endless": lasts(100), **{f"job-{n}": lasts(100) for n in range(1, 9)}}
    assert expected_starts(state, ["job-8"], known, passes_max=4)["job-8"] == Expected(None, None, "passes")
    assert expected_starts(state, ["job-8"], known, horizon_seconds=300)["job-8"] == Expected(None, None, "horizon")
    assert expected_starts(state, ["job-8"], known)["job-8"] == Expected(810, 810)


def test_evictions_are_looked_ahead_too() -> None:
    limits = {"a": owed(16), "b": Limit(), "c": Limit()}
    core, state = a_busy_state(a_job("lent", 2, tasks=4, gpus=4), limits=limits, grace_seconds=20)
    core.submit(a_job("owner", 1, gpus=4, at=11))
    core.decide(11)
    state = export(core, state)
    assert expected_starts(state, ["owner"], {"lent": lasts(10_000)}) == {"owner": Expected(330, 330)}


def test_they_come_true_where_everything_lasts_as_thought() -> None:
    jobs = [replace(a_job(f"job-{n}", 1 + n % 3, tasks=1 + n % 4, gpus=1 + n % 4, at=n)) for n in range(12)]
    core, state = a_busy_state(*jobs, at=20)
    waits = [job.id for job in core.waiting()]
    expected = expected_starts(state, waits, {job.id: lasts(40 + 7 * n) for n, job in enumerate(jobs)})
    ends = {name: 20 + 40 + 7 * int(name[4:]) for name in core.running}
    started: dict[str, int] = {}
    while ends:
        now = min(ends.values())
        for name in sorted(name for name, end in ends.items() if end == now):
            core.ended(name)
            del ends[name]
        for one in core.decide(now):
            if isinstance(one, Admit):
                started[one.id] = now
                ends[one.id] = now + 40 + 7 * int(one.id[4:])
    assert {name: one.p50 for name, one in expected.items()} == started
