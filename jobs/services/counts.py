"""The rows that say how many jobs there are of each kind: folded, so that adding them up stays cheap, and checked by counting."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import NamedTuple

import structlog
from django.db import connection, transaction

from activity.services import record_audit
from jobs.models import JobCount
from kernel.actor import system_actor

FOLD_ROWS = 20_000  # Of one transaction; a tenth of a second.
FOLD_FROM = 500  # So few are added up in no time.
DRIFTS_TOLD = 100  # Of one recount, in log and audit; all are corrected.

log = structlog.get_logger("counts")

_FOLD = """
WITH taken AS (
    DELETE FROM jobs_jobcount WHERE id IN (SELECT id FROM jobs_jobcount ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED)
    RETURNING tenant_id, queue_id, state, number
)
INSERT INTO jobs_jobcount (tenant_id, queue_id, state, number)
SELECT tenant_id, queue_id, state, sum(number) FROM taken GROUP BY tenant_id, queue_id, state HAVING sum(number) <> 0
"""

# One statement sees jobs and numbers of one moment: every change of a job commits together with its own numbers. What is added is
# a difference, so that changes which commit meanwhile count as they would have.
_RECOUNT = """
INSERT INTO jobs_jobcount (tenant_id, queue_id, state, number)
SELECT tenant_id, queue_id, state, sum(number) FROM (
    SELECT tenant_id, queue_id, state, count(*) AS number FROM jobs_job WHERE parent_id IS NULL
    GROUP BY tenant_id, queue_id, state
    UNION ALL SELECT tenant_id, queue_id, state, -number FROM jobs_jobcount
) AS compared GROUP BY tenant_id, queue_id, state HAVING sum(number) <> 0
RETURNING tenant_id, queue_id, state, number
"""


class CountDrift(NamedTuple):
    """So many more jobs (fewer, if negative) of a tenant, queue and state than the kept numbers said."""

    tenant_id: uuid.UUID
    queue_id: uuid.UUID
    state: str
    number: int


def recount_jobs(now: datetime) -> list[CountDrift]:
    """Count all jobs, correct the kept numbers where they differ, and say so in log and audit: a difference is our mistake.

    Reads every job: a second for a million. Two at once would both correct, so that the second waits for the first.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("LOCK TABLE jobs_jobcount IN SHARE UPDATE EXCLUSIVE MODE")  # No reader or writer waits for it.
        cursor.execute(_RECOUNT)
        drifts = [CountDrift(_id(tenant), _id(queue), state, int(number)) for tenant, queue, state, number in cursor.fetchall()]
        if drifts:
            changed = {f"{drift.tenant_id}/{drift.queue_id}/{drift.state}": drift.number for drift in drifts[:DRIFTS_TOLD]}
            record_audit(
                actor=system_actor("recount"), verb="job_count.repair", tenant_id=None, target_kind="job_count", target_id=None,
                after=changed, count=len(drifts), at=now,
            )  # fmt: skip
    for drift in drifts[:DRIFTS_TOLD]:
        log.error(
            "job_count_drift",
            tenant_id=str(drift.tenant_id),
            queue_id=str(drift.queue_id),
            state=drift.state,
            missing=drift.number,
        )
    return drifts


def _id(value: uuid.UUID | str) -> uuid.UUID:
    """As the driver gives it: SQLite has text."""
    return value if isinstance(value, uuid.UUID) else uuid.UUID(value)


def fold_counts(now: datetime) -> int:
    """Replace rows by their sums; returns how many fewer there are. May run twice at once: each takes what it locks.

    No process that adds up sees a row and the sum that replaced it, or neither: both change with one commit.
    """
    before = JobCount.objects.count()
    if before <= FOLD_FROM:
        return 0
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(_FOLD, [FOLD_ROWS])
        else:
            cursor.execute("SELECT max(id) FROM jobs_jobcount")
            last = cursor.fetchone()[0]
            cursor.execute(
                "INSERT INTO jobs_jobcount (tenant_id, queue_id, state, number) SELECT tenant_id, queue_id, state, sum(number) "
                "FROM jobs_jobcount WHERE id <= %s GROUP BY tenant_id, queue_id, state HAVING sum(number) <> 0",
                [last],
            )
            cursor.execute("DELETE FROM jobs_jobcount WHERE id <= %s", [last])
    return max(0, before - JobCount.objects.count())
