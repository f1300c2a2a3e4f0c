"""Conditions on the lists of jobs that the two databases say differently."""

from __future__ import annotations

import json

from django.db import connections, router
from django.db.models import QuerySet, TextField, Value
from django.db.models.functions import Cast, StrIndex

from jobs.lifecycle.states import JobState
from jobs.models import Job
from jobs.selectors.places import AGING_SECONDS, stands_at, turn_sql
from reconciling.bulk import statement_cursor

PLACES_MAX = 500  # Counting costs by the row; no user plans by whether a job is the 3,000th or the 4,000th.


def place_in_queue(job: Job) -> int | None:
    """How many jobs of its queue the scheduler looks at before this one, plus one.

    None for a job that does not wait, and beyond `PLACES_MAX`. Jobs that are held are not counted: they stand aside.
    """
    if job.state != JobState.QUEUED or job.array_size is not None:
        return None
    connection = connections[router.db_for_read(Job)]
    columns = {column.attname: column for column in Job._meta.concrete_fields}
    values = {"queue_id": job.queue_id, "id": job.id}
    queue_id, job_id = (columns[name].get_db_prep_value(value, connection) for name, value in values.items())
    turn = stands_at(job) - AGING_SECONDS * job.priority
    with statement_cursor(connection) as cursor:
        # As text: with the ORM's work on it this was a fifth of what a submission costs.
        cursor.execute(_BEFORE.format(turn=turn_sql(connection.vendor)), [queue_id, turn, job.priority, job_id, PLACES_MAX])
        place: int = 1 + cursor.fetchone()[0]
    return place if place <= PLACES_MAX else None


_BEFORE = """
SELECT count(*) FROM (
    SELECT 1 FROM jobs_job
    WHERE queue_id = %s AND state = 'queued' AND NOT hold AND array_size IS NULL
        AND ({turn}, priority, id) < (%s, %s, %s)
    LIMIT %s
) AS before
"""


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
