"""One tenant's ten thousand waiting jobs do not keep another's from starting, however cheap it is to submit them."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.engines.fake import Script
from jobs.models import Job
from jobs.services.submit import prepare, submit
from tests.builders.quay import Quay

pytestmark = pytest.mark.database

NOISE = 10_000
HALF = {"resources": {"cpu": 4, "memory": "1Gi"}}


def flood(quay: Quay, count: int) -> None:
    """So many equal jobs of one tenant, in calls of a thousand, each of which runs for a minute."""
    document = {"name": "noise", "command": "true", **HALF}
    quay.scripts["noise"] = Script(duration_seconds=60)
    prepared = prepare(actor=quay.cast.bob.actor, tenant=None, document=document)
    for start in range(0, count, 1_000):
        submit([prepared] * min(1_000, count - start), actor=quay.cast.bob.actor, now=quay.now)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")  # A test is one transaction, which no daemon of the server counts the rows of.


def passes_until_started(quay: Quay, job_id: uuid.UUID) -> int:
    for passes in range(1, 20):
        quay.schedule()
        if Job.objects.get(id=job_id).state != "queued":
            return passes
        quay.turn()
        quay.pass_time(61)
    raise AssertionError("it does not start")


@pytest.mark.capability("27", "Ten thousand jobs of one tenant keep another's from starting no longer than until something ends")
def test_ten_thousand_jobs_of_one_tenant_do_not_keep_another_waiting(quay: Quay) -> None:
    flood(quay, NOISE)
    quay.turn(2)
    assert Job.objects.filter(state="queued").count() == NOISE - 2
    quay.pass_time(61)
    quay.turn()
    job: Any = quay.submit("quiet", by=quay.cast.carol, script=Script(duration_seconds=5), **HALF)

    assert passes_until_started(quay, job.id) <= 2, "as soon as anything ends"
    queued_before = Job.objects.filter(state="queued", submitted_at__lte=quay.now - timedelta(seconds=1)).count()
    assert queued_before > NOISE - 20, "nearly all of the others, who came first, wait on"


@pytest.mark.capability("27", "A pass for a neighbour asks the database as much however many others wait")
def test_a_pass_that_admits_a_neighbour_asks_the_database_as_much_however_many_others_wait(quay: Quay) -> None:
    counts = []
    for more in (20, 3_000):
        flood(quay, more)
        quay.turn(3)
        quay.pass_time(61)
        quay.turn(3)
        quay.driver.changes.full_load_at = float("inf")
        job = quay.submit("quiet", by=quay.cast.carol, script=Script(duration_seconds=1), **HALF)
        with CaptureQueriesContext(connection) as seen:
            for _ in range(3):
                quay.schedule()
        counts.append(len(seen))
        quay.pass_time(61)
        quay.turn(4)
        assert quay.state(job) != "queued"
    assert abs(counts[1] - counts[0]) <= 3, counts
