"""Budgets: set by the owners of the queue above, measured by the sweep, told when a threshold is passed."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import F

from activity.services import NewEvent, record_audit, record_events
from clusters.selectors import pools_and_nodes
from kernel.actor import Actor
from kernel.errors import Conflict, NotFound, PreconditionFailed
from kernel.resources import RESOURCE_NAMES, ZERO, Resources
from kernel.words import Text
from reconciling import bulk
from tenants.billing import usage
from tenants.billing.ledger.budgets import PERCENT_MAX, WARN_AT, BudgetKind, Spent, node_time, sums_along
from tenants.billing.ledger.budgets import BudgetFacts as BudgetValue
from tenants.billing.ledger.entries import day_of, month_bounds, month_of, month_text
from tenants.billing.ledger_rows import currency, price_book
from tenants.billing.models import Budget
from tenants.capacity.models import Queue, Reservation, ReservationKind
from tenants.capacity.quota.accounting import ResourceSeconds, mark, used
from tenants.capacity.reads import capacities_of
from tenants.identity.access import demand
from tenants.identity.services.names import Problems

AMOUNT_MAX = 2**62
THRESHOLDS_MAX = 10


@dataclass(frozen=True, slots=True)
class BudgetWish:
    """The budget that a caller wants for a queue. `amount` in millionths of the currency, or thousandths of a GPU or a
    node times seconds."""

    kind: BudgetKind
    amount: int
    warn_at: tuple[int, ...] = WARN_AT
    stops: bool = False


def set_budget(*, actor: Actor, queue: Queue, wish: BudgetWish, expected_version: int | None = None, now: datetime) -> Budget:
    """Give a queue and all below it a budget for every month, or another one. Measured at once; stops nothing that runs."""
    _demand(actor, queue)
    _check(wish)
    values = {"kind": str(wish.kind), "amount": wish.amount, "warn_at": list(wish.warn_at), "stops": wish.stops}
    with transaction.atomic():
        Queue.objects.select_for_update(no_key=True).get(id=queue.pk)
        row = Budget.objects.filter(queue_id=queue.pk).first()
        before = None if row is None else {name: getattr(row, name) for name in values}
        if expected_version is not None and (row is None or row.version != expected_version):
            raise PreconditionFailed(
                Text(f"The budget of {queue.name!r} was changed meanwhile.", f"队列 {queue.name!r} 的预算已被他人修改。"),
                hint=Text("Read it again first.", "请先重新读取。"),
            )
        if row is None:
            row = Budget.objects.create(queue=queue, created_at=now, **values)
        else:
            Budget.objects.filter(id=row.pk).update(**values, version=F("version") + 1, level=0, spent_month=0, spent=0)
        _tell(queue.pk, queue.tenant_id, "changed", values, now)
        record_audit(
            actor=actor,
            verb="budget.edit",
            tenant_id=queue.tenant_id,
            target_kind="queue",
            target_id=queue.pk,
            target_name=queue.name,
            before=before,
            after=values,
            at=now,
        )
        measure_budgets(now)
    row.refresh_from_db()
    return row


def delete_budget(*, actor: Actor, queue: Queue, now: datetime) -> None:
    """Take a queue's budget away: it may spend what its limits allow."""
    _demand(actor, queue)
    with transaction.atomic():
        row = Budget.objects.filter(queue_id=queue.pk).first()
        if row is None:
            raise NotFound(
                Text("This queue has no budget.", "此队列没有预算。"),
                hint=Text("`berth budgets` lists those that there are.", "`berth budgets` 列出现有预算。"),
            )
        row.delete()
        _tell(queue.pk, queue.tenant_id, "removed", {}, now)
        record_audit(
            actor=actor,
            verb="budget.edit",
            tenant_id=queue.tenant_id,
            target_kind="queue",
            target_id=queue.pk,
            target_name=queue.name,
            before={"kind": row.kind, "amount": row.amount},
            at=now,
        )


def measure_budgets(now: datetime) -> int:
    """Write down what of every budget is spent this month, running work included; returns how many thresholds were passed.

    A part of the sweep. One query where no queue has a budget, else about ten, whatever their number.
    """
    rows = list(Budget.objects.select_related("queue", "queue__tenant").order_by("id"))
    if not rows:
        return 0
    month = month_of(day_of(now))
    sums = {kind: _spent(kind, month, now) for kind in {BudgetKind(row.kind) for row in rows}}
    money = currency()
    told: list[tuple[Budget, Spent]] = []
    changes = []
    for row in rows:
        spent = Spent(value_of(row), sums[BudgetKind(row.kind)].get(row.queue_id, 0))
        already = row.level if row.spent_month == month else 0
        if spent.level > already:
            told.append((row, spent))
        changes.append(
            {
                "id": row.pk,
                "version": row.version,
                "spent": spent.spent,
                "spent_month": month,
                "spent_at": now,
                "level": max(already, spent.level),
            }
        )
    with transaction.atomic():
        written = {change["id"] for change in bulk.update(Budget, changes, guard=("version",))}
        for row, spent in told:
            if row.pk in written:
                data = {"month": month_text(month), "percent": spent.percent, "threshold": spent.level, "stops": row.stops}
                numbers = {"kind": row.kind, "amount": row.amount, "spent": spent.spent, "currency": money}
                names = {"name": row.queue.name, "tenant": row.queue.tenant.name if row.queue.tenant else ""}
                what = "spent" if spent.is_over else "warned"
                _tell(row.queue_id, row.queue.tenant_id, what, {**data, **numbers, **names}, now)
    return len(told)


