"""Budgets on a database: who is told when a share is spent, what counts, and what the scheduler reads."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from activity.models import Delivery, Event, Subscription
from activity.notifications.channels.mail import compose
from activity.notifications.fanout import fan_out
from activity.sequencer import sequence
from clusters.engines.fake import Script
from clusters.models import Pool
from kernel.errors import Conflict, Forbidden, InvalidInput, NotFound, PreconditionFailed
from kernel.resources import Resources
from tenants.billing.budgets import spent_budgets
from tenants.billing.ledger.budgets import BudgetKind, budget_refusal
from tenants.billing.services.budgets import BudgetWish, delete_budget, measure_budgets, set_budget
from tenants.models import Budget, Price, Queue
from tenants.services import reserve
from tests.builders.quay import Quay
from tests.factories.clusters import ClusterBuilder
from tests.factories.tenants import SYSTEM, Cast, ask, make_queue, make_tenant, top_queue

pytestmark = pytest.mark.database
POOL = uuid.UUID(int=1)
HOUR = timedelta(hours=1)
NOON = datetime(2026, 5, 15, 12, tzinfo=UTC)
GPU_HOUR = NODE_HOUR = 3_600_000


def with_parent(queue: Queue) -> Queue:
    return Queue.objects.select_related("parent", "tenant").get(pk=queue.pk)


def hold(queue: Queue, hours: int, gpus: int = 1) -> None:
    """GPUs that have been held for so long, and still are."""
    reserve([ask(queue, POOL, Resources(gpu_millis=1000 * gpus))], now=NOON - HOUR * hours)


def a_budget(cast: Cast, queue: Queue, hours: int, **more: object) -> Budget:
    wish = BudgetWish(BudgetKind.GPU_TIME, hours * GPU_HOUR, **more)  # type: ignore[arg-type]
    return set_budget(actor=cast.otto.actor, queue=with_parent(queue), wish=wish, now=NOON)


def test_what_is_held_below_counts_for_every_budget_above(cast: Cast) -> None:
    own = make_queue(cast.tenant, "nightly")
    child = top_queue(make_tenant("child", parent=cast.tenant))
    hold(own, 2)
    hold(child, 3)

    assert a_budget(cast, own, 10).spent == 2 * GPU_HOUR
    assert a_budget(cast, top_queue(cast.tenant), 10).spent == 5 * GPU_HOUR


@pytest.mark.capability("69", "Budgets in node hours count what is taken most of, running or ended")
def test_node_hours_are_those_of_what_is_taken_most_of_by_pool(cast: Cast) -> None:
    pool = Pool.objects.get(cluster=ClusterBuilder().with_nodes(2, cores=48, gpus=6).build()).pk
    own = make_queue(cast.tenant, "nightly")
    child = top_queue(make_tenant("child", parent=cast.tenant))
    reserve([ask(own, pool, Resources(cpu_millis=96_000, gpu_millis=3_000))], now=NOON - HOUR * 2)  # Two nodes' cores.
    reserve([ask(child, pool, Resources(cpu_millis=1_000, gpu_millis=12_000))], now=NOON - HOUR * 3)  # Two nodes' GPUs.
    hold(own, 5)  # Of a pool that nobody knows any more.
    wish = BudgetWish(BudgetKind.NODE_TIME, 5 * NODE_HOUR, stops=True)

    assert set_budget(actor=cast.otto.actor, queue=with_parent(own), wish=wish, now=NOON).spent == 4 * NODE_HOUR
    top = top_queue(cast.tenant)
    assert set_budget(actor=cast.otto.actor, queue=with_parent(top), wish=wish, now=NOON).spent == 10 * NODE_HOUR
    refusal = budget_refusal([own.pk, top.pk], spent_budgets(NOON))
    assert refusal is not None
    assert (refusal.queue_id, refusal.kind) == (top.pk, BudgetKind.NODE_TIME)


@pytest.mark.capability("69", "Budgets in node hours count what is taken most of, running or ended")
def test_node_hours_of_what_has_ended_count_as_those_of_what_runs(quay: Quay) -> None:
    """Of eight cores four, for a hundred seconds: half a node."""
    job = quay.submit("half", resources={"cpu": 4, "memory": "1Gi"}, script=Script(duration_seconds=100))
    quay.turn()
    queue = Queue.objects.select_related("parent").get(pk=job.queue_id)
    wish = BudgetWish(BudgetKind.NODE_TIME, NODE_HOUR)
    set_budget(actor=SYSTEM, queue=queue, wish=wish, now=quay.now)
    quay.pass_time(100)
    measure_budgets(quay.now)
    running = Budget.objects.get().spent
    quay.settle(step_seconds=0.1)
    measure_budgets(quay.now)
    assert 48_000 <= running <= 52_000
    assert running - 1_000 <= Budget.objects.get().spent <= running + 5_000


def test_the_scheduler_reads_spent_budgets_in_one_query_and_asks_along_the_way_to_root(cast: Cast) -> None:
    own = make_queue(cast.tenant, "nightly")
    hold(own, 2)
    top = top_queue(cast.tenant)
    a_budget(cast, top, 1, stops=True)
    a_budget(cast, own, 1)  # It only tells.

    with CaptureQueriesContext(connection) as queries:
        spent = spent_budgets(NOON)

    assert len(queries) == 1
    path = [own.pk, top.pk, top.parent_id]
    refusal = budget_refusal(path, spent)
    assert refusal is not None
    assert refusal.queue_id == top.pk
    assert refusal.as_dict()["amount"] == GPU_HOUR
    assert spent_budgets(NOON + timedelta(days=40)) == {}  # A new month, not measured yet.


def test_each_threshold_is_told_once_and_a_new_month_begins_anew(cast: Cast) -> None:
    own = make_queue(cast.tenant, "nightly")
    a_budget(cast, own, 4, warn_at=(50, 100))
    kinds = Event.objects.filter(kind__in=["budget.warned", "budget.spent"]).order_by("row")
    hold(own, 3)

    assert [measure_budgets(NOON) for _ in range(3)] == [1, 0, 0]
    hold(own, 2)
    assert [measure_budgets(NOON) for _ in range(2)] == [1, 0]
    assert list(kinds.values_list("kind", flat=True)) == ["budget.warned", "budget.spent"]
    Budget.objects.update(spent_month=202001)  # As it was left by another month.
    assert measure_budgets(NOON) == 1


def test_whoever_asked_for_it_and_sees_the_tenant_is_told(cast: Cast) -> None:
    for person, kinds in ((cast.alice, ["budget"]), (cast.vera, ["failed"]), (cast.carol, ["budget"])):
        Subscription.objects.create(user_id=person.user.pk, kinds=kinds, channel="mail", target="", created_at=NOON)
    own = make_queue(cast.tenant, "nightly")
    hold(own, 2)
    a_budget(cast, own, 2, stops=True)
    sequence(NOON)

    assert fan_out(NOON) == 1
    delivery = Delivery.objects.get()
    assert (delivery.user_id, delivery.kind) == (cast.alice.user.pk, "budget")
    mail = compose(
        delivery.payload, sender="berth@example.org", recipient="alice@example.org", delivery_id="1", at=NOON,
        server_url="http://berth.example.org",
    )  # fmt: skip
    assert mail["Subject"] == "[Berth] 100 % of the budget of nightly is spent"
    text = mail.get_content()
    assert "2.00 of 2.00 GPU hours, 100 %" in text
    assert "New jobs wait" in text


def test_money_is_counted_at_the_prices_of_the_time(cast: Cast) -> None:
    own = make_queue(cast.tenant, "nightly")
    Price.objects.create(
        pool_id=POOL, resource="gpu_millis", micros_per_hour=3_600_000_000, currency="EUR",
        effective_at=NOON - timedelta(seconds=20), created_at=NOON,
    )  # fmt: skip
    reserve([ask(own, POOL, Resources(gpu_millis=1000))], now=NOON - timedelta(seconds=60))

    wish = BudgetWish(BudgetKind.MONEY, 10**9)
    row = set_budget(actor=cast.otto.actor, queue=with_parent(own), wish=wish, now=NOON)

    assert row.spent == 20_000_000  # A third of the minute had a price.


def test_who_may_set_a_budget_and_what_is_refused(cast: Cast) -> None:
    top, own = with_parent(top_queue(cast.tenant)), with_parent(make_queue(cast.tenant, "nightly"))
    wish = BudgetWish(BudgetKind.MONEY, 10)

    with pytest.raises(Forbidden):
        set_budget(actor=cast.alice.actor, queue=top, wish=wish, now=NOON)
    with pytest.raises(Forbidden):
        set_budget(actor=cast.bob.actor, queue=own, wish=wish, now=NOON)
    row = set_budget(actor=cast.alice.actor, queue=own, wish=wish, now=NOON)
    with pytest.raises(PreconditionFailed):
        set_budget(actor=cast.alice.actor, queue=own, wish=wish, expected_version=row.version + 1, now=NOON)
    root, bad = Queue.objects.get(tenant__isnull=True), BudgetWish(BudgetKind.MONEY, -1, warn_at=(0, 5, 5))
    with pytest.raises(Conflict):
        set_budget(actor=cast.otto.actor, queue=root, wish=wish, now=NOON)
    with pytest.raises(InvalidInput) as refused:
        set_budget(actor=cast.otto.actor, queue=own, wish=bad, now=NOON)
    assert [field.code for field in refused.value.fields] == ["out_of_range", "out_of_range", "repeated"]
    delete_budget(actor=cast.alice.actor, queue=own, now=NOON)
    with pytest.raises(NotFound):
        delete_budget(actor=cast.alice.actor, queue=own, now=NOON)
