"""ADMITTED -> STARTING: claim, compile, hand to the engine, record. Safe to die at every step: `ensure` finds its own work.

A stop does not wait for a launch: it frees the attempt's lease, and the engine is told of it at once. Before the hand-over the
attempt's row is read again, and one that stops is not handed over. During the hand-over the engine's gate decides: a stop that
comes first keeps the attempt from starting for ever, one that comes second ends it with its grace.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import structlog
from django.db import transaction
from django.db.models import Q

from activity import hints
from clusters.engines.interface import EngineUnreachable, Ensured, GiveUp, Retry, StartStep, TaskWaiting, Workload
from clusters.selectors import awaited_clusters
from clusters.services import engine_for, refresh_engines
from jobs.lifecycle.start_waits import next_wait, starts_too_late
from jobs.lifecycle.states import AttemptState, JobState
from jobs.models import Attempt, Task
from jobs.reconcile import poisoned_jobs
from jobs.reconcile.quarantine import not_withheld
from jobs.reconcile.stored_exits import UNSEEN, storable_wait
from jobs.reconcile.verdicts import START_TIMEOUT, give_up
from jobs.services.compile import CannotCompile, compile_attempts
from jobs.services.ending import end_attempts
from jobs.services.stop import stop_attempts
from jobs.services.transition import ATTEMPT, JOB, Change, apply
from kernel.clock import database_now
from kernel.config import current
from kernel.crashpoints import crashpoint
from kernel.limits import NOTE_LENGTH
from reconciling import bulk, fencing, leases
from storage.services import checkpoints
from tenants.identity.standing import disabled_tenants

log = structlog.get_logger("launch")

BATCH_ATTEMPTS = 200
HANDED_OVER = 50  # Attempts in one call of the engine. So few are on their way to it when a user stops one.
RETRY_SECONDS_MAX = 30.0
DISABLED = ("tenant_disabled", "Its tenant is disabled.", 5.0)  # What an attempt that is not handed over is told, and the wait.
RETURNED = ("cluster_returned", "An earlier attempt is being stopped in a cluster that had been lost, and is back.", 1.0)


def launch(cluster_id: uuid.UUID) -> int:
    """Launch what is due on a cluster; returns how many attempts were in hand. May run several times at once."""
    now = database_now()
    due = not_withheld(cluster_id, Attempt.objects.filter(cluster_id=cluster_id, state=AttemptState.ADMITTED, due_at__lte=now))
    token, ids = leases.claim(due, now=now, seconds=current().lease_seconds, limit=BATCH_ATTEMPTS, order_by=("due_at", "id"))
    if not ids:
        return 0
    crashpoint("jobs.launch.after_claim")
    with leases.in_hand(Attempt, token, ids) as written:
        attempts = list(Attempt.objects.filter(id__in=ids, lease_token=token).select_related("job").order_by("id"))
        _note_dropped(token, brought=ids, written={attempt.id for attempt in attempts})
        overdue = _overdue(attempts, now)
        written.update(_stop_overdue(overdue, now=now))
        left = [attempt for attempt in attempts if attempt.id not in written]
        launch_part = partial(_launch, cluster_id, token=token)
        struck = poisoned_jobs.work_through(poisoned_jobs.LAUNCH, left, launch_part, written=written, token=token, now=now)
    poisoned_jobs.stop_set_aside(struck, now=now)
    crashpoint("jobs.launch.after_record")
    return len(ids)


def _overdue(attempts: Sequence[Attempt], now: datetime) -> list[Attempt]:
    """Those whose time for starting is over and for which the engine was asked in vain; an attempt that was not tried yet has
    its try. One query where there are any but for pulls of images."""
    seconds, pull_seconds = current().start_timeout_seconds, current().image_pull_seconds
    late = {
        attempt.id: attempt
        for attempt in attempts
        if attempt.tries and starts_too_late(attempt.created_at, None, now, seconds=seconds, pull_seconds=0.0)
    }
    tasks = Task.objects.filter(attempt_id__in=late) if late else ()
    found = {
        task.attempt_id
        for task in tasks
        if starts_too_late(late[task.attempt_id].created_at, task.waiting, now, seconds=seconds, pull_seconds=pull_seconds)
    }
    return [attempt for attempt_id, attempt in late.items() if attempt_id in found]


def _stop_overdue(attempts: Sequence[Attempt], *, now: datetime) -> set[uuid.UUID]:
    """Stop attempts that no try has started. The engine must say that nothing of them runs: a hand-over may have reached it.

    So the next attempt waits for an engine that does not answer: the job shows why, and nothing runs twice.
    """
    if not attempts:
        return set()
    with transaction.atomic():
        stop_attempts(
            [(attempt.job_id, attempt.job.state, attempt.id) for attempt in attempts],
            cause="platform",
            reason=START_TIMEOUT,
            grace_seconds=0,
            actor="system:launch",
            now=now,
            verdicts={attempt.id: {START_TIMEOUT: attempt.last_error} for attempt in attempts},
        )
    return {attempt.id for attempt in attempts}


def _launch(cluster_id: uuid.UUID, attempts: Sequence[Attempt], token: uuid.UUID) -> set[uuid.UUID]:
    """Hand attempts over; those that were written down, and with it freed."""
    compiled = compile_attempts(attempts)
    workloads = [item for item in compiled if isinstance(item, Workload)]
    kept = {attempt.job_id: attempt.tenant_id for attempt in attempts if attempt.job.checkpoint is not None}
    checkpoints.open_for(kept, now=database_now())
    crashpoint("jobs.launch.before_ensure")
    answers = [answer for part in _parts(workloads) for answer in _hand_over(cluster_id, part, token)]
    crashpoint("jobs.launch.after_ensure")
    refused = [GiveUp(item.attempt_id, item.code, item.detail) for item in compiled if isinstance(item, CannotCompile)]
    return _record(attempts, [*answers, *refused], token)


def _parts(workloads: Sequence[Workload]) -> list[Sequence[Workload]]:
    return [workloads[start : start + HANDED_OVER] for start in range(0, len(workloads), HANDED_OVER)]


def _hand_over(cluster_id: uuid.UUID, part: Sequence[Workload], token: uuid.UUID) -> Sequence[Ensured | Retry | GiveUp]:
    """Have the engine start what is still wanted. What was stopped since it was claimed gets no answer: the stop is handled."""
    ids = [workload.attempt_id for workload in part]
    held = Attempt.objects.filter(id__in=ids, state=AttemptState.ADMITTED, lease_token=token)
    wanted = list(held.values_list("id", "tenant_id", "job_id", "number"))
    disabled = disabled_tenants() if wanted else {}  # Since it was admitted: nothing begins in them from the word on.
    withheld = {attempt_id: DISABLED for attempt_id, tenant_id, _, _ in wanted if tenant_id in disabled}
    behind = _behind_returned({job_id: attempt_id for attempt_id, _, job_id, number in wanted if number > 1})
    withheld |= dict.fromkeys(behind - withheld.keys(), RETURNED)
    answers = [Retry(attempt_id, code, text, seconds) for attempt_id, (code, text, seconds) in sorted(withheld.items())]
    free = {attempt_id for attempt_id, *_ in wanted} - withheld.keys()
    workloads = [workload for workload in part if workload.attempt_id in free]
    if workloads:
        refresh_engines()  # Where its cluster was moved a moment ago, nobody would find what is started at the old place.
    try:
        return [*answers, *(engine_for(cluster_id).ensure(workloads) if workloads else [])]
    except EngineUnreachable as error:
        log.warning("engine_unreachable", cluster_id=str(cluster_id), error=str(error))
        silent = TaskWaiting(StartStep.CLUSTER_UNREACHABLE)
        unasked = (Retry(workload.attempt_id, "engine_unreachable", str(error), 5.0, silent) for workload in workloads)
        return [*answers, *unasked]


def _behind_returned(attempts: Mapping[uuid.UUID, uuid.UUID]) -> set[uuid.UUID]:
    """Of attempts by their jobs, those with an earlier one that ended with its cluster, which is back: what still runs of that
    one is stopped first. One query where attempts are not the first of their jobs."""
    if not attempts:
        return set()
    is_unseen = Q(exit__class="cluster_lost") | (~Q(stop_cause="") & Q(tasks__exit__reason=UNSEEN))
    earlier = Attempt.objects.filter(is_unseen, job_id__in=attempts, state=AttemptState.ENDED, forgotten=False)
    found = set(earlier.values_list("job_id", "cluster_id"))
    awaited = awaited_clusters() if found else set()
    return {attempts[job_id] for job_id, cluster_id in found if cluster_id in awaited}


def _record(attempts: Sequence[Attempt], answers: Sequence[Ensured | Retry | GiveUp], token: uuid.UUID) -> set[uuid.UUID]:
    """One transaction, guarded by the lease's token: a worker paused past its lease changes nothing."""
    by_id = {attempt.id: attempt for attempt in attempts}
    with transaction.atomic():
        now = database_now()
        written = _record_started([by_id[answer.attempt_id] for answer in answers if isinstance(answer, Ensured)], token, now)
        written |= _record_retries([answer for answer in answers if isinstance(answer, Retry)], by_id, token, now)
        refused = [(by_id[answer.attempt_id], answer.code, answer.detail) for answer in answers if isinstance(answer, GiveUp)]
        endings = [replace(ending, lease_token=token) for ending in give_up(refused, now=now)]
        written.update(end_attempts(endings, actor="system:launch", now=now))
        _note_dropped(token, brought=by_id.keys(), written=written)
        for cluster_id in {attempt.cluster_id for attempt in attempts}:
            hints.wake(f"poll.{cluster_id}")
    return written


