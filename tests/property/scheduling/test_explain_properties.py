"""Over random states: whoever waits has a reason, every suggestion comes true, and no question changes what is asked about."""

from __future__ import annotations

import itertools
import uuid
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from jobs.scheduling.core.core import Policy
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import Machine, TaskAsk
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.snapshot import Pool, State
from jobs.scheduling.core.state.decisions import WaitReason
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.questions.explain import Settled, explain, fair_order
from jobs.scheduling.questions.suggest import KINDS, outcome, suggest
from jobs.scheduling.questions.whatif import End, Rank, Release, apply, one_pass, what_if
from kernel.resources import Resources
from tenants.capacity.quota.limits import Capacity, Limit, LimitedQueue

GIB = 1 << 30
POOL = uuid.UUID(int=9)
ROOT = LimitedQueue(uuid.UUID(int=1), None, "root")
TREES = (
    {"a": Limit(deserved=8000), "b": Limit(deserved=4000), "c": Limit()},
    {"a": Limit(guarantee=4000, deserved=8000), "b": Limit(deserved=8000), "c": Limit(ceiling=6000)},
    {"a": Limit(guarantee=8000), "b": Limit(guarantee=4000, deserved=8000, ceiling=12_000), "c": Limit(weight=3)},
)
jobs = some.tuples(
    some.integers(1, 3),  # Queue.
    some.sampled_from((1, 1, 2, 4)),  # GPUs of a task.
    some.integers(1, 3),  # Tasks.
    some.sampled_from((1, 4, 40)),  # GiB of a task.
    some.sampled_from((100, 500, 900)),  # Priority.
    some.sampled_from(("", "", "", "x")),  # Model.
    some.sampled_from((None, None, None, "held")),
)
states = some.builds(
    lambda tree, nodes, first, later, in_order, young, guard: a_state(tree, nodes, first, later, in_order, young, guard),
    some.sampled_from(TREES),
    some.lists(some.sampled_from((2, 4)), min_size=1, max_size=4),
    some.lists(jobs, max_size=8),
    some.lists(jobs, min_size=1, max_size=6),
    some.booleans(),
    some.sampled_from((0, 300)),
    some.sampled_from((0, 50)),
)
Ask = tuple[int, int, int, int, int, str, str | None]


def a_job(name: str, ask: Ask, at: int) -> JobAsk:
    queue, gpus, tasks, memory, priority, model, withheld = ask
    each = TaskAsk(1000, memory * GIB, gpus * 1000, frozenset({model} if model else ()))
    gang = GangAsk((RoleAsk("worker", each, tasks, tasks),))
    return JobAsk(name, queue, gang, (0,), at, priority, withheld=WaitReason(withheld) if withheld else None)


def a_state(
    tree: dict[str, Limit], nodes: list[int], first: list[Ask], later: list[Ask], in_order: bool, young: int, guard: int
) -> State:
    """Some run that came first, as the scheduler itself started them, and others wait."""
    machines = tuple(
        Machine(f"n{number}", 0, gpus * 4000, gpus * 16 * GIB, gpus, "x" if number == 1 else "y")
        for number, gpus in enumerate(nodes)
    )
    tree = {name: scaled(branch, sum(nodes)) for name, branch in tree.items()}
    queues = [ROOT]
    for number, (name, limit) in enumerate(tree.items()):
        queues.append(LimitedQueue(uuid.UUID(int=10 + number), ROOT.id, name, {POOL: {"gpu_millis": limit}}))
    total = Resources(sum(nodes) * 4000, sum(nodes) * 16 * GIB, sum(nodes) * 1000)
    policy = Policy(in_order=in_order, least_runtime_seconds=young, starvation_guard_seconds=guard)
    state = State(
        0, (Pool(POOL, "pool", PoolRules("pack")),), machines, tuple(queues), (Capacity(POOL, "pool", total),), policy=policy,
        waiting=tuple(a_job(f"first-{number}", ask, 0) for number, ask in enumerate(first)),
    )  # fmt: skip
    state = Settled(state).state
    more = tuple(a_job(f"later-{number}", ask, 10 + number) for number, ask in enumerate(later))
    return replace(state, at=100, waiting=(*state.waiting, *more))


