"""Queues, their limits, and what was used, over HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.selectors import PoolFacts, pools_and_nodes
from kernel.clock import database_now
from kernel.errors import FieldError, InvalidInput
from kernel.resources import RESOURCE_NAMES
from kernel.words import Text
from tenants.capacity import selectors as queue_selectors
from tenants.capacity.api import queue_bodies as bodies
from tenants.capacity.models import Queue
from tenants.capacity.quota.tree import Ceiling
from tenants.capacity.services.limits import PoolLimit, set_limits
from tenants.capacity.services.queue_removal import delete_queue
from tenants.capacity.services.queues import LIMITS_PER_QUEUE, create_queue, rename_queue
from tenants.identity import selectors
from webapi.access import fetch, require, visible
from webapi.etags import expected_version, with_etag
from webapi.idempotency import idempotent
from webapi.pagination import page
from webapi.schema import IF_MATCH, page_of
from webapi.views import ApiView, known_query

TENANT = OpenApiParameter("tenant", str, description="Slug, id or name of a tenant.")


class QueuesView(ApiView):
    """Boundaries of capacity, in a tree."""

    @extend_schema(parameters=[TENANT], responses=page_of(bodies.QueueOut))
    def get(self, request: Request) -> Response:
        """List queues that you can see, with limits and use per pool, parents before children."""
        known_query(request, ("tenant",))
        rows = visible(self.actor, Queue).filter(tenant__deleted_at__isnull=True).select_related("tenant")
        if request.query_params.get("tenant"):
            rows = rows.filter(tenant=selectors.get_tenant(self.actor, request.query_params["tenant"]))
        pools = pools_and_nodes()[0]
        return page(request, rows, order=("path",), serialize=lambda rows: bodies.show_queues(self.actor, rows, pools))

    @extend_schema(request=bodies.QueueIn, responses={201: bodies.QueueOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Create a queue below another queue of a tenant that you manage."""
        body = bodies.QueueIn.validated(request.data)
        parent = self._parent(body["parent"], body["tenant"])
        tenant_id = parent.tenant_id if parent is not None else selectors.get_tenant(self.actor, body["tenant"]).pk
        if tenant_id is None:
            message = Text(
                "Only a tenant's top queue stands below root; it comes with the tenant.",
                "根队列之下只能是租户的顶层队列，它随租户建立。",
            )
            raise InvalidInput(message, fields=[FieldError("/parent", "is_root", message)])
        queue = create_queue(
            actor=self.actor,
            tenant_id=tenant_id,
            name=body["name"],
            parent_id=parent.pk if parent else None,
            now=database_now(),
        )
        return _answer(self, queue, status=201)

    def _parent(self, text: str | None, tenant: str | None) -> Queue | None:
        """The queue above the new one: by id, or by name within the tenant."""
        if not text:
            return None
        try:
            return fetch(self.actor, Queue, uuid.UUID(text), "queue.create")
        except ValueError:
            tenant_id = selectors.find_tenant(self.actor, tenant).id
            facts = queue_selectors.resolve_queue(self.actor, tenant_id, text)
            return fetch(self.actor, Queue, facts.id, "queue.create")


class QueueView(ApiView):
    """One queue."""

    @extend_schema(responses=bodies.QueueOut)
    def get(self, request: Request, queue_id: str) -> Response:
        """Get a queue, with limits and use per pool."""
        return _answer(self, fetch(self.actor, Queue, queue_id, "queue.read", related=("tenant",)))

    @extend_schema(parameters=[IF_MATCH], request=bodies.QueueChange, responses=bodies.QueueOut)
    def patch(self, request: Request, queue_id: str) -> Response:
        """Rename a queue. Its jobs stay in it."""
        queue = fetch(self.actor, Queue, queue_id, "queue.edit", related=("tenant",))
        body = bodies.QueueChange.validated(request.data)
        changed = rename_queue(
            actor=self.actor, queue=queue, name=body["name"], expected_version=expected_version(request), now=database_now()
        )
        return _answer(self, changed)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, queue_id: str) -> Response:
        """Delete an empty queue: without unfinished jobs, queues below it, bookings and scheduled edits of its limits.

        Its finished jobs, the ledger and the history stay, and its name becomes free. A tenant's top queue goes with the tenant.
        """
        known_query(request, ())
        queue = fetch(self.actor, Queue, queue_id, "queue.delete", related=("tenant",))
        delete_queue(actor=self.actor, queue=queue, now=database_now())
        return Response(status=204)


class QueueLimitsView(ApiView):
    """The ceilings of one queue."""

    @extend_schema(parameters=[IF_MATCH], request=bodies.LimitIn(many=True), responses=bodies.QueueOut)
    def put(self, request: Request, queue_id: str) -> Response:
        """Replace the ceilings of a queue.

        A pool that is not listed has no ceiling. Guarantees, deserved shares and weights change where they are given. For
        managers of the queue above it. Applies to future starts: no running job is stopped.
        """
        queue = fetch(self.actor, Queue, queue_id, "queue.read", related=("tenant", "parent"))
        require(self.actor, queue, "queue.limit")
        items = bodies.LimitIn.validated_list(request.data, length_max=LIMITS_PER_QUEUE)
        changed = set_limits(
            actor=self.actor,
            queue=queue,
            limits=_limits(items, pools_and_nodes()[0]),
            expected_version=expected_version(request),
            now=database_now(),
        )
        return _answer(self, changed)


def _answer(view: ApiView, queue: Queue, *, status: int = 200) -> Response:
    shown = bodies.show_queues(view.actor, [queue], pools_and_nodes()[0])[0]
    return with_etag(Response(shown, status=status), queue.version)


def _limits(items: Sequence[dict[str, Any]], pools: Sequence[PoolFacts]) -> list[PoolLimit]:
    """Pools by id or by a name that only one has; every unknown one is named."""
    by_text: dict[str, list[uuid.UUID]] = {}
    for pool in pools:
        by_text.setdefault(pool.name, []).append(pool.id)
        by_text[str(pool.id)] = [pool.id]
    limits, fields = [], []
    for index, item in enumerate(items):
        found = by_text.get(item["pool"].lower() if len(item["pool"]) == 36 else item["pool"], [])
        if len(found) != 1:
            message = (
                Text("There is no such pool.", "没有这个资源池。")
                if not found
                else Text("Several clusters have a pool of this name: use its id.", "多个集群有此名称的资源池：请使用 ID。")
            )
            fields.append(
                FieldError(
                    f"/{index}/pool", "not_found", message, Text("`berth nodes` lists pools.", "`berth nodes` 列出资源池。")
                )
            )
            continue
        promises = {column: item.get(column, {}) for column in ("guarantee", "deserved", "weight")}
        limits.append(PoolLimit(found[0], Ceiling(**{name: item[name] for name in RESOURCE_NAMES}), **promises))
    if fields:
        raise InvalidInput(fields[0].message, fields=fields)
    return limits
