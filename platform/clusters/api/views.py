"""Pools and nodes over HTTP. Everybody with a tenant reads them; operators cordon nodes."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Count, Q, QuerySet, Sum
from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.api import examples
from clusters.api.representations import (
    NodeOut,
    PoolEdit,
    PoolOut,
    SeriesListOut,
    node_json,
    pool_json,
    series_json,
)
from clusters.models import Node, Pool
from clusters.placement import read_taints
from clusters.services import cordon_node, edit_pool, taint_node, uncordon_node
from clusters.telemetry.metrics import METRICS, Metric, SubjectKind, gpu_subject, metrics_of, node_subject, pool_subject, scoped
from clusters.telemetry.reading import find_metric, read_many
from clusters.telemetry.tiers import POINTS_MAX
from kernel.clock import database_now
from kernel.errors import FieldError, InvalidInput
from kernel.limits import NOTE_LENGTH
from kernel.words import Text
from webapi.access import fetch, visible
from webapi.etags import expected_version, with_etag
from webapi.fields import NameField, read_utc
from webapi.pagination import page
from webapi.refusals import detail
from webapi.serializers import StrictSerializer
from webapi.views import ApiView, known_query
from webapi.wording import reader_language

DEFAULT_SPAN = timedelta(hours=1)  # Of series when nothing is said: what a reader wants to see now.

_LIMIT, _CURSOR = examples.LIMIT, examples.CURSOR
_CLUSTER = OpenApiParameter("cluster", str, description="Only nodes of the cluster with this id or name.")
_POOL = OpenApiParameter("pool", str, description="Only nodes of the pool with this id or name.")


def _page_of(name: str, item: type[serializers.Serializer[Any]]) -> Any:
    fields = {"items": item(many=True), "next": serializers.CharField(allow_null=True)}
    return inline_serializer(name, fields)


class PoolListView(ApiView):
    """List pools, with their capacity and allocation."""

    @extend_schema(
        operation_id="pools_list",
        parameters=[_CLUSTER, _LIMIT, _CURSOR],
        responses=_page_of("PoolPage", PoolOut),
        examples=[examples.answer("Page", {"items": [examples.POOL], "next": None})],
    )
    def get(self, request: Request) -> Response:
        known_query(request, ("cluster",))
        rows = narrowed(request, pools_with_capacity(visible(self.actor, Pool)), "cluster")
        return page(request, rows, order=("name", "id"), serialize=pool_json)


class PoolView(ApiView):
    """Get a pool."""

    @extend_schema(operation_id="pools_get", responses=PoolOut, examples=[examples.answer("GPUs", examples.POOL)])
    def get(self, request: Request, pool_id: str) -> Response:
        return self._answer(fetch(self.actor, Pool, pool_id, "pool.read"))

    @extend_schema(
        operation_id="pools_edit",
        request=PoolEdit,
        responses=PoolOut,
        examples=[
            examples.body("Lend parts", {"gpu_shares": True, "shared_devices_max": 2}),
            examples.answer("After", examples.POOL),
        ],
    )
    def patch(self, request: Request, pool_id: str) -> Response:
        """Rename a pool, or change its placement policy. Omitted fields are unchanged; null restores the default."""
        found = fetch(self.actor, Pool, pool_id, "pool.edit")
        expected = expected_version(request)
        edit_pool(actor=self.actor, pool_id=found.pk, changes=request.data, expected_version=expected, now=database_now())
        return self._answer(found)

    def _answer(self, found: Pool) -> Response:
        pool = pools_with_capacity(visible(self.actor, Pool).filter(pk=found.pk)).get()
        return with_etag(Response(pool_json([pool])[0]), pool.version)


class PoolMetricsView(ApiView):
    """Get series of a pool: idle GPUs, the largest task and job that could start, and fragmentation."""

    @extend_schema(
        operation_id="pools_metrics",
        parameters=[
            OpenApiParameter("metric", str, description="Only this metric; default: all metrics of the pool."),
            OpenApiParameter("since", datetime, description="Default: an hour before `until`."),
            OpenApiParameter("until", datetime, description="Default: now."),
            OpenApiParameter("points", int, description=f"Maximum number of slots, 2 to {POINTS_MAX}."),
        ],
        responses=SeriesListOut,
        examples=[examples.answer("Fragmentation", examples.POOL_SERIES)],
    )
    def get(self, request: Request, pool_id: str) -> Response:
        known_query(request, ("metric", "since", "until", "points"))
        pool = fetch(self.actor, Pool, pool_id, "pool.read")
        name, now = request.query_params.get("metric"), database_now()
        since, until, points = read_span(request, now)
        wanted = metrics_of(SubjectKind.POOL) if name is None else _only(find_metric(name), SubjectKind.POOL)
        subject = scoped(pool.cluster_id, pool_subject(pool.pk))
        found = read_many([subject], wanted, since=since, until=until, now=now, points_max=points) if wanted else []
        items = [series for series in found if name is not None or any(value is not None for value in series.values)]
        return Response({"items": series_json(items)})


class NodeListView(ApiView):
    """List nodes as last observed."""

    @extend_schema(
        operation_id="nodes_list",
        parameters=[
            _CLUSTER,
            _POOL,
            OpenApiParameter("ready", bool, description="Only nodes that are, or are not, ready."),
            OpenApiParameter("cordoned", bool, description="Only nodes that are, or are not, cordoned."),
            _LIMIT,
            _CURSOR,
        ],
        responses=_page_of("NodePage", NodeOut),
        examples=[examples.answer("Page", {"items": [examples.NODE], "next": None})],
    )
    def get(self, request: Request) -> Response:
        known_query(request, ("cluster", "pool", "ready", "cordoned"))
        rows = visible(self.actor, Node).select_related("cluster", "pool")
        rows = narrowed(request, narrowed(request, rows, "cluster"), "pool")
        for name in ("ready", "cordoned"):
            wanted = _flag(request, name)
            rows = rows if wanted is None else rows.filter(**{name: wanted})
        return page(request, rows, order=("name", "id"), serialize=partial(node_json, language=reader_language(request)))


class CordonIn(StrictSerializer):
    """Settings of a node, for operators; omitted fields are unchanged."""

    cordoned = serializers.BooleanField(required=False, help_text="True: no new task starts here; running tasks continue.")
    cordon_reason = NameField(
        required=False,
        allow_blank=True,
        default="",
        max_length=NOTE_LENGTH,
        help_text="Reason, shown to all users whose jobs wait for the node.",
    )
    taints = serializers.DictField(
        required=False,
        help_text="Effect (avoid or keep-out) by name of a taint; jobs that do not tolerate it go to other nodes. Replaces "
        "the previous taints.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Both parts are judged before either is done."""
        if not attrs.keys() & {"cordoned", "taints"}:
            raise serializers.ValidationError(
                {"cordoned": [detail(Text("Say cordoned, taints, or both.", "请给出 cordoned、taints 或两者。"), code="invalid")]}
            )
        if "taints" in attrs:
            attrs["taints"] = read_taints(attrs["taints"])
        return attrs


