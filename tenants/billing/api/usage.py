"""What was used, over HTTP: sums, lines for a spreadsheet, and whether owning pays."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import timedelta
from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.selectors import list_pools
from kernel.actor import TenantRole
from kernel.clock import database_now, utc_text
from kernel.errors import FieldError, InvalidInput
from kernel.words import Text
from tenants.billing.api import bodies as bodies
from tenants.billing.api.queries import WINDOW, one_pool, usage_filter, whole_number
from tenants.billing.idle_capacity import held_idle
from tenants.billing.ledger.breakeven import HORIZON_MAX, MONTH_HOURS, Assumptions, as_dict, break_even
from tenants.billing.ledger.entries import FATES, Key, Use, date_of
from tenants.billing.ledger.statements import as_csv, hours_text, money_text
from tenants.billing.ledger_rows import currency
from tenants.billing.usage import GROUPS, UsageFilter, UsageRow, count_lines, job_costs, usage_lines, usage_report
from tenants.capacity import selectors as queue_selectors
from tenants.identity import selectors
from tenants.identity.access import demand, tenants_with
from tenants.identity.services.names import Problems
from tenants.portal.features import tenants_without
from webapi.actors import actor_of, facts_of
from webapi.features import is_on
from webapi.pagination import make_cursor, page_size, read_cursor
from webapi.schema import PAGE_QUERY
from webapi.views import ApiView, known_query

TENANT = OpenApiParameter("tenant", str, description="Slug, id or name of a tenant.")
FILTERS = [
    TENANT,
    OpenApiParameter("since", OpenApiTypes.DATETIME),
    OpenApiParameter("until", OpenApiTypes.DATETIME),
    OpenApiParameter("user", str, description="Name or id; `me` for yourself."),
    OpenApiParameter("queue", str, description="Name or id."),
    OpenApiParameter("pool", str, description="Name, CLUSTER/POOL or id."),
    OpenApiParameter("fate", str, enum=list(FATES), description="Fate of the attempts."),
]
EXPORT_LINES = 100_000
BREAK_EVEN_QUERY = ("tenant", "pool", "days", "gpu_hours_per_month", "format")
DAYS_MAX = 366
MONEY_MAX = 10**15
COUNT_MAX = 10**6
BOUNDS = {"gpus": (1, COUNT_MAX), "lifetime_months": (1, HORIZON_MAX), "horizon_months": (1, HORIZON_MAX)}


class UsageView(ApiView):
    """What was used."""

    @extend_schema(
        parameters=[
            *FILTERS,
            OpenApiParameter("group_by", str, enum=list(GROUPS), description="Default: `tenant`."),
            *PAGE_QUERY,
        ],
        responses=bodies.UsageOut,
    )
    def get(self, request: Request) -> Response:
        """Sum up the usage of ended attempts in tenants that you can see, cut at the ends of the window. All sums are exact.

        Managers of the tenants and operators see costs; members see their own. Null also if billing is switched off.
        """
        known_query(request, (*WINDOW, "group_by"))
        group_by, problems = request.query_params.get("group_by") or "tenant", Problems()
        if group_by not in GROUPS:
            problems.add(
                "/group_by", "invalid", Text(f"group_by is one of {', '.join(GROUPS)}.", f"group_by 可选：{', '.join(GROUPS)}。")
            )
        tenant_ids = tenants_with(self.actor, "usage.read")
        if request.query_params.get("tenant"):
            tenant = selectors.get_tenant(self.actor, request.query_params["tenant"])
            demand(self.actor, tenant.pk, "usage.read")
            tenant_ids = frozenset({tenant.pk})
        wanted = usage_filter(request, self.actor, tenant_ids, problems)
        start, end, scope = _page(request)
        report = usage_report(**asdict(wanted), group_by=group_by, first=end + 1)
        rows, following = report[start:end], make_cursor([end], scope=scope) if end < len(report) else None
        return Response(
            {
                "group_by": group_by,
                "since": utc_text(wanted.since),
                "until": utc_text(wanted.until),
                "currency": currency(),
                "items": _show(request, rows, group_by, wanted),
                "next": following,
            }
        )


class UsageHeldView(ApiView):
    """What was held and not worked with."""

    @extend_schema(parameters=FILTERS[:-1], responses=bodies.UsageHeldOut)
    def get(self, request: Request) -> Response:
        """Get held but idle capacity by tenant: during starts and ends of attempts, and unused bookings.

        It is not charged."""
        known_query(request, tuple(name for name in WINDOW if name != "fate"))
        tenant_ids = tenants_with(self.actor, "usage.read")
        if request.query_params.get("tenant"):
            tenant = selectors.get_tenant(self.actor, request.query_params["tenant"])
            demand(self.actor, tenant.pk, "usage.read")
            tenant_ids = frozenset({tenant.pk})
        wanted = usage_filter(request, self.actor, tenant_ids, Problems())
        rows = held_idle(wanted, now=database_now())
        may = _cost_is_seen(request, "tenant", wanted)
        names = _names({row.tenant_id for row in rows}, "tenant")
        items = [
            {
                "tenant": {"id": str(row.tenant_id), "name": names.get(row.tenant_id)},
                "kind": row.kind,
                "cpu_milli_seconds": row.used.cpu_milli_seconds,
                "memory_byte_seconds": row.used.memory_byte_seconds,
                "gpu_milli_seconds": row.used.gpu_milli_seconds,
                "micros": row.micros if may(row.tenant_id) else None,
            }
            for row in rows
        ]
        since, until = utc_text(wanted.since), utc_text(wanted.until)
        return Response({"since": since, "until": until, "currency": currency(), "items": items})


class UsageExportView(ApiView):
    """What was used, as a table."""

    @extend_schema(parameters=FILTERS, responses={(200, "text/csv"): OpenApiTypes.STR})
    def get(self, request: Request) -> HttpResponse:
        """Export usage as CSV: a line per day, tenant, queue, user, pool and fate, with cost; cells are safe for spreadsheets.

        Members get their own lines, managers the lines of the tenant and the tenants below it, operators all lines.
        """
        known_query(request, WINDOW)
        lines: dict[Key, Use] = {}
        for wanted in self._parts(request):
            if count_lines(wanted) > EXPORT_LINES:
                message = Text(f"These are more than {EXPORT_LINES} lines.", f"超过 {EXPORT_LINES} 行。")
                hint = Text("Ask for fewer days at a time.", "请缩短每次查询的天数。")
                raise InvalidInput(message, fields=[FieldError("/since", "too_many", message, hint)], hint=hint)
            lines.update(usage_lines(wanted))
        return csv_answer(_lines_csv(lines, free=tenants_without(facts_of(request), "billing")), "usage.csv")

    def _parts(self, request: Request) -> Iterable[UsageFilter]:
        """What the caller may see: whole tenants, and their own lines of others."""
        actor, text = self.actor, request.query_params.get("tenant")
        if text:
            tenant = selectors.get_tenant(actor, text)
            demand(actor, tenant.pk, "cost.read", owner_id=actor.user_id)
            tenant_ids: frozenset[uuid.UUID] | None = frozenset({tenant.pk})
        else:
            tenant_ids = tenants_with(actor, "usage.read")
        whole = tenants_with(actor, "cost.read")
        wanted = usage_filter(request, actor, tenant_ids, Problems())
        if whole is None:
            yield wanted
            return
        yield replace(wanted, tenant_ids=whole if tenant_ids is None else tenant_ids & whole)
        rest = (frozenset(actor.roles) if tenant_ids is None else tenant_ids) - whole
        own = frozenset(each for each in rest if actor.roles.get(each) == TenantRole.MEMBER)
        if own and actor.user_id is not None and wanted.user_id in (None, actor.user_id):
            yield replace(wanted, tenant_ids=own, user_id=actor.user_id)


class BreakEvenView(ApiView):
    """Own against rented."""

    feature = "billing"

    @extend_schema(
        parameters=[
            TENANT,
            OpenApiParameter("pool", str, description="Pool whose GPU hours are measured; default: all pools."),
            OpenApiParameter("days", int, description="Days of usage to measure; default: 30."),
            OpenApiParameter("gpu_hours_per_month", int, description="Replaces the measured value."),
            *(OpenApiParameter(item.name, int, description=f"Default: {item.default}.") for item in fields(Assumptions)),
            OpenApiParameter("format", str, enum=["json", "csv"], description="`csv` is the curve only."),
        ],
        responses=bodies.BreakEvenOut,
    )
    def get(self, request: Request) -> Response | HttpResponse:
        """Compare the cost of owning nodes with renting the GPU hours of the ledger, and give both curves.

        For a tenant: its managers; for all tenants: operators. Assumptions may be given, and are repeated in the answer.
        """
        known_query(request, (*BREAK_EVEN_QUERY, *(item.name for item in fields(Assumptions))))
        query, problems = request.query_params, Problems()
        tenant = selectors.get_tenant(self.actor, query["tenant"]) if query.get("tenant") else None
        demand(self.actor, tenant.pk if tenant else None, "cost.read")
        pool = one_pool(query.get("pool", ""), problems)
        days = whole_number(query.get("days") or "30", "days", problems, lowest=1, highest=DAYS_MAX)
        given = Assumptions(**{item.name: _assumed(item.name, query, problems) for item in fields(Assumptions)})
        stated = query.get("gpu_hours_per_month", "")
        hours = whole_number(stated, "gpu_hours_per_month", problems, lowest=0, highest=10**9) * 1_000 if stated else None
        form = read_format(query, problems, ("json", "csv"))
        problems.raise_if_any()
        since = None
        if hours is None:
            since = database_now().replace(minute=0, second=0, microsecond=0) - timedelta(days=days)
            chosen = UsageFilter(
                frozenset({tenant.pk}) if tenant else None, since, since + timedelta(days=days),
                pool_ids=frozenset({pool.id}) if pool else None,
            )  # fmt: skip
            used = sum(row.used.gpu_milli_seconds for row in usage_report(**asdict(chosen), group_by="pool"))
            hours = used * MONTH_HOURS // (days * 24 * 3_600)
        found = break_even(hours, given)
        if form == "csv":
            rows = [(point.month, money_text(point.own_micros), money_text(point.rent_micros)) for point in found.curve]
            return csv_answer(as_csv(("month", "own", "rent"), rows), "break-even.csv")
        ref = {"id": str(pool.id), "name": pool.name, "cluster": pool.cluster_name} if pool else None
        return Response({"pool": ref, "currency": currency(), "measured_since": utc_text(since), **as_dict(found, given)})


def csv_answer(text: str, name: str) -> HttpResponse:
    """A file to keep, which no browser shows as a page."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return HttpResponse(text, content_type="text/csv; charset=utf-8", headers=headers)


