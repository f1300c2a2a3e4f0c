"""Completion never turns, retries always end, classification always answers."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.engines.interface import ExitReason, StopCause, TaskExit, TaskName
from jobs import bounds
from jobs.lifecycle.completion import decide_completion, derive_array_state
from jobs.lifecycle.exits import EndedTask, all_classes, classify
from jobs.lifecycle.reasons import REASONS, explain
from jobs.lifecycle.retry import PastAttempt, RetrySettings, decide_retry
from jobs.lifecycle.states import JOB_LIFECYCLE, JobState, Outcome, TaskState
from jobs.spec import parse_spec

THRESHOLDS = st.none() | st.just("never") | st.integers(1, 2)
EXITS = st.builds(
    TaskExit,
    code=st.none() | st.integers(0, 255),
    signal=st.none() | st.integers(1, 64),
    reason=st.sampled_from(list(ExitReason)),
    stop_cause=st.none() | st.sampled_from(list(StopCause)),
    evidence=st.text(max_size=10),
)
ENDED = st.lists(
    st.builds(EndedTask, st.builds(TaskName, st.just("w"), st.integers(0, 9)), EXITS, st.text(max_size=80)), max_size=5
)
ENDS = st.sampled_from([TaskState.SUCCEEDED, TaskState.FAILED, TaskState.STOPPED])


@st.composite
def jobs(draw):
    """A spec of two roles of two tasks with any thresholds, and an order in which its tasks end."""
    rules = {}
    for role in ("a", "b"):
        rule = {key: draw(THRESHOLDS) for key in ("min_failed", "min_succeeded")}
        rules[role] = {key: value for key, value in rule.items() if value is not None}
    completion = {"roles": rules, **({"chief": draw(st.sampled_from(["a", "b"]))} if draw(st.booleans()) else {})}
    spec = parse_spec({"roles": {role: {"command": "x", "replicas": 2} for role in ("a", "b")}, "completion": completion})
    order = draw(st.permutations([("a", 0), ("a", 1), ("b", 0), ("b", 1)]))
    return spec, [(place, draw(ENDS)) for place in order]


@settings(max_examples=300, deadline=None)
@given(jobs())
def test_a_job_is_decided_at_the_latest_when_all_tasks_have_ended(case):
    spec, ends = case
    states = {role: [TaskState.RUNNING, TaskState.RUNNING] for role in ("a", "b")}
    for (role, index), end in ends:
        states[role][index] = end
    assert decide_completion(spec, states).is_decided


@settings(max_examples=300, deadline=None)
@given(jobs())
def test_a_failure_once_decided_stays(case):
    spec, ends = case
    states = {role: [TaskState.RUNNING, TaskState.RUNNING] for role in ("a", "b")}
    failed = False
    for (role, index), end in ends:
        states[role][index] = end
        decision = decide_completion(spec, states)
        assert not (failed and decision.succeeded is not False)
        failed = failed or decision.succeeded is False


@settings(max_examples=300, deadline=None)
@given(jobs())
def test_more_successes_never_turn_a_success_into_waiting(case):
    spec, ends = case
    states = {role: [TaskState.RUNNING, TaskState.RUNNING] for role in ("a", "b")}
    decided = False
    for (role, index), _ in ends:
        states[role][index] = TaskState.SUCCEEDED
        decision = decide_completion(spec, states)
        assert decision.succeeded is not False
        assert not decided or decision.succeeded
        decided = bool(decision.succeeded)
    assert decided


@given(st.dictionaries(st.sampled_from([str(state) for state in JobState]), st.integers(0, 5)))
def test_an_array_ends_exactly_when_all_its_children_have(counts):
    total = sum(counts.values())
    over = sum(count for state, count in counts.items() if JOB_LIFECYCLE.is_terminal(state))
    assert JOB_LIFECYCLE.is_terminal(derive_array_state(counts)) == (total > 0 and over == total)


@settings(max_examples=300)
@given(ENDED, st.none() | st.sampled_from(list(StopCause)), st.none() | st.text(max_size=10))
def test_every_end_has_a_class(tasks, cause, engine_code):
    verdict = classify(tasks, stop_cause=cause, engine_code=engine_code)
    assert verdict.exit_class in all_classes()
    assert verdict.as_dict()["class"] == verdict.code


@settings(max_examples=200)
@given(ENDED)
def test_success_is_claimed_only_where_a_task_succeeded_and_none_failed_by_itself(tasks):
    if classify(tasks).outcome is Outcome.SUCCEEDED:
        assert any(task.exit.code == 0 for task in tasks)
        assert not any(
            task.exit.stop_cause is None and task.exit.reason in {ExitReason.OOM, ExitReason.NODE_LOST} for task in tasks
        )


RETRY_SETTINGS = st.builds(
    RetrySettings, platform_max=st.integers(0, 50), unknown_max=st.integers(0, 50), hang_max=st.integers(0, 50)
)
POLICIES = st.none() | st.builds(
    lambda limit, on: parse_spec({"command": "x", "retry": {"limit": limit, "on": on}}).retry,
    st.integers(0, 19),
    st.lists(st.sampled_from(["user", "oom", "platform", "unknown", "hang"]), unique=True),
)
FAILURES = st.sampled_from([entry for entry in all_classes() if entry.failure_class not in {"success", "preempted"}])


@settings(max_examples=200, deadline=None)
@given(st.lists(FAILURES, min_size=1, max_size=30), POLICIES, RETRY_SETTINGS, st.integers(0, 3600))
def test_every_job_that_keeps_failing_ends(failures, policy, retry_settings, spacing):
    now = datetime(2027, 1, 1, tzinfo=UTC)
    history: list[PastAttempt] = []
    for number in range(bounds.ATTEMPTS_PER_JOB + 1):
        verdict = classify(engine_code=failures[number % len(failures)].code)
        now += timedelta(seconds=spacing)
        history.append(PastAttempt(verdict.failure_class, now))
        decision = decide_retry(policy, history, verdict, retry_settings, attempt_id=uuid.UUID(int=number))
        assert 0 <= decision.after_seconds <= retry_settings.backoff_seconds_max
        assert decision.reason
        if not decision.retry:
            return
    raise AssertionError("the job got more attempts than any may have")


@settings(max_examples=100, deadline=None)
@given(FAILURES, POLICIES, RETRY_SETTINGS, st.integers(1, 25))
def test_once_a_budget_is_spent_it_stays_spent(failure, policy, retry_settings, count):
    verdict = classify(engine_code=failure.code)
    moments = [datetime(2027, 1, 1, tzinfo=UTC) + timedelta(hours=number) for number in range(count + 1)]
    history = [PastAttempt(verdict.failure_class, moment) for moment in moments]
    fewer = decide_retry(policy, history[:-1], verdict, retry_settings, attempt_id=uuid.UUID(int=1))
    more = decide_retry(policy, history, verdict, retry_settings, attempt_id=uuid.UUID(int=1))
    assert fewer.retry or not more.retry


DETAIL_KEYS = (
    *("pool", "queue", "cluster", "need", "free", "used", "ceiling", "resource", "open", "at", "class", "attempt", "seconds"),
    *("children", "have", "largest_node", "limit", "by", "role"),
)
DETAILS = st.dictionaries(
    st.sampled_from(DETAIL_KEYS),
    st.one_of(
        st.none(),
        st.text(max_size=10),
        st.integers(-(10**6), 10**15),
        st.lists(st.text(max_size=5), max_size=3),
        st.dictionaries(st.sampled_from(["gpu_millis", "cpu_millis", "memory_bytes"]), st.integers(0, 10**15)),
    ),
)


@settings(max_examples=500, deadline=None)
@given(st.sampled_from([*REASONS, "oom", "unheard_of"]), DETAILS, st.sampled_from(["en", "zh"]))
def test_a_reason_has_words_whatever_its_amounts(code, detail, language):
    assert explain(code, detail, language).text
