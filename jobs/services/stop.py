"""Stopping on somebody's word. What is asked is stored at once; the reconciler tells engines, again and again if need be."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime

from django.db import transaction

from activity import hints
from activity.services import record_audit
from jobs.lifecycle.states import ATTEMPT_LIFECYCLE, JOB_LIFECYCLE, AttemptState, JobState
from jobs.models import Attempt, Job
from jobs.services.arrays import derive_parents
from jobs.services.dependencies import settle
from jobs.services.transition import ATTEMPT, JOB, Change, apply
from kernel.actor import Actor


def stop_jobs(jobs: Sequence[Job], *, actor: Actor, grace_seconds: float | None, now: datetime, note: str = "") -> int:
    """Ask these jobs to stop; an array with all its children. Stopping what ended, or stops already, changes nothing.

    `note` is the reason in the words of whoever asks; it is told with the stop. Returns how many jobs were asked. Queued ones are
    STOPPED at once; of others the engine must confirm first.
    """
    detail = {"by": actor.name, **({"note": note} if note else {})}
    ids = [job.id for job in jobs if job.array_size is None]
    parents = [job.id for job in jobs if job.array_size is not None]
    with transaction.atomic():
        ids += Job.objects.filter(parent_id__in=parents, state__in=JOB_LIFECYCLE.live_states).values_list("id", flat=True)
        asked = _ask(ids, actor=actor, detail=detail, grace_seconds=grace_seconds, now=now)
        record_audit(
            actor=actor,
            verb="job.stop",
            tenant_id=jobs[0].tenant_id if jobs else None,
            target_kind="job",
            target_id=jobs[0].id if jobs else None,
            target_name=jobs[0].name if jobs else "",
            after={"asked": asked, "grace_seconds": grace_seconds, "reason": note},
            count=max(1, len(jobs)),
            at=now,
        )
    return asked


def _ask(ids: Sequence[uuid.UUID], *, actor: Actor, detail: Mapping[str, str], grace_seconds: float | None, now: datetime) -> int:
    # Attempts before jobs, as everywhere: whoever locks in another order waits for ever.
    list(Attempt.objects.filter(job_id__in=ids, state__in=ATTEMPT_LIFECYCLE.live_states).order_by("id").select_for_update())
    rows = list(
        Job.objects.filter(id__in=ids, desired="run", state__in=JOB_LIFECYCLE.live_states)
        .order_by("id")
        .select_for_update(no_key=True)
        .values_list("id", "state", "attempt_id")
    )
    Job.objects.filter(id__in=[row[0] for row in rows]).update(desired="stop", stop_grace_seconds=grace_seconds)
    queued = [job_id for job_id, state, _ in rows if state == JobState.QUEUED]
    stopped = apply(
        JOB,
        [
            Change(
                job_id,
                JobState.QUEUED,
                JobState.STOPPED,
                reason="stopped_before_start",
                detail=detail,
                also={"ended_at": now, "reason_code": "stopped_before_start", "reason_detail": dict(detail)},
            )
            for job_id in queued
        ],
        actor=actor.name,
        at=now,
    )
    ended = [change.id for change in stopped]
    settle([*ended, *derive_parents(ended, now=now)], now=now)
    running = [(job_id, state, attempt_id) for job_id, state, attempt_id in rows if state != JobState.QUEUED and attempt_id]
    stop_attempts(
        running,
        cause="user",
        reason="stopping",
        detail=detail,
        grace_seconds=grace_seconds,
        actor=actor.name,
        now=now,
    )
    return len(rows)


def stop_attempts(
    rows: Sequence[tuple[uuid.UUID, str, uuid.UUID]],
    *,
    cause: str,
    reason: str,
    grace_seconds: float | None,
    actor: str,
    now: datetime,
    detail: Mapping[str, object] | None = None,
    verdicts: Mapping[uuid.UUID, object] | None = None,
) -> None:
    """Move jobs (id, state, attempt id) and their live attempts to STOPPING. Caller's transaction.

    An attempt that stops already keeps its first cause; a user's word replaces the completion policy's verdict nowhere.
    """
    live = {
        attempt_id: (state, cluster_id)
        for attempt_id, state, cluster_id in Attempt.objects.filter(
            id__in=[attempt_id for _, _, attempt_id in rows],
            state__in=[AttemptState.ADMITTED, AttemptState.STARTING, AttemptState.RUNNING],
        ).values_list("id", "state", "cluster_id")
    }
    moved = apply(
        ATTEMPT,
        [
            Change(
                attempt_id,
                live[attempt_id][0],
                AttemptState.STOPPING,
                reason=reason,
                detail=detail or {},
                also={
                    "stop_cause": cause,
                    "stop_verdict": (verdicts or {}).get(attempt_id),
                    "stop_grace_seconds": grace_seconds,
                    "due_at": now,
                },
            )
            for _, _, attempt_id in rows
            if attempt_id in live
        ],
        actor=actor,
        at=now,
    )
    done = {change.id for change in moved}
    apply(
        JOB,
        [
            Change(
                job_id,
                state,
                JobState.STOPPING,
                reason=reason,
                detail=detail or {},
                also={"reason_code": reason, "reason_detail": dict(detail or {})},
            )
            for job_id, state, attempt_id in rows
            if attempt_id in done and state != JobState.STOPPING
        ],
        actor=actor,
        at=now,
    )
    for cluster_id in {live[attempt_id][1] for attempt_id in done}:
        hints.wake(f"stop.{cluster_id}")
