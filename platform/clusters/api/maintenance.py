"""Planned maintenance over HTTP. Members of any tenant read it; operators plan it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from django.db.models import Q
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.api.representations import ReferenceOut
from clusters.models import MaintenanceWindow, Node, Pool
from clusters.services.maintenance import NODES_MAX, NewWindow, cancel_window, nodes_of, plan_window
from kernel.actor import Actor
from kernel.clock import database_now, utc_text
from kernel.errors import FieldError, InvalidInput
from kernel.limits import NAME_LENGTH, NOTE_LENGTH
from kernel.words import Text
from webapi.access import fetch, require, visible
from webapi.fields import NameField, UtcTimeField
from webapi.idempotency import idempotent
from webapi.pagination import page
from webapi.schema import page_of
from webapi.serializers import StrictSerializer
from webapi.views import ApiView, known_query

STATES = ("planned", "active", "over", "cancelled")
NODES_SHOWN = 200  # Of a window over a large pool; the count is of all.
EXAMPLE = {
    "pool": "a100",
    "starts_at": "2026-12-01T20:00:00Z",
    "ends_at": "2026-12-01T23:00:00Z",
    "reason": "New driver.",
    "drain": True,
}


class MaintenanceIn(StrictSerializer):
    """Maintenance window of a pool, or of some nodes."""

    pool = serializers.CharField(max_length=NAME_LENGTH, required=False, allow_null=True, default=None, help_text="Name or id.")
    nodes = serializers.ListField(
        child=serializers.CharField(max_length=NAME_LENGTH), required=False, default=list, max_length=NODES_MAX,
        help_text="Ids or names.",
    )  # fmt: skip
    starts_at = UtcTimeField()
    ends_at = UtcTimeField()
    reason = NameField(max_length=NOTE_LENGTH // 2, required=False, allow_blank=True, default="")
    drain = serializers.BooleanField(
        required=False, default=False, help_text="Requeue running jobs when the window begins; otherwise they run to their end."
    )


class MaintenanceOut(serializers.Serializer[Any]):
    """Maintenance window of nodes."""

    id = serializers.UUIDField()
    state = serializers.ChoiceField(STATES)
    pool = ReferenceOut(allow_null=True, help_text="Null: only the listed nodes.")
    nodes = ReferenceOut(many=True, help_text=f"At most {NODES_SHOWN} nodes.")
    node_count = serializers.IntegerField()
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField()
    drain = serializers.BooleanField()
    began_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    created_by = serializers.CharField()


class MaintenanceView(ApiView):
    """Windows of maintenance."""

    @extend_schema(
        operation_id="maintenance_list",
        parameters=[OpenApiParameter("open", bool, description="Only planned and active windows, or only past windows.")],
        responses=page_of(MaintenanceOut),
    )
    def get(self, request: Request) -> Response:
        """List maintenance windows, latest first."""
        known_query(request, ("open",))
        rows = visible(self.actor, MaintenanceWindow).select_related("pool")
        if "open" in request.query_params:
            rows = rows.filter(ended_at__isnull=_flag(request.query_params["open"]))
        return page(request, rows, order=("-starts_at", "-id"), serialize=show_windows)

    @extend_schema(
        operation_id="maintenance_create",
        request=MaintenanceIn,
        responses={201: MaintenanceOut},
        examples=[OpenApiExample("a pool, one evening", EXAMPLE, request_only=True)],
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """Plan a maintenance window, as an operator. Its nodes are cordoned when it begins, and uncordoned when it ends.

        Nodes that were cordoned before stay cordoned. GET /nodes/{node_id}/affected lists the jobs on a node.
        """
        body = MaintenanceIn.validated(request.data)
        errors: list[FieldError] = []
        pool_id = _pool(self.actor, body["pool"], errors) if body["pool"] else None
        node_ids = _nodes(self.actor, body["nodes"], errors)
        if errors:
            raise InvalidInput(errors[0].message, fields=errors)
        if pool_id is None and not node_ids:
            message = Text("Name a pool or nodes.", "请指定资源池或节点。")
            raise InvalidInput(message, fields=[FieldError("/nodes", "required", message)])
        wanted = NewWindow(pool_id, node_ids, body["starts_at"], body["ends_at"], body["reason"], body["drain"])
        row = plan_window(actor=self.actor, wanted=wanted, now=database_now())
        return Response(show_windows([MaintenanceWindow.objects.select_related("pool").get(pk=row.pk)])[0], status=201)


class MaintenanceWindowView(ApiView):
    """One window."""

    @extend_schema(operation_id="maintenance_delete", responses={200: MaintenanceOut})
    def delete(self, request: Request, window_id: str) -> Response:
        """Cancel a planned window, or end an active window; its nodes are uncordoned. It stays in the list."""
        row = fetch(self.actor, MaintenanceWindow, window_id, "maintenance.edit")
        cancel_window(actor=self.actor, window=row, now=database_now())
        return Response(show_windows([MaintenanceWindow.objects.select_related("pool").get(pk=row.pk)])[0])


def show_windows(rows: Sequence[MaintenanceWindow]) -> list[dict[str, Any]]:
    """Rows come with their pool. One query for their nodes."""
    nodes = nodes_of(rows)
    return [
        {
            "id": str(row.pk),
            "state": _state(row),
            "pool": None if row.pool is None else {"id": str(row.pool_id), "name": row.pool.name},
            "nodes": [{"id": str(node.pk), "name": node.name} for node in nodes[row.pk][:NODES_SHOWN]],
            "node_count": len(nodes[row.pk]),
            "starts_at": utc_text(row.starts_at),
            "ends_at": utc_text(row.ends_at),
            "reason": row.reason,
            "drain": row.drain,
            "began_at": utc_text(row.began_at),
            "ended_at": utc_text(row.ended_at),
            "created_at": utc_text(row.created_at),
            "created_by": row.created_by,
        }
        for row in rows
    ]


def _state(row: MaintenanceWindow) -> str:
    if row.ended_at is not None:
        return "cancelled" if row.cancelled_at is not None else "over"
    return "planned" if row.began_at is None else "active"


def _pool(actor: Actor, text: str, errors: list[FieldError]) -> uuid.UUID | None:
    rows = visible(actor, Pool)
    cluster, _, name = text.rpartition("/")
    by_name = Q(name=name) & (Q(cluster__name=cluster) if cluster else Q())
    found = list(rows.filter(Q(id=text) if _is_id(text) else by_name)[:2])
    if len(found) != 1:
        errors.append(
            FieldError(
                "/pool",
                "not_found",
                Text("There is no such pool, or several have this name.", "没有这个资源池，或有多个同名。"),
                Text("Write its id.", "请写 ID。"),
            )
        )
        return None
    require(actor, found[0], "maintenance.edit")
    return found[0].pk


def _nodes(actor: Actor, texts: Sequence[str], errors: list[FieldError]) -> tuple[uuid.UUID, ...]:
    """The nodes that the texts name, each by its id or by a name that only one has. One query."""
    ids, names = [text for text in texts if _is_id(text)], [text for text in texts if not _is_id(text)]
    found: dict[str, list[Node]] = {}
    for node in visible(actor, Node).filter(Q(id__in=ids) | Q(name__in=names)) if texts else ():
        for key in (str(node.pk), node.name):
            found.setdefault(key, []).append(node)
    chosen: list[uuid.UUID] = []
    for index, text in enumerate(texts):
        rows = found.get(str(uuid.UUID(text)) if _is_id(text) else text, [])
        if len(rows) != 1:
            message = Text("There is no such node, or several have this name.", "没有这个节点，或有多个同名。")
            errors.append(FieldError(f"/nodes/{index}", "not_found", message, Text("Write its id.", "请写 ID。")))
            continue
        require(actor, rows[0], "maintenance.edit")
        chosen.append(rows[0].pk)
    return tuple(dict.fromkeys(chosen))


def _is_id(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _flag(text: str) -> bool:
    if text not in {"true", "false"}:
        message = Text("open must be true or false.", "open 须为 true 或 false。")
        raise InvalidInput(message, fields=[FieldError("/open", "invalid", message)])
    return text == "true"
