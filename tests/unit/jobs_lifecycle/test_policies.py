from __future__ import annotations

import pytest

from jobs.lifecycle.completion import decide
from jobs.lifecycle.policies import PolicyAction, PolicyEvent, TaskEnd, own_tries
from jobs.lifecycle.states import TaskState
from jobs.spec import parse_spec
from kernel.errors import InvalidInput

ENDS = {
    "r": TaskEnd(TaskState.RUNNING),
    "s": TaskEnd(TaskState.SUCCEEDED, PolicyEvent.SUCCEEDED, 0),
    "f": TaskEnd(TaskState.FAILED, PolicyEvent.FAILED, 1),
    "k": TaskEnd(TaskState.FAILED, PolicyEvent.FAILED, 137),
    "e": TaskEnd(TaskState.FAILED, PolicyEvent.EVICTED),
    "l": TaskEnd(TaskState.FAILED, PolicyEvent.LOST),
}
GOES_ON = (None, None)
FAILS = (False, None)


def decided(policies, *, others="r", **tasks):
    """Whether and how it is decided, and by which action, for role `a` with these policies beside a role `b`."""
    roles = {"a": {"command": "x", "replicas": len(tasks["a"]), "policies": policies}, "b": {"command": "x"}}
    decision = decide(parse_spec({"roles": roles}), {"a": [ENDS[letter] for letter in tasks["a"]], "b": [ENDS[others]]})
    return decision.succeeded, decision.action


# Each event of a task with each action, and what an end that the policy does not name leads to.
MATRIX = [
    (event, action, letter)
    for event, letter in (("failed", "f"), ("evicted", "e"), ("lost", "l"))
    for action in ("ignore", "restart_job", "abort", "complete")
]


@pytest.mark.capability("17", "Each event with each action: task failed, evicted, lost x ignore, restart, abort, complete")
@pytest.mark.parametrize(("event", "action", "letter"), MATRIX)
def test_each_event_leads_to_each_action(event, action, letter):
    expected = {
        "ignore": GOES_ON,
        "restart_job": (False, PolicyAction.RESTART_JOB),
        "abort": (False, PolicyAction.ABORT),
        "complete": (True, PolicyAction.COMPLETE),
    }[action]
    assert decided([{"on": event, "do": action}], a=f"r{letter}") == expected
    assert decided([{"on": "any", "do": action}], a=f"r{letter}") == expected
    others = {"f": "evicted", "e": "lost", "l": "failed"}[letter]
    assert decided([{"on": others, "do": action}], a=f"r{letter}") == FAILS


# Volcano's policies of a task (batch/v1alpha1, LifecyclePolicy) and what its controller does with them.
VOLCANO = [
    ("TaskCompleted: CompleteJob", [{"on": "role_succeeded", "do": "complete"}], "sr", GOES_ON),
    ("TaskCompleted: CompleteJob", [{"on": "role_succeeded", "do": "complete"}], "ss", (True, PolicyAction.COMPLETE)),
    ("PodEvicted: RestartJob", [{"on": "evicted", "do": "restart_job"}], "re", (False, PolicyAction.RESTART_JOB)),
    ("PodEvicted: RestartJob", [{"on": "evicted", "do": "restart_job"}], "rf", FAILS),
    ("PodFailed: AbortJob", [{"on": "failed", "do": "abort"}], "rf", (False, PolicyAction.ABORT)),
    ("PodFailed: TerminateJob", [{"on": "failed", "do": "abort"}], "rk", (False, PolicyAction.ABORT)),
    ("Unknown: RestartJob", [{"on": "lost", "do": "restart_job"}], "rl", (False, PolicyAction.RESTART_JOB)),
    ("*: RestartJob", [{"on": "any", "do": "restart_job"}], "re", (False, PolicyAction.RESTART_JOB)),
    (
        "exitCode 137: RestartJob",
        [{"on": "failed", "exit_code": 137, "do": "restart_job"}],
        "rk",
        (False, PolicyAction.RESTART_JOB),
    ),
    ("exitCode 137: RestartJob", [{"on": "failed", "exit_code": 137, "do": "restart_job"}], "rf", FAILS),
    ("PodFailed: SyncJob", [{"on": "failed", "do": "ignore"}], "sf", GOES_ON),
]


@pytest.mark.capability("17", "Volcano's policies of a task lead to what its controller does")
@pytest.mark.parametrize(("name", "policies", "tasks", "expected"), VOLCANO)
def test_volcanos_policies_mean_the_same_here(name, policies, tasks, expected):
    assert decided(policies, a=tasks) == expected


def test_the_first_policy_that_fits_decides_and_the_gravest_of_several():
    policies = [{"on": "failed", "exit_code": [137], "do": "ignore"}, {"on": "any", "do": "abort"}]
    assert decided(policies, a="rk") == GOES_ON
    assert decided(policies, a="rf") == (False, PolicyAction.ABORT)
    several = [{"on": "failed", "do": "restart_job"}, {"on": "lost", "do": "abort"}]
    assert decided(several, a="fl") == (False, PolicyAction.ABORT)


def test_an_ignored_failure_is_neither_failed_nor_succeeded():
    assert decided([{"on": "failed", "do": "ignore"}], a="sf", others="s") == (True, None)
    assert decided([{"on": "any", "do": "ignore"}], a="ef", others="f") == FAILS


def test_a_task_is_started_again_in_its_place_as_often_as_the_role_says():
    [policy] = (
        parse_spec({"command": "x", "policies": [{"on": "failed", "exit_code": 3, "do": "restart_task"}]})
        .roles["worker"]
        .policies
    )
    assert own_tries([policy], None) == (3, (3,))
    assert own_tries([policy], 7) == (7, (3,))
    assert own_tries([], 2) == (2, ())
    assert decided([{"on": "failed", "do": "restart_task"}], a="f") == FAILS  # All its tries are over.


@pytest.mark.parametrize(
    ("policy", "code", "place"),
    [
        ({"on": "succeeded", "do": "restart_job"}, "policy_endless", "/policies/0/do"),
        ({"on": ["role_succeeded", "failed"], "do": "abort"}, "policy_endless", "/policies/0/do"),
        ({"on": "evicted", "do": "restart_task"}, "policy_place", "/policies/0/on"),
        ({"on": "lost", "do": "abort", "exit_code": 3}, "policy_code", "/policies/0/exit_code"),
        ({"on": "failed", "do": "explode"}, "choice", "/policies/0/do"),
        ({"on": "failed"}, "missing", "/policies/0/do"),
        ({"on": "failed", "do": "abort", "exit_code": 300}, "range", "/policies/0/exit_code"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(policy, code, place):
    with pytest.raises(InvalidInput) as refused:
        parse_spec({"command": "x", "policies": [policy]})
    assert [(field.code, field.path) for field in refused.value.fields] == [(code, place)]
