"""An hour of outage, then everything that was submitted meanwhile: drained in order, each job once, no tenant above its limits.

What the scheduler gives today is order by priority and age, and ceilings (docs/scheduling.md); it has no shares yet. So of two
tenants whose jobs came mixed, each gets what it submitted its part of, and one that came with a thousand jobs before the other's
first is served first - unless an operator has set a ceiling, which then keeps the other's part free from the first moment on.
"""

from __future__ import annotations

from collections import Counter

import pytest

from clusters.engines.fake import Script
from jobs.models import Attempt, Job
from reconciling.models import Transition
from tenants.models import QueueUsage, Reservation
from tests.builders.quay import Quay
from tests.factories.tenants import limit, top_queue

pytestmark = pytest.mark.database

OUTAGE_SECONDS = 3_600
CORES = 8
TENANTS = ("bob", "carol")


def submit_during_outage(quay: Quay, order: list[str]) -> list[Job]:
    """One job after the other while nobody schedules; the hour passes meanwhile."""
    jobs = []
    for number, name in enumerate(order):
        script = Script(duration_seconds=1)
        resources = {"cpu": 1, "memory": "64Mi"}
        jobs.append(quay.submit(f"{name}-{number}", by=getattr(quay.cast, name), script=script, resources=resources))
        quay.pass_time(OUTAGE_SECONDS / len(order))
    return jobs


def drain(quay: Quay, jobs: list[Job]) -> None:
    for _ in range(4 * len(jobs)):
        quay.turn()
        if not Job.objects.exclude(state__in=["succeeded", "failed", "stopped"]).exists():
            return
        quay.pass_time(1)
    raise AssertionError("it is not drained")


def started_in_order() -> list[str]:
    rows = Transition.objects.filter(subject_kind="job", to_state="admitted").order_by("at", "id")
    names = dict(Job.objects.values_list("id", "name"))
    return [names[row] for row in rows.values_list("subject_id", flat=True)]


def tenant_of(name: str) -> str:
    return name.partition("-")[0]


@pytest.mark.parametrize("number", [120, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])])
def test_what_came_mixed_is_drained_by_age_and_every_tenant_gets_its_part_all_along(number: int, quay: Quay) -> None:
    jobs = submit_during_outage(quay, [TENANTS[place % 2] for place in range(number)])
    drain(quay, jobs)
    started = started_in_order()
    positions = {job.name: place for place, job in enumerate(jobs)}
    waves = [sorted(positions[name] for name in started[at : at + CORES]) for at in range(0, number, CORES)]
    assert [place for wave in waves for place in wave] == list(range(number)), "the oldest first, to the end"
    for at in range(0, number - number % 20, 20):
        shares = Counter(tenant_of(name) for name in started[at : at + 20])
        assert max(shares.values()) <= 2 * 20 / len(TENANTS)
        assert min(shares.get(name, 0) for name in TENANTS) >= 20 / len(TENANTS) / 2
    assert_done_once(jobs)


def test_a_ceiling_keeps_the_others_part_free_behind_a_tenant_that_came_with_everything_first(quay: Quay) -> None:
    crowd, late = ["bob"] * 80, ["carol"] * 20
    limit(top_queue(quay.cast.tenant), quay.pool.pk, cpu_millis=CORES * 1_000 // 2)
    jobs = submit_during_outage(quay, [*crowd, *late])
    drain(quay, jobs)
    started = started_in_order()
    first = Counter(tenant_of(name) for name in started[:40])
    assert first["carol"] == 20, "half of the machine was theirs from the first moment on"
    most = max(QueueUsage.objects.values_list("cpu_millis", flat=True))
    assert most == 0
    assert_done_once(jobs)


def assert_done_once(jobs: list[Job]) -> None:
    assert Job.objects.filter(state="succeeded").count() == len(jobs)
    assert Attempt.objects.count() == len(jobs)
    assert not Reservation.objects.filter(released_at__isnull=True).exists()
