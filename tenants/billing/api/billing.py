"""Prices, statements and budgets over HTTP. Views translate; services act."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.selectors import list_pools
from kernel.clock import database_now, utc_text
from kernel.errors import NotFound
from kernel.resources import RESOURCE_NAMES, Resources
from kernel.words import Text
from tenants.billing.api import bodies as bodies
from tenants.billing.api.queries import find_pools, one_pool, read_month, whole_number
from tenants.billing.api.usage import TENANT, csv_answer, read_format
from tenants.billing.costs import estimate
from tenants.billing.ledger.budgets import WARN_AT, BudgetKind, Spent
from tenants.billing.ledger.entries import day_of, month_of, month_text
from tenants.billing.ledger.statements import statement_csv
from tenants.billing.ledger_rows import currency
from tenants.billing.models import Budget, Price
from tenants.billing.services.budgets import BudgetWish, delete_budget, set_budget, value_of
from tenants.billing.services.prices import set_prices, withdraw_price
from tenants.billing.statements import closed_months, statement_of
from tenants.capacity import selectors as queue_selectors
from tenants.capacity.models import Queue
from tenants.identity import selectors
from tenants.identity.access import demand
from tenants.identity.api.parameters import TENANT_PATH
from tenants.identity.api.shapes import tenant_ref, user_ref
from tenants.identity.services.names import Problems
from tenants.portal.features import tenants_without
from webapi.access import fetch, require, visible
from webapi.actors import facts_of
from webapi.etags import expected_version, with_etag
from webapi.idempotency import idempotent
from webapi.pagination import page
from webapi.schema import IF_MATCH, page_of
from webapi.views import ApiView, known_query, query_flag

SECONDS_MAX = 366 * 86_400
PRICE_FIELDS = {"gpu_hour_micros": "gpu_millis", "cpu_hour_micros": "cpu_millis", "memory_gib_hour_micros": "memory_bytes"}


class PricesView(ApiView):
    """What resources cost."""

    feature = "billing"

    @extend_schema(
        parameters=[
            OpenApiParameter("pool", str, description="Name, CLUSTER/POOL or id."),
            OpenApiParameter("all", bool, description="Include past prices."),
        ],
        responses=page_of(bodies.PriceOut),
    )
    def get(self, request: Request) -> Response:
        """List prices by pool and resource, in the order of time: present and planned prices."""
        known_query(request, ("pool", "all"))
        problems, now = Problems(), database_now()
        pools = find_pools(request.query_params.get("pool", ""), problems)
        problems.raise_if_any()
        rows = visible(self.actor, Price).select_related("created_by")
        if pools is not None:
            rows = rows.filter(pool_id__in=[pool.id for pool in pools])
        holding = _holding(now)
        if not query_flag(request, "all"):
            rows = rows.filter(effective_at__gt=now) | rows.filter(id__in=holding)
        order = ("pool_id", "resource", "effective_at", "id")
        return page(request, rows, order=order, serialize=lambda found: _show_prices(found, holding, now))

    @extend_schema(request=bodies.PriceIn, responses={201: bodies.PricesOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Set hourly prices of a pool's resources from a future time on, as an operator. Past usage keeps its prices."""
        demand(self.actor, None, "price.edit")
        body = bodies.PriceIn.validated(request.data)
        problems = Problems()
        pool = one_pool(body["pool"], problems)
        if any(field.code == "ambiguous" for field in problems.fields):
            problems.raise_if_any()
        now = database_now()
        rows = set_prices(
            actor=self.actor,
            pool_id=None if pool is None else pool.id,
            prices={PRICE_FIELDS[name]: body[name] for name in PRICE_FIELDS if name in body},
            effective_at=body.get("effective_at"),
            now=now,
        )
        return Response({"items": _show_prices(rows, _holding(now), now)}, status=201)


class EstimateView(ApiView):
    """What an ask would cost."""

    feature = "billing"

    @extend_schema(
        parameters=[
            OpenApiParameter("pool", str, description="Name, CLUSTER/POOL or id; default: all pools."),
            OpenApiParameter("seconds", int, description="Duration; default: an hour."),
            *(OpenApiParameter(name, int, description="Sum over all tasks.") for name in RESOURCE_NAMES),
        ],
        responses=bodies.EstimateOut,
    )
    def get(self, request: Request) -> Response:
        """Estimate the cost of resources for a time in each pool, cheapest first."""
        known_query(request, ("pool", "seconds", *RESOURCE_NAMES))
        demand(self.actor, None, "price.read")
        query, problems = request.query_params, Problems()
        pools = find_pools(query.get("pool", ""), problems)
        seconds = whole_number(query.get("seconds") or "3600", "seconds", problems, lowest=1, highest=SECONDS_MAX)
        amount = Resources(
            **{name: whole_number(query.get(name) or "0", name, problems, lowest=0, highest=2**50) for name in RESOURCE_NAMES}
        )
        problems.raise_if_any()
        known = {pool.id: pool for pool in (list_pools() if pools is None else pools)} if self._sees_pools() else {}
        found = estimate(known, amount, seconds, database_now())
        rows = sorted(found.items(), key=lambda row: (row[1][1], known[row[0]].name, row[0]))
        items = [
            {
                "pool": {"id": str(pool_id), "name": known[pool_id].name, "cluster": known[pool_id].cluster_name},
                "micros_per_hour": per_hour,
                "micros": micros,
            }
            for pool_id, (per_hour, micros) in rows
        ]
        return Response({"currency": currency(), "seconds": seconds, "items": items})

    def _sees_pools(self) -> bool:
        """Pools are for members of any tenant, as everywhere."""
        return bool(self.actor.is_operator or self.actor.roles)