def _note_dropped(token: uuid.UUID, *, brought: Collection[uuid.UUID], written: Collection[uuid.UUID]) -> None:
    """Count results that came too late. A stop that freed the lease of an attempt that was never launched is no such thing."""
    missing = set(brought) - set(written)
    if missing:
        over = (AttemptState.STOPPING, AttemptState.ENDED)
        stopped = Attempt.objects.filter(id__in=missing, state__in=over, launched_at__isnull=True).values_list("id", flat=True)
        fencing.note_dropped("jobs.launch", Attempt, token=token, brought=missing - set(stopped), written=())


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
    written = {row["id"] for row in changed}
    _note_waits({answer.attempt_id: answer.waiting for answer in answers if answer.attempt_id in written}, now)
    return written


def _note_waits(waits: Mapping[uuid.UUID, TaskWaiting | None], now: datetime) -> None:
    """What keeps their tasks from being started, where that is something else than before. One query, and one more for news."""
    tasks = Task.objects.filter(attempt_id__in=waits).only("id", "attempt_id", "waiting") if waits else ()
    fresh = ((task, next_wait(task.waiting, storable_wait(waits[task.attempt_id]), now)) for task in tasks)
    bulk.update(Task, [{"id": task.id, "waiting": waiting} for task, waiting in fresh if waiting != task.waiting])
