"""From the ends of tasks to what becomes of the attempt and its job: classification, completion, retry, put together."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from clusters.engines.interface import ExitReason, StopCause, TaskExit, TaskName
from clusters.engines.lost import LOST
from clusters.selectors import lost_clusters
from clusters.services.quarantine import current_holds
from jobs.lifecycle.completion import Decision
from jobs.lifecycle.exit_classes import Reaction, Stage
from jobs.lifecycle.exits import EndedTask, ExitVerdict, classify
from jobs.lifecycle.policies import RESTARTS, PolicyAction
from jobs.lifecycle.retry import PastAttempt, RetryDecision, RetrySettings, decide_retry
from jobs.lifecycle.states import AttemptState, JobState, Outcome
from jobs.loading.specs import load_spec
from jobs.models import Attempt, Job
from jobs.reconcile import poisoned_jobs
from jobs.reconcile.stored_exits import exit_value
from jobs.reconcile.watched import Watched
from jobs.services.ending import Ending
from jobs.spec.model import FAILURES, Retry
from kernel.clock import utc_text
from kernel.config import current
from kernel.wait_codes import WaitCode

TOLD_WITH_MOMENT_SECONDS = 60.0  # Of a shorter wait the end is not worth a time of day.
START_TIMEOUT = "start_timeout"  # In an attempt's stop verdict, with the last answer of the engine; and the class of its end.


def retry_settings() -> RetrySettings:
    config = current()
    return RetrySettings(
        platform_max=config.retry_platform_max,
        unknown_max=config.retry_unknown_max,
        backoff_seconds=config.retry_backoff_seconds,
        backoff_seconds_max=config.retry_backoff_seconds_max,
    )


def conclude(
    items: Sequence[Watched], decisions: Mapping[uuid.UUID, Decision], log_tails: Mapping[uuid.UUID, str], *, now: datetime
) -> list[Ending]:
    """What becomes of attempts whose tasks have all ended. One query for the history of all their jobs.

    One that vanished while a newer attempt of its job is in quarantine had ended before that one began: its job waits for it.
    One that vanished with its cluster ends so, unless it was being stopped.
    """
    past = _history([item.job.id for item in items])
    vanished = [item.attempt for item in items if item.seen is None]
    newer = current_holds().jobs if vanished else {}
    lost = lost_clusters({attempt.cluster_id for attempt in vanished}) if vanished else set()
    return [
        _superseded(item.attempt, item.job, now)
        if item.seen is None and item.job.id in newer and item.job.desired == "run"
        else _ending(
            item.attempt,
            item.job,
            _verdict(
                item,
                decisions.get(item.attempt.id),
                log_tails.get(item.attempt.id, ""),
                is_lost=item.seen is None and item.attempt.cluster_id in lost,
            ),
            past[item.job.id],
            now,
            action=_action_of(item, decisions.get(item.attempt.id)),
        )
        for item in items
    ]


def _action_of(item: Watched, decision: Decision | None) -> PolicyAction | None:
    """What a policy of the job asked for: as it did when it stopped the attempt, else as it does now that all is over."""
    stored = (item.attempt.stop_verdict or {}).get("action")
    if stored is not None:
        return PolicyAction(stored)
    return decision.action if decision is not None and item.attempt.stop_cause == "" else None


def give_up(attempts: Sequence[tuple[Attempt, str, str]], *, now: datetime) -> list[Ending]:
    """What becomes of attempts (with code and detail) that the engine will never start."""
    past = _history([attempt.job_id for attempt, _, _ in attempts])
    return [
        _ending(attempt, attempt.job, classify(engine_code=code, engine_detail=detail), past[attempt.job_id], now)
        for attempt, code, detail in attempts
    ]


def superseded(attempts: Sequence[Attempt], *, now: datetime) -> list[Ending]:
    """What becomes of attempts, with their jobs, that a newer one in quarantine shows to have ended."""
    return [_superseded(attempt, attempt.job, now) for attempt in attempts]


def _superseded(attempt: Attempt, job: Job, now: datetime) -> Ending:
    verdict = classify(engine_code="attempt_forgotten", engine_detail="It ended after the backup that was restored.")
    return Ending(
        attempt_id=attempt.id,
        attempt_state=attempt.state,
        job_state=job.state,
        job_target=JobState.QUEUED,
        outcome=verdict.outcome,
        exit=verdict.as_dict(),
        reason=WaitCode.RETRYING,
        detail={"class": verdict.code, "attempt": attempt.number, "seconds": 0},
    )


def _history(job_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, list[PastAttempt]]:
    past: dict[uuid.UUID, list[PastAttempt]] = defaultdict(list)
    rows = Attempt.objects.filter(job_id__in=job_ids, state=AttemptState.ENDED, number__gte=1).order_by("number")
    for job_id, document, ended_at in rows.values_list("job_id", "exit", "ended_at"):
        if ended_at is not None:
            past[job_id].append(PastAttempt((document or {}).get("failure_class", ""), ended_at))
    return past


def _verdict(item: Watched, decision: Decision | None, log_tail: str, *, is_lost: bool = False) -> ExitVerdict:
    """Name the end. What the completion policy decided before it stopped the rest stands, whatever the rest did then.

    Of an attempt that was set aside the policy cannot be read: it succeeded only if all of its tasks did.
    """
    ended = [
        EndedTask(TaskName(task.role, task.index), exit_value(task.exit) or TaskExit(None), log_tail)
        for task in sorted(item.tasks.values(), key=lambda task: (task.ended_at is None, task.ended_at, task.role, task.index))
    ]
    if decision is None:
        if ended and all(task.exit.code == 0 and task.exit.reason is ExitReason.NONE for task in ended):
            return classify(ended)
        return classify(engine_code="platform_defect", engine_detail=poisoned_jobs.error_of(item.attempt))
    earlier = item.attempt.stop_verdict or {}
    succeeded = earlier.get("succeeded", decision.succeeded)
    cause = StopCause(item.attempt.stop_cause) if item.attempt.stop_cause else None
    if START_TIMEOUT in earlier and cause is StopCause.PLATFORM and item.job.desired == "run":
        return classify(engine_code=START_TIMEOUT, engine_detail=earlier[START_TIMEOUT])
    if succeeded and cause in (None, StopCause.COMPLETION):
        return classify([EndedTask(ended[0].name, TaskExit(0))])
    if succeeded and all(task.exit.code == 0 and task.exit.reason is not ExitReason.STOPPED for task in ended):
        return classify(ended)  # It had done its work before the stop reached it. Leaving politely after it is not that.
    if is_lost and cause is None:
        return classify(engine_code="cluster_lost", engine_detail=LOST)
    return classify(ended, stop_cause=cause)


def _ending(
    attempt: Attempt,
    job: Job,
    verdict: ExitVerdict,
    past: Sequence[PastAttempt],
    now: datetime,
    *,
    action: PolicyAction | None = None,
) -> Ending:
    target, again = _target(attempt, job, verdict, past, now, action)
    reason = verdict.code
    detail: dict[str, object] = {"class": verdict.code, **_numbers(verdict)}
    if verdict.code == "stopped_by_user":
        detail |= {key: job.reason_detail[key] for key in ("by", "note") if key in job.reason_detail}
    if target == JobState.QUEUED:
        reason = WaitCode.RETRYING
        detail = {"class": verdict.code, "attempt": attempt.number, "seconds": round(again.after_seconds)}
        detail |= {name: again.detail[name] for name in ("failures", "within") if name in again.detail}
        if again.after_seconds >= TOLD_WITH_MOMENT_SECONDS:
            detail["at"] = utc_text(now + timedelta(seconds=again.after_seconds))
        if job.reason_code == "draining":
            detail["emptied"] = job.reason_detail.get("node")
    return Ending(
        attempt_id=attempt.id,
        attempt_state=attempt.state,
        job_state=job.state,
        job_target=target,
        outcome=verdict.outcome,
        exit=verdict.as_dict(),
        reason=reason,
        detail=detail,
        retry_after_seconds=again.after_seconds,
        paid_by=again.paid_by,
    )


def _numbers(verdict: ExitVerdict) -> dict[str, object]:
    """What the program left and whose it was, where it failed by itself; the numbers of a stop tell nothing."""
    if verdict.outcome != Outcome.FAILED or verdict.exit_class.stage is Stage.STOP:
        return {}
    numbers = {"code": verdict.exit_code, "signal": verdict.signal, "task": str(verdict.task) if verdict.task else None}
    return {name: value for name, value in numbers.items() if value}


def _target(
    attempt: Attempt, job: Job, verdict: ExitVerdict, past: Sequence[PastAttempt], now: datetime, action: PolicyAction | None
) -> tuple[JobState, RetryDecision]:
    """Where the job goes, and what is decided about a further attempt. A stop that was asked for wins over any retry, a policy
    of the job over its `retry`."""
    no_other = RetryDecision(False, verdict.code)
    if verdict.outcome == Outcome.SUCCEEDED:
        return JobState.SUCCEEDED, no_other
    if job.desired == "stop" or verdict.outcome == Outcome.STOPPED:
        return JobState.STOPPED, no_other
    if action is PolicyAction.ABORT:
        return JobState.FAILED, no_other
    if verdict.exit_class.reaction is Reaction.NEVER:  # Also where the spec, and with it the policy, cannot be read.
        return JobState.FAILED, no_other
    retry = load_spec(job.spec_id).retry
    if action is PolicyAction.RESTART_JOB:
        retry = Retry(limit=retry.limit if retry is not None else RESTARTS, on=FAILURES)
    decision = decide_retry(
        retry,
        [*past, PastAttempt(verdict.failure_class, now)],
        verdict,
        retry_settings(),
        attempt_id=attempt.id,
    )
    return (JobState.QUEUED if decision.retry else JobState.FAILED), decision
