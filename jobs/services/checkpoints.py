"""What is told of a job's checkpoint: the last one, its age, and what an eviction would lose now. Reads only."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from jobs.lifecycle.states import JOB_LIFECYCLE, AttemptState, CheckpointGate, JobState
from jobs.models import Attempt, Job
from jobs.spec.model import Checkpoint as CheckpointSpec
from kernel.clock import utc_text
from kernel.config import current
from kernel.resources import RESOURCE_NAMES, Resources
from storage.selectors import find_checkpoint
from storage.services.checkpoints import Checkpoint
from tenants.billing.costs import hourly
from tenants.billing.ledger_rows import price_book

STATES = ("none", "writing", "ready", "checking", "unreadable", "removed")


def checkpoint_json(job: Job, spec: CheckpointSpec, *, shows_cost: bool, now: datetime) -> dict[str, Any]:
    """As the API shows it. A directory inside a mount is the user's own: of it nothing is measured."""
    kept = find_checkpoint(job.id)
    saved_at = kept.saved_at if kept is not None else None
    return {
        "path": spec.path,
        "per": str(spec.per),
        "interval_seconds": spec.interval_seconds,
        "signal": spec.signal,
        "grace_seconds": spec.grace_seconds,
        "started_from": str(kept.started_from) if kept is not None and kept.started_from is not None else None,
        "state": _state(job, kept),
        "problem": kept.problem if kept is not None else "",
        "saved_at": utc_text(saved_at),
        "age_seconds": max(0, int((now - saved_at).total_seconds())) if saved_at is not None else None,
        "size_bytes": kept.size_bytes if kept is not None else 0,
        "file_count": kept.file_count if kept is not None else 0,
        "quota_bytes": current().checkpoint_quota_bytes,
        "kept_until": utc_text(kept.kept_until) if kept is not None else None,
        "if_evicted_now": _if_evicted(job, spec, saved_at, shows_cost=shows_cost, now=now),
    }


def _state(job: Job, kept: Checkpoint | None) -> str:
    if kept is None:
        return "checking" if job.checkpoint == CheckpointGate.CHECKING and job.array_size is None else "none"
    if kept.removed_at is not None:
        return "removed"
    if job.checkpoint == CheckpointGate.CHECKING and job.state == JobState.QUEUED:
        return "checking"
    if kept.problem:
        return "unreadable"
    if kept.is_writing and not JOB_LIFECYCLE.is_terminal(job.state):
        return "writing"
    return "ready" if kept.saved_at is not None else "none"


def _if_evicted(
    job: Job, spec: CheckpointSpec, saved_at: datetime | None, *, shows_cost: bool, now: datetime
) -> dict[str, Any] | None:
    """What would be lost this moment: measured where the platform can, by the program's word where it cannot."""
    attempt = Attempt.objects.filter(id=job.attempt_id, state__in=_WRITING).first() if job.attempt_id is not None else None
    if attempt is None or attempt.started_at is None:
        return None
    seconds = max(0, int((now - max(attempt.started_at, saved_at or attempt.started_at)).total_seconds()))
    if job.checkpoint is None and spec.interval_seconds:
        seconds %= spec.interval_seconds
    cost = None
    if shows_cost:
        amount = Resources(*(getattr(job, name) for name in RESOURCE_NAMES))
        cost = hourly(attempt.pool_id, amount, price_book(), now) * seconds // 3600
    return {"lost_seconds": seconds, "lost_gpu_seconds": job.gpu_millis * seconds / 1000, "lost_cost": cost}


_WRITING = (AttemptState.RUNNING, AttemptState.STOPPING)
