"""The order of waiting jobs over HTTP: moving them, and asking for a higher priority than one's own."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.api.representations import ReferenceOut
from jobs.api.representations import JobOut, job_json
from jobs.api.requests import REASON_LENGTH
from jobs.lifecycle.requests import REQUEST_STATES
from jobs.models import Job, PriorityRequest
from jobs.selectors.find import fetch_job
from jobs.selectors.lists import place_in_queue
from jobs.services import priority_requests as service
from jobs.services.moving import Among, Move, Moved, move_job, plan_move
from kernel.clock import database_now, utc_text
from kernel.errors import FieldError, InvalidInput
from kernel.limits import NAME_LENGTH
from kernel.priorities import format_priority
from kernel.words import Text
from tenants.identity.access import demand
from tenants.identity.api.serializers import TenantRef
from tenants.selectors import find_visible_user, get_tenant
from webapi.access import fetch, visible
from webapi.fields import PriorityField, UtcTimeField, WordsField
from webapi.idempotency import idempotent
from webapi.pagination import page
from webapi.plans import asked_plan, hold_to, named
from webapi.refusals import detail, refusal
from webapi.schema import PLAN, page_of
from webapi.serializers import StrictSerializer
from webapi.views import ApiView, known_query, query_flag
from webapi.wording import reader_language

TENANT = OpenApiParameter("tenant", str, description="Slug, id or name of a tenant.")
STATE = OpenApiParameter("state", str, enum=REQUEST_STATES, description="Only requests in this state.")
RELATED = ("tenant", "job", "user", "created_by", "decided_by")


@extend_schema_serializer(
    examples=[OpenApiExample("before another", {"before": "digits-7"}), OpenApiExample("first of your own", {"to": "first"})]
)
class MoveIn(StrictSerializer):
    """New place of a waiting job: exactly one of `before`, `after` and `to`."""

    before = serializers.CharField(required=False, max_length=NAME_LENGTH, help_text="A waiting job of the same queue.")
    after = serializers.CharField(required=False, max_length=NAME_LENGTH)
    to = serializers.ChoiceField(["first", "last"], required=False)
    among = serializers.ChoiceField(
        [str(value) for value in Among],
        required=False,
        default=str(Among.OWN),
        help_text="With `to`: among the jobs of the same owner or, for managers, of the whole queue.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if len({"before", "after", "to"} & set(attrs)) != 1:
            raise refusal(
                Text("Give exactly one of before, after and to.", "before、after 与 to 须且只须给出一个。"), code="one_of"
            )
        return attrs


MOVES_TOLD = 100


class MovedJobOut(serializers.Serializer[Any]):
    """A job and its new place in the queue, expressed as a time of submission."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    placed_at = serializers.DateTimeField()


class MoveOut(serializers.Serializer[Any]):
    """Present place of the job."""

    job = JobOut(help_text="Dry run: the present place.")
    moved = serializers.IntegerField(help_text="Number of jobs with a new place.")
    among = serializers.ChoiceField([str(value) for value in Among], help_text="Owners of the jobs that changed places.")
    jobs = MovedJobOut(many=True, required=False, help_text=f"Dry run: jobs that would move, up to {MOVES_TOLD}, in order.")
    job_id = serializers.UUIDField(required=False)
    digest = serializers.CharField(
        required=False, help_text="Dry run: number of all changed places, including those that are not listed."
    )
    plan = serializers.CharField(
        required=False, help_text="Dry run: name of the plan; send it as `?plan=` to apply exactly this plan."
    )


class JobMoveView(ApiView):
    """Move a waiting job."""

    @extend_schema(
        operation_id="jobs_move",
        parameters=[OpenApiParameter("dry_run", bool, description="Dry run: show the jobs that would move."), PLAN],
        request=MoveIn,
        responses={200: MoveOut},
    )
    @idempotent
    def post(self, request: Request, job: str) -> Response:
        """Move a waiting job among others of the same queue and priority.

        A move among your own jobs exchanges only their places: no job of another user is delayed. Managers may move a job before
        or after a job of another user.
        """
        body = MoveIn.validated(request.data)
        found = fetch_job(self.actor, job, "job.move")
        others = {
            name: fetch_job(self.actor, body[name], "job.read", tenant_id=found.tenant_id)
            for name in ("before", "after")
            if name in body
        }
        move = Move(**others, to_end=body.get("to") == "last", among=Among(body["among"]))
        asked, now = asked_plan(request), database_now()
        if query_flag(request, "dry_run"):
            plan = named(_move_plan(found, plan_move(actor=self.actor, job=found, move=move, now=now)))
            return Response({"job": self._shown(request, found), **plan})
        done = move_job(
            actor=self.actor,
            job=found,
            move=move,
            confirm=lambda planned: hold_to(asked, _move_plan(found, planned)) if asked is not None else None,
            now=now,
        )
        return Response({"job": self._shown(request, found), "moved": done.count, "among": str(done.among)})

    def _shown(self, request: Request, job: Job) -> dict[str, Any]:
        row = Job.objects.select_related("tenant", "queue", "user").get(id=job.pk)
        return {**job_json([row], actor=self.actor, language=reader_language(request))[0], "place": place_in_queue(row)}


