"""What a user leaves behind, and who takes it over, over HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from django.db.models import Q
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.actor import Actor
from kernel.clock import database_now
from kernel.errors import NotFound
from kernel.words import Text
from tenants.identity import selectors
from tenants.identity.access import demand
from tenants.identity.api.parameters import TENANT_PATH
from tenants.identity.api.serializers import Out, TenantRef, UserRef
from tenants.identity.api.shapes import tenant_ref, user_ref
from tenants.identity.leaving import LISTED, Left, left_by, tenants_lost
from tenants.identity.models import Membership, Tenant, User
from tenants.identity.services.leaving import Settlement, hand_over
from webapi.access import fetch
from webapi.idempotency import idempotent
from webapi.serializers import StrictSerializer
from webapi.views import ApiView, known_query, query_flag

NAME_LENGTH = 100
MEMBER_PATH = OpenApiParameter("member", str, OpenApiParameter.PATH, description="Id or name of the user.")
STOP_JOBS = OpenApiParameter("stop_jobs", bool, description="Stop all jobs of the user; otherwise running jobs continue.")
HAND_TO = OpenApiParameter(
    "hand_to",
    str,
    description="Id or name of the member who gets the jobs, templates, volumes, images and bookings; for managers.",
)


class LeftItemOut(Out):
    """One object of the user."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    tenant = TenantRef()


class LeftKindOut(Out):
    """Objects of one kind."""

    kind = serializers.CharField(help_text="`running` and `waiting` are jobs; others are named by their plural.")
    count = serializers.IntegerField()
    first = LeftItemOut(many=True, help_text=f"The first {LISTED}.")
    can_be_handed_over = serializers.BooleanField(help_text="Whether another member can get them.")


class LeftOut(Out):
    """What a user has, and would leave."""

    user = UserRef()
    kinds = LeftKindOut(many=True)


@extend_schema_serializer(examples=[OpenApiExample("hand over", {"to": "alice"})])
class HandOverIn(StrictSerializer):
    """The member who gets what the user left, by id or name."""

    to = serializers.CharField(max_length=NAME_LENGTH)


class HandedKindOut(Out):
    """How much of one kind was handed over."""

    kind = serializers.CharField()
    count = serializers.IntegerField()


class HandedOut(Out):
    """What the other member has now."""

    user = UserRef()
    to = UserRef()
    handed_over = HandedKindOut(many=True)


class MemberLeftView(ApiView):
    """What a member would leave, or a former member left."""

    @extend_schema(operation_id="tenants_members_left", parameters=[TENANT_PATH, MEMBER_PATH], responses=LeftOut)
    def get(self, request: Request, tenant: str, member: str) -> Response:
        """List what a member would leave in a tenant and below it, or a former member has left there.

        For managers, and for members about themselves.
        """
        found = selectors.get_tenant(self.actor, tenant)
        if str(self.actor.user_id) != member and self.actor.name != member:
            demand(self.actor, found.pk, "member.edit")
        user, left = _leaver(found, member)
        return Response(_shown(user, left))


class MemberHandOverView(ApiView):
    """Another owner for what a user left."""

    @extend_schema(
        operation_id="tenants_members_hand_over",
        parameters=[TENANT_PATH, MEMBER_PATH],
        request=HandOverIn,
        responses={200: HandedOut},
    )
    @idempotent
    def post(self, request: Request, tenant: str, member: str) -> Response:
        """Give another member the jobs, templates, volumes, images and bookings of a member or former member.

        In the tenant and in those below it where the user has no role of its own. Running jobs continue as they are.
        """
        known_query(request, ())
        found = selectors.get_tenant(self.actor, tenant)
        demand(self.actor, found.pk, "member.edit")
        body = HandOverIn.validated(request.data)
        user, _ = _leaver(found, member)
        to = selectors.find_user(self.actor, body["to"])
        done = hand_over(actor=self.actor, tenant=found, user=user, to=to, now=database_now())
        kinds = [{"kind": kind, "count": count} for kind, count in done.items()]
        return Response({"user": user_ref(user), "to": user_ref(to), "handed_over": kinds})


class UserLeftView(ApiView):
    """What a user would leave who is disabled."""

    @extend_schema(operation_id="users_left", responses=LeftOut)
    def get(self, request: Request, user_id: str) -> Response:
        """List what a user has in all tenants, as an operator."""
        user = fetch(self.actor, User, user_id, "user.edit")
        return Response(_shown(user, left_by(user.pk, None)))


def settlement_of(actor: Actor, request: Request) -> Settlement:
    """What a caller who removes a member wants done with the rest."""
    text = request.query_params.get("hand_to", "")
    return settlement(actor, stops_jobs=query_flag(request, "stop_jobs"), hand_to=text)


def settlement(actor: Actor, *, stops_jobs: bool, hand_to: str) -> Settlement:
    """The same from a body."""
    return Settlement(stops_jobs, selectors.find_user(actor, hand_to) if hand_to else None)


def _leaver(tenant: Tenant, text: str) -> tuple[User, list[Left]]:
    """A member, or a user who left something; NotFound for all others, whether there is such a user or not."""
    try:
        named = Q(id=uuid.UUID(text))
    except ValueError:
        named = Q(name=text)
    user = User.objects.filter(named).first()
    if user is not None:
        left = left_by(user.pk, tenants_lost(tenant.pk, user.pk))
        has_some = any(each.count for each in left if each.can_be_handed_over)
        if has_some or Membership.objects.filter(tenant=tenant, user=user).exists():
            return user, left
    raise NotFound(
        Text(
            f"Tenant {tenant.name} has no member {text[:80]!r}, and no such user left anything there.",
            f"租户 {tenant.name} 没有成员 {text[:80]!r}，也没有该用户留下的内容。",
        ),
        hint=Text("`berth members` lists the members.", "`berth members` 列出成员。"),
    )


def _shown(user: User, left: Sequence[Left]) -> dict[str, Any]:
    wanted = {item.tenant_id for each in left for item in each.first}
    tenants = {row.pk: tenant_ref(row) for row in Tenant.objects.filter(id__in=wanted)} if wanted else {}
    return {
        "user": user_ref(user),
        "kinds": [
            {
                "kind": each.kind,
                "count": each.count,
                "first": [{"id": str(item.id), "name": item.name, "tenant": tenants[item.tenant_id]} for item in each.first],
                "can_be_handed_over": each.can_be_handed_over,
            }
            for each in left
        ],
    }
