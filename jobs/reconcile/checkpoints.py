"""Between two attempts: what the last one left is looked through before the next one may have machines.

A directory is due when its attempt has ended, while one runs (to be measured), and before a first attempt that begins with a
copy. The job goes on waiting until it was looked through, with the reason `checkpoint_checking`; where no attempt can go on
from it the job is held. Safe to die at every step: until the result is stored the directory stays due.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from jobs.lifecycle.states import JOB_LIFECYCLE, CheckpointGate, JobState
from jobs.loading.specs import load_spec, preload_specs
from jobs.models import Job
from jobs.services.edit_events import tell_edited
from jobs.spec.model import CheckpointScope
from kernel.clock import database_now
from kernel.config import current
from kernel.crashpoints import crashpoint
from kernel.wait_codes import WaitCode
from reconciling import bulk, leases, poison
from storage.checkpoint_files import Found, measure
from storage.services import checkpoints
from storage.services.checkpoints import Checkpoint

BATCH = 20  # Each is a look through a directory.
HANDLER = "jobs.checkpoint"
AGAIN_SECONDS = 1.0  # A copy goes on behind the others that are due; a directory that another process is at is asked for again.
SWEPT_JOBS = 500
REMOVED_AT_ONCE = 20
_ENDED = tuple(state for state in JobState if JOB_LIFECYCLE.is_terminal(state))


def look() -> int:
    """Look through the directories that are due; returns how many were in hand. May run several times at once."""
    now = database_now()
    token, due = checkpoints.claim_due(now=now, limit=BATCH)
    if not due:
        return 0
    crashpoint("jobs.checkpoint.after_claim")
    with leases.in_hand(Checkpoint, token, [row.job_id for row in due]):
        jobs = {job.id: job for job in Job.objects.filter(id__in=[row.job_id for row in due])}
        preload_specs({job.spec_id for job in jobs.values()})
        struck = poison.work_through(
            HANDLER, due, lambda part: _look_at_each(part, jobs, token), now=now, key=lambda row: row.job_id
        )
        with transaction.atomic():
            checkpoints.record(
                HANDLER,
                [{"job_id": item.id, "lease_token": token, "lease_expires_at": None, "due_at": item.due_at} for item in struck],
            )
    return len(due)


def _look_at_each(rows: Sequence[Checkpoint], jobs: Mapping[uuid.UUID, Job], token: uuid.UUID) -> None:
    for row in rows:
        job = jobs[row.job_id]
        if job.state == JobState.QUEUED and job.checkpoint == CheckpointGate.CHECKING:
            _settle(row, job, token)
        else:
            _measure(row, job, token)


def _settle(row: Checkpoint, job: Job, token: uuid.UUID) -> None:
    found = checkpoints.settle(row, depth=depth_of(job))
    now = database_now()
    if found is None:
        _put_off(row, token, now + timedelta(seconds=AGAIN_SECONDS))
        return
    crashpoint("jobs.checkpoint.before_commit")
    refusal = _refusal(found)
    written: dict[str, Any] = {
        "job_id": row.job_id,
        "lease_token": token,
        **checkpoints.facts_of(found, now=now),
        "problem": refusal[1]["problem"] if refusal is not None else "",
        "is_copied": row.is_copied or (row.started_from is not None and refusal is None),  # Else the copy is begun anew.
        "due_at": None,
    }
    with transaction.atomic():
        if not checkpoints.record(HANDLER, [written]):
            return
        columns: dict[str, Any] = {"id": job.id, "checkpoint": CheckpointGate.KEPT}
        if refusal is not None:
            code, detail = refusal
            columns |= {"checkpoint": CheckpointGate.REFUSED, "hold": True, "reason_code": code, "reason_detail": detail}
        bulk.update(Job, [columns], equals={"state": JobState.QUEUED, "checkpoint": CheckpointGate.CHECKING})
        tell_edited([job.id], reason="checkpoint_ready" if refusal is None else refusal[0], now=now)


def _measure(row: Checkpoint, job: Job, token: uuid.UUID) -> None:
    """What is in it now: while an attempt runs again and again, after the end once more."""
    found = measure(row, depth=depth_of(job))
    now = database_now()
    ended = job.state in _ENDED
    waits = ended or job.state == JobState.QUEUED
    kept_until = kept_for(job.state, job.ended_at or now) if ended else row.kept_until
    written = {
        "job_id": row.job_id,
        "lease_token": token,
        **checkpoints.facts_of(found, now=now),
        "problem": _problem(found),
        "kept_until": kept_until,
        "due_at": None if waits else now + timedelta(seconds=current().checkpoint_seconds),
    }
    with transaction.atomic():
        checkpoints.record(HANDLER, [written])


def _put_off(row: Checkpoint, token: uuid.UUID, due_at: datetime) -> None:
    with transaction.atomic():
        checkpoints.record(HANDLER, [{"job_id": row.job_id, "lease_token": token, "lease_expires_at": None, "due_at": due_at}])


def depth_of(job: Job) -> int:
    """Where checkpoints stand in the directory: below one for each role or task, if the job asks for that."""
    checkpoint = load_spec(job.spec_id).checkpoint
    return 1 if checkpoint is None or checkpoint.per == CheckpointScope.JOB else 2


def _refusal(found: Found) -> tuple[WaitCode, dict[str, Any]] | None:
    """Why no attempt can go on from it."""
    if found.problem:
        return WaitCode.CHECKPOINT_UNREADABLE, {"problem": found.problem}
    if checkpoints.over_quota(found):
        detail = {
            "size_bytes": found.size_bytes,
            "length_bytes": found.length_bytes,
            "quota_bytes": current().checkpoint_quota_bytes,
            "problem": _problem(found),
        }
        return WaitCode.CHECKPOINT_OVER_QUOTA, detail
    return None


def _problem(found: Found) -> str:
    if checkpoints.over_quota(found):
        return f"It holds {found.size_bytes:,} of {current().checkpoint_quota_bytes:,} bytes."
    return found.problem


# --- In the end -------------------------------------------------------------------------------------------------------


def kept_for(state: str, ended_at: datetime) -> datetime:
    config = current()
    days = config.checkpoint_days_succeeded if state == JobState.SUCCEEDED else config.checkpoint_days
    return ended_at + timedelta(days=days)


def sweep(now: datetime) -> int:
    """Say of ended jobs how long their directories are kept, and remove those whose time is over."""
    after: uuid.UUID | None = None
    while ids := checkpoints.open_jobs(after, limit=SWEPT_JOBS):
        after = ids[-1]
        ended = Job.objects.filter(id__in=ids, state__in=_ENDED, ended_at__isnull=False)
        checkpoints.keep_until(
            {
                job_id: kept_for(state, ended_at)
                for job_id, state, ended_at in ended.values_list("id", "state", "ended_at")
                if ended_at
            }
        )
    return checkpoints.remove_old(now=now, limit=REMOVED_AT_ONCE)