class NodeView(ApiView):
    """Get a node."""

    @extend_schema(operation_id="nodes_get", responses=NodeOut, examples=[examples.answer("Node", examples.NODE)])
    def get(self, request: Request, node_id: str) -> Response:
        node = fetch(self.actor, Node, node_id, "node.read", related=("cluster", "pool"))
        return with_etag(Response(node_json([node], language=reader_language(request))[0]), node.version)

    @extend_schema(
        operation_id="nodes_edit",
        request=CordonIn,
        responses=NodeOut,
        examples=[
            examples.body("Cordon", {"cordoned": True, "cordon_reason": "Fan 3 is noisy."}),
            examples.body("Keep for others", {"taints": {"fpga": "keep-out"}}),
            examples.answer("Cordoned", examples.CORDONED_NODE),
        ],
    )
    def patch(self, request: Request, node_id: str) -> Response:
        found = fetch(self.actor, Node, node_id, "node.edit")
        body = CordonIn.validated(request.data)
        expected, now = expected_version(request), database_now()
        with transaction.atomic():
            if "taints" in body:
                taints = body["taints"]
                node = taint_node(actor=self.actor, node_id=found.pk, taints=taints, expected_version=expected, now=now)
                expected = node.version if expected is not None else None
            if body.get("cordoned"):
                reason = body["cordon_reason"]
                node = cordon_node(actor=self.actor, node_id=found.pk, reason=reason, expected_version=expected, now=now)
            elif "cordoned" in body:
                node = uncordon_node(actor=self.actor, node_id=found.pk, expected_version=expected, now=now)
        return with_etag(Response(node_json([node], language=reader_language(request))[0]), node.version)


