"""When waiting jobs are expected to start, and how well that came true.

An expectation is a look ahead by the scheduler's own core (`jobs/scheduling/questions/lookahead.py`) on how long others like
these jobs ran. The sweep looks ahead and keeps the answer; a request does so only for a job that the sweep has not come to,
with less effort. The first expectation of each waiting job is never changed; when the job has started it says by how much it
was wrong.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import F, Q, QuerySet

from jobs.loading.history import HISTORY_RUNS, predictor_of_history
from jobs.loading.state import Loaded, load_state
from jobs.models import Attempt, Job, StartPrediction
from jobs.scheduling.questions.lifetimes import KnownJob, Lifetimes
from jobs.scheduling.questions.lookahead import SMALL_JOBS, UNCERTAIN, Effort, StartForecast, effort_of, expected_starts
from jobs.scheduling.questions.predict import OBSERVED, Corrections, kinds_of, size_of
from jobs.selectors.expected import WAITED
from kernel.ids import new_ids
from reconciling import bulk
from tenants.capacity.quota.accounting import mark

HISTORY_LEAST = 10  # Ended runs below which nine in ten of them mean nothing.
PREDICTED_JOBS = 2_000  # Of one look. Its work hardly depends on how many are asked for.
LOOKED_AGAIN = timedelta(seconds=60)  # What is told of a job that waits is no older, while few wait or run.
FEW_JOBS = 200  # A look of some hundred costs up to 16 s of CPU time, and of thousands more.
LOOKED_AGAIN_SMALL = timedelta(minutes=5)  # With more than `FEW_JOBS`, and then also of new ones: a twentieth of a core.
LOOKED_AGAIN_LARGE = timedelta(minutes=10)  # The same with more than `SMALL_JOBS`.
KEPT = timedelta(days=90)
JUDGED = timedelta(days=7)  # What the error that people are told is counted over.
IDS_AT_ONCE = 500
TOO_MANY = "too_many"
"""Why no start is expected: so many jobs wait and run that a look ahead would take too long."""
LITTLE_HISTORY = "little_history"
"""Why no start is expected: too few jobs have ended to say how long others like them will run."""


class Outlook(NamedTuple):
    """When a job is expected to start, corrected by how others' expectations came true of late, and as it was looked ahead.

    `sure_p50`: the corrected likely start where the look ahead was sure of it, told or not. `error`: how far off those of its
    band were of late, in thousandths of the wait; None where it is not told."""

    told: StartForecast
    ahead: StartForecast
    sure_p50: int | None = None
    error: int | None = None


def effort_asked(loaded: Loaded) -> Effort | None:
    """The effort of a look ahead in a request; None: too many jobs wait or run."""
    return effort_of(_jobs(loaded), is_asked=True)


def _jobs(loaded: Loaded) -> int:
    return len(loaded.state.waiting) + len(loaded.state.running)


def expect(
    loaded: Loaded, job_ids: Collection[str], now: datetime, effort: Effort, *, lifetimes: Lifetimes | None = None
) -> dict[str, Outlook]:
    """When these waiting jobs would start as things are. `lifetimes` are those of `lifetimes_of`, where they are known."""
    lasting = lifetimes_of(loaded) if lifetimes is None else lifetimes
    found = expected_starts(loaded.state, job_ids, lasting.futures(effort.futures), effort)
    corrections, at = _corrections(now), mark(now)
    claiming = {claim.id for claim in loaded.state.claims}  # Theirs is known by the grace of those who leave.
    if lasting.runs_count >= HISTORY_LEAST:
        return {
            job_id: Outlook(ahead, ahead) if job_id in claiming else _outlook(ahead, corrections, at)
            for job_id, ahead in found.items()
        }
    bounds = expected_starts(loaded.state, job_ids, [{}], effort._replace(rounding=0))
    return {job_id: _without_history(ahead, bounds[job_id], at) for job_id, ahead in found.items()}


def _outlook(ahead: StartForecast, corrections: Corrections, at: int) -> Outlook:
    """What is told of what was looked ahead: as much of it as can be known."""
    if ahead.p50 is None or ahead.p90 is None:
        return Outlook(ahead, ahead)
    soon, late = corrections.correct(typical=ahead.p50 - at, cautious=ahead.p90 - at)
    told, sure_p50 = StartForecast(at + soon, at + late), at + soon if ahead.is_sure else None
    if sure_p50 is None or not corrections.is_near(soon):
        return Outlook(told._replace(p50=None, reason=UNCERTAIN), ahead, sure_p50)
    return Outlook(told, ahead, sure_p50, corrections.error(soon))


def _without_history(ahead: StartForecast, bound: StartForecast, at: int) -> Outlook:
    """What can be said without knowing how long anything runs: what starts now, and by when others do if everything takes as
    long as it may. What has no start for a reason of its own has that reason."""
    if ahead.p90 is None or ahead.p90 <= at:
        return Outlook(ahead, ahead)
    told = StartForecast(None, bound.p90, LITTLE_HISTORY, is_sure=False)
    return Outlook(told, StartForecast(None, None, LITTLE_HISTORY, is_sure=False))


def predict_starts(now: datetime) -> int:
    """Keep what is expected of jobs that wait: of new ones for good, of all as it is now; and when these jobs started. How
    many changed."""
    kept = _keep_starts(now)
    old = StartPrediction.objects.filter(made_at__lt=now - KEPT).order_by().values_list("job_id", flat=True)[:IDS_AT_ONCE]
    StartPrediction.objects.filter(job_id__in=list(old)).delete()
    waiting = Job.objects.filter(state="queued", desired="run", array_size__isnull=True, hold=False, open_dependencies=0)
    new = waiting.filter(queued_at__lte=now - WAITED, startprediction__isnull=True)
    if not new.exists() and not _looked_at_before(now - LOOKED_AGAIN).exists():
        return kept
    loaded = load_state(now)
    effort = _effort(loaded, now)
    if effort is None:
        return kept
    # Only of those that a look ahead tells of: what is withheld gets no expectation, and would keep its place for good.
    here = sorted(uuid.UUID(job_id) for job_id in loaded.rows.keys() - loaded.withheld.keys())
    ids = _first_new(new, here)
    again = _looked_at_longest_ago(now - LOOKED_AGAIN, here)
    found = expect(loaded, {*ids, *again}, now, effort)
    looked = [
        {"id": row_id, **_now(found[job_id], now)} for job_id, row_id in sorted(again.items()) if job_id in found
    ]  # fmt: skip
    kept += len(bulk.update(StartPrediction, looked))
    rows = [
        {
            "id": row_id,
            "job_id": uuid.UUID(job_id),
            "tenant_id": loaded.rows[job_id].tenant_id,
            "made_at": now,
            **_predicted(outlook, now if loaded.rows[job_id].attempt_count else None),
            **_now(outlook, now),
        }
        for row_id, (job_id, outlook) in zip(new_ids(len(ids)), sorted((job_id, found[job_id]) for job_id in ids), strict=True)
    ]
    return kept + bulk.insert(StartPrediction, rows, ignore_conflicts=True)


def _effort(loaded: Loaded, now: datetime) -> Effort | None:
    """That of this sweep; None: none, because there are too many jobs, or many, and the last look was not long ago."""
    jobs = _jobs(loaded)
    rests = LOOKED_AGAIN_LARGE if jobs > SMALL_JOBS else LOOKED_AGAIN_SMALL
    if jobs > FEW_JOBS and StartPrediction.objects.filter(looked_at__gt=now - rests).exists():
        return None
    return effort_of(jobs)


def accuracy(tenant_ids: Iterable[uuid.UUID] | None, now: datetime) -> dict[str, Any]:
    """How predictions of the last week came true, of these tenants or of all: how many, which part started by their p90, and the
    median of how far the p50 was off, in seconds."""
    judged = StartPrediction.objects.filter(made_at__gte=now - JUDGED, started_at__isnull=False, p90_at__isnull=False)
    if tenant_ids is not None:
        judged = judged.filter(tenant_id__in=set(tenant_ids))
    rows = list(judged.order_by("-id").values_list("p50_at", "p90_at", "started_at")[:HISTORY_RUNS])
    if not rows:
        return {"predictions": 0, "by_p90": None, "median_error_seconds": None}
    errors = sorted(
        abs(round((started - p50).total_seconds())) for p50, _, started in rows if p50 is not None and started is not None
    )
    return {
        "predictions": len(rows),
        "by_p90": sum(started <= p90 for _, p90, started in rows if started is not None and p90 is not None) / len(rows),
        "median_error_seconds": errors[len(errors) // 2] if errors else None,
    }


def moment(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _first_new(new: QuerySet[Job], here: Sequence[uuid.UUID]) -> set[str]:
    """The oldest of these jobs that have no prediction. `here` is in the order of ids, and so of age."""
    ids: list[uuid.UUID] = []
    for start in range(0, len(here), IDS_AT_ONCE):
        if len(ids) >= PREDICTED_JOBS:
            break
        some = new.filter(id__in=here[start : start + IDS_AT_ONCE]).order_by("id")
        ids += some.values_list("id", flat=True)[: PREDICTED_JOBS - len(ids)]
    return {str(job_id) for job_id in ids}


def _looked_at_longest_ago(moment: datetime, here: Sequence[uuid.UUID]) -> dict[str, uuid.UUID]:
    """By job of these that waits, the prediction that was looked at before then; those that were not for longest."""
    rows: list[tuple[datetime | None, uuid.UUID, uuid.UUID]] = []
    for start in range(0, len(here), IDS_AT_ONCE):
        some = _looked_at_before(moment).filter(job_id__in=here[start : start + IDS_AT_ONCE])
        rows += some.values_list("looked_at", "id", "job_id")
    rows.sort(key=lambda row: (row[0] is not None, row[0] or moment, row[1]))
    return {str(job_id): row_id for _, row_id, job_id in rows[:PREDICTED_JOBS]}


def _looked_at_before(moment: datetime) -> QuerySet[StartPrediction]:
    """Of jobs that wait, also of those that were evicted and wait again: what was said before that is nothing any more."""
    waiting = StartPrediction.objects.filter(job__state="queued", job__hold=False)
    return waiting.filter(Q(looked_at__isnull=True) | Q(looked_at__lte=moment) | Q(looked_at__lt=F("job__queued_at")))


def _predicted(outlook: Outlook, started_at: datetime | None) -> dict[str, Any]:
    """What is kept for good. Of a job that has started before nothing is: that start cannot be judged by what was said later."""
    if started_at is not None:
        nothing = ("p50_at", "p90_at", "ahead_p50_at", "ahead_p90_at", "sure_p50_at")
        return {**dict.fromkeys(nothing), "started_at": started_at}
    return {
        "p50_at": moment(outlook.told.p50), "p90_at": moment(outlook.told.p90), "started_at": None,
        "ahead_p50_at": moment(outlook.ahead.p50), "ahead_p90_at": moment(outlook.ahead.p90),
        "sure_p50_at": moment(outlook.sure_p50),
    }  # fmt: skip


def _now(outlook: Outlook, now: datetime) -> dict[str, Any]:
    told = outlook.told
    return {
        "now_p50_at": moment(told.p50), "now_p90_at": moment(told.p90), "now_reason": told.reason[:40],
        "now_error_permille": outlook.error, "looked_at": now,
    }  # fmt: skip


def _keep_starts(now: datetime) -> int:
    """Write down when jobs with a prediction were admitted for the first time."""
    open_ones = StartPrediction.objects.filter(started_at__isnull=True, job__attempts__number=1)
    rows = list(open_ones.annotate(began=F("job__attempts__created_at")).values_list("id", "began")[:PREDICTED_JOBS])
    bulk.update(StartPrediction, [{"id": row_id, "started_at": began} for row_id, began in rows])
    return len(rows)


def _corrections(now: datetime) -> Corrections:
    """How what was looked ahead of late came true: the latest of it, also of jobs that wait still."""
    told = StartPrediction.objects.filter(ahead_p90_at__isnull=False, p90_at__isnull=False)
    columns = ("made_at", "ahead_p50_at", "ahead_p90_at", "sure_p50_at", "p90_at", "started_at")
    corrections = Corrections()
    latest = list(told.order_by("-id").values_list(*columns)[:OBSERVED])
    for made, ahead_p50, ahead_p90, sure_p50, p90, started in reversed(latest):
        if ahead_p50 is not None and ahead_p90 is not None and p90 is not None:
            corrections.add(
                typical=_wait(made, ahead_p50), cautious=_wait(made, ahead_p90), kept_by=_wait(made, p90),
                waited=_wait(made, started or now), has_started=started is not None,
                sure=None if sure_p50 is None else _wait(made, sure_p50),
            )  # fmt: skip
    return corrections


def _wait(made: datetime, until: datetime) -> int:
    return round((until - made).total_seconds())


def lifetimes_of(loaded: Loaded) -> Lifetimes:
    """How long every waiting and running job may last, as far as history tells."""
    jobs = {job.id: job for job in (*loaded.state.waiting, *(held.job for held in loaded.state.running))}
    ids = sorted(found for text in jobs if (found := _uuid(text)) is not None)
    names: dict[str, tuple[str, int]] = {}
    for start in range(0, len(ids), IDS_AT_ONCE):
        rows = Job.objects.filter(id__in=ids[start : start + IDS_AT_ONCE]).order_by().values_list("id", "name", "gpu_millis")
        names.update((str(job_id), (name, gpu_millis)) for job_id, name, gpu_millis in rows)
    queues = loaded.numbers.queues
    saved = _saved([uuid.UUID(job_id) for job_id in names if jobs[job_id].checkpoint_seconds])
    known = {}
    for job_id, (name, gpu_millis) in names.items():
        job = jobs[job_id]
        kinds = kinds_of(str(job.user), name, str(queues[job.queue]), size_of(gpu_millis, job.max_runtime))
        known[job_id] = KnownJob(kinds, saved.get(job_id, 0))
    return Lifetimes(loaded.state, predictor_of_history(), known)


def _saved(job_ids: Sequence[uuid.UUID]) -> dict[str, int]:
    """Of jobs that can be resumed, how long their attempts before this one ran: about what they need not do again."""
    seconds: dict[str, int] = {}
    for start in range(0, len(job_ids), IDS_AT_ONCE):
        ended = Attempt.objects.filter(job_id__in=job_ids[start : start + IDS_AT_ONCE], ended_at__isnull=False)
        for job_id, began, until in ended.order_by().values_list("job_id", "started_at", "ended_at"):
            if began is not None and until is not None:
                seconds[str(job_id)] = seconds.get(str(job_id), 0) + max(0, _wait(began, until))
    return seconds


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
