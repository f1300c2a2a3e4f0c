"""Who holds which GPU, device by device, as far as the reader may know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.api.representations import ReferenceOut
from clusters.api.views import narrowed
from clusters.models import Node
from clusters.selectors import GpuHolder, gpu_holders
from clusters.telemetry.metrics import gpu_subject, scoped
from clusters.telemetry.reading import latest_values
from kernel.actor import Actor
from kernel.clock import database_now
from webapi.access import fetch, visible
from webapi.bounds import PAGE_SIZE_MAX
from webapi.pagination import page_size, slice_page
from webapi.views import ApiView, known_query

USE = "gpu_utilization_ratio"
GPU = 1000


class OccupiedGpuOut(serializers.Serializer[Any]):
    """A device. `held` without a job: you may not see the job. `utilisation` null: no recent measurement."""

    index = serializers.IntegerField()
    identifier = serializers.CharField()
    model = serializers.CharField()
    is_healthy = serializers.BooleanField()
    is_simulated = serializers.BooleanField()
    held = serializers.BooleanField()
    holders = serializers.IntegerField(help_text="Tasks on the device; several if the pool allows fractions of GPUs.")
    held_millis = serializers.IntegerField(help_text="Thousandths of the device that the tasks hold.")
    job_id = serializers.UUIDField(allow_null=True)
    job_name = serializers.CharField(allow_null=True)
    tenant = serializers.CharField(allow_null=True)
    user = serializers.CharField(allow_null=True)
    utilisation = serializers.FloatField(allow_null=True, help_text="Share of time in which a kernel ran, 0 to 1.")


class OccupiedNodeOut(serializers.Serializer[Any]):
    """A node and its devices."""

    node_id = serializers.UUIDField()
    name = serializers.CharField()
    cluster = ReferenceOut()
    pool = ReferenceOut()
    ready = serializers.BooleanField()
    cordoned = serializers.BooleanField()
    gpus_simulated = serializers.BooleanField()
    undecided_gpu_millis = serializers.IntegerField(help_text="Held by starting tasks whose GPUs are not assigned yet.")
    gpus = OccupiedGpuOut(many=True)


class OccupancyOut(serializers.Serializer[Any]):
    nodes = OccupiedNodeOut(many=True)
    next = serializers.CharField(allow_null=True, help_text="Cursor of the next page; null on the last page.")


class OccupancyView(ApiView):
    """GPUs of all machines."""

    @extend_schema(
        operation_id="occupancy_list",
        parameters=[
            OpenApiParameter("cluster", str, description="Only nodes of the cluster with this id or name."),
            OpenApiParameter("pool", str, description="Only nodes of the pool with this id or name."),
            OpenApiParameter("limit", int, description=f"Nodes per page, 1 to {PAGE_SIZE_MAX}, which is the default."),
            OpenApiParameter("cursor", str, description="`next` of the previous page, unchanged."),
        ],
        responses=OccupancyOut,
    )
    def get(self, request: Request) -> Response:
        """List all GPUs with their holders, by node; names of jobs that you may not see are omitted."""
        known_query(request, ("cluster", "pool"))
        rows = visible(self.actor, Node).select_related("cluster", "pool")
        rows = narrowed(request, narrowed(request, rows, "cluster"), "pool")
        limit = page_size(request) if "limit" in request.query_params else PAGE_SIZE_MAX
        found, cursor = slice_page(request, rows, order=("name", "id"), limit=limit)
        return Response({"nodes": show_occupancy(self.actor, found), "next": cursor})


class NodeOccupancyView(ApiView):
    """GPUs of one machine."""

    @extend_schema(operation_id="nodes_occupancy", responses=OccupiedNodeOut)
    def get(self, request: Request, node_id: str) -> Response:
        """List the GPUs of a node with their holders; names of jobs that you may not see are omitted."""
        known_query(request, ())
        node = fetch(self.actor, Node, node_id, "node.read", related=("cluster", "pool"))
        return Response(show_occupancy(self.actor, [node])[0])


def show_occupancy(actor: Actor, rows: Sequence[Node]) -> list[dict[str, Any]]:
    """Nodes with cluster and pool loaded. One query for who holds what, and one for 1,000 GPUs for how busy they are."""
    holders = gpu_holders(actor, [(row.cluster_id, row.name) for row in rows])
    subjects = [_subject(row, str(gpu["identifier"])) for row in rows for gpu in row.gpus]
    busy = latest_values(subjects, now=database_now(), metrics=[USE]) if subjects else {}
    return [_node(row, holders.get((row.cluster_id, row.name), ()), busy) for row in rows]


def _node(row: Node, holders: Sequence[GpuHolder], busy: Mapping[tuple[str, str], float]) -> dict[str, Any]:
    gpus = list(row.gpus) or [
        {"identifier": "", "model": row.gpu_model, "simulated": row.gpus_simulated} for _ in range(row.gpu_millis // GPU)
    ]
    by_index = _laid_out([str(gpu["identifier"]) for gpu in gpus], holders)
    return {
        "node_id": str(row.pk),
        "name": row.name,
        "cluster": {"id": str(row.cluster_id), "name": row.cluster.name},
        "pool": {"id": str(row.pool_id), "name": row.pool.name},
        "ready": row.ready,
        "cordoned": row.cordoned,
        "gpus_simulated": row.gpus_simulated,
        "undecided_gpu_millis": sum(holder.gpu_millis for holder in holders if not holder.devices),
        "gpus": [
            _gpu(index, gpu, by_index.get(index, []), busy.get((_subject(row, str(gpu["identifier"])), USE)))
            for index, gpu in enumerate(gpus)
        ],
    }


def _laid_out(identifiers: Sequence[str], holders: Sequence[GpuHolder]) -> dict[int, list[GpuHolder]]:
    """Holders by the index of their device. What an engine calls otherwise than its node does lies on those that are free."""
    at = {identifier: index for index, identifier in enumerate(identifiers) if identifier}
    strange = list(dict.fromkeys(device for holder in holders for device in holder.devices if device not in at))
    taken = {at[device] for holder in holders for device in holder.devices if device in at}
    free = (index for index in range(len(identifiers)) if index not in taken)
    at |= dict(zip(strange, free, strict=False))
    found: dict[int, list[GpuHolder]] = {}
    for holder in holders:
        for device in holder.devices:
            if device in at:
                found.setdefault(at[device], []).append(holder)
    return found


def _gpu(index: int, gpu: Mapping[str, Any], holders: Sequence[GpuHolder], busy: float | None) -> dict[str, Any]:
    known = next((holder for holder in holders if holder.job_id is not None), None)
    return {
        "index": index,
        "identifier": str(gpu["identifier"]),
        "model": str(gpu.get("model", "")),
        "is_healthy": bool(gpu.get("healthy", True)),
        "is_simulated": bool(gpu.get("simulated", False)),
        "held": bool(holders),
        "holders": len(holders),
        "held_millis": min(GPU, sum(holder.gpu_millis // len(holder.devices) for holder in holders)),
        "job_id": None if known is None else str(known.job_id),
        "job_name": None if known is None else known.job_name,
        "tenant": None if known is None else known.tenant,
        "user": None if known is None else known.user,
        "utilisation": busy,
    }


def _subject(row: Node, identifier: str) -> str:
    return scoped(row.cluster_id, gpu_subject(row.name, identifier))
