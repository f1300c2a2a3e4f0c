"""When waiting jobs are expected to start, and how well that came true.

An expectation is a look ahead by the scheduler's own core (`jobs/scheduling/questions/lookahead.py`) on how long others like
these jobs ran. The first one for each job that waits is kept and never changed; when the job has started it says by how much it
was wrong.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import F, Q, QuerySet

from jobs.models import Attempt, Job, StartPromise
from jobs.reconcile.loading import Loaded, load_state
from jobs.scheduling.questions.lookahead import Expected, expected_starts
from jobs.scheduling.questions.predict import OBSERVED, Corrections, Prediction, Predictor, size_of
from kernel.ids import new_ids
from reconciling import bulk
from tenants.quota.accounting import mark

HISTORY_RUNS = 5_000  # The latest, of the whole installation.
PASSES_MAX = 1_500  # Of one look ahead: a few seconds at ten thousand waiting jobs.
AHEAD_MAX = 3_000  # Jobs that wait or run: with more, a look ahead takes longer than anybody waits, and a sweep may take.
PROMISED_JOBS = 200  # Of one look.
LOOKED_AGAIN = timedelta(seconds=60)  # What is told of a job that waits is no older, while so few wait as one look takes.
WAITED = timedelta(seconds=30)  # Whoever starts sooner needs no promise.
KEPT = timedelta(days=90)
JUDGED = timedelta(days=7)  # What the error that people are told is counted over.
IDS_AT_ONCE = 500


TOO_MANY = "too_many"
"""Why no start is expected: so many jobs wait and run that a look ahead would take too long."""


class Outlook(NamedTuple):
    """When a job is expected to start, corrected by how others' expectations came true of late, and as it was looked ahead."""

    told: Expected
    ahead: Expected


def can_look_ahead(loaded: Loaded) -> bool:
    """Whether so few jobs wait and run that one can say when they will start."""
    return len(loaded.state.waiting) + len(loaded.state.running) <= AHEAD_MAX


def expect(
    loaded: Loaded, job_ids: Collection[str], now: datetime, predictions: Mapping[str, Prediction] | None = None
) -> dict[str, Outlook]:
    """When these waiting jobs would start as things are. `predictions` are those of `predictions_of`, where they are known."""
    known = predictions_of(loaded) if predictions is None else predictions
    found = expected_starts(loaded.state, job_ids, known, passes_max=PASSES_MAX)
    corrections, at = _corrections(now), mark(now)
    outlooks = {}
    for job_id, ahead in found.items():
        told = ahead
        if ahead.p50 is not None and ahead.p90 is not None:
            soon, late = corrections.correct(typical=ahead.p50 - at, cautious=ahead.p90 - at)
            told = ahead._replace(p50=at + soon, p90=at + late)
        outlooks[job_id] = Outlook(told, ahead)
    return outlooks


def promise_starts(now: datetime) -> int:
    """Keep what is expected of jobs that wait: of new ones for good, of all as it is now; and when promised jobs started. How
    many changed."""
    kept = _keep_starts(now)
    old = StartPromise.objects.filter(made_at__lt=now - KEPT).order_by().values_list("job_id", flat=True)[:IDS_AT_ONCE]
    StartPromise.objects.filter(job_id__in=list(old)).delete()
    waiting = Job.objects.filter(state="queued", desired="run", array_size__isnull=True, hold=False, open_dependencies=0)
    new = waiting.filter(queued_at__lte=now - WAITED, startpromise__isnull=True, attempt_count=0)
    if not new.exists() and not _looked_at_before(now - LOOKED_AGAIN).exists():
        return kept
    loaded = load_state(now)
    if not can_look_ahead(loaded):
        return kept
    # Only of those that a look ahead tells of: what is withheld gets no expectation, and would keep its place for good.
    here = sorted(uuid.UUID(job_id) for job_id in loaded.rows.keys() - loaded.withheld.keys())
    ids = _first_new(new, here)
    again = _looked_at_longest_ago(now - LOOKED_AGAIN, here)
    found = expect(loaded, {*ids, *again}, now)
    looked = [
        {"id": row_id, **_now(found[job_id].told, now)} for job_id, row_id in sorted(again.items()) if job_id in found
    ]  # fmt: skip
    kept += len(bulk.update(StartPromise, looked))
    rows = [
        {
            "id": row_id,
            "job_id": uuid.UUID(job_id),
            "tenant_id": loaded.rows[job_id].tenant_id,
            "made_at": now,
            "p50_at": moment(outlook.told.p50),
            "p90_at": moment(outlook.told.p90),
            "ahead_p50_at": moment(outlook.ahead.p50),
            "ahead_p90_at": moment(outlook.ahead.p90),
            "started_at": None,
            **_now(outlook.told, now),
        }
        for row_id, (job_id, outlook) in zip(new_ids(len(ids)), sorted((job_id, found[job_id]) for job_id in ids), strict=True)
    ]
    return kept + bulk.insert(StartPromise, rows, ignore_conflicts=True)


