"""When the time that a job may run is nearly over: a condition that all its readers see, and one notice to its owner.

It is told once an attempt, when a tenth of the time is left and at most an hour, so that its owner can still save what matters,
or ask for more time.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from activity.notifications.notices import new_notice
from activity.services import NewEvent
from jobs.lifecycle.states import AttemptState
from jobs.models import Attempt
from jobs.notices import LIMIT
from jobs.reconcile.watched import Watched
from kernel.words import format_moment

NEARLY_OVER = "time_nearly_over"
PART = 10  # Told when so great a part is left,
LEFT_MAX = timedelta(hours=1)  # and never earlier.


def is_nearly_over(attempt: Attempt, now: datetime) -> bool:
    """Whether a running attempt has little of its time left."""
    begins = _begins(attempt)
    return begins is not None and begins <= now


def notices(watched: Sequence[Watched], now: datetime) -> list[NewEvent]:
    """Words to the owners of those whose condition becomes `time_nearly_over` now. Children of arrays are not told one by one."""
    return [_notice(item, now) for item in watched if item.job.parent_id is None and not _was_told(item.attempt)]


def _begins(attempt: Attempt) -> datetime | None:
    if attempt.state != AttemptState.RUNNING or attempt.started_at is None or attempt.deadline_at is None:
        return None
    return attempt.deadline_at - min((attempt.deadline_at - attempt.started_at) / PART, LEFT_MAX)


def _was_told(attempt: Attempt) -> bool:
    """Contact that was lost later hid the condition; it was told before."""
    begins, since = _begins(attempt), attempt.condition_since_at
    return bool(attempt.condition) and begins is not None and since is not None and since > begins


def _notice(item: Watched, now: datetime) -> NewEvent:
    attempt, job = item.attempt, item.job
    assert attempt.deadline_at is not None
    minutes = max(1, round((attempt.deadline_at - now).total_seconds() / 60))
    left = "a minute" if minutes == 1 else f"{minutes} minutes"
    return new_notice(
        LIMIT,
        tenant_id=attempt.tenant_id,
        subject_kind="attempt",
        subject_id=attempt.id,
        title=f"Job {job.name} is stopped in {left}",
        text=f"It may run until {format_moment(attempt.deadline_at)}; then it gets its checkpoint signal and its grace.",
        command=f"berth get {job.id}",
        users=[job.user_id],
        job_id=job.id,
        at=now,
    )
