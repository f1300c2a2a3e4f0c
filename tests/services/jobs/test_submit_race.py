"""Two hundred jobs submitted at once while two schedulers admit: a ceiling is never passed, and nothing is lost."""

from __future__ import annotations

import threading
from functools import partial

import pytest
from django.db.models import Sum

from clusters.engines.fake import Script
from jobs.models import Attempt, Job
from jobs.reconcile.driver import SchedulerDriver
from kernel import clock
from tenants.models import QueueUsage, Reservation
from tests.builders.quay import Quay
from tests.builders.threads import together
from tests.factories.clusters import node_facts
from tests.factories.tenants import limit, make_cast, top_queue

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]

SUBMITTERS, EACH, CEILING = 8, 25, 9


def gpus_held() -> int:
    whole = Reservation.objects.filter(released_at__isnull=True).aggregate(sum=Sum("gpu_millis"))["sum"] or 0
    return int(whole) // 1000


def test_two_hundred_jobs_submitted_at_once_never_pass_a_ceiling() -> None:
    quay = Quay(make_cast(), nodes=[node_facts(f"node-{number}", cores=64, gpus=8) for number in range(4)])
    queue = top_queue(quay.cast.tenant)
    limit(queue, quay.pool.pk, gpu_millis=CEILING * 1000)
    spec = {"roles": {"worker": {"command": "true", "resources": {"gpu": 1, "memory": "1Gi"}}}}
    seen: list[int] = []
    submitted = threading.Event()

    def submit(number: int) -> None:
        for turn in range(EACH):
            quay.submit(f"job-{number}-{turn}", script=Script(duration_seconds=10_000), **spec)

    def submit_all() -> None:
        together(*[partial(submit, number) for number in range(SUBMITTERS)])
        submitted.set()

    def schedule(driver: SchedulerDriver) -> None:
        while True:
            is_last = submitted.is_set()
            driver.run(now=quay.now)
            seen.append(gpus_held())
            if is_last:
                return

    with clock.virtual(lambda: quay.now):
        together(submit_all, lambda: schedule(quay.driver), lambda: schedule(SchedulerDriver()))
        quay.driver.forget()
        quay.turn(3)

    assert max(seen) <= CEILING
    assert gpus_held() == CEILING
    assert Job.objects.count() == SUBMITTERS * EACH
    assert Job.objects.filter(state="queued").count() == SUBMITTERS * EACH - CEILING
    assert Attempt.objects.exclude(state="ended").count() == CEILING
    assert set(Job.objects.filter(state="queued").values_list("reason_code", flat=True)) == {"ceiling"}
    assert QueueUsage.objects.get(queue=queue, pool_id=quay.pool.pk).gpu_millis == CEILING * 1000
