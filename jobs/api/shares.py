"""What share of the pools tenants deserved and got, and the signed statements of weeks, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.api.representations import ReferenceOut
from clusters.selectors import list_pools
from jobs.selectors.charges import live_holdings
from jobs.services.redaction import one_question
from kernel.clock import database_now, utc_text
from kernel.errors import InvalidInput, NotFound
from kernel.words import Text
from tenants import selectors
from tenants.billing.api.queries import one_pool
from tenants.billing.api.usage import TENANT, csv_answer, read_format
from tenants.billing.ledger.fairness import HOUR, Share, ShareKey, week_of
from tenants.billing.ledger.statements import as_csv
from tenants.billing.shares import (
    MadeWeek,
    ShownQueue,
    account,
    bounds_of,
    closed_weeks,
    is_settled,
    made_week,
    moment,
    readable_queues,
    stored_week,
    week_number,
    week_text,
)
from tenants.billing.signing import public_keys
from tenants.capacity.api.queue_bodies import PoolRef
from tenants.capacity.quota.accounting import mark
from tenants.identity.access import demand
from tenants.identity.api.parameters import TENANT_PATH
from tenants.identity.api.serializers import TenantRef
from tenants.identity.api.shapes import tenant_ref
from tenants.identity.services.names import Problems
from webapi.fields import read_utc
from webapi.views import ApiView, known_query

DAYS_DEFAULT, DAYS_MAX = 7, 92
SIGNED_BY = "ed25519"
REQUESTED = "Amount that its jobs held and its waiting jobs requested; at most its ceiling."
Out = serializers.Serializer[Any]


class ShareAmountsOut(Out):
    """Amounts in the unit of the resource times seconds: `gpu_millis` 3,600,000 is one GPU for an hour."""

    due = serializers.IntegerField(help_text="Amount that is due: deserved and requested.")
    delivered = serializers.IntegerField(help_text="Amount that its jobs held.")
    shortfall = serializers.IntegerField(help_text="Amount that was due and not delivered.")
    fair = serializers.IntegerField(
        help_text="Fair share of the amount that it and its siblings got: the due amount first, the rest by weight."
    )
    delivered_by_all = serializers.IntegerField()
    deficit = serializers.IntegerField(help_text="`fair` minus `delivered`; below 0: the queue got more than its fair share.")
    fair_ppm = serializers.IntegerField(help_text="`fair` in millionths of `delivered_by_all`.")
    delivered_ppm = serializers.IntegerField()


class ShareOut(ShareAmountsOut):
    """A queue among its siblings, in a pool, for a resource."""

    tenant = TenantRef()
    queue = ReferenceOut()
    deserved = serializers.IntegerField(help_text="Deserved amount by its limits, whether requested or not.")
    requested = serializers.IntegerField(help_text=REQUESTED)
    requested_by_all = serializers.IntegerField(help_text="Amount requested by it and its siblings.")
    is_top = serializers.BooleanField(help_text="The queue represents its whole tenant.")
    pool = PoolRef(allow_null=True, help_text="Null if the pool was deleted.")
    resource = serializers.CharField()


class SharesOut(Out):
    """Queues that you can see, largest deficit first."""

    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    items = ShareOut(many=True)


class ShareLineOut(ShareAmountsOut):
    promised = serializers.IntegerField(help_text="Deserved amount: `deserved` of GET /shares, under its signed name.")
    wanted = serializers.IntegerField(help_text="Requested amount: `requested` of GET /shares, under its signed name.")
    wanted_by_all = serializers.IntegerField(help_text="`requested_by_all` of GET /shares, under its signed name.")
    pool = serializers.UUIDField()
    resource = serializers.CharField()


class ShareLimitOut(Out):
    """Limits of the tenant's top queue from a time on, in seconds since 1970."""

    since = serializers.IntegerField()
    pool = serializers.UUIDField()
    resource = serializers.CharField()
    guarantee = serializers.IntegerField()
    deserved = serializers.IntegerField(allow_null=True)
    ceiling = serializers.IntegerField(allow_null=True)
    weight = serializers.IntegerField()


class ShareDocumentOut(Out):
    """Document that is hashed and signed, as JSON with sorted keys, without blanks, in UTF-8."""

    format = serializers.IntegerField()
    kind = serializers.CharField()
    tenant = serializers.UUIDField()
    queue = serializers.UUIDField()
    week = serializers.CharField()
    since = serializers.IntegerField()
    until = serializers.IntegerField()
    lines = ShareLineOut(many=True)
    limits = ShareLimitOut(many=True)


class ShareWeekOut(Out):
    """A closed week."""

    week = serializers.CharField()
    sha256 = serializers.CharField()
    closed_at = serializers.DateTimeField()


