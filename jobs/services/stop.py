"""Stopping at a user's request, which is stored at once; the reconciler tells engines, again and again if need be."""

from __future__ import annotations

import time
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
from kernel.clock import virtual_now

TOLD = "stops.told"  # The hint that engines were told of stops.
HAND_OVER_SECONDS = 1.0  # How long a stop waits for its answer while a launch has the job in hand.
LOOK_SECONDS = 0.05  # How often it looks without a hint.


def stop_jobs(jobs: Sequence[Job], *, actor: Actor, grace_seconds: float | None, now: datetime, note: str = "") -> int:
    """Ask these jobs to stop; an array with all its children. Stopping what ended changes nothing; what stops already keeps its
    cause and its first signal, and is killed earlier where this grace ends earlier.

    `note` is the reason in the words of the actor; it is told with the stop. Returns how many jobs were asked. Queued ones are
    STOPPED at once; of others the engine must confirm first.

    Where a launch has an attempt in hand at this moment, the call returns once the engine was told, or after
    `HAND_OVER_SECONDS`: a job does not start after its stop was acknowledged.
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
    # Attempts before jobs, as everywhere: another order of locks deadlocks.
    locked = Attempt.objects.filter(job_id__in=ids, state__in=ATTEMPT_LIFECYCLE.live_states).order_by("id").select_for_update()
    attempts = list(locked.values_list("id", "state", "lease_expires_at", "cluster_id"))
    in_hand = [row[0] for row in attempts if _is_in_hand(*row[1:3], now=now)]
    _shorten([(row[0], row[3]) for row in attempts if row[1] == AttemptState.STOPPING], grace_seconds, now)
    if in_hand:
        transaction.on_commit(lambda: _wait_until_told(in_hand), robust=True)
    rows = list(
        Job.objects.filter(id__in=ids, desired="run", state__in=JOB_LIFECYCLE.live_states)
        .order_by("id")
        .select_for_update(no_key=True)
        .values_list("id", "state", "attempt_id", "started_at")
    )
    Job.objects.filter(id__in=[row[0] for row in rows]).update(desired="stop", stop_grace_seconds=grace_seconds)
    queued = [(job_id, started_at) for job_id, state, _, started_at in rows if state == JobState.QUEUED]
    stop_queued(queued, actor=actor.name, detail=detail, now=now)
    running = [(job_id, state, attempt_id) for job_id, state, attempt_id, _ in rows if state != JobState.QUEUED and attempt_id]
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


def _shorten(stopping: Sequence[tuple[uuid.UUID, uuid.UUID]], grace_seconds: float | None, now: datetime) -> None:
    """Tell engines again of attempts (id, cluster id) that stop already: of two graces the one that ends earlier counts there."""
    if stopping:
        Attempt.objects.filter(id__in=[row[0] for row in stopping]).update(stop_grace_seconds=grace_seconds, due_at=now)
    for cluster_id in {row[1] for row in stopping}:
        hints.wake(f"stop.{cluster_id}")


def stop_queued(
    rows: Sequence[tuple[uuid.UUID, datetime | None]], *, actor: str, detail: Mapping[str, str], now: datetime
) -> None:
    """Stop those of these jobs (id, first start or None) that still wait, at once: no engine has anything of them. Caller's
    transaction."""
    changes = []
    for job_id, started_at in rows:
        reason = "stopped_before_start" if started_at is None else "stopped_before_restart"
        also = {"ended_at": now, "reason_code": reason, "reason_detail": dict(detail)}
        changes.append(Change(job_id, JobState.QUEUED, JobState.STOPPED, reason=reason, detail=detail, also=also))
    ended = [change.id for change in apply(JOB, changes, actor=actor, at=now)]
    settle([*ended, *derive_parents(ended, now=now)], now=now)


def _is_in_hand(state: str, lease_expires_at: datetime | None, *, now: datetime) -> bool:
    return state == AttemptState.ADMITTED and lease_expires_at is not None and lease_expires_at > now


def _wait_until_told(attempt_ids: Sequence[uuid.UUID]) -> None:
    """Wait until no launch can start these any more: the engine refuses them, or has begun to stop them.

    Not where the time is that of a simulation: nothing else goes on there while this waits.
    """
    if virtual_now() is not None:
        return
    untold = Attempt.objects.filter(id__in=attempt_ids, state=AttemptState.STOPPING, stop_sent_at__isnull=True)
    deadline = time.monotonic() + HAND_OVER_SECONDS
    with hints.subscribe(TOLD) as told:
        while untold.exists() and time.monotonic() < deadline:
            told.wait(LOOK_SECONDS)


def stop_attempts(
    rows: Sequence[tuple[uuid.UUID, str, uuid.UUID]],
    *,
    cause: str,
    reason: str,
    grace_seconds: float | None,
    actor: str,
    now: datetime,
    graces: Mapping[uuid.UUID, float] | None = None,
    detail: Mapping[str, object] | None = None,
    verdicts: Mapping[uuid.UUID, object] | None = None,
) -> None:
    """Move jobs (id, state, attempt id) and their live attempts to STOPPING. Caller's transaction.

    `graces` has those of single attempts, before `grace_seconds`, of which None is the job's own or the platform's.

    An attempt that stops already keeps its first cause; a user's word replaces the completion policy's verdict nowhere. A launch
    that has the attempt in hand loses it: the stop is due at once, and what the launch brings back is dropped.
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
                    "stop_grace_seconds": (graces or {}).get(attempt_id, grace_seconds),
                    "due_at": now,
                    "lease_token": None,
                    "lease_expires_at": None,
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
