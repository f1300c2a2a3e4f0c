"""Over dense histories: why a job waits is one cause, whether the cycle names it or an explanation.

The core at work asks a job again only when that may help it, so what it said may be of an earlier moment. As long as that still
refuses the job, the explanation begins with it; where it has gone, with what a pass over the present state says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from jobs.lifecycle.wait_reasons import cause_of
from jobs.scheduling.core.core import Core
from jobs.scheduling.core.state.decisions import WaitReason
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.questions.explain import Explanation, Settled, explain
from jobs.scheduling.questions.subjects import subject_of
from tests.property.scheduling.test_kept_state import EVENTS, WITH_USERS, World, a_dense_history

SEEDS = [range(60), pytest.param(range(60, 600), marks=pytest.mark.slow)]


def explained(seeds: Sequence[int]) -> Iterator[tuple[Core, JobAsk, WaitReason, Explanation]]:
    """After every pass of every history: the core of the explanation, each waiting job, what the cycle said, the answer."""
    for seed in seeds:
        policy, limits, steps = a_dense_history(seed, WITH_USERS if seed % 2 else EVENTS)
        world = World(policy, limits, has_users=bool(seed % 2))
        for step in steps:
            world.do(*step)  # type: ignore[arg-type]
            if step[0] != "pass":
                continue
            settled = Settled(world.state())
            for job in world.core.waiting():
                said = world.core.why(job.id)
                assert said is not None, "a pass leaves nobody without a reason"
                answer = explain(settled, job.id, said)
                assert answer is not None
                yield settled.core, job, said, answer


def is_about(reason: WaitReason, cause: WaitReason) -> bool:
    """Whether a reason has this cause, of the same pool, queue and resource as far as both name any."""
    pairs = ((reason.pool, cause.pool), (reason.queue, cause.queue), (reason.resource, cause.resource))
    return cause_of(reason.code) == cause_of(cause.code) and all(mine == its or min(mine, its) < 0 for mine, its in pairs)


@pytest.mark.parametrize("seeds", SEEDS, ids=["short", "long"])
def test_an_explanation_begins_with_the_cause_that_the_cycle_named(seeds: Sequence[int]) -> None:
    held = gone = 0
    for core, job, said, answer in explained(seeds):
        if answer.starts:
            continue
        first = answer.conditions[0]
        held, gone = held + answer.shown_holds, gone + (not answer.shown_holds)
        if answer.shown_holds:
            assert is_about(first.reason, said)
        else:
            assert answer.reason is not None
            assert is_about(first.reason, answer.reason)
            assert not any(is_about(condition.reason, said) for condition in answer.conditions)
        subject = subject_of(core, job, first.reason)
        assert subject is None or first.jobs == (subject.job_id,), "both name the same other job"
    assert held > 4_000
    assert gone * 50 < held, "what the cycle said of a job is seldom gone"