class ShareWeeksOut(Out):
    items = ShareWeekOut(many=True)


class ShareStatementOut(Out):
    """Week of a tenant. `closed_at` null: the week is not over or not closed yet, and may still change."""

    tenant = TenantRef()
    week = serializers.CharField()
    closed_at = serializers.DateTimeField(allow_null=True)
    sha256 = serializers.CharField()
    algorithm = serializers.CharField()
    signature = serializers.CharField(help_text="Signature of the document's bytes, in Base64.")
    public_key = serializers.CharField(help_text="Public key of the signature, in Base64; compare it with GET /signing-keys.")
    document = ShareDocumentOut()
    names = serializers.DictField(child=serializers.CharField(), help_text="Names of pools, by id.")


class SigningKeysOut(Out):
    """Public keys in Base64: the key that signs now, and former keys that operators still keep."""

    algorithm = serializers.CharField()
    public_key = serializers.CharField()
    former = serializers.ListField(child=serializers.CharField())


class SharesView(ApiView):
    """Deserved and delivered shares."""

    @extend_schema(
        operation_id="shares_list",
        parameters=[
            TENANT,
            OpenApiParameter("since", OpenApiTypes.DATETIME, description=f"Default: {DAYS_DEFAULT} days ago."),
            OpenApiParameter("until", OpenApiTypes.DATETIME, description="Default: now."),
            OpenApiParameter("pool", str, description="Name, CLUSTER/POOL or id."),
            OpenApiParameter("format", str, enum=["json", "csv"]),
        ],
        responses={200: SharesOut, (200, "text/csv"): OpenApiTypes.STR},
    )
    def get(self, request: Request) -> Response | HttpResponse:
        """List deserved and delivered shares of queues that you can see, each among its siblings, in whole hours.

        Running jobs are included. Computed from the ledger, from the demand hour by hour, and from the history of limits.
        """
        known_query(request, ("tenant", "since", "until", "pool", "format"))
        query, problems, now = request.query_params, Problems(), database_now()
        since, until = _window(query, now, problems)
        pool = one_pool(query.get("pool", ""), problems)
        form = read_format(query, problems, ("json", "csv"))
        problems.raise_if_any()
        tenant = selectors.get_tenant(self.actor, query["tenant"]) if query.get("tenant") else None
        if tenant is not None:
            demand(self.actor, tenant.pk, "share.read")
        known = readable_queues(self.actor, None if tenant is None else tenant.pk)
        found: Mapping[ShareKey, Share] = {}
        if known:
            with one_question():  # Of a large installation this takes a core for seconds.
                found = account(since, until, running=live_holdings()).shares
        rows = [
            (key, share)
            for key, share in sorted(found.items(), key=lambda row: (-row[1].deficit, row[0]))
            if key.queue_id in known and (pool is None or key.pool_id == pool.id)
        ]
        if form == "csv":
            return csv_answer(_csv(rows, known), "shares.csv")
        pools = _pool_refs()
        items = [
            {
                "tenant": tenant_ref(known[key.queue_id].tenant),
                "queue": {"id": str(key.queue_id), "name": known[key.queue_id].name},
                "is_top": known[key.queue_id].is_top,
                "pool": pools.get(str(key.pool_id)),
                "resource": key.resource,
                **share.as_dict(),
            }
            for key, share in rows
        ]
        return Response({"since": utc_text(moment(since)), "until": utc_text(moment(until)), "items": items})


class ShareWeeksView(ApiView):
    """A tenant's closed weeks."""

    @extend_schema(operation_id="tenants_shares_list", parameters=[TENANT_PATH], responses=ShareWeeksOut)
    def get(self, request: Request, tenant: str) -> Response:
        """List closed weeks with their digests, latest first."""
        known_query(request, ())
        found = selectors.get_tenant(self.actor, tenant)
        demand(self.actor, found.pk, "share.read")
        items = [
            {"week": week_text(row.week), "sha256": row.sha256, "closed_at": utc_text(row.closed_at)}
            for row in closed_weeks(found.pk)
        ]
        return Response({"items": items})


