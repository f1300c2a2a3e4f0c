"""Two hundred jobs submitted at once while two schedulers admit: a ceiling is never passed, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest
from django.db import connections
from django.db.models import Sum

from clusters.engines.fake import Script
from jobs.models import Attempt, Job
from jobs.reconcile.driver import SchedulerDriver
from kernel import clock
from tenants.models import QueueUsage, Reservation
from tests.builders.quay import Quay
from tests.factories.clusters import node_facts
from tests.factories.tenants import limit, make_cast, top_queue

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]

SUBMITTERS, EACH, CEILING = 8, 25, 9


def gpus_held() -> int:
    whole = Reservation.objects.filter(released_at__isnull=True).aggregate(sum=Sum("gpu_millis"))["sum"] or 0
    return int(whole) // 1000


def in_threads(works: list[Callable[[], None]]) -> None:
    errors: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    if errors:
        raise errors[0]


def test_two_hundred_jobs_submitted_at_once_never_pass_a_ceiling() -> None:
    quay = Quay(make_cast(), nodes=[node_facts(f"node-{number}", cores=64, gpus=8) for number in range(4)])
    queue = top_queue(quay.cast.tenant)
    limit(queue, quay.pool.pk, gpu_millis=CEILING * 1000)
    spec = {"roles": {"worker": {"command": "true", "resources": {"gpu": 1, "memory": "1Gi"}}}}
    seen: list[int] = []

    def submit(number: int) -> None:
        for turn in range(EACH):
            quay.submit(f"job-{number}-{turn}", script=Script(duration_seconds=10_000), **spec)

    def schedule(driver: SchedulerDriver) -> None:
        while True:
            driver.run(now=quay.now)
            seen.append(gpus_held())
            if not any(thread.name.startswith("submits") and thread.is_alive() for thread in threading.enumerate()):
                return

    with clock.virtual(lambda: quay.now):
        submitters = [
            threading.Thread(name=f"submits-{number}", target=in_threads, args=([partial(submit, number)],))
            for number in range(SUBMITTERS)
        ]
        for thread in submitters:
            thread.start()
        in_threads([lambda: schedule(quay.driver), lambda: schedule(SchedulerDriver())])
        for thread in submitters:
            thread.join(100)
        quay.driver.forget()
        quay.turn(3)

    assert max(seen) <= CEILING
    assert gpus_held() == CEILING
    assert Job.objects.count() == SUBMITTERS * EACH
    assert Job.objects.filter(state="queued").count() == SUBMITTERS * EACH - CEILING
    assert Attempt.objects.exclude(state="ended").count() == CEILING
    assert set(Job.objects.filter(state="queued").values_list("reason_code", flat=True)) == {"ceiling"}
    assert QueueUsage.objects.get(queue=queue, pool_id=quay.pool.pk).gpu_millis == CEILING * 1000
