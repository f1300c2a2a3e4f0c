"""Prices: a change is a new row from a moment to come; what holds, and what held, stays as it is."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from activity.services import NewEvent, record_audit, record_events
from clusters.selectors import list_pools
from kernel.actor import Actor
from kernel.clock import utc_text
from kernel.config import current
from kernel.errors import Conflict, InvalidInput, NotFound
from kernel.ids import new_id
from kernel.resources import RESOURCE_NAMES
from kernel.words import Text, format_moment
from tenants.billing.ledger.prices import PRICE_MAX
from tenants.billing.ledger.statements import money_text
from tenants.billing.ledger_rows import currency
from tenants.billing.models import Price
from tenants.identity.access import demand
from tenants.identity.services.names import Problems

NOTICE = timedelta(seconds=60)
"""No price begins sooner: whatever is being charged at this moment is written long before it holds."""
AHEAD_MAX = timedelta(days=3_660)
ROWS_MAX = 100_000  # All are read to price anything; a thousand pools with a change of each price every month for three years.
PATHS = {"cpu_millis": "/cpu_hour_micros", "memory_bytes": "/memory_gib_hour_micros", "gpu_millis": "/gpu_hour_micros"}


def set_prices(
    *, actor: Actor, pool_id: uuid.UUID | None, prices: Mapping[str, int], effective_at: datetime | None = None, now: datetime
) -> list[Price]:
    """Set what an hour of a pool's resources costs from a moment on, by default from the next full minute that is far enough.

    A resource that is left out keeps its price; `pool_id` None is a pool that there is not. All that is wrong is said at once,
    with what stands at the same moment.
    """
    demand(actor, None, "price.edit")
    begins = _next_minute(now + NOTICE) if effective_at is None else effective_at
    money = _currency()
    _check(pool_id, prices, begins, now)
    assert pool_id is not None  # What is unknown was refused.
    author = actor.user_id
    rows = [
        Price(
            id=new_id(), pool_id=pool_id, resource=resource, micros_per_hour=prices[resource], currency=money,
            effective_at=begins, created_at=now, created_by_id=author,
        )
        for resource in RESOURCE_NAMES
        if resource in prices
    ]  # fmt: skip
    try:
        with transaction.atomic():
            for row in rows:
                row.save(force_insert=True)
            _tell(pool_id, "changed", prices, begins, now)
            record_audit(
                actor=actor,
                verb="price.edit",
                tenant_id=None,
                target_kind="pool",
                target_id=pool_id,
                after={**prices, "currency": money, "effective_at": utc_text(begins)},
                count=len(rows),
                at=now,
            )
    except IntegrityError:
        _check(pool_id, prices, begins, now)  # Another caller was faster: say what stands there now.
        raise
    return rows


def withdraw_price(*, actor: Actor, price_id: uuid.UUID, now: datetime) -> None:
    """Take back a price that does not hold yet."""
    demand(actor, None, "price.edit")
    row = Price.objects.filter(id=price_id).first()
    if row is None:
        raise NotFound(
            Text("There is no such price.", "没有这个价格。"),
            hint=Text("`berth prices --all` lists them.", "`berth prices --all` 列出全部价格。"),
        )
    if row.effective_at < now + NOTICE:
        raise Conflict(
            Text(
                f"This price holds since {format_moment(row.effective_at)}, or does within a minute: it stays as it is.",
                f"此价格自 {format_moment(row.effective_at)} 起生效，或将在一分钟内生效：不能再修改。",
            ),
            hint=Text("Set another one from a moment to come.", "请另设一个将来生效的价格。"),
        )
    with transaction.atomic():
        row.delete()
        _tell(row.pool_id, "withdrawn", {row.resource: row.micros_per_hour}, row.effective_at, now)
        record_audit(
            actor=actor,
            verb="price.edit",
            tenant_id=None,
            target_kind="pool",
            target_id=row.pool_id,
            before={row.resource: row.micros_per_hour, "effective_at": utc_text(row.effective_at)},
            at=now,
        )


def _check(pool_id: uuid.UUID | None, prices: Mapping[str, int], begins: datetime, now: datetime) -> None:
    problems = Problems()
    if not any(pool.id == pool_id for pool in list_pools()):
        problems.add(
            "/pool",
            "not_found",
            Text("There is no such pool.", "没有这个资源池。"),
            Text("`berth pools` lists them.", "`berth pools` 可列出。"),
        )
    if not prices:
        problems.add(
            "",
            "required",
            Text("Say what costs how much.", "请说明各项的价格。"),
            Text(f"Give at least one of {', '.join(PATHS.values())}.", f"请至少给出其中之一：{', '.join(PATHS.values())}。"),
        )
    for resource, micros in prices.items():
        if not 0 <= micros <= PRICE_MAX:
            problems.add(
                PATHS[resource],
                "out_of_range",
                Text(
                    f"A price lies between 0 and {PRICE_MAX} millionths an hour.",
                    f"价格须在每小时 0 到 {PRICE_MAX}（百万分之一货币单位）之间。",
                ),
            )
    _check_moment(pool_id, prices, begins, now, problems)
    if Price.objects.count() + len(prices) > ROWS_MAX:
        problems.add(
            "", "too_many", Text(f"There are {ROWS_MAX} prices, and no room for more.", f"已有 {ROWS_MAX} 个价格，不能再增加。")
        )
    problems.raise_if_any()


def _check_moment(
    pool_id: uuid.UUID | None, prices: Mapping[str, int], begins: datetime, now: datetime, problems: Problems
) -> None:
    of_pool = Price.objects.none() if pool_id is None else Price.objects.filter(pool_id=pool_id, resource__in=list(prices))
    rows = {(row.resource, row.effective_at): row for row in of_pool}
    if begins.microsecond:
        problems.add("/effective_at", "invalid", Text("A price begins with a full second.", "价格须从整秒开始生效。"))
    if begins < now + NOTICE:
        holding = [_words(row) for row in _holding(rows.values(), begins)]
        stands = f" What stands there: {'; '.join(holding)}." if holding else " Nothing was priced then."
        stands_zh = f"当时的价格：{'；'.join(holding)}。" if holding else "当时没有价格。"
        problems.add(
            "/effective_at",
            "in_the_past",
            Text(
                f"{format_moment(begins)} is over, or too near: what was used is charged at the price of its time.{stands}",
                f"{format_moment(begins)} 已过，或过近：已用的资源按当时的价格计费。{stands_zh}",
            ),
            Text(
                f"The earliest moment now is {format_moment(_next_minute(now + NOTICE))}; leave it out for that.",
                f"目前最早可从 {format_moment(_next_minute(now + NOTICE))} 生效；省略则取该时间。",
            ),
        )
    elif begins > now + AHEAD_MAX:
        problems.add("/effective_at", "out_of_range", Text("A price begins within ten years.", "价格须在十年内开始生效。"))
    for resource in prices:
        row = rows.get((resource, begins))
        if row is not None:
            problems.add(
                PATHS[resource],
                "already_priced",
                Text(f"From that moment on there is a price already: {_words(row)}.", f"从该时刻起已有价格：{_words(row)}。"),
                Text(
                    f"Withdraw it first (`berth prices withdraw {row.pk}`), or choose another moment.",
                    f"请先撤回（`berth prices withdraw {row.pk}`），或选择其他时刻。",
                ),
            )


def _holding(rows: object, moment: datetime) -> list[Price]:
    """The rows that hold at a moment, one for each resource."""
    latest: dict[str, Price] = {}
    for row in sorted(rows, key=lambda row: row.effective_at):  # type: ignore[call-overload]
        if row.effective_at <= moment:
            latest[row.resource] = row
    return [latest[name] for name in sorted(latest)]


def _words(row: Price) -> str:
    return f"{row.resource} {money_text(row.micros_per_hour)} {row.currency} an hour since {format_moment(row.effective_at)}"


def _currency() -> str:
    """The currency of all prices. The setting may not change while there are some: no sum would mean anything."""
    money = currency()
    if money != current().currency:
        message = Text(
            f"All prices are in {money}, and this server is set to {current().currency}.",
            f"所有价格均以 {money} 计，而本服务器设置为 {current().currency}。",
        )
        raise InvalidInput(
            message, hint=Text(f"Set BERTH_CURRENCY={money} and start again.", f"请设置 BERTH_CURRENCY={money} 后重新启动。")
        )
    return money


def _next_minute(moment: datetime) -> datetime:
    whole = moment.replace(second=0, microsecond=0)
    return whole if whole == moment else whole + timedelta(minutes=1)


def _tell(pool_id: uuid.UUID, what: str, prices: Mapping[str, int], begins: datetime, now: datetime) -> None:
    data = {**prices, "effective_at": utc_text(begins)}
    event = NewEvent(f"price.{what}", None, "pool", pool_id, now, data=data)
    record_events([event])