class ShareWeekView(ApiView):
    """A tenant's week."""

    @extend_schema(
        operation_id="tenants_shares_get",
        parameters=[
            TENANT_PATH,
            OpenApiParameter("week", str, OpenApiParameter.PATH, description="`2026-W47`, from Monday on, by ISO 8601."),
            OpenApiParameter("format", str, enum=["json", "canonical"], description="`canonical`: the signed bytes."),
        ],
        responses={200: ShareStatementOut, (200, "application/octet-stream"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, tenant: str, week: str) -> Response | HttpResponse:
        """Get the deserved and delivered shares of a tenant in a week, signed. A closed week never changes."""
        known_query(request, ("format",))
        found = selectors.get_tenant(self.actor, tenant)
        demand(self.actor, found.pk, "share.read")
        problems = Problems()
        number = _week(week, problems)
        form = read_format(request.query_params, problems, ("json", "canonical"))
        problems.raise_if_any()
        made = stored_week(found.pk, number) or _made_now(found.pk, number, week)
        if form == "canonical":
            return HttpResponse(made.data, content_type="application/octet-stream", headers={"X-Content-Type-Options": "nosniff"})
        used = {line["pool"] for line in made.document["lines"]}
        return Response(
            {
                "tenant": tenant_ref(found),
                "week": week_text(number),
                "closed_at": utc_text(made.closed_at),
                "sha256": made.sha256,
                "algorithm": SIGNED_BY,
                "signature": made.signed.signature,
                "public_key": made.signed.public_key,
                "document": made.document,
                "names": {key: ref["name"] for key, ref in _pool_refs().items() if key in used},
            }
        )


class SigningKeysView(ApiView):
    """What checks signatures."""

    @extend_schema(operation_id="signing_keys", responses=SigningKeysOut)
    def get(self, request: Request) -> Response:
        """Get the public keys that verify statements of this installation; save the present key to verify offline."""
        known_query(request, ())
        present, *former = public_keys()
        return Response({"algorithm": SIGNED_BY, "public_key": present, "former": former})


def _made_now(tenant_id: Any, week: int, text: str) -> MadeWeek:
    now = mark(database_now())
    if week > week_of(now):
        raise NotFound(
            Text(f"{text} is still to come.", f"{text} 尚未到来。"),
            hint=Text("A week has a statement from its first day on.", "一周从第一天起即有账单。"),
        )
    if is_settled(week):
        raise NotFound(
            Text(
                f"There is no statement of {text}: nothing was deserved, requested or used in it, or it was before this "
                "installation kept shares.",
                f"没有 {text} 的结算单：该周没有应得、请求或使用的资源，或早于本系统开始记录份额。",
            ),
            hint=Text("`berth shares week --list` lists the closed weeks.", "`berth shares week --list` 列出已结算的周。"),
        )
    since, until = bounds_of(week)
    with one_question():
        found = account(since, min(until, max(since + 1, now)), running=live_holdings())
    if tenant_id not in found.tops:
        raise NotFound(
            Text("This tenant has no queue.", "此租户没有队列。"),
            hint=Text("`berth queues` lists them.", "`berth queues` 可列出队列。"),
        )
    return made_week(tenant_id, week, found)


def _window(query: Mapping[str, str], now: datetime, problems: Problems) -> tuple[int, int]:
    """In whole hours, but for an end that is now."""
    until = _time(query, "until", problems) or now
    since = _time(query, "since", problems) or until - timedelta(days=DAYS_DEFAULT)
    if since >= until:
        problems.add("/until", "before_since", Text("until lies before since.", "until 早于 since。"))
    if until - since > timedelta(days=DAYS_MAX + 1):
        problems.add(
            "/since",
            "out_of_range",
            Text(f"These are more than {DAYS_MAX} days.", f"超过 {DAYS_MAX} 天。"),
            Text("Ask for fewer days at a time.", "请缩短每次查询的天数。"),
        )
    last = min(mark(until), mark(now))
    return min(mark(since) // HOUR * HOUR, max(0, last - 1)), last


def _time(query: Mapping[str, str], name: str, problems: Problems) -> datetime | None:
    try:
        return read_utc(query[name], name=name) if query.get(name) else None
    except InvalidInput as error:
        problems.fields += error.fields
        return None


def _week(text: str, problems: Problems) -> int:
    try:
        return week_number(text)
    except ValueError:
        problems.add("/week", "invalid", Text("A week is written like 2026-W47.", "周写作 2026-W47。"))
        return 0


def _pool_refs() -> dict[str, dict[str, str]]:
    return {str(pool.id): {"id": str(pool.id), "name": pool.name, "cluster": pool.cluster_name} for pool in list_pools()}


def _csv(rows: Sequence[tuple[ShareKey, Share]], queues: Mapping[Any, ShownQueue]) -> str:
    columns = ("tenant", "tenant_name", "queue", "queue_name", "pool", "pool_name", "resource", *Share().as_dict())
    pools = _pool_refs()

    def cells(key: ShareKey, share: Share) -> tuple[object, ...]:
        queue, pool = queues[key.queue_id], pools.get(str(key.pool_id))
        names = (queue.tenant.pk, queue.tenant.name, key.queue_id, queue.name)
        return (*names, key.pool_id, pool["name"] if pool else "", key.resource, *share.as_dict().values())

    return as_csv(columns, (cells(key, share) for key, share in rows))