def read_format(query: Mapping[str, str], problems: Problems, known: Sequence[str]) -> str:
    """The form of the answer that a query asks for; the first one known by default."""
    form = query.get("format") or known[0]
    if form not in known:
        problems.add("/format", "invalid", Text(f"format is one of {', '.join(known)}.", f"format 可选：{', '.join(known)}。"))
    return form


def _assumed(name: str, query: Mapping[str, str], problems: Problems) -> int:
    lowest, highest = BOUNDS.get(name, (0, MONEY_MAX if name.endswith(("_micros", "_month", "_hour")) else COUNT_MAX))
    return whole_number(query.get(name) or str(getattr(Assumptions(), name)), name, problems, lowest=lowest, highest=highest)


def _page(request: Request) -> tuple[int, int, str]:
    """Which rows of the report are asked for: the cursor counts those before them. With the scope of further cursors."""
    scope = f"usage|{sorted((key, value) for key, value in request.query_params.items() if key not in ('cursor', 'limit'))}"
    text = request.query_params.get("cursor", "")
    start = int(read_cursor(text, scope=scope, length=1)[0]) if text else 0
    return start, start + page_size(request), scope


def _show(request: Request, rows: Sequence[UsageRow], group_by: str, wanted: UsageFilter) -> list[dict[str, Any]]:
    keys = {row.key for row in rows if isinstance(row.key, uuid.UUID)}
    names, may = _names(keys, group_by), _cost_is_seen(request, group_by, wanted)
    costs = job_costs(keys, since=wanted.since, until=wanted.until) if group_by == "job" and may(None) else {}
    return [
        {
            "id": date_of(row.key).isoformat() if isinstance(row.key, int) else str(row.key),
            "name": _name(row, names),
            "attempts": row.attempts,
            "cpu_milli_seconds": row.used.cpu_milli_seconds,
            "memory_byte_seconds": row.used.memory_byte_seconds,
            "gpu_milli_seconds": row.used.gpu_milli_seconds,
            "gpu_measured_milli_seconds": row.gpu_measured_milli_seconds,
            "gpu_busy_milli_seconds": row.gpu_busy_milli_seconds,
            "micros": (costs.get(row.key) if isinstance(row.key, uuid.UUID) and costs else row.micros) if may(row.key) else None,
        }
        for row in rows
    ]


