"""What the end of a task means by the policies of its role: a table of event and action, read before the completion policy.

| event | a task of the role | Volcano |
|---|---|---|
| `failed` | its command failed, each further try of `max_retry` included; `exit_code` narrows it | PodFailed, exit codes |
| `evicted` | it was evicted from its node | PodEvicted |
| `lost` | its node is gone, or nothing is known of its end | Unknown |
| `succeeded` | ended well | |
| `role_succeeded` | was the last of its role to end well | TaskCompleted |
| `any` | each of the above but the last two | `*` |

| action | what follows | Volcano |
|---|---|---|
| `ignore` | the end counts for nothing; the other tasks go on | SyncJob |
| `restart_task` | its command is started again alone, in its place: `max_retry` of the role, else 3 times | RestartPod |
| `restart_job` | all tasks are stopped and the job has another attempt: `retry.limit`, else 3 | RestartJob |
| `abort` | all tasks are stopped and the job has failed, whatever `retry` says | AbortJob, TerminateJob |
| `complete` | all tasks are stopped and the job has succeeded | CompleteJob |

The first policy of a role that fits an end decides it. Of several ends the gravest action counts: abort, restart_job, complete. A
task whose node is gone cannot be started again in its place, so that `restart_task` is for `failed` alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from jobs.lifecycle.states import TaskState

RESTARTS = 3  # Where neither `max_retry` nor `retry.limit` says it: Volcano's default of maxRetry.


class PolicyEvent(StrEnum):
    FAILED = "failed"
    EVICTED = "evicted"
    LOST = "lost"
    SUCCEEDED = "succeeded"
    ROLE_SUCCEEDED = "role_succeeded"
    ANY = "any"


class PolicyAction(StrEnum):
    IGNORE = "ignore"
    RESTART_TASK = "restart_task"
    RESTART_JOB = "restart_job"
    ABORT = "abort"
    COMPLETE = "complete"


class EndPolicy(Protocol):
    """`jobs.spec.model.RolePolicy` fits."""

    @property
    def on(self) -> Sequence[PolicyEvent]: ...

    @property
    def action(self) -> PolicyAction: ...

    @property
    def exit_code(self) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """A task as the policies see it. `event` None: it has not ended, or was stopped."""

    state: TaskState
    event: PolicyEvent | None = None
    code: int | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the policies make of all tasks: an action and the role that it comes from, and the states that are left to count."""

    action: PolicyAction | None
    role: str
    states: Mapping[str, Sequence[TaskState]]


_BY_GRAVITY = (PolicyAction.ABORT, PolicyAction.RESTART_JOB, PolicyAction.COMPLETE)


def judge(policies: Mapping[str, Sequence[EndPolicy]], tasks: Mapping[str, Sequence[TaskEnd]]) -> Judgement:
    """Apply the policies of each role to the ends of its tasks."""
    called: dict[PolicyAction, str] = {}
    states: dict[str, Sequence[TaskState]] = {}
    for role, ends in tasks.items():
        actions = [_action(policies.get(role, ()), end) for end in ends]
        states[role] = [
            TaskState.STOPPED if action is PolicyAction.IGNORE and end.state is TaskState.FAILED else end.state
            for action, end in zip(actions, ends, strict=True)
        ]
        if ends and all(end.state is TaskState.SUCCEEDED for end in ends):
            actions.append(_action(policies.get(role, ()), TaskEnd(TaskState.SUCCEEDED, PolicyEvent.ROLE_SUCCEEDED)))
        for action in actions:
            if action is not None:
                called.setdefault(action, role)
    gravest = next((action for action in _BY_GRAVITY if action in called), None)
    return Judgement(gravest, called[gravest] if gravest is not None else "", states)


def _action(policies: Sequence[EndPolicy], end: TaskEnd) -> PolicyAction | None:
    """What the first policy says that fits; a try alone that has had all its tries is a failure like any other."""
    if end.event is None:
        return None
    for policy in policies:
        wide = PolicyEvent.ANY in policy.on and end.event in (PolicyEvent.FAILED, PolicyEvent.EVICTED, PolicyEvent.LOST)
        if (wide or end.event in policy.on) and (not policy.exit_code or end.code in policy.exit_code):
            return None if policy.action is PolicyAction.RESTART_TASK else policy.action
    return None


def own_tries(policies: Sequence[EndPolicy], max_retry: int | None) -> tuple[int | None, tuple[int, ...]]:
    """How often a failed command is started again in its place, and after which exit codes alone (none: after all)."""
    for policy in policies:
        if policy.action is PolicyAction.RESTART_TASK:
            return (RESTARTS if max_retry is None else max_retry), tuple(policy.exit_code)
    return max_retry, ()
