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
from tenants.identity.access import demand
from tenants.identity.api.parameters import TENANT_PATH
from tenants.identity.api.serializers import TenantOut
from tenants.identity.api.shapes import show_tenants, tenant_ref
from tenants.identity.services.names import DISPLAY_NAME_LENGTH
from tenants.identity.services.standing import REASON_LENGTH
from tenants.services import enable_tenant
from webapi.fields import WordsField
from webapi.idempotency import idempotent
from webapi.plans import asked_plan, hold_to, named
from webapi.schema import PLAN
from webapi.serializers import StrictSerializer
from webapi.views import ApiView, known_query, query_flag

DRY_RUN = OpenApiParameter("dry_run", bool, description="Dry run: show the effects, change nothing.")


@extend_schema_serializer(examples=[OpenApiExample("disable", {"reason": "The project has ended.", "stop_jobs": False})])
class DisableIn(StrictSerializer):
    """Reason for its members, and whether running jobs are stopped."""

    reason = WordsField(
        max_length=REASON_LENGTH,
        required=False,
        allow_blank=True,
        allow_null=True,
        default=None,
        help_text="If omitted, a disabled tenant keeps its reason.",
    )
    stop_jobs = serializers.BooleanField(
        required=False, default=False, help_text="Stop running jobs; otherwise they run to their end."
    )


class DisabledOut(serializers.Serializer[Any]):
    """The disabled tenant, and the effects on it and on the tenants below it."""

    tenant = TenantOut()
    tenants = serializers.IntegerField(help_text="The tenant and the tenants below it.")
    people = serializers.IntegerField(help_text="Users with a role of their own in these tenants.")
    waiting = serializers.IntegerField(help_text="Jobs that wait until the tenant is enabled.")
    running = serializers.IntegerField(help_text="Jobs that were running at the time of the request.")
    stopped = serializers.IntegerField(help_text="Number of running jobs that were asked to stop.")


@extend_schema_serializer(examples=[OpenApiExample("delete", {"confirm": "vision"})])
class DeleteTenantIn(StrictSerializer):
    """Name of the tenant, as a confirmation; not needed for a dry run."""

    confirm = serializers.CharField(
        max_length=DISPLAY_NAME_LENGTH, required=False, allow_blank=True, default="", trim_whitespace=False
    )


class GoesOut(serializers.Serializer[Any]):
    """Amounts to delete. Files of volumes are deleted within a day, files of images within hours."""

    members = serializers.IntegerField()
    service_accounts = serializers.IntegerField()
    invitations = serializers.IntegerField()
    secrets = serializers.IntegerField()
    bookings = serializers.IntegerField()
    volumes = serializers.IntegerField()
    images = serializers.IntegerField()


class StaysOut(serializers.Serializer[Any]):
    """Objects that operators can still read, beside ledger, statements and audit log."""

    jobs = serializers.IntegerField(help_text="Rows of the jobs; logs and outputs are deleted at the end of their retention.")


class DeletedTenantRef(serializers.Serializer[Any]):
    """The tenant, by its name before the deletion."""

    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()


class DeletedTenantOut(serializers.Serializer[Any]):
    """Objects that were deleted or kept, or would be."""

    tenant = DeletedTenantRef()
    goes = GoesOut()
    stays = StaysOut()
    plan = serializers.CharField(
        help_text="Name of the plan; send it as `?plan=`, with the confirmation, to apply exactly this plan."
    )


class TenantDisableView(ApiView):
    """Let nothing begin in a tenant."""

    @extend_schema(
        operation_id="tenants_disable", parameters=[TENANT_PATH, DRY_RUN], request=DisableIn, responses={200: DisabledOut}
    )
    @idempotent
    def post(self, request: Request, tenant: str) -> Response:
        """Disable a tenant and the tenants below it, as an operator: no job can be submitted or started.

        Waiting jobs stay queued. Running jobs continue, or stop with `stop_jobs`. All data can still be read.
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
        """Enable a disabled tenant, as an operator. Its waiting jobs start by themselves."""
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
        """Delete a disabled tenant without live jobs or tenants below it, as an operator; `confirm` is its name.

        Roles, secrets, volumes and images are deleted. Ledger, statements, audit log and the rows of its jobs stay. The name
        becomes free.
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