def _cost_is_seen(request: Request, group_by: str, wanted: UsageFilter) -> Any:
    """Whether the caller may see what a row cost: all of these tenants, or one of them, or their own.

    No caller may where billing is off. A sum over tenants of which one has no billing shows no cost, but to operators, who see
    all of them.
    """
    actor = actor_of(request)
    off = tenants_without(facts_of(request), "billing")
    if not is_on(request, "billing") or (group_by != "tenant" and wanted.tenant_ids is not None and wanted.tenant_ids & off):
        return lambda key: False
    whole = tenants_with(actor, "cost.read")
    everything = whole is None or (wanted.tenant_ids is not None and wanted.tenant_ids <= whole)
    is_own = wanted.user_id is not None and wanted.user_id == actor.user_id

    def may(key: object) -> bool:
        if key in off:
            return False
        if everything or is_own:
            return True
        if group_by == "tenant":
            return whole is not None and key in whole
        return group_by == "user" and key is not None and key == actor.user_id

    return may


def _name(row: UsageRow, names: Mapping[uuid.UUID, str]) -> str | None:
    if isinstance(row.key, uuid.UUID):
        return names.get(row.key)
    return date_of(row.key).isoformat() if isinstance(row.key, int) else row.key


def _names(keys: set[uuid.UUID], group_by: str) -> dict[uuid.UUID, str]:
    if group_by == "tenant":
        return {key: facts.name for key, facts in selectors.tenant_facts(keys).items()}
    if group_by == "user":
        return selectors.user_names(keys)
    if group_by == "queue":
        return queue_selectors.queue_names(keys)
    return {pool.id: pool.name for pool in list_pools()} if group_by == "pool" else {}


