"""What ran of late, for predictions: the last ends by themselves of the whole installation."""

from __future__ import annotations

from django.db.models import QuerySet

from jobs.models import Attempt
from jobs.scheduling.questions.predict import Predictor, size_of
from tenants.capacity.quota.accounting import mark

HISTORY_RUNS = 5_000  # The latest, of the whole installation.


def predictor_of_history() -> Predictor:
    """What ended by itself of late, in the order of ends."""
    predictor = Predictor()
    add_runs(predictor, Attempt.objects.order_by("-id"))
    return predictor


def add_runs(predictor: Predictor, attempts: QuerySet[Attempt]) -> None:
    """Add the first `HISTORY_RUNS` of these attempts, newest first, that ended by themselves. One query."""
    runs = attempts.filter(outcome__in=["succeeded", "failed"], started_at__isnull=False, ended_at__isnull=False)
    columns = (
        "job__user_id", "job__name", "job__queue_id", "job__gpu_millis", "job__max_runtime_seconds", "started_at", "ended_at",
        "id",
    )  # fmt: skip
    latest = [row for row in runs.values_list(*columns)[:HISTORY_RUNS] if row[5] and row[6]]
    for user, name, queue, gpu_millis, longest, began, ended, _ in sorted(latest, key=lambda row: (row[6], row[7])):
        if began is not None and ended is not None:
            predictor.add(
                user=str(user), name=name, queue=str(queue), seconds=round((ended - began).total_seconds()), ended_at=mark(ended),
                size=size_of(gpu_millis, longest),
            )  # fmt: skip