def accuracy(tenant_ids: Iterable[uuid.UUID] | None, now: datetime) -> dict[str, Any]:
    """How promises of the last week came true, of these tenants or of all: how many, which part started by their p90, and the
    median of how far the p50 was off, in seconds."""
    judged = StartPromise.objects.filter(made_at__gte=now - JUDGED, started_at__isnull=False, p90_at__isnull=False)
    if tenant_ids is not None:
        judged = judged.filter(tenant_id__in=set(tenant_ids))
    rows = list(judged.order_by("-id").values_list("p50_at", "p90_at", "started_at")[:HISTORY_RUNS])
    if not rows:
        return {"promises": 0, "by_p90": None, "median_error_seconds": None}
    errors = sorted(
        abs(round((started - p50).total_seconds())) for p50, _, started in rows if p50 is not None and started is not None
    )
    return {
        "promises": len(rows),
        "by_p90": sum(started <= p90 for _, p90, started in rows if started is not None and p90 is not None) / len(rows),
        "median_error_seconds": errors[len(errors) // 2] if errors else None,
    }


def moment(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _first_new(new: QuerySet[Job], here: Sequence[uuid.UUID]) -> set[str]:
    """The oldest of these jobs that have no promise. `here` is in the order of ids, and so of age."""
    ids: list[uuid.UUID] = []
    for start in range(0, len(here), IDS_AT_ONCE):
        if len(ids) >= PROMISED_JOBS:
            break
        some = new.filter(id__in=here[start : start + IDS_AT_ONCE]).order_by("id")
        ids += some.values_list("id", flat=True)[: PROMISED_JOBS - len(ids)]
    return {str(job_id) for job_id in ids}


def _looked_at_longest_ago(moment: datetime, here: Sequence[uuid.UUID]) -> dict[str, uuid.UUID]:
    """By job of these that waits, the promise that was looked at before then; those that were not for longest."""
    rows: list[tuple[datetime | None, uuid.UUID, uuid.UUID]] = []
    for start in range(0, len(here), IDS_AT_ONCE):
        some = _looked_at_before(moment).filter(job_id__in=here[start : start + IDS_AT_ONCE])
        rows += some.values_list("looked_at", "id", "job_id")
    rows.sort(key=lambda row: (row[0] is not None, row[0] or moment, row[1]))
    return {str(job_id): row_id for _, row_id, job_id in rows[:PROMISED_JOBS]}


def _looked_at_before(moment: datetime) -> QuerySet[StartPromise]:
    waiting = StartPromise.objects.filter(started_at__isnull=True, job__state="queued", job__hold=False)
    return waiting.filter(Q(looked_at__isnull=True) | Q(looked_at__lte=moment))


def _now(told: Expected, now: datetime) -> dict[str, Any]:
    return {
        "now_p50_at": moment(told.p50), "now_p90_at": moment(told.p90), "now_reason": told.reason[:40], "looked_at": now,
    }  # fmt: skip


def _keep_starts(now: datetime) -> int:
    """Write down when promised jobs were admitted for the first time."""
    open_ones = StartPromise.objects.filter(started_at__isnull=True, job__attempts__number=1)
    rows = list(open_ones.annotate(began=F("job__attempts__created_at")).values_list("id", "began")[:PROMISED_JOBS])
    bulk.update(StartPromise, [{"id": row_id, "started_at": began} for row_id, began in rows])
    return len(rows)


def _corrections(now: datetime) -> Corrections:
    """How what was looked ahead of late came true: the latest of those that have started."""
    judged = StartPromise.objects.filter(made_at__gte=now - JUDGED, started_at__isnull=False, ahead_p90_at__isnull=False)
    columns = ("made_at", "ahead_p50_at", "ahead_p90_at", "started_at")
    corrections = Corrections()
    for made, p50, p90, started in reversed(list(judged.order_by("-id").values_list(*columns)[:OBSERVED])):
        if p50 is not None and p90 is not None and started is not None:
            typical, cautious, actual = (round((moment - made).total_seconds()) for moment in (p50, p90, started))
            corrections.add(typical=typical, cautious=cautious, actual=actual)
    return corrections


def predictions_of(loaded: Loaded) -> dict[str, Prediction]:
    """How long every waiting and running job will run, as far as history tells."""
    predictor = predictor_of_history()
    jobs = {job.id: job for job in (*loaded.state.waiting, *(held.job for held in loaded.state.running))}
    ids = sorted(found for text in jobs if (found := _uuid(text)) is not None)
    names: dict[str, tuple[str, int]] = {}
    for start in range(0, len(ids), IDS_AT_ONCE):
        rows = Job.objects.filter(id__in=ids[start : start + IDS_AT_ONCE]).order_by().values_list("id", "name", "gpu_millis")
        names.update((str(job_id), (name, gpu_millis)) for job_id, name, gpu_millis in rows)
    queues = loaded.numbers.queues
    ran = {held.job.id: max(0, loaded.state.at - held.started_at) for held in loaded.state.running}
    predictions: dict[str, Prediction] = {}
    for job_id, (name, gpu_millis) in names.items():
        job = jobs[job_id]
        known = predictor.predict(
            user=str(job.user), name=name, queue=str(queues[job.queue]), longest=job.max_runtime, ran=ran.get(job_id, 0),
            size=size_of(gpu_millis, job.max_runtime),
        )  # fmt: skip
        if known is not None:
            predictions[job_id] = known
    return predictions


def predictor_of_history() -> Predictor:
    """What ended by itself of late, oldest first."""
    predictor = Predictor()
    add_runs(predictor, Attempt.objects.order_by("-id"))
    return predictor


def add_runs(predictor: Predictor, attempts: QuerySet[Attempt]) -> None:
    """Add the first `HISTORY_RUNS` of these attempts, newest first, that ended by themselves. One query."""
    runs = attempts.filter(outcome__in=["succeeded", "failed"], started_at__isnull=False, ended_at__isnull=False)
    columns = (
        "job__user_id", "job__name", "job__queue_id", "job__gpu_millis", "job__max_runtime_seconds", "started_at", "ended_at",
    )  # fmt: skip
    latest = runs.values_list(*columns)[:HISTORY_RUNS]
    for user, name, queue, gpu_millis, longest, began, ended in reversed(list(latest)):
        if began is not None and ended is not None:
            predictor.add(
                user=str(user), name=name, queue=str(queue), seconds=round((ended - began).total_seconds()),
                size=size_of(gpu_millis, longest),
            )  # fmt: skip


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
