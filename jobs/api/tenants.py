"""Disabling, enabling and deleting a tenant over HTTP, with its jobs, volumes and images: told first, then done."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.services.deleting import delete_tenant, disable, plan_deletion, touched_by_disabling
from kernel.clock import database_now
from tenants import selectors
from tenants.access import demand
from tenants.api.serializers import TenantOut
from tenants.api.shapes import show_tenants, tenant_ref
from tenants.api.tenants import TENANT_PATH
from tenants.services import enable_tenant
from tenants.services.names import DISPLAY_NAME_LENGTH
from tenants.services.standing import REASON_LENGTH
from webapi.fields import WordsField
from webapi.idempotency import idempotent
from webapi.plans import asked_plan, hold_to, named
from webapi.schema import PLAN
from webapi.serializers import StrictSerializer
from webapi.views import ApiView, known_query, query_flag

DRY_RUN = OpenApiParameter("dry_run", bool, description="Tell what it would touch, change nothing.")


@extend_schema_serializer(examples=[OpenApiExample("disable", {"reason": "The project has ended.", "stop_jobs": False})])
class DisableIn(StrictSerializer):
    """Why, as its people are told, and whether what runs is stopped."""

    reason = WordsField(
        max_length=REASON_LENGTH,
        required=False,
        allow_blank=True,
        allow_null=True,
        default=None,
        help_text="Left out, the reason of a tenant that is disabled stays.",
    )
    stop_jobs = serializers.BooleanField(required=False, default=False, help_text="Stop what runs; else it goes on to its end.")


class DisabledOut(serializers.Serializer[Any]):
    """The tenant, and whom it touches that nothing begins in it and in those below it."""

    tenant = TenantOut()
    tenants = serializers.IntegerField(help_text="The tenant itself and those below it.")
    people = serializers.IntegerField(help_text="Who have a role of their own there.")
    waiting = serializers.IntegerField(help_text="Jobs that wait until the tenant is enabled.")
    running = serializers.IntegerField(help_text="Jobs that ran when it was asked.")
    stopped = serializers.IntegerField(help_text="Of those, how many were asked to stop.")


@extend_schema_serializer(examples=[OpenApiExample("delete", {"confirm": "vision"})])
class DeleteTenantIn(StrictSerializer):
    """The tenant's name, typed by the person who deletes it; a dry run needs none."""

    confirm = serializers.CharField(
        max_length=DISPLAY_NAME_LENGTH, required=False, allow_blank=True, default="", trim_whitespace=False
    )


class GoesOut(serializers.Serializer[Any]):
    """How much of what goes. Files of volumes go within a day, those of images within hours."""

    members = serializers.IntegerField()
    service_accounts = serializers.IntegerField()
    invitations = serializers.IntegerField()
    secrets = serializers.IntegerField()
    bookings = serializers.IntegerField()
    volumes = serializers.IntegerField()
    images = serializers.IntegerField()


class StaysOut(serializers.Serializer[Any]):
    """What stays for operators to read, beside ledger, statements and audit."""

    jobs = serializers.IntegerField(help_text="Their rows; logs and outputs go when their retention is over.")


class DeletedTenantRef(serializers.Serializer[Any]):
    """The tenant by the name that it had, or has before it is deleted."""

    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()


class DeletedTenantOut(serializers.Serializer[Any]):
    """What went and what stayed, or would."""

    tenant = DeletedTenantRef()
    goes = GoesOut()
    stays = StaysOut()
    plan = serializers.CharField(help_text="The plan's name: send it with a dry run's as `?plan=` to have just this done.")


class TenantDisableView(ApiView):
    """Let nothing begin in a tenant."""

    @extend_schema(
        operation_id="tenants_disable", parameters=[TENANT_PATH, DRY_RUN], request=DisableIn, responses={200: DisabledOut}
    )
    @idempotent
    def post(self, request: Request, tenant: str) -> Response:
        """Let nothing be submitted or started in a tenant and in those below it, as an operator.

        Waiting jobs wait on. What runs goes on, or stops with `stop_jobs`. Everything can be read.
        """
        known_query(request, ("dry_run",))
        body = DisableIn.validated(request.data or {})
        found = _tenant(self, tenant, "tenant.disable")
        stopped = 0
        if query_flag(request, "dry_run"):
            touched = touched_by_disabling(actor=self.actor, tenant=found)
        else:
            found, touched, stopped = disable(
                actor=self.actor, tenant=found, reason=body["reason"], stops_jobs=body["stop_jobs"], now=database_now()
            )
        return Response({"tenant": show_tenants(self.actor, [found])[0], **touched.as_dict(), "stopped": stopped})


class TenantEnableView(ApiView):
    """Let things begin in a tenant again."""

    @extend_schema(operation_id="tenants_enable", parameters=[TENANT_PATH], request=None, responses={200: TenantOut})
    @idempotent
    def post(self, request: Request, tenant: str) -> Response:
        """Let people of a tenant submit and start again, as an operator. Its waiting jobs start by themselves."""
        known_query(request, ())
        found = _tenant(self, tenant, "tenant.disable")
        enabled = enable_tenant(actor=self.actor, tenant=found, now=database_now())
        return Response(show_tenants(self.actor, [enabled])[0])


class TenantDeleteView(ApiView):
    """Delete a disabled tenant."""

    @extend_schema(
        operation_id="tenants_delete",
        parameters=[TENANT_PATH, DRY_RUN, PLAN],
        request=DeleteTenantIn,
        responses={200: DeletedTenantOut},
    )
    @idempotent
    def post(self, request: Request, tenant: str) -> Response:
        """Delete a disabled tenant without live jobs and tenants below it, as an operator; `confirm` is its name.

        Its people lose their roles, and secrets, volumes and images go. Ledger, statements, audit and the rows of its jobs stay.
        The name is free again.
        """
        known_query(request, ("dry_run", "plan"))
        body = DeleteTenantIn.validated(request.data or {})
        found, now = _tenant(self, tenant, "tenant.delete"), database_now()
        called = tenant_ref(found)
        if query_flag(request, "dry_run"):
            return Response(named({"tenant": called, **plan_deletion(actor=self.actor, tenant=found, now=now)}))
        asked = asked_plan(request)
        plan = delete_tenant(
            actor=self.actor,
            tenant=found,
            confirm=body["confirm"],
            hold=lambda plan: hold_to(asked, {"tenant": called, **plan}),
            now=now,
        )
        return Response(named({"tenant": called, **plan}))


def _tenant(view: ApiView, text: str, verb: str) -> selectors.Tenant:
    """The tenant; NotFound for users who do not see it, Forbidden for users who are no operators."""
    found = selectors.get_tenant(view.actor, text)
    demand(view.actor, found.pk, verb)
    return found
