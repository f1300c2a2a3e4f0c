"""When waiting jobs are expected to start, as every page, list and command tells it. Reads only.

There is one figure at a time: what the sweep looked ahead last. Once the time has passed by which a job was first expected nine
times in ten, it is overdue: that is said, and no later time is told as if it were as good.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import F, Q

from jobs.models import Job, StartPrediction
from kernel.clock import utc_text
from kernel.wait_codes import present_code

OVERDUE = "overdue"
"""Why no start is expected: it was expected by a time that has passed."""
NOT_YET = "not_yet"
"""Why no start is expected: it was not looked ahead since the job waits, first or again."""
WAITED = timedelta(seconds=30)  # A job that starts sooner is not looked ahead.
KNOWN_AFTER = WAITED + timedelta(seconds=60)  # The sweep looks within a minute, while few jobs wait or run.


class ExpectedStart(NamedTuple):
    """By when, as likely as not and nine times in ten. Both None: `reason` says why; `was_by` is the time that has passed. The
    p50 alone None: it has passed, or `reason` says that it cannot be told. `error_permille`: how far off such p50 were of late,
    the middle one, in thousandths of the wait; None: too few to say."""

    p50_at: datetime | None
    p90_at: datetime | None
    said_at: datetime
    reason: str = ""
    was_by: datetime | None = None
    error_permille: int | None = None
    known_by: datetime | None = None  # Of NOT_YET.

    def as_json(self) -> dict[str, Any]:
        return {
            "p50_at": utc_text(self.p50_at),
            "p90_at": utc_text(self.p90_at),
            "said_at": utc_text(self.said_at),
            "reason": self.reason,
            "was_by": utc_text(self.was_by),
            "known_by": utc_text(self.known_by),
            "error": None if self.error_permille is None else self.error_permille / 1000,
        }


def expected_starts_of(jobs: Sequence[Job], now: datetime) -> dict[uuid.UUID, ExpectedStart]:
    """By job that waits. Of one that has only just begun to wait, first or again, by when it will be known; one that is withheld
    by itself, or was not looked ahead by then, is missing. One query."""
    rows = StartPrediction.objects.filter(job_id__in=[job.id for job in jobs])
    rows = rows.filter(Q(started_at__isnull=True) | Q(looked_at__gte=F("job__queued_at")))
    found = {row.job_id: _told(row, now) for row in rows}
    for job in jobs:
        known_by = job.queued_at + KNOWN_AFTER
        if job.id not in found and known_by > now and _is_looked_ahead(job):
            found[job.id] = ExpectedStart(None, None, now, NOT_YET, known_by=known_by)
    return found


def _is_looked_ahead(job: Job) -> bool:
    is_waiting = job.state == "queued" and job.desired == "run" and job.array_size is None
    return is_waiting and not job.hold and not job.open_dependencies


def _told(row: StartPrediction, now: datetime) -> ExpectedStart:
    is_new = row.looked_at is not None
    p50, p90 = (row.now_p50_at, row.now_p90_at) if is_new else (row.p50_at, row.p90_at)
    said_at = row.looked_at or row.made_at
    first = row.p90_at if row.started_at is None else None  # That was for its first start.
    passed = [by for by in (first, p90) if by is not None and by <= now]
    if passed:
        return ExpectedStart(None, None, said_at, OVERDUE, passed[0])  # What it was told first, if that is over.
    if p50 is not None and p50 <= now:
        p50 = None  # It has not started by then: only the later time is left to be told.
    error = row.now_error_permille if p50 is not None else None
    return ExpectedStart(p50, p90, said_at, present_code(row.now_reason), error_permille=error)
