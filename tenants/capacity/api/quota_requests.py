"""Requests for other limits, over HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.selectors import PoolFacts, list_pools
from kernel.clock import database_now, utc_text
from kernel.errors import FieldError, InvalidInput
from kernel.words import Text
from tenants.capacity import selectors as queue_selectors
from tenants.capacity.api.pools import pool_ref
from tenants.capacity.api.queue_bodies import PoolRef
from tenants.capacity.api.quota import queue_ref, read_changes
from tenants.capacity.api.quota_bodies import COMMENT_LENGTH, ChangeIn, QueueName
from tenants.capacity.lifecycle import REQUEST_STATES
from tenants.capacity.models import QuotaRequest
from tenants.capacity.services.edits import CHANGES_MAX, read_change
from tenants.capacity.services.quota_requests import approve_request, deny_request, request_limits, withdraw_request
from tenants.identity import selectors
from tenants.identity.access import demand
from tenants.identity.api.serializers import Out, TenantRef, UserRef
from tenants.identity.api.shapes import Shown, tenant_ref, user_ref
from webapi.access import fetch, visible
from webapi.fields import UtcTimeField
from webapi.idempotency import idempotent
from webapi.pagination import page
from webapi.schema import page_of
from webapi.serializers import StrictSerializer
from webapi.views import ApiView, known_query

TENANT = OpenApiParameter("tenant", str, description="Slug, id or name of a tenant.")
STATE = OpenApiParameter("state", str, enum=REQUEST_STATES, description="Only requests in this state.")
RELATED = ("tenant", "created_by", "decided_by")


class QuotaRequestIn(StrictSerializer):
    """Limits that a tenant requests; an edit that another user has to make."""

    changes = serializers.ListField(child=ChangeIn(), min_length=1, max_length=CHANGES_MAX)
    tenant = serializers.CharField(max_length=100, required=False, allow_null=True, default=None)
    effective_from = UtcTimeField(required=False, allow_null=True, default=None)
    reason = serializers.CharField(max_length=COMMENT_LENGTH, required=False, allow_blank=True, default="")


class QuotaDecisionIn(StrictSerializer):
    """Answer to the requester; for an approval also the time from which it applies."""

    answer = serializers.CharField(max_length=COMMENT_LENGTH, required=False, allow_blank=True, default="")
    effective_from = UtcTimeField(
        required=False, allow_null=True, default=None, help_text="Default: as requested; a past time becomes now."
    )


class RequestedChangeOut(Out):
    """A requested change."""

    queue = QueueName(allow_null=True)
    pool = PoolRef(allow_null=True)
    resource = serializers.CharField()
    values = serializers.DictField(child=serializers.IntegerField(allow_null=True))


class QuotaRequestOut(Out):
    """A request for other limits, and its decision."""

    id = serializers.UUIDField()
    state = serializers.ChoiceField(REQUEST_STATES)
    tenant = TenantRef()
    changes = RequestedChangeOut(many=True)
    reason = serializers.CharField()
    effective_from = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    created_by = UserRef(allow_null=True)
    expires_at = serializers.DateTimeField(help_text="Expiry of an undecided request.")
    decided_at = serializers.DateTimeField(allow_null=True)
    decided_by = UserRef(allow_null=True)
    answer = serializers.CharField()
    edit_id = serializers.UUIDField(allow_null=True, help_text="Edit that the approval made.")


class QuotaRequestsView(ApiView):
    """Limits that tenants ask for."""

    @extend_schema(operation_id="quota_requests_list", parameters=[TENANT, STATE], responses=page_of(QuotaRequestOut))
    def get(self, request: Request) -> Response:
        """List requests for limits of tenants that you can see, newest first."""
        known_query(request, ("tenant", "state"))
        rows = visible(self.actor, QuotaRequest).select_related(*RELATED)
        if request.query_params.get("tenant"):
            rows = rows.filter(tenant=selectors.get_tenant(self.actor, request.query_params["tenant"]))
        if state := request.query_params.get("state"):
            if state not in REQUEST_STATES:
                message = Text(f"state is one of {', '.join(REQUEST_STATES)}.", f"state 可选：{', '.join(REQUEST_STATES)}。")
                raise InvalidInput(message, fields=[FieldError("/state", "invalid", message)])
            rows = rows.filter(state=state)
        pools = list_pools()
        return page(request, rows, order=("-id",), serialize=lambda rows: show_requests(rows, pools))

    @extend_schema(operation_id="quota_requests_create", request=QuotaRequestIn, responses={201: QuotaRequestOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Request limits for queues of a tenant that you manage, which another user has to set."""
        body = QuotaRequestIn.validated(request.data)
        tenant = selectors.get_tenant(self.actor, body["tenant"])
        demand(self.actor, tenant.pk, "quota_request.create")
        changes = read_changes(self.actor, body["changes"], str(tenant.pk), list_pools())
        row = request_limits(
            actor=self.actor,
            tenant=tenant,
            changes=changes,
            effective_from=body["effective_from"],
            reason=body["reason"],
            now=database_now(),
        )
        return _answer(row.pk, status=201)