@extend_schema_serializer(
    examples=[
        OpenApiExample("for a job", {"job": "digits-7", "priority": "high", "reason": "The demo is on Friday."}),
        OpenApiExample("for a while", {"priority": "high", "ends_at": "2026-12-02T06:00:00Z", "tenant": "vision"}),
    ]
)
class PriorityRequestIn(StrictSerializer):
    """Job of the request; without a job, all submissions of the user until `ends_at`."""

    job = serializers.CharField(required=False, max_length=NAME_LENGTH)
    priority = PriorityField()
    reason = WordsField(max_length=REASON_LENGTH, required=False, allow_blank=True, default="")
    tenant = serializers.CharField(max_length=NAME_LENGTH, required=False, allow_null=True, default=None)
    user = serializers.CharField(
        max_length=NAME_LENGTH, required=False, help_text="User of the window; default: yourself. Other users: for managers."
    )
    starts_at = UtcTimeField(required=False, allow_null=True, default=None, help_text="Default: now.")
    ends_at = UtcTimeField(required=False, allow_null=True, default=None)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "job" in attrs:
            for name in ("user", "starts_at", "ends_at"):
                if attrs.get(name) is not None:
                    raise serializers.ValidationError(
                        {name: detail(Text("A job has no window.", "作业没有时段。"), code="not_with_job")}
                    )
        elif attrs["ends_at"] is None:
            message = Text("Name a job, or say until when with ends_at.", "请指定作业，或用 ends_at 说明截止时间。")
            raise serializers.ValidationError({"ends_at": detail(message, code="required")})
        return attrs


class DecisionIn(StrictSerializer):
    """Answer to the requester."""

    answer = WordsField(max_length=REASON_LENGTH, required=False, allow_blank=True, default="")


class PriorityRequestOut(serializers.Serializer[Any]):
    """A request for a higher priority, and its decision."""

    id = serializers.UUIDField()
    state = serializers.ChoiceField(REQUEST_STATES)
    tenant = TenantRef()
    job = ReferenceOut(allow_null=True, help_text="Null: all submissions of the user in the window.")
    user = ReferenceOut(help_text="User who benefits.")
    priority = serializers.IntegerField()
    priority_name = serializers.CharField(help_text="Priority class of the number, or the number.")
    reason = serializers.CharField()
    starts_at = serializers.DateTimeField(allow_null=True)
    ends_at = serializers.DateTimeField(allow_null=True)
    expires_at = serializers.DateTimeField(help_text="Expiry of an undecided request.")
    created_at = serializers.DateTimeField()
    created_by = ReferenceOut()
    decided_at = serializers.DateTimeField(allow_null=True)
    decided_by = ReferenceOut(allow_null=True)
    answer = serializers.CharField()