class PriceView(ApiView):
    """One price."""

    feature = "billing"

    @extend_schema(responses={204: None})
    def delete(self, request: Request, price_id: str) -> Response:
        """Withdraw a price that is not effective yet, as an operator. Present and past prices stay."""
        row = fetch(self.actor, Price, price_id, "price.read")
        withdraw_price(actor=self.actor, price_id=row.pk, now=database_now())
        return Response(status=204)


class StatementsView(ApiView):
    """A tenant's closed months."""

    feature = "billing"

    @extend_schema(parameters=[TENANT_PATH], responses=bodies.StatementsOut)
    def get(self, request: Request, tenant: str) -> Response:
        """List closed months with their digests, latest first."""
        known_query(request, ())
        found = selectors.get_tenant(self.actor, tenant)
        demand(self.actor, found.pk, "statement.read")
        return Response(
            {
                "items": [
                    {
                        "month": month_text(row.month),
                        "currency": row.currency,
                        "sha256": row.sha256,
                        "closed_at": utc_text(row.closed_at),
                    }
                    for row in closed_months(found.pk)
                ]
            }
        )


class StatementView(ApiView):
    """A tenant's month."""

    feature = "billing"

    @extend_schema(
        parameters=[
            TENANT_PATH,
            OpenApiParameter("month", str, OpenApiParameter.PATH, description="`2026-11`."),
            OpenApiParameter("format", str, enum=["json", "csv", "canonical"], description="`canonical`: the hashed bytes."),
        ],
        responses={
            200: bodies.StatementOut,
            (200, "text/csv"): OpenApiTypes.STR,
            (200, "application/octet-stream"): OpenApiTypes.BINARY,
        },
    )
    def get(self, request: Request, tenant: str, month: str) -> Response | HttpResponse:
        """Get the statement of a month: usage and cost of attempts that ended in it. A closed month never changes.

        `sha256` is the digest of the document as JSON with sorted keys, without blanks, in UTF-8.
        """
        known_query(request, ("format",))
        found = selectors.get_tenant(self.actor, tenant)
        demand(self.actor, found.pk, "statement.read")
        number, problems = read_month(month), Problems()
        form = read_format(request.query_params, problems, ("json", "csv", "canonical"))
        problems.raise_if_any()
        if number > month_of(day_of(database_now())):
            raise NotFound(
                Text(f"{month} is still to come.", f"{month} 尚未到来。"),
                hint=Text("A month has a statement from its first day on.", "一个月从第一天起即有账单。"),
            )
        made = statement_of(found.pk, number)
        if form == "canonical":
            return HttpResponse(made.data, content_type="application/octet-stream", headers={"X-Content-Type-Options": "nosniff"})
        names = _names_in(made.document["lines"])
        if form == "csv":
            return csv_answer(statement_csv(made.document, names), f"statement-{month}.csv")
        return Response(
            {
                "tenant": tenant_ref(found),
                "month": month,
                "closed_at": utc_text(made.closed_at),
                "sha256": made.sha256,
                "document": made.document,
                "names": names,
            }
        )


class BudgetsView(ApiView):
    """What queues may spend."""

    feature = "billing"

    @extend_schema(parameters=[TENANT], responses=page_of(bodies.BudgetOut))
    def get(self, request: Request) -> Response:
        """List budgets of queues that you can see, with the amounts spent this month."""
        known_query(request, ("tenant",))
        queues = visible(self.actor, Queue)
        if request.query_params.get("tenant"):
            queues = queues.filter(tenant=selectors.get_tenant(self.actor, request.query_params["tenant"]))
        off = tenants_without(facts_of(request), self.feature)
        if off:
            queues = queues.exclude(tenant_id__in=off)
        rows = Budget.objects.filter(queue__in=queues).select_related("queue", "queue__tenant")
        now, money = database_now(), currency()
        return page(request, rows, order=("id",), serialize=lambda found: [_show_budget(row, now, money) for row in found])


