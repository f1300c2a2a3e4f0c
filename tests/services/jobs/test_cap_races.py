"""Caps on people and on tenants under races: whoever admits at the same moment, with whatever old view, no cap is ever passed."""

from __future__ import annotations

import itertools
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.engines.fake import Script
from clusters.models import Pool
from clusters.services import record_inventory
from jobs.lifecycle.states import ATTEMPT_LIFECYCLE
from jobs.loading.around import look_around
from jobs.loading.rows import PendingRow, load_pending
from jobs.models import Job, Task
from jobs.reconcile.admit import Admission, TaskPlacement, admit
from jobs.reconcile.driver import SchedulerDriver
from jobs.services.stop import stop_jobs
from kernel import clock
from kernel.resources import Resources
from tenants.models import QueueRule, Tenant, TenantAncestor, UserCap
from tenants.services import CapLine, recount_usage, set_user_caps
from tests.builders.quay import Quay
from tests.builders.threads import together
from tests.factories.clusters import make_cluster, node_facts
from tests.factories.tenants import make_cast, make_tenant, top_queue

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]

ENDLESS = Script(duration_seconds=10_000)
WORKERS, SUBMITTED = 8, 50
GPU = Resources(cpu_millis=100, memory_bytes=2**20, gpu_millis=1000)


def tasks_held() -> Counter[uuid.UUID]:
    """How many containers each user has, by what the database says."""
    rows = Task.objects.filter(attempt__state__in=ATTEMPT_LIFECYCLE.live_states)
    return Counter(rows.values_list("attempt__job__user_id", flat=True))


def two_pools() -> Quay:
    """Two clusters, so that admissions to one do not wait for those to the other."""
    nodes = [node_facts(f"node-{number}", cores=64, gpus=8) for number in range(20)]
    quay = Quay(make_cast(), nodes=nodes)
    record_inventory(make_cluster("yard").pk, quay.engine.inventory(), quay.now)
    return quay


class Schedulers:
    """Several that all believe to lead, each with the view of the beginning: nothing runs, and there is room for all."""

    def __init__(self, quay: Quay) -> None:
        self.quay = quay
        self.pools = look_around(quay.now, {}).pools
        self.pending = {row.id: row for row in load_pending({})}
        self._nodes = itertools.cycle(f"node-{number}" for number in range(20))

    def admission(self, row: PendingRow, pool: int) -> Admission:
        """One task of one GPU."""
        return Admission(row.id, self.pools[pool], GPU, (TaskPlacement("worker", 0, next(self._nodes), GPU),))

    def admit_all(self, *, batch: int = 3) -> None:
        """Every one of them admits its part, in small batches, all at the same time and to pools in turn."""
        rows = sorted(self.pending.values())
        parts = [[self.admission(row, number % len(self.pools)) for row in rows[number::WORKERS]] for number in range(WORKERS)]

        def work(part: list[Admission]) -> None:
            for few in _few(part, batch):
                admit(few, self.pending, {}, now=self.quay.now)

        together(*[partial(work, part) for part in parts])


def _few(part: list[Admission], batch: int) -> Iterator[list[Admission]]:
    return (part[start : start + batch] for start in range(0, len(part), batch))


def submit(quay: Quay, count: int, **more: object) -> list[Job]:
    spec = {"roles": {"worker": {"command": "true", "resources": {"gpu": 1, "memory": "1Mi", "cpu": 0.1}}}}
    return [quay.submit(f"job-{number}", script=ENDLESS, **spec, **more) for number in range(count)]  # type: ignore[arg-type]


@pytest.mark.capability(
    "24", "Fifty submissions at once and 200 admissions by several schedulers that all believe to lead never pass a cap"
)
@pytest.mark.capability("25", "Caps on the containers of a user and a tenant hold under races")
def test_two_hundred_admissions_by_many_schedulers_never_pass_a_cap_on_a_user() -> None:
    quay = two_pools()
    UserCap.objects.create(tenant=quay.cast.tenant, user=None, gpu_millis=9_000, containers=20)
    UserCap.objects.create(tenant=quay.cast.tenant, user=quay.cast.alice.user, jobs=4)
    submit(quay, 100)
    submit(quay, 100, by=quay.cast.alice)

    Schedulers(quay).admit_all()

    assert tasks_held() == {quay.cast.bob.user.pk: 9, quay.cast.alice.user.pk: 4}
    assert Job.objects.filter(state="queued").count() == 200 - 13
    assert set(Job.objects.filter(state="queued").values_list("reason_code", flat=True)) == {"user_cap"}
    assert recount_usage(now=quay.now) == []


@pytest.mark.capability("25", "Caps on the containers of a user and a tenant hold under races")
def test_admissions_of_many_schedulers_never_pass_what_a_tenant_may_have_in_all() -> None:
    quay = two_pools()
    QueueRule.objects.create(queue=top_queue(quay.cast.tenant), max_containers=11)
    submit(quay, 30)
    submit(quay, 30, by=quay.cast.alice)

    Schedulers(quay).admit_all()

    assert tasks_held().total() == 11
    assert set(Job.objects.filter(state="queued").values_list("reason_code", flat=True)) == {"tenant_cap"}


