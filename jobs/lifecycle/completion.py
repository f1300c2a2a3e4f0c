"""When is a job over, given how its tasks stand? A pure function of the policy and the tasks' states.

Per role two thresholds: `min_failed` failed tasks fail the job, `min_succeeded` succeeded tasks make it succeed; `never` switches
a threshold off. The defaults: one failed task fails the job, and it succeeds when every task has ended. With a **chief role**,
its end decides: one failed chief fails the job, all chiefs succeeded make it succeed, and the other roles decide nothing
unless they say so, or the framework's chief gets nowhere without them (TensorFlow's parameter servers).

| kind of job | rules |
|---|---|
| all workers count | the defaults |
| some losses are fine (map-reduce) | `min_failed: N + 1` for each role |
| one role is enough (workers, with parameter servers) | `min_succeeded` of that role = its replicas |
| an arbiter decides | `chief: <role>` |
| the first to end decides | `min_succeeded: 1` |

Failure is looked at before success: a job that reached both at once failed. A decision never turns: more ended tasks can only
make a decision from none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from jobs.frameworks import get_framework
from jobs.lifecycle.policies import EndPolicy, PolicyAction, TaskEnd, judge
from jobs.lifecycle.states import JobState, TaskState

Threshold = int | Literal["never"] | None


class RoleRule(Protocol):
    """The thresholds of one role; None takes the default."""

    @property
    def min_failed(self) -> Threshold: ...

    @property
    def min_succeeded(self) -> Threshold: ...


class CompletionRules(Protocol):
    @property
    def chief(self) -> str | None: ...

    @property
    def roles(self) -> Mapping[str, RoleRule]: ...


class HasPolicies(Protocol):
    @property
    def policies(self) -> Sequence[EndPolicy]: ...


class HasCompletion(Protocol):
    """What is read of a job: `JobSpec` fits, and so does anything simpler."""

    @property
    def framework(self) -> str: ...

    @property
    def completion(self) -> CompletionRules: ...

    @property
    def roles(self) -> Mapping[str, HasPolicies]: ...


@dataclass(frozen=True, slots=True)
class Decision:
    """`succeeded` None: not decided, the tasks go on. `because` is a reason code, `role` the role that decided, `action` what one
    of its policies asked for."""

    succeeded: bool | None
    because: str = ""
    role: str = ""
    action: PolicyAction | None = None

    @property
    def is_decided(self) -> bool:
        return self.succeeded is not None


CONTINUE = Decision(None)


def decide(spec: HasCompletion, tasks: Mapping[str, Sequence[TaskEnd]]) -> Decision:
    """Decide by the policies of the roles, then by their thresholds."""
    policies = {name: role.policies for name, role in spec.roles.items() if role.policies}
    if not policies:
        return decide_completion(spec, {name: [task.state for task in ends] for name, ends in tasks.items()})
    judgement = judge(policies, tasks)
    if judgement.action is not None:
        succeeded = judgement.action is PolicyAction.COMPLETE
        return Decision(succeeded, f"policy_{judgement.action}", judgement.role, judgement.action)
    return decide_completion(spec, judgement.states)


def decide_completion(spec: HasCompletion, states: Mapping[str, Sequence[TaskState]]) -> Decision:
    """Decide from the states of all tasks, by role. Tasks that were stopped count as ended, neither failed nor succeeded."""
    chief = chief_of(spec, states)
    vital = get_framework(spec.framework).completion(states).vital
    for name, tasks in states.items():
        least = _min_failed(spec, name, chief, vital)
        if least is not None and _count(tasks, TaskState.FAILED) >= least:
            return Decision(False, "task_failed", name)
    for name, tasks in states.items():
        least = _min_succeeded(spec, name, chief, len(tasks))
        if least is not None and _count(tasks, TaskState.SUCCEEDED) >= least:
            return Decision(True, "role_succeeded", name)
    return _when_all_ended(states, chief)


def chief_of(spec: HasCompletion, roles: Collection[str]) -> str | None:
    """The role whose end decides: the job's own choice, else what its framework is built around; None if it has none such."""
    chief = spec.completion.chief or get_framework(spec.framework).completion(roles).chief
    return chief if chief is not None and chief in roles else None


def _min_failed(spec: HasCompletion, role: str, chief: str | None, vital: Collection[str]) -> int | None:
    rule = spec.completion.roles.get(role)
    if rule is not None and rule.min_failed is not None:
        return None if rule.min_failed == "never" else rule.min_failed
    return 1 if chief is None or role == chief or role in vital else None


def _min_succeeded(spec: HasCompletion, role: str, chief: str | None, count: int) -> int | None:
    rule = spec.completion.roles.get(role)
    if rule is not None and rule.min_succeeded is not None:
        return None if rule.min_succeeded == "never" else rule.min_succeeded
    return count if role == chief else None


def _count(tasks: Sequence[TaskState], state: TaskState) -> int:
    return sum(1 for task in tasks if task == state)


_ENDED = frozenset({TaskState.SUCCEEDED, TaskState.FAILED, TaskState.STOPPED})


def _when_all_ended(states: Mapping[str, Sequence[TaskState]], chief: str | None) -> Decision:
    """No threshold was reached. When everything has ended, the chief, or else any success at all, decides."""
    everything = [task for tasks in states.values() for task in tasks]
    if any(task not in _ENDED for task in everything):
        return CONTINUE
    judges = states.get(chief, everything) if chief is not None else everything
    if any(task == TaskState.SUCCEEDED for task in judges):
        return Decision(True, "all_tasks_ended", chief or "")
    return Decision(False, "nothing_succeeded", chief or "")


# --- Arrays ----------------------------------------------------------------------------------------------------------


def derive_array_state(counts: Mapping[str, int]) -> JobState:
    """The state of an array's parent from the number of its children in each state.

    QUEUED until the first child leaves the queue, RUNNING until the last has ended. Then: FAILED if any failed, else STOPPED
    if any was stopped, else SUCCEEDED.
    """
    live = {state: counts.get(state, 0) for state in JobState}
    total = sum(live.values())
    if total == 0 or live[JobState.QUEUED] == total:
        return JobState.QUEUED
    ended = live[JobState.SUCCEEDED] + live[JobState.FAILED] + live[JobState.STOPPED]
    if ended < total:
        return JobState.RUNNING
    if live[JobState.FAILED]:
        return JobState.FAILED
    return JobState.STOPPED if live[JobState.STOPPED] else JobState.SUCCEEDED