def scaled(limit: Limit, gpus: int) -> Limit:
    """Limits of a pool of 16 GPUs for one of so many, in whole GPUs."""

    def amount(value: int | None) -> int | None:
        return None if value is None else value * gpus // 16_000 * 1000

    return replace(limit, guarantee=amount(limit.guarantee) or 0, deserved=amount(limit.deserved), ceiling=amount(limit.ceiling))


@pytest.mark.capability("6.1", "Every suggestion, applied to a copy of the state, starts the job")
@settings(max_examples=120, deadline=None)
@given(states)
def test_whoever_waits_has_a_reason_and_every_suggestion_is_true(state: State) -> None:
    settled = Settled(state)
    for job_id in sorted(settled.waiting):
        explanation = explain(settled, job_id)
        assert explanation is not None
        assert explanation.conditions
        assert not explanation.starts
        for suggestion in suggest(settled, explanation):
            assert outcome(settled.state, suggestion.changes, job_id) == suggestion.clears
            assert suggestion.kind in KINDS


@settings(max_examples=120, deadline=None)
@given(states)
def test_a_job_that_nothing_refuses_does_not_wait(state: State) -> None:
    """Each condition is one that refuses: those that are told are there, and whoever has none starts."""
    settled = Settled(state)
    for job_id in sorted(settled.admitted):
        explanation = explain(settled, job_id)
        assert explanation is not None
        assert explanation.starts
        assert not explanation.conditions


@settings(max_examples=60, deadline=None)
@given(states, some.randoms(use_true_random=False))
def test_the_order_in_which_a_state_lists_things_changes_no_answer(state: State, chance: object) -> None:
    def told(listed: State) -> str:
        settled = Settled(listed)
        found = []
        for job_id in sorted(settled.waiting):
            explanation = explain(settled, job_id)
            assert explanation is not None
            found.append((explanation, suggest(settled, explanation)))
        return repr(found)

    shuffled = replace(
        state,
        machines=tuple(chance.sample(state.machines, len(state.machines))),  # type: ignore[attr-defined]
        waiting=tuple(chance.sample(state.waiting, len(state.waiting))),  # type: ignore[attr-defined]
        running=tuple(chance.sample(state.running, len(state.running))),  # type: ignore[attr-defined]
    )
    assert told(state) == told(shuffled)


@settings(max_examples=60, deadline=None)
@given(states)
def test_the_fair_order_names_everybody_in_line_once(state: State) -> None:
    settled = Settled(state)
    inside = {job_id for job_id in settled.waiting if job_id in settled.core.ordering}
    order = fair_order(settled, frozenset({0}))
    assert sorted(order) == sorted(inside)
    for position, job_id in enumerate(order, start=1):
        explanation = explain(settled, job_id)
        assert explanation is not None
        assert (explanation.place.in_pool, explanation.place.pool_length) == (position, len(order))


@settings(max_examples=60, deadline=None)
@given(states)
def test_nothing_changed_makes_no_difference(state: State) -> None:
    answer = what_if(state, ())
    lists = (answer.starts, answer.starts_not, answer.waits, answer.evicted, answer.spared, answer.displaced)
    assert lists == ((),) * 6


@pytest.mark.capability("6.3", "A question is answered as a pass over the changed state would")
@settings(max_examples=60, deadline=None)
@given(states, some.integers(0, 20))
def test_what_if_is_what_a_pass_over_the_changed_state_does(state: State, which: int) -> None:
    ids = sorted(job.id for job in (*state.waiting, *(held.job for held in state.running)))
    waiting = sorted(job.id for job in state.waiting)
    changes = (End(ids[which % len(ids)]), Release(waiting[which % len(waiting)]), Rank(waiting[0], priority=900))
    answer = what_if(state, changes)
    before, after = one_pass(state), one_pass(apply(state, changes))
    assert (answer.before, answer.after) == (before, after)
    now, then = {start.job_id for start in before.starts}, {start.job_id for start in after.starts}
    assert set(answer.starts) == then - now
    assert set(itertools.chain(answer.starts, answer.starts_not)).isdisjoint(now & then)
