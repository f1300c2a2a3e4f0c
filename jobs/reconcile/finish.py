"""After the end: everything printed and every output is in the store before the engine is told to forget the attempt."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial

import structlog
from django.db import transaction
from django.db.models import Q

from activity import hints
from clusters.engines.interface import EngineUnreachable, Forgotten, Stop, StopCause, TaskName
from clusters.services import engine_for, is_lost
from images.services import build_finished
from jobs.lifecycle.states import AttemptState, JobState
from jobs.loading.specs import load_spec, preload_specs
from jobs.models import Attempt, Task
from jobs.reconcile import poisoned_jobs
from jobs.reconcile.poll import log_source
from jobs.reconcile.progress import ProgressReader
from jobs.reconcile.stored_exits import UNSEEN
from jobs.services.code_fetch import code_fetched
from jobs.spec.model import JobKind
from kernel.clock import database_now
from kernel.config import current
from kernel.crashpoints import crashpoint
from kernel.errors import StorageFull
from reconciling import bulk, fencing, leases
from reconciling.troubles import Trouble
from storage.logs import LogStoreFull, close_logs, pump
from storage.services.artifacts import OutputSource, close_without_outputs, collect_outputs

log = structlog.get_logger("finish")
_without_room = Trouble("outputs_wait_for_room")  # Told once: those that wait are asked again every few seconds.

BATCH_ATTEMPTS = 100
AGAIN_SECONDS = 2.0
OUTPUT_TRIES_MAX = 10_000  # On a full disk for five hours: then what has no room is left behind, with a marker.
OUTPUT_SECONDS = 20.0  # Of a batch: then those that were not reached come first in the next one.
UNREACHABLE_MAX = 3  # So many attempts in a row without an answer: it is the engine, and no longer something of theirs.
LOG_SECONDS = 10.0  # What is left of large logs is fetched in one go for so long; the lease and other attempts wait.
LOG_TRIES_MAX = 20  # An engine that no longer has the output is asked this often; then the log ends with a marker.


def finish(cluster_id: uuid.UUID) -> int:
    """Take in what ended attempts left, then let the engine forget them; returns how many were in hand."""
    if is_lost(cluster_id):
        return 0  # What is left there is taken in if the cluster comes back.
    now = database_now()
    due = Attempt.objects.filter(cluster_id=cluster_id, state=AttemptState.ENDED, forgotten=False, due_at__lte=now)
    token, ids = leases.claim(due, now=now, seconds=current().lease_seconds, limit=BATCH_ATTEMPTS, order_by=("due_at", "id"))
    if not ids:
        return 0
    with leases.in_hand(Attempt, token, ids) as written:
        attempts = list(Attempt.objects.filter(id__in=ids, lease_token=token).select_related("job").order_by("due_at", "id"))
        finish_part = partial(_finish, cluster_id, token=token)
        poisoned_jobs.work_through(poisoned_jobs.FINISH, attempts, finish_part, written=written, token=token, now=now)
    return len(ids)


def _finish(cluster_id: uuid.UUID, attempts: Sequence[Attempt], token: uuid.UUID) -> set[uuid.UUID]:
    """Take in and forget; those attempts of which the result was written down, and which are free with it."""
    left: set[uuid.UUID] = set()
    try:
        _stop_unseen(cluster_id, attempts)
        stored = _store_logs(cluster_id, attempts)
        without, brought_home, left = _store_outputs(cluster_id, attempts)
        stored = [attempt for attempt in stored if attempt.id in without or attempt.id in brought_home]
        crashpoint("jobs.finish.after_logs")
        _report_builds(attempts)
        _report_fetches([attempt for attempt in attempts if attempt.id in brought_home])
        _mark_stored(stored, without, token)
        forgotten = _forget(cluster_id, stored)
    except EngineUnreachable as error:
        log.warning("engine_unreachable", cluster_id=str(cluster_id), error=str(error))
        forgotten = set()
    except LogStoreFull as error:  # It is told once, where it was met. Waiting for room is no try: no output is given up for it.
        return _put_off(attempts, token, seconds=error.retry_after_seconds or AGAIN_SECONDS)
    crashpoint("jobs.finish.after_forget")
    return _record(attempts, forgotten, left, token)


def _stop_unseen(cluster_id: uuid.UUID, attempts: Sequence[Attempt]) -> None:
    """Stop what was taken for ended without a look at its end, whatever that end is called: a cluster that was declared lost may
    come back with tasks that were being stopped then, or with ones of which an engine that was asked too late said that they
    never start. Where nothing of them runs, the engine says so."""
    ids = [attempt.id for attempt in attempts]
    unknown = Task.objects.filter(Q(exit__isnull=True) | Q(exit__reason=UNSEEN), attempt_id__in=ids)
    unseen = sorted(set(unknown.values_list("attempt_id", flat=True)))
    if unseen:
        engine_for(cluster_id).stop([Stop(attempt_id, 0.0, StopCause.PLATFORM) for attempt_id in unseen])


def _store_logs(cluster_id: uuid.UUID, attempts: Sequence[Attempt]) -> list[Attempt]:
    """Attempts whose logs are complete now. One that never reached the engine has none."""
    tasks: dict[uuid.UUID, list[TaskName]] = defaultdict(list)
    ids = [attempt.id for attempt in attempts]
    for attempt_id, role, index in Task.objects.filter(attempt_id__in=ids).values_list("attempt_id", "role", "index"):
        tasks[attempt_id].append(TaskName(role, index))
    launched = [attempt for attempt in attempts if attempt.launched_at is not None]
    sources = {attempt.id: log_source(attempt, tasks[attempt.id]) for attempt in attempts}
    deadline = time.monotonic() + LOG_SECONDS
    with ProgressReader(waits=True) as progress:
        counts = pump(engine_for(cluster_id), [sources[attempt.id] for attempt in launched], look=progress.look)
        while counts.more and time.monotonic() < deadline:
            counts = pump(engine_for(cluster_id), [sources[attempt.id] for attempt in launched], look=progress.look)
    hopeless = [
        attempt
        for attempt in attempts
        if attempt.id not in counts.complete | counts.moved and (attempt.launched_at is None or attempt.tries >= LOG_TRIES_MAX)
    ]
    if hopeless:
        close_logs(
            [sources[attempt.id] for attempt in hopeless],
            now=database_now(),
            marker="The engine has no more output of this task.",
        )
    complete = counts.complete | {attempt.id for attempt in hopeless}
    return [attempt for attempt in attempts if attempt.id in complete]


def _store_outputs(
    cluster_id: uuid.UUID, attempts: Sequence[Attempt]
) -> tuple[Mapping[uuid.UUID, OutputSource], set[uuid.UUID], set[uuid.UUID]]:
    """Attempts of which no outputs are wanted, those whose outputs are all brought home, and those that there was no time for.

    Large ones take several rounds. What one attempt left may be slow to look through, or beyond what the engine can answer:
    the others' outputs come home all the same.
    """
    engine = engine_for(cluster_id)
    done: set[uuid.UUID] = set()
    left: set[uuid.UUID] = set()
    without: dict[uuid.UUID, OutputSource] = {}
    has_room = is_full = False
    unreachable = 0
    deadline = time.monotonic() + OUTPUT_SECONDS
    preload_specs({attempt.job.spec_id for attempt in attempts if attempt.launched_at is not None})
    for attempt in attempts:
        outputs = load_spec(attempt.job.spec_id).outputs if attempt.launched_at is not None else ()
        source = OutputSource(attempt.tenant_id, attempt.job_id, attempt.id)
        if not outputs:
            without[attempt.id] = source
            continue
        if time.monotonic() > deadline:
            left.add(attempt.id)
            continue
        hopeless = attempt.tries >= OUTPUT_TRIES_MAX
        try:
            collected = collect_outputs(engine, source, outputs, now=database_now(), accept_full_disk=hopeless)
        except StorageFull as error:
            _without_room.met(attempt_id=str(attempt.id), error=error.detail)
            is_full = True
            continue
        except EngineUnreachable as error:
            unreachable += 1
            if unreachable == UNREACHABLE_MAX:
                raise
            log.warning("outputs_unreachable", attempt_id=str(attempt.id), error=str(error))
            continue
        unreachable = 0
        if collected.done:
            done.add(attempt.id)
            has_room = has_room or not attempt.outputs_stored  # Else they were in the store before.
    if has_room and not is_full:
        _without_room.over()
    return without, done, left


def _report_builds(attempts: Sequence[Attempt]) -> None:
    """Tell a build request how its job ended; the same report twice changes nothing."""
    for attempt in attempts:
        job = attempt.job
        if job.build_request_id is not None and job.state in (JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED):
            build_finished(
                job.build_request_id,
                succeeded=job.state == JobState.SUCCEEDED,
                reason="" if job.exit is None else str(job.exit.get("text", "")),
                now=database_now(),
            )
            hints.wake("scheduler")


def _report_fetches(attempts: Sequence[Attempt]) -> None:
    """Hand fetched code to the jobs that wait for it; the same report twice changes nothing."""
    fetches = [
        (attempt.job, attempt.id)
        for attempt in attempts
        if attempt.job.kind == JobKind.TRANSFER and attempt.job.state == JobState.SUCCEEDED
    ]
    if fetches:
        code_fetched(fetches, now=database_now())


def _mark_stored(attempts: Sequence[Attempt], without: Mapping[uuid.UUID, OutputSource], token: uuid.UUID) -> None:
    rows = [{"id": attempt.id, "lease_token": token, "logs_stored": True, "outputs_stored": True} for attempt in attempts]
    with transaction.atomic():
        close_without_outputs([without[attempt.id] for attempt in attempts if attempt.id in without], now=database_now())
        bulk.update(Attempt, rows, guard=("lease_token",))
    for attempt in attempts:
        hints.wake(f"logs.{attempt.id}")


def _forget(cluster_id: uuid.UUID, attempts: Sequence[Attempt]) -> set[uuid.UUID]:
    if not attempts:
        return set()
    answers = engine_for(cluster_id).forget([attempt.id for attempt in attempts])
    return {answer.attempt_id for answer in answers if isinstance(answer, Forgotten)}


def _put_off(attempts: Sequence[Attempt], token: uuid.UUID, *, seconds: float) -> set[uuid.UUID]:
    due_at = database_now() + timedelta(seconds=seconds)
    rows = [{"id": attempt.id, "lease_token": token, "lease_expires_at": None, "due_at": due_at} for attempt in attempts]
    with transaction.atomic():
        return {row["id"] for row in bulk.update(Attempt, rows, guard=("lease_token",))}


def _record(attempts: Sequence[Attempt], forgotten: set[uuid.UUID], left: set[uuid.UUID], token: uuid.UUID) -> set[uuid.UUID]:
    """`left` come again at once: they were not tried."""
    now = database_now()
    again = now + timedelta(seconds=AGAIN_SECONDS)
    with transaction.atomic():
        changed = bulk.update(
            Attempt,
            [
                {
                    "id": attempt.id,
                    "lease_token": token,
                    "lease_expires_at": None,
                    "forgotten": attempt.id in forgotten,
                    "due_at": None if attempt.id in forgotten else now if attempt.id in left else again,
                    "tries": attempt.tries + (attempt.id not in left),
                }
                for attempt in attempts
            ],
            guard=("lease_token",),
        )
        brought, written = [attempt.id for attempt in attempts], {row["id"] for row in changed}
        fencing.note_dropped("jobs.finish", Attempt, token=token, brought=brought, written=written)
    return written