def value_of(row: Budget) -> BudgetValue:
    """A row as the arithmetic takes it."""
    return BudgetValue(row.queue_id, BudgetKind(row.kind), row.amount, tuple(row.warn_at), row.stops)


def _spent(kind: BudgetKind, month: int, now: datetime) -> dict[uuid.UUID, int]:
    """What every queue and all below it spent since the month began: what ended, and what runs up to now."""
    since = month_bounds(month)[0]
    if kind is BudgetKind.NODE_TIME:
        return sums_along(_paths(), _node_time(since, now))
    spent: list[tuple[uuid.UUID, int]] = []
    for found in usage.usage_report(tenant_ids=None, since=since, until=None, group_by="queue"):
        assert isinstance(found.key, uuid.UUID)
        spent.append((found.key, found.used.gpu_milli_seconds if kind is BudgetKind.GPU_TIME else found.micros or 0))
    book, last = price_book(), mark(now)
    for queue_id, pool_id, held, start in _held(since, now):
        if kind is BudgetKind.GPU_TIME:
            spent.append((queue_id, used(held, last - start).gpu_milli_seconds))
        else:
            costs = (book.cost(pool_id, name, amount, start, last) for name, amount in held.as_dict().items())
            spent.append((queue_id, sum(costs)))
    return sums_along(_paths(), spent)


def _node_time(since: datetime, now: datetime) -> list[tuple[uuid.UUID, int]]:
    """What queues used by themselves since then, in nodes' worth of each pool. A query for each pool, and a few."""
    sums: dict[tuple[uuid.UUID, uuid.UUID], ResourceSeconds] = {}
    last = mark(now)
    for queue_id, pool_id, held, start in _held(since, now):
        sums[queue_id, pool_id] = sums.get((queue_id, pool_id), ResourceSeconds()) + used(held, last - start)
    pools, nodes = pools_and_nodes()
    totals = {capacity.pool_id: capacity.total for capacity in capacities_of(pools, nodes)}
    counts = Counter(node.pool_id for node in nodes)
    for pool in pools:
        for found in usage.usage_report(
            tenant_ids=None, since=since, until=None, group_by="queue", pool_ids=frozenset({pool.id})
        ):
            assert isinstance(found.key, uuid.UUID)
            sums[found.key, pool.id] = sums.get((found.key, pool.id), ResourceSeconds()) + found.used
    return [
        (queue_id, node_time(spent, totals.get(pool_id, ZERO), counts[pool_id])) for (queue_id, pool_id), spent in sums.items()
    ]


def _held(since: datetime, now: datetime) -> Iterator[tuple[uuid.UUID, uuid.UUID, Resources, int]]:
    """What runs: queue, pool, how much it holds there, and from when on it counts."""
    first, last = mark(since), mark(now)
    held = Reservation.objects.filter(released_at__isnull=True, kind=ReservationKind.ATTEMPT).order_by()
    for queue_id, pool_id, created_at, *amounts in held.values_list(
        "queue_id", "pool_id", "created_at", *RESOURCE_NAMES
    ).iterator(chunk_size=2_000):
        start = max(first, mark(created_at))
        if start < last:
            yield queue_id, pool_id, Resources(*amounts), start


def _paths() -> dict[uuid.UUID, Sequence[uuid.UUID]]:
    rows = Queue.objects.order_by().values_list("id", "path")
    return {queue_id: [uuid.UUID(hex=step) for step in path.split("/") if step] for queue_id, path in rows}


def _demand(actor: Actor, queue: Queue) -> None:
    if queue.parent_id is None:
        raise Conflict(
            Text("The root queue has no budget.", "根队列没有预算。"),
            hint=Text("Give one to the queues below it.", "请为其下级队列设置预算。"),
        )
    assert queue.parent is not None
    demand(actor, queue.parent.tenant_id, "budget.edit")


def _check(wish: BudgetWish) -> None:
    problems = Problems()
    if not 0 <= wish.amount <= AMOUNT_MAX:
        problems.add(
            "/amount", "out_of_range", Text(f"A budget lies between 0 and {AMOUNT_MAX}.", f"预算须在 0 到 {AMOUNT_MAX} 之间。")
        )
    if len(wish.warn_at) > THRESHOLDS_MAX:
        problems.add(
            "/warn_at",
            "too_many",
            Text(f"A budget has at most {THRESHOLDS_MAX} thresholds.", f"一个预算最多有 {THRESHOLDS_MAX} 个阈值。"),
        )
    for index, percent in enumerate(wish.warn_at):
        if not 1 <= percent <= PERCENT_MAX:
            problems.add(
                f"/warn_at/{index}",
                "out_of_range",
                Text(f"A threshold lies between 1 and {PERCENT_MAX} percent.", f"阈值须在 1% 到 {PERCENT_MAX}% 之间。"),
            )
    if len(set(wish.warn_at)) < len(wish.warn_at):
        problems.add("/warn_at", "repeated", Text("A threshold is listed twice.", "有重复的阈值。"))
    problems.raise_if_any()


def _tell(queue_id: uuid.UUID, tenant_id: uuid.UUID | None, what: str, data: Mapping[str, object], now: datetime) -> None:
    record_events([NewEvent(f"budget.{what}", tenant_id, "queue", queue_id, now, data=dict(data))])