class NodeMetricsView(ApiView):
    """Get the usage of a node and of its GPUs over time; gaps are null."""

    @extend_schema(
        operation_id="nodes_metrics",
        parameters=[
            OpenApiParameter("metric", str, enum=list(METRICS), description="Only this metric; default: all metrics."),
            OpenApiParameter("since", datetime, description="Default: an hour before `until`."),
            OpenApiParameter("until", datetime, description="Default: now."),
            OpenApiParameter("points", int, description=f"Maximum number of points per series, 2 to {POINTS_MAX}."),
        ],
        responses=SeriesListOut,
        examples=[examples.answer("With a gap", examples.SERIES)],
    )
    def get(self, request: Request, node_id: str) -> Response:
        known_query(request, ("metric", "since", "until", "points"))
        node = fetch(self.actor, Node, node_id, "node.read")
        name, now = request.query_params.get("metric"), database_now()
        since, until, points = read_span(request, now)
        found = []
        for kind, subjects in _subjects(node).items():
            wanted = metrics_of(kind) if name is None else _only(find_metric(name), kind)
            if wanted and subjects:
                found += read_many(subjects, wanted, since=since, until=until, now=now, points_max=points)
        items = [series for series in found if name is not None or any(value is not None for value in series.values)]
        return Response({"items": series_json(items, simulated=_simulated(node))})


def pools_with_capacity(rows: QuerySet[Pool]) -> QuerySet[Pool]:
    """Pools with their cluster and the sums over nodes on which something may start, in one query."""
    available = Q(nodes__ready=True, nodes__cordoned=False)
    return rows.select_related("cluster", "measure").annotate(
        available_nodes=Count("nodes", filter=available),
        available_cpu=Sum("nodes__cpu_millis", filter=available),
        available_memory=Sum("nodes__memory_bytes", filter=available),
        available_gpu=Sum("nodes__gpu_millis", filter=available),
    )


def read_span(request: Request, now: datetime) -> tuple[datetime, datetime, int]:
    """`since`, `until` and `points` of a request for series; InvalidInput that names what is wrong."""
    given = request.query_params
    until = read_utc(given["until"], name="until") if given.get("until") else now
    since = read_utc(given["since"], name="since") if given.get("since") else until - DEFAULT_SPAN
    if since >= until:
        message = Text("since must be before until.", "since 须早于 until。")
        raise InvalidInput(message, fields=[FieldError("/since", "invalid", message)])
    text = given.get("points", str(POINTS_MAX))
    if not (text.isascii() and text.isdecimal() and len(text) <= 6 and 2 <= int(text) <= POINTS_MAX):
        message = Text(
            f"points must be a whole number between 2 and {POINTS_MAX}.", f"points 须为 2 到 {POINTS_MAX} 之间的整数。"
        )
        raise InvalidInput(message, fields=[FieldError("/points", "invalid", message)])
    return since, until, int(text)


def _subjects(node: Node) -> dict[SubjectKind, list[str]]:
    gpus = [gpu_subject(node.name, str(gpu["identifier"])) for gpu in node.gpus]
    named = {SubjectKind.NODE: [node_subject(node.name)], SubjectKind.GPU: gpus}
    return {kind: [scoped(node.cluster_id, subject) for subject in subjects] for kind, subjects in named.items()}


def _simulated(node: Node) -> set[str]:
    names = [gpu_subject(node.name, str(gpu["identifier"])) for gpu in node.gpus if gpu.get("simulated")]
    return {scoped(node.cluster_id, name) for name in names}


def _only(metric: Metric, kind: SubjectKind) -> tuple[Metric, ...]:
    return (metric,) if kind in metric.subjects else ()


def narrowed(request: Request, rows: Any, relation: str) -> Any:
    """Only rows of the cluster or pool that the query names, by id or name."""
    text = request.query_params.get(relation)
    if text is None:
        return rows
    by_name = Q((f"{relation}__name", text))
    return rows.filter(by_name | Q((f"{relation}_id", text)) if _is_uuid(text) else by_name)


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _flag(request: Request, name: str) -> bool | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    if text not in {"true", "false"}:
        message = Text(f"{name} must be true or false.", f"{name} 须为 true 或 false。")
        raise InvalidInput(message, fields=[FieldError(f"/{name}", "invalid", message)])
    return text == "true"