def _lines_csv(lines: Mapping[Key, Use], *, free: frozenset[uuid.UUID]) -> str:
    """`free`: tenants without billing, whose lines say no cost."""
    columns = (
        "day", "tenant", "tenant_name", "queue", "queue_name", "user", "user_name", "pool", "pool_name", "fate", "attempts",
        "gpu_hours", "cpu_hours", "memory_gib_hours", "gpu_measured_hours", "gpu_busy_hours", "cost", "currency",
    )  # fmt: skip
    names: dict[uuid.UUID, str] = {}
    for group_by in ("tenant", "user", "queue", "pool"):
        names |= _names({getattr(key, GROUPS[group_by]) for key in lines}, group_by)
    money = currency()

    def cells(key: Key, use: Use) -> Iterable[object]:
        yield date_of(key.day).isoformat()
        for value in (key.tenant_id, key.queue_id, key.user_id, key.pool_id):
            yield value
            yield names.get(value, "")
        yield from (key.fate, use.attempts, hours_text(use.gpu_milli_seconds, 1_000), hours_text(use.cpu_milli_seconds, 1_000))
        yield hours_text(use.memory_byte_seconds, 2**30)
        yield from (hours_text(use.gpu_measured_milli_seconds, 1_000), hours_text(use.gpu_busy_milli_seconds, 1_000))
        yield from ("", "") if key.tenant_id in free else (money_text(use.micros), money)

    return as_csv(columns, (tuple(cells(key, lines[key])) for key in sorted(lines)))
