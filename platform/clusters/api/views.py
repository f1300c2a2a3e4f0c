"""Clusters, pools and nodes over HTTP. Everybody with a tenant reads them; operators cordon nodes."""

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
    ClusterOut,
    NodeOut,
    PoolEdit,
    PoolOut,
    SeriesListOut,
    cluster_json,
    node_json,
    pool_json,
    series_json,
)
from clusters.models import Cluster, Node, Pool
from clusters.placement import read_taints
from clusters.services import cordon_node, edit_pool, taint_node, uncordon_node
from clusters.telemetry.metrics import METRICS, Metric, SubjectKind, gpu_subject, metrics_of, node_subject, pool_subject, scoped
from clusters.telemetry.reading import find_metric, read_many
from clusters.telemetry.tiers import POINTS_MAX
from kernel.clock import database_now
from kernel.errors import FieldError, InvalidInput
from kernel.limits import NOTE_LENGTH
from webapi.access import fetch, visible
from webapi.etags import expected_version, with_etag
from webapi.fields import NameField, read_utc
from webapi.pagination import page
from webapi.serializers import StrictSerializer
from webapi.views import ApiView, known_query
from webapi.wording import reader_language

DEFAULT_SPAN = timedelta(hours=1)  # Of series when nothing is said: what somebody who looks now wants to see.

_LIMIT = OpenApiParameter("limit", int, description="Rows per page, 1 to 500.")
_CURSOR = OpenApiParameter("cursor", str, description="`next` of the page before.")
_CLUSTER = OpenApiParameter("cluster", str, description="Only of the cluster with this id or name.")
_POOL = OpenApiParameter("pool", str, description="Only of the pool with this id or name.")


def _page_of(name: str, item: type[serializers.Serializer[Any]]) -> Any:
    fields = {"items": item(many=True), "next": serializers.CharField(allow_null=True)}
    return inline_serializer(name, fields)


class ClusterListView(ApiView):
    """The clusters of this installation."""

    @extend_schema(
        operation_id="clusters_list",
        parameters=[_LIMIT, _CURSOR],
        responses=_page_of("ClusterPage", ClusterOut),
        examples=[examples.answer("Page", {"items": [examples.CLUSTER], "next": None})],
    )
    def get(self, request: Request) -> Response:
        known_query(request, ())
        return page(
            request,
            visible(self.actor, Cluster),
            order=("name",),
            serialize=partial(cluster_json, language=reader_language(request)),
        )


class ClusterView(ApiView):
    """One cluster, with its condition and how it keeps tenants apart."""

    @extend_schema(
        operation_id="clusters_get", responses=ClusterOut, examples=[examples.answer("This machine", examples.CLUSTER)]
    )
    def get(self, request: Request, cluster_id: str) -> Response:
        return Response(
            cluster_json([fetch(self.actor, Cluster, cluster_id, "cluster.read")], language=reader_language(request))[0]
        )


class PoolListView(ApiView):
    """Pools, with what they offer and what is held."""

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
    """One pool."""

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
        """Rename it, and change how it is filled. What is not named stays; null puts a rule back to its default."""
        found = fetch(self.actor, Pool, pool_id, "pool.edit")
        expected = expected_version(request)
        edit_pool(actor=self.actor, pool_id=found.pk, changes=request.data, expected_version=expected, now=database_now())
        return self._answer(found)

    def _answer(self, found: Pool) -> Response:
        pool = pools_with_capacity(visible(self.actor, Pool).filter(pk=found.pk)).get()
        return with_etag(Response(pool_json([pool])[0]), pool.version)


class PoolMetricsView(ApiView):
    """Series of a pool: its idle GPUs, the largest task and job that could start, and how fragmented it was."""

    @extend_schema(
        operation_id="pools_metrics",
        parameters=[
            OpenApiParameter("metric", str, description="One metric; without it all that the pool has."),
            OpenApiParameter("since", datetime, description="Default: an hour before until."),
            OpenApiParameter("until", datetime, description="Default: now."),
            OpenApiParameter("points", int, description=f"At most so many slots, 2 to {POINTS_MAX}."),
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
    """Nodes as last observed."""

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
    """What an operator decides about a node; what is left out stays."""

    cordoned = serializers.BooleanField(required=False, help_text="True: nothing new starts here; what runs stays.")
    cordon_reason = NameField(
        required=False,
        allow_blank=True,
        default="",
        max_length=NOTE_LENGTH,
        help_text="Shown to everybody who waits for the node.",
    )
    taints = serializers.DictField(
        required=False,
        help_text="avoid or keep-out by name of a taint: jobs that do not tolerate it go elsewhere. Replaces those set before.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Both parts are judged before either is done."""
        if not attrs.keys() & {"cordoned", "taints"}:
            raise serializers.ValidationError({"cordoned": ["Say cordoned, taints, or both."]})
        if "taints" in attrs:
            attrs["taints"] = read_taints(attrs["taints"])
        return attrs


class NodeView(ApiView):
    """One node."""

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
    """Use of a node and of its GPUs over time; gaps are null."""

    @extend_schema(
        operation_id="nodes_metrics",
        parameters=[
            OpenApiParameter("metric", str, enum=list(METRICS), description="One metric; all when left out."),
            OpenApiParameter("since", datetime, description="Default: one hour before `until`."),
            OpenApiParameter("until", datetime, description="Default: now."),
            OpenApiParameter("points", int, description=f"At most so many points per series, 2 to {POINTS_MAX}."),
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
        message = "since must be before until."
        raise InvalidInput(message, fields=[FieldError("/since", "invalid", message)])
    text = given.get("points", str(POINTS_MAX))
    if not (text.isascii() and text.isdecimal() and len(text) <= 6 and 2 <= int(text) <= POINTS_MAX):
        message = f"points must be a whole number between 2 and {POINTS_MAX}."
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
        message = f"{name} must be true or false."
        raise InvalidInput(message, fields=[FieldError(f"/{name}", "invalid", message)])
    return text == "true"
