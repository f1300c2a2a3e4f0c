"""Budgets over the turn of a month, at prices that change, and at amounts of nothing and of the most."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from activity.models import Event
from kernel.errors import InvalidInput
from kernel.resources import Resources
from tenants.billing.budgets import spent_budgets
from tenants.billing.ledger.budgets import BudgetFacts, BudgetKind, Spent, budget_refusal
from tenants.billing.services.budgets import AMOUNT_MAX, BudgetWish, measure_budgets, set_budget
from tenants.models import Budget, Price, Queue
from tenants.services import LedgerLine, append_ledger, release, reserve
from tests.factories.tenants import Cast, ask, make_queue, make_user

pytestmark = pytest.mark.database
POOL = uuid.UUID(int=1)
HOUR = timedelta(hours=1)
MARCH = datetime(2028, 3, 1, tzinfo=UTC)  # After a leap day.
GPU_HOUR = 3_600_000


@pytest.fixture
def queue(cast: Cast) -> Queue:
    made = make_queue(cast.tenant, "nightly")
    return Queue.objects.select_related("parent", "tenant").get(pk=made.pk)


def budgeted(cast: Cast, queue: Queue, wish: BudgetWish, now: datetime) -> Budget:
    return set_budget(actor=cast.otto.actor, queue=queue, wish=wish, now=now)


def spent(now: datetime) -> int:
    measure_budgets(now)
    found: int = Budget.objects.get().spent
    return found


def held(queue: Queue, since: datetime) -> uuid.UUID:
    request = ask(queue, POOL, Resources(gpu_millis=1_000))
    assert reserve([request], now=since)
    return request.attempt_id


def priced(micros: int, since: datetime) -> None:
    Price.objects.create(
        pool_id=POOL, resource="gpu_millis", micros_per_hour=micros, currency="EUR", effective_at=since, created_at=since
    )


def ended(cast: Cast, queue: Queue, attempt_id: uuid.UUID, start: datetime, end: datetime) -> None:
    """The attempt gave its GPU back, and stands in the ledger."""
    release([attempt_id], now=end)
    line = LedgerLine(
        attempt_id=attempt_id, number=1, job_id=uuid.uuid4(), tenant_id=cast.tenant.pk, queue_id=queue.pk,
        user_id=cast.bob.user.pk, pool_id=POOL, cluster_id=uuid.UUID(int=9), cpu_millis=0, memory_bytes=0, gpu_millis=1_000,
        started_at=start, ended_at=end, outcome="succeeded",
    )  # fmt: skip
    append_ledger([line], now=end)


def test_what_runs_over_the_turn_of_a_month_counts_in_each_for_its_own_part(cast: Cast, queue: Queue) -> None:
    budgeted(cast, queue, BudgetWish(BudgetKind.GPU_TIME, 100 * GPU_HOUR), MARCH - 3 * HOUR)
    attempt_id = held(queue, MARCH - 2 * HOUR)

    assert spent(MARCH - timedelta(seconds=1)) == 2 * GPU_HOUR - 1_000
    assert spent(MARCH) == 0
    assert spent(MARCH + HOUR) == GPU_HOUR
    ended(cast, queue, attempt_id, MARCH - 2 * HOUR, MARCH + HOUR)
    assert spent(MARCH + 5 * HOUR) == GPU_HOUR, "ended, it counts as it did running"


def test_a_budget_that_is_spent_in_the_middle_of_a_month_stops_until_the_first_of_the_next(cast: Cast, queue: Queue) -> None:
    middle = MARCH + timedelta(days=15)
    budgeted(cast, queue, BudgetWish(BudgetKind.GPU_TIME, 2 * GPU_HOUR, stops=True), middle)
    attempt_id = held(queue, middle)

    measure_budgets(middle + 2 * HOUR - timedelta(seconds=1))
    assert budget_refusal([queue.pk], spent_budgets(middle + 2 * HOUR)) is None
    measure_budgets(middle + 2 * HOUR)
    refusal = budget_refusal([queue.pk], spent_budgets(middle + 2 * HOUR))
    assert refusal is not None
    assert (refusal.amount, refusal.spent) == (2 * GPU_HOUR, 2 * GPU_HOUR)
    ended(cast, queue, attempt_id, middle, middle + 2 * HOUR)
    april = datetime(2028, 4, 1, tzinfo=UTC)
    for at in (april - timedelta(seconds=1), april):
        measure_budgets(at)
        assert (budget_refusal([queue.pk], spent_budgets(at)) is None) == (at == april)


def test_money_of_what_runs_follows_a_price_that_changes_meanwhile_to_the_second(cast: Cast, queue: Queue) -> None:
    noon = MARCH + timedelta(hours=12)
    priced(1_000_000, MARCH)
    priced(3_600_000, noon + HOUR)
    budgeted(cast, queue, BudgetWish(BudgetKind.MONEY, 10**9), noon)
    attempt_id = held(queue, noon)

    assert spent(noon + HOUR) == 1_000_000
    assert spent(noon + HOUR + timedelta(seconds=1)) == 1_001_000
    assert spent(noon + 2 * HOUR) == 4_600_000
    ended(cast, queue, attempt_id, noon, noon + 2 * HOUR)
    assert spent(noon + 3 * HOUR) == 4_600_000


def test_a_new_amount_is_measured_and_told_anew(cast: Cast, queue: Queue) -> None:
    held(queue, MARCH)
    at = MARCH + HOUR

    def told() -> list[str]:
        rows = Event.objects.filter(kind__in=["budget.warned", "budget.spent"]).order_by("row")
        return list(rows.values_list("kind", flat=True))

    first = budgeted(cast, queue, BudgetWish(BudgetKind.GPU_TIME, GPU_HOUR), at)
    assert (first.level, first.spent, told()) == (100, GPU_HOUR, ["budget.spent"])
    second = budgeted(cast, queue, BudgetWish(BudgetKind.GPU_TIME, 10 * GPU_HOUR), at)
    assert (second.level, second.version) == (0, first.version + 1)
    third = budgeted(cast, queue, BudgetWish(BudgetKind.GPU_TIME, GPU_HOUR * 10 // 9), at)
    assert (third.level, told()) == (80, ["budget.spent", "budget.warned"])


def test_a_budget_of_nothing_is_spent_from_the_start_and_the_largest_one_is_kept_whole(cast: Cast, queue: Queue) -> None:
    nothing = budgeted(cast, queue, BudgetWish(BudgetKind.MONEY, 0, stops=True), MARCH)
    assert (nothing.level, nothing.spent) == (100, 0)
    assert budget_refusal([queue.pk], spent_budgets(MARCH)) is not None
    assert budgeted(cast, queue, BudgetWish(BudgetKind.MONEY, AMOUNT_MAX), MARCH).amount == AMOUNT_MAX
    assert budget_refusal([queue.pk], spent_budgets(MARCH)) is None


def test_all_that_is_wrong_with_a_budget_is_told_at_once(cast: Cast, queue: Queue) -> None:
    bad = BudgetWish(BudgetKind.MONEY, AMOUNT_MAX + 1, warn_at=(0, *range(995, 1_002), 995, 996, 997))

    with pytest.raises(InvalidInput) as refused:
        budgeted(cast, queue, bad, MARCH)
    assert [(entry.path, entry.code) for entry in refused.value.fields] == [
        ("/amount", "out_of_range"),
        ("/warn_at", "too_many"),
        ("/warn_at/0", "out_of_range"),
        ("/warn_at/7", "out_of_range"),
        ("/warn_at", "repeated"),
    ]
    assert not Budget.objects.exists()


def test_a_budget_without_thresholds_tells_nothing_and_stops_all_the_same(cast: Cast, queue: Queue) -> None:
    held(queue, MARCH)
    made = budgeted(cast, queue, BudgetWish(BudgetKind.GPU_TIME, GPU_HOUR, warn_at=(), stops=True), MARCH + HOUR)

    assert made.level == 0
    assert not Event.objects.filter(kind__in=["budget.warned", "budget.spent"]).exists()
    assert budget_refusal([queue.pk], spent_budgets(MARCH + HOUR)) is not None


@pytest.mark.parametrize(("gone", "percent", "level"), [(0, 0, 0), (799, 79, 0), (800, 80, 80), (999, 99, 80), (1_000, 100, 100)])
def test_a_percentage_is_rounded_down_so_that_no_threshold_is_told_early(gone: int, percent: int, level: int) -> None:
    found = Spent(BudgetFacts(uuid.UUID(int=1), BudgetKind.MONEY, 1_000), gone)

    assert (found.percent, found.level, found.is_over) == (percent, level, gone == 1_000)


def test_the_use_of_a_person_who_was_disabled_still_counts(cast: Cast, queue: Queue) -> None:
    gone = make_user("gone", is_active=False)
    line = LedgerLine(
        attempt_id=uuid.uuid4(), number=1, job_id=uuid.uuid4(), tenant_id=cast.tenant.pk, queue_id=queue.pk, user_id=gone.pk,
        pool_id=POOL, cluster_id=uuid.UUID(int=9), cpu_millis=0, memory_bytes=0, gpu_millis=1_000, started_at=MARCH,
        ended_at=MARCH + HOUR, outcome="failed",
    )  # fmt: skip
    append_ledger([line], now=MARCH + HOUR)

    assert budgeted(cast, queue, BudgetWish(BudgetKind.GPU_TIME, GPU_HOUR), MARCH + HOUR).spent == GPU_HOUR
