"""Conditions on the lists of jobs that the two databases say differently."""

from __future__ import annotations

import json

from django.db import connections
from django.db.models import Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, StrIndex

from jobs.lifecycle.states import JobState
from jobs.models import Job

PLACES_MAX = 500  # Counting costs by the row; nobody plans by whether a job is the 3,000th or the 4,000th.


def place_in_queue(job: Job) -> int | None:
    """How many jobs of its queue the scheduler looks at before this one, plus one.

    None for a job that does not wait, and beyond `PLACES_MAX`. Jobs that are held are not counted: they stand aside.
    """
    if job.state != JobState.QUEUED or job.array_size is not None:
        return None
    before = Q(priority__gt=job.priority) | Q(priority=job.priority, queued_at__lt=job.queued_at)
    before |= Q(priority=job.priority, queued_at=job.queued_at, id__lt=job.id)
    waiting = Job.objects.filter(queue_id=job.queue_id, state=JobState.QUEUED, hold=False, array_size__isnull=True)
    place = 1 + waiting.filter(before).values("id")[:PLACES_MAX].count()
    return place if place <= PLACES_MAX else None


def with_tag(rows: QuerySet[Job], tag: str) -> QuerySet[Job]:
    """Jobs that carry the tag."""
    if connections[rows.db].vendor == "postgresql":
        return rows.filter(tags__contains=[tag])
    # SQLite's LIKE knows no case; INSTR does.
    place = StrIndex(Cast("tags", TextField()), Value(json.dumps(tag)))
    return rows.annotate(tag_place=place).filter(tag_place__gt=0)


def with_label(rows: QuerySet[Job], key: str, value: str) -> QuerySet[Job]:
    """Jobs whose label `key` has this value."""
    if connections[rows.db].vendor == "postgresql":
        return rows.filter(labels__contains={key: value})
    return rows.filter(**{f"labels__{key}": value}) if _is_plain(key) else rows.none()


def _is_plain(key: str) -> bool:
    """A key that cannot be mistaken for a lookup; labels' grammar has no underscore pair, but a query may say anything."""
    return bool(key) and "__" not in key
