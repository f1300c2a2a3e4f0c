"""Folds the rows that say how many jobs there are of each kind, so that adding them up stays cheap."""

from __future__ import annotations

from datetime import datetime

from django.db import connection, transaction

from jobs.models import JobCount

FOLD_ROWS = 20_000  # Of one transaction; a tenth of a second.
FOLD_FROM = 500  # So few are added up in no time.

_FOLD = """
WITH taken AS (
    DELETE FROM jobs_jobcount WHERE id IN (SELECT id FROM jobs_jobcount ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED)
    RETURNING tenant_id, queue_id, state, number
)
INSERT INTO jobs_jobcount (tenant_id, queue_id, state, number)
SELECT tenant_id, queue_id, state, sum(number) FROM taken GROUP BY tenant_id, queue_id, state HAVING sum(number) <> 0
"""


def fold_counts(now: datetime) -> int:
    """Replace rows by their sums; returns how many fewer there are. May run twice at once: each takes what it locks.

    Nobody who adds up sees a row and the sum that replaced it, or neither: both change with one commit.
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