class PriorityRequestsView(ApiView):
    """Requests for a higher priority than one's own."""

    @extend_schema(operation_id="priority_requests_list", parameters=[TENANT, STATE], responses=page_of(PriorityRequestOut))
    def get(self, request: Request) -> Response:
        """List requests for a priority in tenants that you can see, newest first."""
        known_query(request, ("tenant", "state"))
        rows = visible(self.actor, PriorityRequest).select_related(*RELATED)
        if request.query_params.get("tenant"):
            rows = rows.filter(tenant=get_tenant(self.actor, request.query_params["tenant"]))
        if state := request.query_params.get("state"):
            if state not in REQUEST_STATES:
                message = Text(f"state is one of {', '.join(REQUEST_STATES)}.", f"state 可选：{', '.join(REQUEST_STATES)}。")
                raise InvalidInput(message, fields=[FieldError("/state", "invalid", message)])
            rows = rows.filter(state=state)
        return page(request, rows, order=("-id",), serialize=show_requests)

    @extend_schema(operation_id="priority_requests_create", request=PriorityRequestIn, responses={201: PriorityRequestOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Request a priority above your limit, for a job, or for a user and a time window. Another user decides."""
        body = PriorityRequestIn.validated(request.data)
        now = database_now()
        if "job" in body:
            job = fetch_job(self.actor, body["job"], "priority_request.create")
            if body["tenant"] is not None and get_tenant(self.actor, body["tenant"]).pk != job.tenant_id:
                message = Text("This job is of another tenant.", "此作业属于其他租户。")
                raise InvalidInput(
                    message, fields=[FieldError("/tenant", "not_found", message, Text("Leave tenant away.", "请省略 tenant。"))]
                )
            row = service.request_for_job(actor=self.actor, job=job, priority=body["priority"], reason=body["reason"], now=now)
        else:
            tenant = get_tenant(self.actor, body["tenant"])
            demand(self.actor, tenant.pk, "priority_request.create", self.actor.user_id)
            row = service.request_window(
                actor=self.actor,
                tenant_id=tenant.pk,
                user_id=self._user_id(body.get("user")),
                priority=body["priority"],
                window=service.Window(body["ends_at"], body["starts_at"]),
                reason=body["reason"],
                now=now,
            )
        return _answer(row.pk, status=201)

    def _user_id(self, text: str | None) -> uuid.UUID:
        if text is None:
            assert self.actor.user_id is not None
            return self.actor.user_id
        found = find_visible_user(self.actor, text)
        if found is None:
            message = Text(f"There is no user {text[:80]!r} that you see.", f"没有您可见的用户 {text[:80]!r}。")
            raise InvalidInput(
                message,
                fields=[
                    FieldError("/user", "not_found", message, Text("`berth members` lists them.", "`berth members` 可列出成员。"))
                ],
            )
        return found


class PriorityRequestView(ApiView):
    """One request."""

    @extend_schema(operation_id="priority_requests_get", responses=PriorityRequestOut)
    def get(self, request: Request, request_id: str) -> Response:
        """Get a request and its decision."""
        return _answer(fetch(self.actor, PriorityRequest, request_id, "priority_request.read").pk)

    @extend_schema(operation_id="priority_requests_withdraw", responses={200: PriorityRequestOut})
    def delete(self, request: Request, request_id: str) -> Response:
        """Withdraw a pending request, or end an approved window. It stays in the list."""
        found = fetch(self.actor, PriorityRequest, request_id, "priority_request.delete")
        service.withdraw(actor=self.actor, request=found, now=database_now())
        return _answer(found.pk)


class PriorityRequestApproveView(ApiView):
    """Give what was asked for."""

    @extend_schema(operation_id="priority_requests_approve", request=DecisionIn, responses={200: PriorityRequestOut})
    @idempotent
    def post(self, request: Request, request_id: str) -> Response:
        """Approve a request of another user, up to your own priority limit. A waiting job moves at once."""
        body = DecisionIn.validated(request.data or {})
        found = fetch(self.actor, PriorityRequest, request_id, "priority_request.decide")
        service.approve(actor=self.actor, request=found, answer=body["answer"], now=database_now())
        return _answer(found.pk)


class PriorityRequestDenyView(ApiView):
    """Refuse what was asked for."""

    @extend_schema(operation_id="priority_requests_deny", request=DecisionIn, responses={200: PriorityRequestOut})
    @idempotent
    def post(self, request: Request, request_id: str) -> Response:
        """Deny a request of another user; the job keeps its priority."""
        body = DecisionIn.validated(request.data or {})
        found = fetch(self.actor, PriorityRequest, request_id, "priority_request.decide")
        service.deny(actor=self.actor, request=found, answer=body["answer"], now=database_now())
        return _answer(found.pk)


def _move_plan(job: Job, planned: Moved) -> dict[str, Any]:
    """A move as a plan. All that would move is part of its name, though only the first are told."""
    places = sorted((at, job_id) for job_id, at in planned.places.items())
    names = dict(Job.objects.filter(id__in=[job_id for _, job_id in places[:MOVES_TOLD]]).values_list("id", "name"))
    told = [
        {"id": str(job_id), "name": names.get(job_id, ""), "placed_at": utc_text(datetime.fromtimestamp(at, UTC))}
        for at, job_id in places[:MOVES_TOLD]
    ]
    rest = hashlib.sha256(json.dumps([[at, str(job_id)] for at, job_id in places]).encode()).hexdigest()
    return {"job_id": str(job.pk), "moved": planned.count, "among": str(planned.among), "jobs": told, "digest": rest}


def show_requests(rows: Sequence[PriorityRequest]) -> list[dict[str, Any]]:
    """Rows come with what `RELATED` names."""
    return [
        {
            "id": str(row.pk),
            "state": row.state,
            "tenant": {"id": str(row.tenant_id), "slug": row.tenant.slug, "name": row.tenant.name},
            "job": None if row.job is None else {"id": str(row.job_id), "name": row.job.name},
            "user": {"id": str(row.user_id), "name": row.user.name},
            "priority": row.priority,
            "priority_name": format_priority(row.priority),
            "reason": row.reason,
            "starts_at": utc_text(row.starts_at),
            "ends_at": utc_text(row.ends_at),
            "expires_at": utc_text(row.expires_at),
            "created_at": utc_text(row.created_at),
            "created_by": {"id": str(row.created_by_id), "name": row.created_by.name},
            "decided_at": utc_text(row.decided_at),
            "decided_by": None if row.decided_by is None else {"id": str(row.decided_by_id), "name": row.decided_by.name},
            "answer": row.answer,
        }
        for row in rows
    ]


def _answer(request_id: uuid.UUID, *, status: int = 200) -> Response:
    row = PriorityRequest.objects.select_related(*RELATED).get(id=request_id)
    return Response(show_requests([row])[0], status=status)