class QuotaRequestView(ApiView):
    """One request."""

    @extend_schema(operation_id="quota_requests_get", responses=QuotaRequestOut)
    def get(self, request: Request, request_id: str) -> Response:
        """Get a request and its decision."""
        return _answer(fetch(self.actor, QuotaRequest, request_id, "quota_request.read").pk)

    @extend_schema(operation_id="quota_requests_withdraw", responses={200: QuotaRequestOut})
    def delete(self, request: Request, request_id: str) -> Response:
        """Withdraw a pending request. It stays in the list."""
        found = fetch(self.actor, QuotaRequest, request_id, "quota_request.delete")
        withdraw_request(actor=self.actor, request=found, now=database_now())
        return _answer(found.pk)


class QuotaRequestApproveView(ApiView):
    """Make the edit that was asked for."""

    @extend_schema(operation_id="quota_requests_approve", request=QuotaDecisionIn, responses={200: QuotaRequestOut})
    @idempotent
    def post(self, request: Request, request_id: str) -> Response:
        """Approve a request of another user: the edit is made with your rights, and refused if it violates the tree."""
        body = QuotaDecisionIn.validated(request.data or {})
        found = fetch(self.actor, QuotaRequest, request_id, "quota_request.read", related=RELATED)
        approve_request(
            actor=self.actor,
            request=found,
            answer=body["answer"],
            effective_from=body["effective_from"],
            now=database_now(),
        )
        return _answer(found.pk)


class QuotaRequestDenyView(ApiView):
    """Refuse what was asked for."""

    @extend_schema(operation_id="quota_requests_deny", request=QuotaDecisionIn, responses={200: QuotaRequestOut})
    @idempotent
    def post(self, request: Request, request_id: str) -> Response:
        """Deny a request of another user; the limits are unchanged."""
        body = QuotaDecisionIn.validated(request.data or {})
        found = fetch(self.actor, QuotaRequest, request_id, "quota_request.read", related=RELATED)
        deny_request(actor=self.actor, request=found, answer=body["answer"], now=database_now())
        return _answer(found.pk)


def show_requests(rows: Sequence[QuotaRequest], pools: Sequence[PoolFacts]) -> list[Shown]:
    """Rows come with what `RELATED` names. One query for the names of queues."""
    changes = {row.pk: [read_change(entry) for entry in row.changes] for row in rows}
    names = queue_selectors.queue_names({change.queue_id for own in changes.values() for change in own})
    return [
        {
            "id": str(row.pk),
            "state": row.state,
            "tenant": tenant_ref(row.tenant),
            "changes": [
                {
                    "queue": queue_ref(change.queue_id, names),
                    "pool": pool_ref(change.pool_id, pools),
                    "resource": change.resource,
                    "values": dict(change.values),
                }
                for change in changes[row.pk]
            ],
            "reason": row.reason,
            "effective_from": utc_text(row.effective_from),
            "created_at": utc_text(row.created_at),
            "created_by": user_ref(row.created_by),
            "expires_at": utc_text(row.expires_at),
            "decided_at": utc_text(row.decided_at),
            "decided_by": user_ref(row.decided_by),
            "answer": row.answer,
            "edit_id": None if row.edit_id is None else str(row.edit_id),
        }
        for row in rows
    ]


def _answer(request_id: uuid.UUID, *, status: int = 200) -> Response:
    row = QuotaRequest.objects.select_related(*RELATED).get(id=request_id)
    return Response(show_requests([row], list_pools())[0], status=status)