class BudgetView(ApiView):
    """One queue's budget."""

    feature = "billing"

    @extend_schema(responses=bodies.BudgetOut)
    def get(self, request: Request, queue_id: str) -> Response:
        """Get the monthly budget of a queue, and the amount spent this month."""
        return self._answer(_budget(self._queue(queue_id)))

    @extend_schema(parameters=[IF_MATCH], request=bodies.BudgetIn, responses=bodies.BudgetOut)
    def put(self, request: Request, queue_id: str) -> Response:
        """Set the monthly budget of a queue and the queues below it. For managers of the queue above it."""
        queue = self._queue(queue_id)
        require(self.actor, queue, "budget.edit")
        body = bodies.BudgetIn.validated(request.data)
        wish = BudgetWish(BudgetKind(body["kind"]), body["amount"], tuple(sorted(body.get("warn_at", WARN_AT))), body["stops"])
        row = set_budget(actor=self.actor, queue=queue, wish=wish, expected_version=expected_version(request), now=database_now())
        return self._answer(row)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, queue_id: str) -> Response:
        """Remove the budget of a queue."""
        queue = self._queue(queue_id)
        require(self.actor, queue, "budget.edit")
        delete_budget(actor=self.actor, queue=queue, now=database_now())
        return Response(status=204)

    def _queue(self, queue_id: str) -> Queue:
        queue = fetch(self.actor, Queue, queue_id, "queue.read", related=("tenant", "parent"))
        self.check_feature(queue.tenant_id)
        return queue

    def _answer(self, row: Budget) -> Response:
        return with_etag(Response(_show_budget(row, database_now(), currency())), row.version)


def _budget(queue: Queue) -> Budget:
    row = Budget.objects.filter(queue=queue).select_related("queue", "queue__tenant").first()
    if row is None:
        raise NotFound(
            Text("This queue has no budget.", "此队列没有预算。"),
            hint=Text("`berth budgets` lists those that there are.", "`berth budgets` 列出现有预算。"),
        )
    return row


def _show_budget(row: Budget, now: datetime, money: str) -> dict[str, Any]:
    month = month_of(day_of(now))
    spent = Spent(value_of(row), row.spent if row.spent_month == month else 0)
    return {
        "queue": {"id": str(row.queue_id), "name": row.queue.name},
        "tenant": tenant_ref(row.queue.tenant) if row.queue.tenant is not None else None,
        "kind": row.kind,
        "amount": row.amount,
        "warn_at": row.warn_at,
        "stops": row.stops,
        "month": month_text(month),
        "spent": spent.spent,
        "percent": spent.percent,
        "measured_at": utc_text(row.spent_at),
        "currency": money,
        "version": row.version,
    }


def _holding(now: datetime) -> set[Any]:
    """The prices that hold now: of each pool and resource the latest that began. One query."""
    latest: dict[tuple[Any, str], tuple[datetime, Any]] = {}
    rows = Price.objects.filter(effective_at__lte=now).order_by()
    for row_id, pool_id, resource, begins in rows.values_list("id", "pool_id", "resource", "effective_at"):
        key = (pool_id, resource)
        if key not in latest or latest[key][0] < begins:
            latest[key] = (begins, row_id)
    return {row_id for _begins, row_id in latest.values()}


def _show_prices(rows: Sequence[Price], holding: set[Any], now: datetime) -> list[dict[str, Any]]:
    pools = {pool.id: {"id": str(pool.id), "name": pool.name, "cluster": pool.cluster_name} for pool in list_pools()}
    return [
        {
            "id": str(row.pk),
            "pool": pools.get(row.pool_id),
            "resource": row.resource,
            "micros_per_hour": row.micros_per_hour,
            "currency": row.currency,
            "effective_at": utc_text(row.effective_at),
            "state": "planned" if row.effective_at > now else ("now" if row.pk in holding else "past"),
            "created_at": utc_text(row.created_at),
            "created_by": user_ref(row.created_by),
        }
        for row in sorted(rows, key=lambda row: (row.pool_id, RESOURCE_NAMES.index(row.resource), row.effective_at))
    ]


def _names_in(lines: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Names for the ids of a statement's lines. Three queries, and the pools."""
    names = {str(pool.id): pool.name for pool in list_pools()}
    names |= {str(key): name for key, name in selectors.user_names({uuid.UUID(line["user"]) for line in lines}).items()}
    names |= {str(key): name for key, name in queue_selectors.queue_names({uuid.UUID(line["queue"]) for line in lines}).items()}
    used = {line[key] for line in lines for key in ("pool", "queue", "user")}
    return {key: names[key] for key in sorted(used) if key in names}