def test_what_is_held_below_a_tenant_counts_for_its_cap_also_under_a_race() -> None:
    quay = two_pools()
    above = make_tenant("above")
    Tenant.objects.filter(id=quay.cast.tenant.pk).update(parent=above)
    TenantAncestor.objects.create(tenant=quay.cast.tenant, ancestor=above, depth=1)
    UserCap.objects.create(tenant=above, user=None, jobs=7)
    submit(quay, 30)

    Schedulers(quay).admit_all()

    assert tasks_held() == {quay.cast.bob.user.pk: 7}


@pytest.mark.capability(
    "24", "Fifty submissions at once and 200 admissions by several schedulers that all believe to lead never pass a cap"
)
def test_caps_that_change_while_many_admit_hold_from_then_on() -> None:
    quay = two_pools()
    UserCap.objects.create(tenant=quay.cast.tenant, user=None, jobs=30)
    submit(quay, 60)
    schedulers = Schedulers(quay)
    after: list[tuple[int, int]] = []

    def lower() -> None:
        for most in (25, 20, 15, 10):
            set_user_caps(actor=quay.cast.alice.actor, tenant=quay.cast.tenant, lines=[CapLine(None, jobs=most)], now=quay.now)
            after.append((most, tasks_held().total()))

    together(lower, partial(schedulers.admit_all, batch=1))

    assert tasks_held().total() <= max(10, after[-1][1]), "nothing started above the last cap once it was set"
    assert tasks_held().total() <= 30


def test_what_is_being_stopped_counts_until_it_is_gone() -> None:
    quay = two_pools()
    UserCap.objects.create(tenant=quay.cast.tenant, user=None, jobs=2)
    jobs = submit(quay, 4)
    schedulers = Schedulers(quay)
    schedulers.admit_all()
    running = list(Job.objects.filter(state="admitted"))
    stop_jobs(running[:1], actor=quay.cast.bob.actor, grace_seconds=None, now=quay.now)

    schedulers.admit_all()

    assert tasks_held().total() == 2
    assert {quay.job(job.id).state for job in jobs} == {"queued", "admitted", "stopping"}


@pytest.mark.capability(
    "24", "Fifty submissions at once and 200 admissions by several schedulers that all believe to lead never pass a cap"
)
def test_fifty_parallel_submissions_with_two_schedulers_never_pass_a_cap() -> None:
    quay = two_pools()
    UserCap.objects.create(tenant=quay.cast.tenant, user=None, gpu_millis=6_000)
    QueueRule.objects.create(queue=top_queue(quay.cast.tenant), max_jobs=9)
    spec = {"roles": {"worker": {"command": "true", "resources": {"gpu": 1, "memory": "1Mi"}}}}
    seen: list[Counter[uuid.UUID]] = []
    submitted = threading.Event()

    def submit_one(number: int) -> None:
        by = quay.cast.alice if number % 2 else quay.cast.bob
        quay.submit(f"job-{number}", by=by, script=ENDLESS, **spec)

    def submit_all() -> None:
        together(*[partial(submit_one, number) for number in range(SUBMITTED)])
        submitted.set()

    def schedule(driver: SchedulerDriver) -> None:
        while True:
            is_last = submitted.is_set()
            driver.run(now=quay.now)
            seen.append(tasks_held())
            if is_last:
                return

    with clock.virtual(lambda: quay.now):
        together(submit_all, lambda: schedule(quay.driver), lambda: schedule(SchedulerDriver()))
        quay.driver.forget()
        quay.turn(2)

    assert max(max(held.values(), default=0) for held in seen) <= 6
    assert max(held.total() for held in seen) <= 9
    assert tasks_held().total() == 9
    assert Job.objects.count() == SUBMITTED
    assert set(Job.objects.filter(state="queued").values_list("reason_code", flat=True)) <= {"user_cap", "tenant_cap"}


def test_a_check_of_caps_takes_as_many_statements_however_many_are_admitted() -> None:
    quay = two_pools()
    UserCap.objects.create(tenant=quay.cast.tenant, user=None, jobs=30)
    QueueRule.objects.create(queue=top_queue(quay.cast.tenant), max_containers=30)
    submit(quay, 30)
    schedulers = Schedulers(quay)
    rows = sorted(schedulers.pending.values())
    counts = []
    for part in (rows[:2], rows[2:4], rows[4:30]):
        with CaptureQueriesContext(connection) as seen:
            admit([schedulers.admission(row, 0) for row in part], schedulers.pending, {}, now=quay.now)
        counts.append(len(seen))
    assert counts[1] == counts[2]
    assert Pool.objects.count() == 2


@pytest.mark.changes_the_core
def test_a_scheduler_whose_core_knows_less_than_the_commit_says_why_and_does_not_spin() -> None:
    quay = two_pools()
    UserCap.objects.create(tenant=quay.cast.tenant, user=None, jobs=1)
    first, second = submit(quay, 2)
    quay.schedule()
    quay.driver.kept.core.holdings.take = lambda running: None  # type: ignore[union-attr, method-assign]  # It counts nothing any more.
    quay.driver.kept.core.holdings._held.clear()  # type: ignore[union-attr]
    quay.driver.kept.core.caps_changed = lambda caps: None  # type: ignore[union-attr, method-assign]
    quay.submit("third", script=ENDLESS, resources={"gpu": 1, "memory": "1Mi"})

    waits = [quay.driver.run(now=quay.now) for _ in range(3)]

    assert [quay.state(job) for job in (first, second)] == ["admitted", "queued"]
    assert quay.reason(second) == "user_cap"
    assert waits[-1] >= 0.5, "who loses twice in a row has lost no race"
