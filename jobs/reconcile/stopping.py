"""STOPPING: tell the engine, and tell it again until it confirms. Desired state is enforced here, whatever was missed before."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

import structlog
from django.db import transaction
from django.db.models import Q

from activity import hints
from clusters.engines.interface import EngineUnreachable, Gone, Retry, Stop, StopCause
from clusters.services import engine_for, is_current
from jobs.lifecycle.states import JOB_LIFECYCLE, AttemptState, JobState
from jobs.loading.specs import load_spec, preload_specs
from jobs.models import Attempt, Job
from jobs.reconcile import poisoned_jobs
from jobs.reconcile.record import conclude_gone
from jobs.services.stop import TOLD, stop_attempts, stop_queued
from kernel.clock import database_now
from kernel.config import current
from kernel.crashpoints import crashpoint
from kernel.signals import SignalTarget
from reconciling import bulk, fencing, leases, poison

log = structlog.get_logger("stop")

BATCH_ATTEMPTS = 500
AGAIN_SECONDS = 5.0  # The engine enforces the grace; this only makes sure that it was heard.


def stop(cluster_id: uuid.UUID) -> int:
    """Tell the engine of every due stop on a cluster; returns how many."""
    enforce_desired()
    now = database_now()
    due = Attempt.objects.filter(cluster_id=cluster_id, state=AttemptState.STOPPING, due_at__lte=now)
    token, ids = leases.claim(due, now=now, seconds=current().lease_seconds, limit=BATCH_ATTEMPTS, order_by=("due_at", "id"))
    if not ids:
        return 0
    crashpoint("jobs.stop.after_claim")
    with leases.in_hand(Attempt, token, ids) as written:
        attempts = list(Attempt.objects.filter(id__in=ids, lease_token=token).select_related("job"))
        tell = partial(_tell, cluster_id, token=token)
        struck = poisoned_jobs.work_through(poisoned_jobs.STOP, attempts, tell, written=written, token=token, now=now)
    poisoned_jobs.mark(poisoned_jobs.STOP, struck, now=now)
    return len(ids)


def _tell(cluster_id: uuid.UUID, attempts: Sequence[Attempt], token: uuid.UUID) -> set[uuid.UUID]:
    """Tell the engine; those attempts of which that was written down, and which are free with it."""
    try:
        preload_specs({attempt.job.spec_id for attempt in attempts if not poisoned_jobs.is_marked(attempt)})
        answers = engine_for(cluster_id).stop([_stop(attempt) for attempt in attempts])
    except EngineUnreachable as error:
        log.warning("engine_unreachable", cluster_id=str(cluster_id), error=str(error))
        answers = [Retry(attempt.id, "engine_unreachable", str(error), AGAIN_SECONDS) for attempt in attempts]
    crashpoint("jobs.stop.after_engine")
    with transaction.atomic():
        now = database_now()
        changed = bulk.update(
            Attempt,
            [
                {
                    "id": answer.attempt_id,
                    "lease_token": token,
                    "lease_expires_at": None,
                    "stop_sent_at": now,
                    "due_at": now + timedelta(seconds=answer.after_seconds if isinstance(answer, Retry) else AGAIN_SECONDS),
                }
                for answer in answers
            ],
            guard=("lease_token",),
            equals={"state": AttemptState.STOPPING},
        )
        told, written = [answer.attempt_id for answer in answers], {row["id"] for row in changed}
        fencing.note_dropped("jobs.stop", Attempt, token=token, brought=told, written=written)
        hints.wake(f"poll.{cluster_id}")
        hints.wake(TOLD)
    _record_never_started(cluster_id, [answer.attempt_id for answer in answers if isinstance(answer, Gone)])
    return written


def _stop(attempt: Attempt) -> Stop:
    """How to stop it: the job's checkpoint signal and grace win over the platform's, a user's own grace over both."""
    checkpoint = None if poisoned_jobs.is_marked(attempt) else load_spec(attempt.job.spec_id).checkpoint
    grace = attempt.stop_grace_seconds
    if grace is None:
        grace = checkpoint.grace_seconds if checkpoint is not None else current().grace_seconds
    return Stop(
        attempt_id=attempt.id,
        grace_seconds=grace,
        cause=StopCause(attempt.stop_cause or "platform"),
        signal=checkpoint.signal if checkpoint is not None else "TERM",
        target=checkpoint.signal_target if checkpoint is not None else SignalTarget.PROGRAMS,
    )


def _record_never_started(cluster_id: uuid.UUID, attempt_ids: list[uuid.UUID]) -> None:
    """The engine is certain that nothing runs. What it never had, no observation will ever report: conclude it here.

    That no launch was written down does not prove it: the launcher may have died behind the call. So look; what is there is left
    to observations, which know its exit and bring its output home. Without an answer the engine is told again later.
    """
    unsure = Attempt.objects.filter(id__in=attempt_ids, state=AttemptState.STOPPING, launched_at__isnull=True)
    if not attempt_ids or not unsure.exists():
        return
    try:
        engine = engine_for(cluster_id)
        seen = engine.observe(None)
    except EngineUnreachable as error:
        log.warning("engine_unreachable", cluster_id=str(cluster_id), error=str(error))
        return
    if seen.complete and is_current(cluster_id, engine):
        present = {item.attempt_id for item in seen.items}
        conclude_gone([attempt_id for attempt_id in attempt_ids if attempt_id not in present], now=database_now())


def enforce_desired(*, limit: int = 1_000) -> int:
    """Jobs that should stop and whose attempts go on: a stop that lost its race with a launch. And jobs that should stop and
    wait: they came back into the queue past their stop. Returns how many."""
    now = database_now()
    due = Job.objects.filter(
        Q(state=JobState.QUEUED) | Q(attempt_id__isnull=False),
        desired="stop",
        state__in=[state for state in JOB_LIFECYCLE.live_states if state != JobState.STOPPING],
    ).exclude(id__in=poison.resting(poisoned_jobs.DESIRED, now))
    rows = list(due.order_by("id").values_list("id", "state", "attempt_id", "stop_grace_seconds", "started_at")[:limit])
    poison.work_through(poisoned_jobs.DESIRED, rows, _enforce, now=now, key=lambda row: row[0])
    return len(rows)


def _enforce(rows: Sequence[tuple[uuid.UUID, str, uuid.UUID | None, float | None, datetime | None]]) -> None:
    with transaction.atomic():
        queued = [(job_id, started_at) for job_id, state, _, _, started_at in rows if state == JobState.QUEUED]
        stop_queued(queued, actor="system:stop", detail={}, now=database_now())
        for job_id, state, attempt_id, grace_seconds, _ in rows:
            if state == JobState.QUEUED or attempt_id is None:
                continue
            stop_attempts(
                [(job_id, state, attempt_id)],
                cause="user",
                reason="stopped_by_user",
                grace_seconds=grace_seconds,
                actor="system:stop",
                now=database_now(),
            )
