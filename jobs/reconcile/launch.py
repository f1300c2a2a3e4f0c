"""ADMITTED -> STARTING: claim, compile, hand to the engine, record. Safe to die at every step: `ensure` finds its own work."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import structlog
from django.db import transaction

from activity import hints
from clusters.engines.interface import EngineUnreachable, Ensured, GiveUp, Retry, Workload
from clusters.services import engine_for
from jobs.lifecycle.states import AttemptState, JobState
from jobs.models import Attempt
from jobs.reconcile import aside
from jobs.reconcile.quarantine import not_withheld
from jobs.reconcile.verdicts import give_up
from jobs.services.compile import CannotCompile, compile_attempts
from jobs.services.ending import end_attempts
from jobs.services.transition import ATTEMPT, JOB, Change, apply
from kernel.clock import database_now
from kernel.config import current
from kernel.crashpoints import crashpoint
from kernel.limits import NOTE_LENGTH
from reconciling import bulk, fencing, leases, poison

log = structlog.get_logger("launch")

BATCH_ATTEMPTS = 200
RETRY_SECONDS_MAX = 30.0


def launch(cluster_id: uuid.UUID) -> int:
    """Launch what is due on a cluster; returns how many attempts were in hand. May run several times at once."""
    now = database_now()
    due = not_withheld(cluster_id, Attempt.objects.filter(cluster_id=cluster_id, state=AttemptState.ADMITTED, due_at__lte=now))
    token, ids = leases.claim(due, now=now, seconds=current().lease_seconds, limit=BATCH_ATTEMPTS, order_by=("due_at", "id"))
    if not ids:
        return 0
    crashpoint("jobs.launch.after_claim")
    attempts = list(Attempt.objects.filter(id__in=ids, lease_token=token).select_related("job").order_by("id"))
    fencing.note_dropped("jobs.launch", Attempt, token=token, brought=ids, written=[attempt.id for attempt in attempts])
    struck = poison.work_through(
        aside.LAUNCH, attempts, lambda part: _launch(cluster_id, part, token), now=now, key=lambda attempt: attempt.id
    )
    aside.postpone(struck, token)
    aside.stop_set_aside(struck, now=now)
    crashpoint("jobs.launch.after_record")
    return len(ids)


def _launch(cluster_id: uuid.UUID, attempts: Sequence[Attempt], token: uuid.UUID) -> None:
    compiled = compile_attempts(attempts)
    workloads = [item for item in compiled if isinstance(item, Workload)]
    crashpoint("jobs.launch.before_ensure")
    try:
        answers = list(engine_for(cluster_id).ensure(workloads)) if workloads else []
    except EngineUnreachable as error:
        log.warning("engine_unreachable", cluster_id=str(cluster_id), error=str(error))
        answers = [Retry(workload.attempt_id, "engine_unreachable", str(error), 5.0) for workload in workloads]
    crashpoint("jobs.launch.after_ensure")
    refused = [GiveUp(item.attempt_id, item.code, item.detail) for item in compiled if isinstance(item, CannotCompile)]
    _record(attempts, [*answers, *refused], token)


def _record(attempts: Sequence[Attempt], answers: Sequence[Ensured | Retry | GiveUp], token: uuid.UUID) -> None:
    """One transaction, guarded by the lease's token: whoever was paused past its lease changes nothing."""
    by_id = {attempt.id: attempt for attempt in attempts}
    with transaction.atomic():
        now = database_now()
        written = _record_started([by_id[answer.attempt_id] for answer in answers if isinstance(answer, Ensured)], token, now)
        written |= _record_retries([answer for answer in answers if isinstance(answer, Retry)], by_id, token, now)
        refused = [(by_id[answer.attempt_id], answer.code, answer.detail) for answer in answers if isinstance(answer, GiveUp)]
        endings = [replace(ending, lease_token=token) for ending in give_up(refused, now=now)]
        written.update(end_attempts(endings, actor="system:launch", now=now))
        fencing.note_dropped("jobs.launch", Attempt, token=token, brought=by_id.keys(), written=written)
        for cluster_id in {attempt.cluster_id for attempt in attempts}:
            hints.wake(f"poll.{cluster_id}")


def _record_started(attempts: Sequence[Attempt], token: uuid.UUID, now: datetime) -> set[uuid.UUID]:
    started = apply(
        ATTEMPT,
        [
            Change(
                attempt.id,
                AttemptState.ADMITTED,
                AttemptState.STARTING,
                reason="launched",
                also={
                    "launched_at": now,
                    "due_at": now,
                    "tries": 0,
                    "last_error": "",
                    "lease_expires_at": None,
                },
                guard={"lease_token": token},
            )
            for attempt in attempts
        ],
        actor="system:launch",
        at=now,
    )
    done = {change.id for change in started}
    apply(
        JOB,
        [
            Change(attempt.job_id, JobState.ADMITTED, JobState.STARTING, reason="launched", detail={"attempt": attempt.number})
            for attempt in attempts
            if attempt.id in done
        ],
        actor="system:launch",
        at=now,
    )
    return done


def _record_retries(answers: Sequence[Retry], by_id: dict[uuid.UUID, Attempt], token: uuid.UUID, now: datetime) -> set[uuid.UUID]:
    """Not done yet. The wait grows with the tries, so that a sick engine is not hammered."""
    changed = bulk.update(
        Attempt,
        [
            {
                "id": answer.attempt_id,
                "lease_token": token,
                "due_at": now
                + timedelta(seconds=min(RETRY_SECONDS_MAX, answer.after_seconds * 2 ** min(by_id[answer.attempt_id].tries, 6))),
                "tries": by_id[answer.attempt_id].tries + 1,
                "last_error": f"{answer.code}: {answer.detail}"[:NOTE_LENGTH],
                "lease_expires_at": None,
            }
            for answer in answers
        ],
        guard=("lease_token",),
        equals={"state": AttemptState.ADMITTED},
    )
    return {row["id"] for row in changed}
