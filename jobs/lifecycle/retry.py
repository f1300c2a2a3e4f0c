"""Is there another attempt after this one, when, and out of whose budget? A pure function of what happened so far.

Every class of failure has a budget of its own. A job's `retry.limit` caps the attempts caused by the classes in its `retry.on`;
for classes that it does not name, the operator's budgets count: platform, unknown, hang. Preemption is no failure and counts
nowhere, but a job that is preempted more often than `preemptions_per_hour` waits before it tries again. Whatever the budgets,
`bounds.ATTEMPTS_PER_JOB` attempts are all that any job gets; pushed-aside attempts do not count against that.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from jobs import bounds
from jobs.lifecycle.exit_classes import FailureClass, Payer, Reaction
from jobs.lifecycle.exits import ExitVerdict
from kernel.wait_codes import WaitCode


class RetryPolicy(Protocol):
    """What a job says about retries; `jobs.spec.model.Retry` fits."""

    @property
    def limit(self) -> int: ...

    @property
    def on(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """The operator's budgets and the waits. Counts are further attempts, times are seconds."""

    platform_max: int = 5
    unknown_max: int = 3
    hang_max: int = 2
    backoff_seconds: float = 5.0
    backoff_seconds_max: float = 600.0
    preemptions_per_hour: int = 10
    crash_loop_failures: int = 3  # This many failures of our own making ...
    crash_loop_seconds: float = 300.0  # ... within this time are a loop, and the next attempt waits its longest.


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """One attempt that ended, the present one included."""

    failure_class: str
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """`reason` is a code of `reasons.py`; `paid_by` names the budget that the further attempt costs, "" for none."""

    retry: bool
    reason: str
    after_seconds: float = 0.0
    paid_by: str = ""
    detail: Mapping[str, object] = field(default_factory=dict)


def decide_retry(
    policy: RetryPolicy | None,
    history: Sequence[PastAttempt],
    verdict: ExitVerdict,
    settings: RetrySettings,
    *,
    attempt_id: uuid.UUID,
) -> RetryDecision:
    """Decide what follows the attempt that ended last; `history` holds all ended attempts in order, this one as its last.

    The same arguments give the same answer: the spread of the waits comes from the attempt's id.
    """
    failure_class = verdict.failure_class
    if failure_class in {FailureClass.SUCCESS, FailureClass.STOPPED} or verdict.exit_class.reaction is Reaction.NEVER:
        return RetryDecision(False, verdict.code)
    if failure_class is FailureClass.PREEMPTED:
        return _after_preemption(history, settings, attempt_id)
    counted = [past for past in history if past.failure_class != FailureClass.PREEMPTED]
    if len(counted) >= bounds.ATTEMPTS_PER_JOB:
        return RetryDecision(False, "attempts_exhausted", detail={"attempts": len(counted), "limit": bounds.ATTEMPTS_PER_JOB})
    asked = policy is not None and failure_class in policy.on
    if failure_class is FailureClass.DEADLINE and not asked:
        return RetryDecision(False, verdict.code)
    budget = policy.limit if policy is not None and asked else _operator_budget(verdict, settings)
    if budget is None:
        return RetryDecision(False, "retry_not_asked", detail={"class": str(failure_class)})
    classes = frozenset(policy.on) if policy is not None and asked else frozenset({str(failure_class)})
    spent = sum(1 for past in counted if past.failure_class in classes) - 1
    if spent >= budget:
        return RetryDecision(False, "retries_exhausted", detail={"class": str(failure_class), "spent": spent, "limit": budget})
    return RetryDecision(
        True,
        WaitCode.RETRYING,
        after_seconds=_wait(counted, verdict, settings, attempt_id),
        paid_by=str(failure_class),
        detail={
            "class": str(failure_class),
            "retry": spent + 1,
            "limit": budget,
            "cause": verdict.code,
            **_loop(counted, verdict, settings),
        },
    )


def _operator_budget(verdict: ExitVerdict, settings: RetrySettings) -> int | None:
    """The budget of a class that the job does not name; None where it is for the job to ask."""
    if verdict.exit_class.reaction is Reaction.IF_ASKED:
        return None
    return {
        FailureClass.PLATFORM: settings.platform_max,
        FailureClass.UNKNOWN: settings.unknown_max,
        FailureClass.HANG: settings.hang_max,
    }.get(verdict.failure_class)


def _after_preemption(history: Sequence[PastAttempt], settings: RetrySettings, attempt_id: uuid.UUID) -> RetryDecision:
    """Back to the queue, at once unless it happens too often: a job pushed around every few minutes gets nothing done."""
    now = history[-1].ended_at
    recent = [
        past for past in history if past.failure_class == FailureClass.PREEMPTED and now - past.ended_at < timedelta(hours=1)
    ]
    if len(recent) < settings.preemptions_per_hour:
        return RetryDecision(True, "preempted", detail={"preemptions": len(recent)})
    wait = settings.backoff_seconds_max * _spread(attempt_id)
    return RetryDecision(True, WaitCode.PREEMPTED_OFTEN, after_seconds=wait, detail={"preemptions": len(recent)})


def _wait(counted: Sequence[PastAttempt], verdict: ExitVerdict, settings: RetrySettings, attempt_id: uuid.UUID) -> float:
    """Doubles with each failure of the same class; at its longest in a crash loop; none where waiting does not help.

    An attempt that had all its time did not fail: the next waits for room alone.
    """
    if verdict.failure_class is FailureClass.DEADLINE:
        return 0.0
    counted = [past for past in counted if past.failure_class != FailureClass.DEADLINE]
    if _is_crash_loop(counted, settings):
        return settings.backoff_seconds_max * _spread(attempt_id)
    if verdict.exit_class.reaction is Reaction.AT_ONCE:
        return 0.0
    same = sum(1 for past in counted if past.failure_class == verdict.failure_class)
    doubled = settings.backoff_seconds * 2.0 ** min(max(same - 1, 0), 30)
    return min(doubled, settings.backoff_seconds_max) * _spread(attempt_id)


def _loop(counted: Sequence[PastAttempt], verdict: ExitVerdict, settings: RetrySettings) -> dict[str, object]:
    """What makes the wait the longest one: so many failures within so many seconds. Empty where it is no loop."""
    failures = [past for past in counted if past.failure_class != FailureClass.DEADLINE]
    if verdict.failure_class is FailureClass.DEADLINE or not _is_crash_loop(failures, settings):
        return {}
    return {"failures": settings.crash_loop_failures, "within": round(settings.crash_loop_seconds)}


def _is_crash_loop(counted: Sequence[PastAttempt], settings: RetrySettings) -> bool:
    number = settings.crash_loop_failures
    if number <= 0 or len(counted) < number:
        return False
    return (counted[-1].ended_at - counted[-number].ended_at).total_seconds() < settings.crash_loop_seconds


def _spread(attempt_id: uuid.UUID) -> float:
    """A factor between 0.8 and 1, fixed by the attempt: jobs that failed together do not come back together."""
    draw = int.from_bytes(hashlib.sha256(attempt_id.bytes).digest()[:4], "big")
    return 0.8 + 0.2 * draw / 2**32


def payer_of(decision: RetryDecision, verdict: ExitVerdict) -> Payer:
    """The payer of the attempt that just ended; a preempted attempt has none."""
    return Payer.NOBODY if decision.reason.startswith("preempted") else verdict.exit_class.payer
