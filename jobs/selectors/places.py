"""Where waiting jobs stand in their queues, as the scheduler orders them (`jobs/scheduling/core/state/ordering.py`): in Python
for one row, and as SQL for many.

A job stands where it was put (`placed_at`); else at its submission, later by some times its expected run time, so that shorter
jobs come first. Its priority is worth seconds of waiting.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from django.db import connections
from django.db.models import BigIntegerField, QuerySet
from django.db.models.expressions import RawSQL

from jobs.models import Job
from jobs.scheduling.core.state.ordering import BEHIND_MAX, behind
from jobs.scheduling.core.state.policy import Policy
from kernel.config import current
from tenants.capacity.quota.accounting import mark

AGING_SECONDS = Policy().aging_seconds


class RuntimeColumns(Protocol):
    """The columns of a job that say how long it is thought to run."""

    @property
    def predicted_seconds(self) -> int | None: ...
    @property
    def cautious_seconds(self) -> int | None: ...


class StandingColumns(RuntimeColumns, Protocol):
    """The columns of a job that say where it stands."""

    @property
    def max_runtime_seconds(self) -> int | None: ...
    @property
    def submitted_at(self) -> datetime: ...
    @property
    def placed_at(self) -> datetime | None: ...


def expected_seconds(row: RuntimeColumns) -> int | None:
    """How long a job will typically run: by its kind, else by its queue."""
    return row.cautious_seconds if row.predicted_seconds is None else row.predicted_seconds


def stands_at(row: StandingColumns) -> int:
    """Where a job stands among those of its priority, in seconds since 1970."""
    if row.placed_at is not None:
        return mark(row.placed_at)
    return mark(row.submitted_at) + _behind(row)


def moved_by(row: StandingColumns) -> int:
    """By how much a job was moved, in seconds later than it would stand by itself; 0 for one that was not."""
    return 0 if row.placed_at is None else mark(row.placed_at) - mark(row.submitted_at) - _behind(row)


def _behind(row: StandingColumns) -> int:
    config, typical = current(), expected_seconds(row)
    known = [seconds for seconds in (typical, row.max_runtime_seconds) if seconds is not None]
    assumed = round(config.scheduler_assumed_runtime_seconds)
    return behind(min(known, default=None), times=config.scheduler_shortest_first, assumed=assumed)


def stand_sql(vendor: str) -> str:
    """`stands_at` of a row of `jobs_job`, as an expression."""
    config = current()
    typical, longest = "coalesce(jobs_job.predicted_seconds, jobs_job.cautious_seconds)", "jobs_job.max_runtime_seconds"
    if vendor == "postgresql":
        least, seconds = "least", "floor(extract(epoch from jobs_job.{}))::bigint"
    else:
        least, seconds = "min", "cast(strftime('%%s', jobs_job.{}) as integer)"
    shorter = f"coalesce({least}({typical}, {longest}), {typical}, {longest}, {round(config.scheduler_assumed_runtime_seconds)})"
    later = f"{least}({BEHIND_MAX}, {int(config.scheduler_shortest_first)} * {shorter})"
    return f"coalesce({seconds.format('placed_at')}, {seconds.format('submitted_at')} + {later})"


def turn_sql(vendor: str) -> str:
    """Where a row stands among those of every priority; the next job is the one with the least."""
    return f"({stand_sql(vendor)} - {AGING_SECONDS} * jobs_job.priority)"


def stands_of(rows: QuerySet[Job]) -> RawSQL:
    """`stands_at` of each of these rows, to annotate them with."""
    return RawSQL(stand_sql(connections[rows.db].vendor), (), output_field=BigIntegerField())  # noqa: S611 - no text of a user.


def turns_of(rows: QuerySet[Job]) -> RawSQL:
    """By what the scheduler orders the jobs of a queue, to annotate these rows with; of equal ones by priority and id."""
    return RawSQL(turn_sql(connections[rows.db].vendor), (), output_field=BigIntegerField())  # noqa: S611 - no text of a user.
