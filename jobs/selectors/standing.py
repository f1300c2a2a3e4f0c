"""Of the jobs of a list: places and expected starts of those that wait, and what those that run hold. Reads only."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Sum, Window
from django.db.models.functions import RowNumber

from jobs.models import Job, Task
from jobs.selectors.board import RUNNING
from jobs.selectors.expected import ExpectedStart, expected_starts_of
from jobs.selectors.lists import PLACES_MAX
from jobs.selectors.places import turns_of
from kernel.resources import Resources


@dataclass(frozen=True, slots=True)
class Standings:
    """By job. `places` count from 1 in each queue; a job that is held, and one beyond the first few hundred, has none."""

    places: Mapping[uuid.UUID, int]
    expected: Mapping[uuid.UUID, ExpectedStart]
    held: Mapping[uuid.UUID, Resources]


def standings_of(jobs: Sequence[Job], now: datetime) -> Standings:
    """Three queries at most; one orders all that wait in the queues of these jobs."""
    waiting = [job for job in jobs if job.state == "queued" and job.array_size is None]
    live = {job.attempt_id: job.id for job in jobs if job.attempt_id is not None and job.state in RUNNING}
    return Standings(
        _places({job.queue_id for job in waiting}) if waiting else {},
        expected_starts_of(waiting, now) if waiting else {},
        _held(live) if live else {},
    )


def _places(queue_ids: set[uuid.UUID]) -> dict[uuid.UUID, int]:
    order = [F("turn").asc(), F("priority").asc(), F("id").asc()]
    waiting = Job.objects.filter(queue_id__in=queue_ids, state="queued", hold=False, array_size__isnull=True).order_by()
    placed = waiting.annotate(turn=turns_of(waiting)).annotate(
        position=Window(RowNumber(), partition_by=[F("queue_id")], order_by=order)
    )
    return dict(placed.filter(position__lte=PLACES_MAX).values_list("id", "position"))


def _held(live: Mapping[uuid.UUID, uuid.UUID]) -> dict[uuid.UUID, Resources]:
    """An elastic job holds as much as there was room for, which its tasks say."""
    rows = Task.objects.filter(attempt_id__in=live.keys()).order_by().values_list("attempt_id")
    sums = rows.annotate(cpu=Sum("cpu_millis"), memory=Sum("memory_bytes"), gpu=Sum("gpu_millis"))
    return {live[attempt_id]: Resources(cpu, memory, gpu) for attempt_id, cpu, memory, gpu in sums}
