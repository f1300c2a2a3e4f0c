"""Over HTTP: which priority each role may use by itself."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.actor import TenantRole
from kernel.clock import database_now
from kernel.priorities import PRIORITIES, format_priority
from tenants.capacity.grants import default_grant, granted_to, priority_grants
from tenants.capacity.quota.grants import GRANTED_ROLES
from tenants.capacity.services.grants import set_priority_grants
from tenants.identity import selectors
from tenants.identity.access import demand
from tenants.identity.api.serializers import Out, TenantRef
from tenants.identity.api.shapes import tenant_ref
from tenants.identity.models import Tenant
from webapi.access import visible
from webapi.fields import PriorityField
from webapi.serializers import StrictSerializer
from webapi.views import ApiView


@extend_schema_serializer(examples=[OpenApiExample("members may use high", {"member": "high"})])
class PriorityGrantsIn(StrictSerializer):
    """Priority limit by role; null: the limit of the tenant above."""

    member = PriorityField(required=False, allow_null=True)
    manager = PriorityField(required=False, allow_null=True)


class PriorityGrantOut(Out):
    """Priority limit of a role. `tenant`: the tenant that set it; null: the default of the installation."""

    role = serializers.ChoiceField([str(role) for role in GRANTED_ROLES])
    priority = serializers.IntegerField()
    priority_name = serializers.CharField(help_text="Priority class of the number, or the number.")
    tenant = TenantRef(allow_null=True)


class PriorityGrantsOut(Out):
    """Priority limits by role, your own limit, and the priority classes by name."""

    items = PriorityGrantOut(many=True)
    yours = serializers.IntegerField(help_text="By role; approved windows apply in addition.")
    classes = serializers.DictField(child=serializers.IntegerField())


class PriorityGrantsView(ApiView):
    """The highest priority that each role may use by itself."""

    @extend_schema(operation_id="tenants_priority_grants", responses=PriorityGrantsOut)
    def get(self, request: Request, tenant: str) -> Response:
        """Get the priority limit of each role in a tenant, and the tenant that set it."""
        found = selectors.get_tenant(self.actor, tenant)
        demand(self.actor, found.pk, "priority_grant.read")
        return self._show(found)

    @extend_schema(operation_id="tenants_set_priority_grants", request=PriorityGrantsIn, responses=PriorityGrantsOut)
    def put(self, request: Request, tenant: str) -> Response:
        """Set priority limits of roles, in a tenant and in tenants below it without limits of their own.

        Managers of the tenant above set the limit of managers. Waiting jobs keep their priority."""
        found = selectors.get_tenant(self.actor, tenant)
        demand(self.actor, found.pk, "priority_grant.edit")
        body = PriorityGrantsIn.validated(request.data)
        lines = {TenantRole(role): priority for role, priority in body.items()}
        set_priority_grants(actor=self.actor, tenant=found, lines=lines, now=database_now())
        return self._show(found)

    def _show(self, tenant: Tenant) -> Response:
        grants = priority_grants()
        found = {role: grants.source(tenant.pk, role, default_grant(role)) for role in GRANTED_ROLES}
        shown = {source for _, source in found.values() if source is not None}
        rows = {row.pk: row for row in visible(self.actor, Tenant).filter(id__in=shown)}
        return Response(
            {
                "items": [
                    {
                        "role": str(role),
                        "priority": priority,
                        "priority_name": format_priority(priority),
                        "tenant": tenant_ref(rows[source]) if source in rows else None,
                    }
                    for role, (priority, source) in found.items()
                ],
                "yours": granted_to(self.actor, tenant.pk, grants),
                "classes": PRIORITIES,
            }
        )
