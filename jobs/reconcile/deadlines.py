"""When the time that a job may run is nearly over: a condition that all its readers see, one notice to its owner, and the signal.

The notice is told once an attempt, when a tenth of the time is left and at most an hour, so that its owner can still save what
matters, or ask for more time. The stop begins at the end of the time, or earlier by the job's `checkpoint.before_deadline`; its
program is killed at the same moment in both cases, when the time and the grace after it are over.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from activity.notifications.notices import new_notice
from activity.services import NewEvent
from jobs.lifecycle.states import AttemptState
from jobs.loading.specs import load_spec
from jobs.notices import LIMIT
from jobs.reconcile import poisoned_jobs
from jobs.reconcile.watched import Watched
from jobs.spec.model import Checkpoint
from kernel.words import format_moment

NEARLY_OVER = "time_nearly_over"
PART = 10  # Told when so great a part is left,
LEFT_MAX = timedelta(hours=1)  # and never earlier.


def is_nearly_over(item: Watched, now: datetime) -> bool:
    """Whether a running attempt has little of its time left before its stop begins."""
    begins = _begins(item)
    return begins is not None and begins <= now


def stops_at(item: Watched) -> datetime | None:
    """When the stop of an attempt begins that has a time limit: earlier than its end at most by half of the time that it has,
    whatever became of the limit since the job was checked."""
    attempt = item.attempt
    if attempt.deadline_at is None or attempt.started_at is None:
        return attempt.deadline_at
    warned = _warned(item)
    before = timedelta(seconds=warned.before_deadline_seconds or 0) if warned is not None else timedelta()
    return attempt.deadline_at - min(before, (attempt.deadline_at - attempt.started_at) / 2)


def stop_grace(item: Watched, now: datetime) -> float | None:
    """Seconds from now to the kill, for a job that asked for its signal before the end of its time; None for others."""
    warned, deadline_at = _warned(item), item.attempt.deadline_at
    if warned is None or deadline_at is None:
        return None
    return max(0.0, (deadline_at - now).total_seconds()) + warned.grace_seconds


def _warned(item: Watched) -> Checkpoint | None:
    """The checkpoint of a job that is told before the end; what was set aside is not read."""
    checkpoint = None if poisoned_jobs.is_marked(item.attempt) else load_spec(item.job.spec_id).checkpoint
    return checkpoint if checkpoint is not None and checkpoint.before_deadline_seconds is not None else None


def notices(watched: Sequence[Watched], now: datetime) -> list[NewEvent]:
    """Words to the owners of those whose condition becomes `time_nearly_over` now. Children of arrays are not told one by one."""
    return [_notice(item, now) for item in watched if item.job.parent_id is None and not _was_told(item)]


def _begins(item: Watched) -> datetime | None:
    started_at = item.attempt.started_at
    if item.attempt.state != AttemptState.RUNNING or started_at is None:
        return None
    stops = stops_at(item)
    return None if stops is None else stops - min((stops - started_at) / PART, LEFT_MAX)


def _was_told(item: Watched) -> bool:
    """Contact that was lost later hid the condition; it was told before."""
    begins, since = _begins(item), item.attempt.condition_since_at
    return bool(item.attempt.condition) and begins is not None and since is not None and since > begins


def _notice(item: Watched, now: datetime) -> NewEvent:
    attempt, job = item.attempt, item.job
    stops = stops_at(item)
    assert attempt.deadline_at is not None
    assert stops is not None
    minutes = max(1, round((stops - now).total_seconds() / 60))
    left = "a minute" if minutes == 1 else f"{minutes} minutes"
    return new_notice(
        LIMIT,
        tenant_id=attempt.tenant_id,
        subject_kind="attempt",
        subject_id=attempt.id,
        title=f"Job {job.name} is stopped in {left}",
        text=f"It may run until {format_moment(attempt.deadline_at)}; it gets its checkpoint signal "
        + ("then, and its grace." if stops == attempt.deadline_at else f"at {format_moment(stops)}."),
        command=f"berth get {job.id}",
        users=[job.user_id],
        job_id=job.id,
        at=now,
    )
