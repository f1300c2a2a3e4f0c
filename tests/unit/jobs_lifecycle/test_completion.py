from __future__ import annotations

import pytest

from jobs.lifecycle.completion import CONTINUE, chief_of, decide_completion, derive_array_state
from jobs.lifecycle.states import JobState, TaskState
from jobs.spec import parse_spec

LETTERS = {
    "p": TaskState.PENDING,
    "r": TaskState.RUNNING,
    "s": TaskState.SUCCEEDED,
    "f": TaskState.FAILED,
    "x": TaskState.STOPPED,
}


def decide(completion: dict[str, object] | None = None, framework: str = "none", **roles: str) -> bool | None:
    """The decision about tasks written as letters: `worker="ssf"`."""
    states = {name: [LETTERS[letter] for letter in tasks] for name, tasks in roles.items()}
    document = {name: {"command": "x", "replicas": len(tasks)} for name, tasks in states.items()}
    spec = parse_spec({"roles": document, "framework": framework, "completion": completion or {}})
    return decide_completion(spec, states).succeeded


# The kinds of jobs that FrameworkController documents, with its answers (user manual, FrameworkAttemptCompletionPolicy).
TABLE = [
    # Default: any failed task fails it at once; success once all have succeeded.
    (None, {"a": "rr", "b": "r"}, None),
    (None, {"a": "rf", "b": "r"}, False),
    (None, {"a": "ss", "b": "r"}, None),
    (None, {"a": "ss", "b": "s"}, True),
    # Map-reduce: some losses are fine, but all are waited for.
    ({"roles": {"map": {"min_failed": 2}, "reduce": {"min_failed": 1}}}, {"map": "fssr", "reduce": "r"}, None),
    ({"roles": {"map": {"min_failed": 2}, "reduce": {"min_failed": 1}}}, {"map": "ffsr", "reduce": "r"}, False),
    ({"roles": {"map": {"min_failed": 2}, "reduce": {"min_failed": 1}}}, {"map": "fsss", "reduce": "s"}, True),
    # Parameter servers: the workers' success is enough.
    ({"roles": {"worker": {"min_succeeded": 2}}}, {"ps": "rr", "worker": "sr"}, None),
    ({"roles": {"worker": {"min_succeeded": 2}}}, {"ps": "rr", "worker": "ss"}, True),
    ({"roles": {"worker": {"min_succeeded": 2}}}, {"ps": "fr", "worker": "sr"}, False),
    # An arbiter decides alone.
    ({"chief": "arbiter"}, {"arbiter": "r", "a": "ff", "b": "s"}, None),
    ({"chief": "arbiter"}, {"arbiter": "s", "a": "rf", "b": "r"}, True),
    ({"chief": "arbiter"}, {"arbiter": "f", "a": "ss", "b": "r"}, False),
    # The first to end decides.
    ({"roles": {"a": {"min_succeeded": 1}}}, {"a": "rrr"}, None),
    ({"roles": {"a": {"min_succeeded": 1}}}, {"a": "rsr"}, True),
    ({"roles": {"a": {"min_succeeded": 1}}}, {"a": "rfr"}, False),
]


@pytest.mark.capability("47", "Jobs of the kinds that FrameworkController publishes end as it publishes")
@pytest.mark.parametrize(("completion", "roles", "succeeded"), TABLE)
def test_the_published_kinds_of_jobs_end_as_published(completion, roles, succeeded):
    assert decide(completion, **roles) is succeeded


def test_failure_is_looked_at_before_success():
    assert decide({"roles": {"a": {"min_succeeded": 1}}}, a="sf") is False


def test_all_chiefs_must_succeed():
    assert decide({"chief": "head"}, head="sr", worker="r") is None
    assert decide({"chief": "head"}, head="ss", worker="r") is True


def test_another_role_may_still_fail_a_job_with_a_chief():
    completion = {"chief": "head", "roles": {"worker": {"min_failed": 2}}}
    assert decide(completion, head="r", worker="fr") is None
    assert decide(completion, head="r", worker="ff") is False


def test_never_switches_a_threshold_off():
    assert decide({"roles": {"a": {"min_failed": "never"}}}, a="fr") is None
    assert decide({"roles": {"a": {"min_failed": "never"}}}, a="fs") is True
    assert decide({"roles": {"a": {"min_failed": "never"}}}, a="ff") is False


def test_stopped_tasks_have_ended_without_counting():
    assert decide(a="sx") is True
    assert decide(a="xx") is False
    assert decide({"chief": "head"}, head="x", a="s") is False


@pytest.mark.capability("75", "The launcher's end decides")
def test_the_launcher_of_mpi_decides_unless_there_is_none():
    assert decide(framework="mpi", launcher="r", worker="sss") is None
    assert decide(framework="mpi", launcher="s", worker="rrr") is True
    assert decide(framework="mpi", worker="sr") is None
    assert decide(framework="mpi", worker="fr") is False


def test_the_jobs_own_chief_comes_before_the_frameworks():
    spec = parse_spec(
        {
            "framework": "mpi",
            "completion": {"chief": "worker"},
            "roles": {"launcher": {"command": "mpirun x"}, "worker": {"command": "x"}},
        }
    )
    assert chief_of(spec, spec.roles) == "worker"


def test_the_decision_names_the_role_and_why():
    spec = parse_spec({"roles": {"a": {"command": "x"}, "b": {"command": "x"}}})
    decision = decide_completion(spec, {"a": [TaskState.RUNNING], "b": [TaskState.FAILED]})
    assert (decision.is_decided, decision.because, decision.role) == (True, "task_failed", "b")
    assert decide_completion(spec, {"a": [TaskState.RUNNING], "b": [TaskState.PENDING]}) == CONTINUE


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ({}, JobState.QUEUED),
        ({"queued": 3}, JobState.QUEUED),
        ({"queued": 2, "admitted": 1}, JobState.RUNNING),
        ({"queued": 2, "succeeded": 1}, JobState.RUNNING),
        ({"running": 1, "failed": 2}, JobState.RUNNING),
        ({"stopping": 1, "stopped": 2}, JobState.RUNNING),
        ({"succeeded": 3}, JobState.SUCCEEDED),
        ({"succeeded": 2, "stopped": 1}, JobState.STOPPED),
        ({"succeeded": 2, "stopped": 1, "failed": 1}, JobState.FAILED),
    ],
)
def test_an_array_is_what_its_children_are(counts, state):
    assert derive_array_state(counts) == state
