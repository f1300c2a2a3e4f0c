"""Tenants, their members, secrets and service accounts over HTTP. Views translate; services act."""

from __future__ import annotations

from django.db.models import Q
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.actor import Actor, TenantRole
from kernel.clock import database_now
from tenants.identity import selectors
from tenants.identity.access import demand
from tenants.identity.api import serializers as bodies
from tenants.identity.api import shapes
from tenants.identity.api.leaving import HAND_TO, STOP_JOBS, settlement_of
from tenants.identity.api.parameters import TENANT_PATH, USER_PATH
from tenants.identity.models import Membership, Secret, Tenant, User, UserKind
from tenants.identity.services.members import add_member, change_role, remove_member
from tenants.identity.services.secrets import delete_secret, set_secret
from tenants.identity.services.users import create_service_account, disable_service_account
from tenants.services.tenants import create_tenant, update_tenant
from webapi.access import fetch, visible
from webapi.etags import expected_version, with_etag
from webapi.idempotency import idempotent
from webapi.pagination import page
from webapi.schema import IF_MATCH, page_of
from webapi.views import ApiView, known_query, query_flag


class TenantsView(ApiView):
    """Boundaries of isolation."""

    @extend_schema(
        parameters=[OpenApiParameter("deleted", bool, description="Only deleted tenants, as an operator.")],
        responses=page_of(bodies.TenantOut),
    )
    def get(self, request: Request) -> Response:
        """List tenants that you can see, by name."""
        known_query(request, ("deleted",))
        rows = visible(self.actor, Tenant).filter(deleted_at__isnull=not query_flag(request, "deleted"))
        return page(request, rows, order=("name", "id"), serialize=lambda found: shapes.show_tenants(self.actor, found))

    @extend_schema(request=bodies.TenantIn, responses={201: bodies.TenantOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Create a tenant: below one that you manage, or as an operator at the top. You become its manager."""
        body = bodies.TenantIn.validated(request.data)
        parent = selectors.get_tenant(self.actor, body["parent"]) if body.get("parent") else None
        tenant = create_tenant(
            actor=self.actor,
            name=body["name"],
            parent_id=parent.pk if parent else None,
            description=body["description"],
            now=database_now(),
        )
        role = TenantRole.MANAGER if parent is None else self.actor.roles.get(parent.pk)
        shown = {**shapes.show_tenants(self.actor, [tenant])[0], "role": role}  # The actor was made before the tenant.
        return with_etag(Response(shown, status=201), tenant.version)


class TenantView(ApiView):
    """Get a tenant."""

    @extend_schema(parameters=[TENANT_PATH], responses=bodies.TenantOut)
    def get(self, request: Request, tenant: str) -> Response:
        """Get a tenant."""
        found = _tenant(self.actor, tenant, "tenant.read")
        return with_etag(Response(shapes.show_tenants(self.actor, [found])[0]), found.version)

    @extend_schema(parameters=[TENANT_PATH, IF_MATCH], request=bodies.TenantChange, responses=bodies.TenantOut)
    def patch(self, request: Request, tenant: str) -> Response:
        """Rename or describe a tenant. Its slug is unchanged."""
        found = _tenant(self.actor, tenant, "tenant.edit")
        body = bodies.TenantChange.validated(request.data, partial=True)
        changed = update_tenant(
            actor=self.actor, tenant=found, expected_version=expected_version(request), now=database_now(), **body
        )
        return with_etag(Response(shapes.show_tenants(self.actor, [changed])[0]), changed.version)


class MembersView(ApiView):
    """Who belongs to a tenant by itself; roles held in tenants above are listed there."""

    @extend_schema(parameters=[TENANT_PATH], responses=page_of(bodies.MemberOut))
    def get(self, request: Request, tenant: str) -> Response:
        """List members of a tenant, by name."""
        known_query(request, ())
        found = _tenant(self.actor, tenant, "member.read")
        rows = visible(self.actor, Membership).filter(tenant=found).select_related("user")
        return page(
            request, rows, order=("user__name", "id"), serialize=lambda rows: shapes.show_members(self.actor, found.pk, rows)
        )

    @extend_schema(parameters=[TENANT_PATH], request=bodies.MemberIn, responses={201: bodies.MemberOut})
    @idempotent
    def post(self, request: Request, tenant: str) -> Response:
        """Give a role to a user that you can see. Invite other users."""
        found = _tenant(self.actor, tenant, "member.edit")
        body = bodies.MemberIn.validated(request.data)
        user = selectors.find_user(self.actor, body["user"])
        membership = add_member(
            actor=self.actor, tenant_id=found.pk, user=user, role=TenantRole(body["role"]), now=database_now()
        )
        shown = shapes.show_members(self.actor, found.pk, [membership])[0]
        return with_etag(Response(shown, status=201), membership.version)


class MemberView(ApiView):
    """One member of a tenant."""

    @extend_schema(parameters=[TENANT_PATH, USER_PATH, IF_MATCH], request=bodies.MemberChange, responses=bodies.MemberOut)
    def patch(self, request: Request, tenant: str, user_id: str) -> Response:
        """Change the role of a member. The last manager stays a manager."""
        found = _tenant(self.actor, tenant, "member.edit")
        membership = _membership(self.actor, found, user_id, "member.edit")
        body = bodies.MemberChange.validated(request.data)
        changed = change_role(
            actor=self.actor,
            membership=membership,
            role=TenantRole(body["role"]),
            expected_version=expected_version(request),
            now=database_now(),
        )
        return with_etag(Response(shapes.show_members(self.actor, found.pk, [changed])[0]), changed.version)

    @extend_schema(parameters=[TENANT_PATH, USER_PATH, STOP_JOBS, HAND_TO], responses={204: None})
    def delete(self, request: Request, tenant: str, user_id: str) -> Response:
        """Remove a member, or leave the tenant. The last manager cannot be removed.

        Running jobs continue, and waiting jobs wait until a manager hands them over; `stop_jobs` stops all, `hand_to` hands them
        over at once.
        """
        known_query(request, ("stop_jobs", "hand_to"))
        found = _tenant(self.actor, tenant, "member.read")
        membership = _membership(self.actor, found, user_id, "member.read")
        settlement = settlement_of(self.actor, request)
        remove_member(actor=self.actor, membership=membership, settlement=settlement, now=database_now())
        return Response(status=204)


class SecretsView(ApiView):
    """Names of what jobs may ask for."""

    @extend_schema(parameters=[TENANT_PATH], responses=page_of(bodies.SecretOut))
    def get(self, request: Request, tenant: str) -> Response:
        """List the names of a tenant's secrets. Values cannot be read."""
        known_query(request, ())
        found = _tenant(self.actor, tenant, "secret.read")
        rows = visible(self.actor, Secret).filter(tenant=found).defer("ciphertext")
        return page(request, rows, order=("name",), serialize=shapes.show_secrets)


class SecretView(ApiView):
    """One secret of a tenant."""

    @extend_schema(parameters=[TENANT_PATH], request=bodies.SecretIn, responses={200: bodies.SecretOut, 201: bodies.SecretOut})
    def put(self, request: Request, tenant: str, name: str) -> Response:
        """Set a secret. 201 if the name is new. The value is in no answer, event or audit row."""
        found = _tenant(self.actor, tenant, "secret.edit")
        body = bodies.SecretIn.validated(request.data)
        is_new = set_secret(actor=self.actor, tenant_id=found.pk, name=name, value=body["value"], now=database_now())
        row = visible(self.actor, Secret).filter(tenant=found).get(name=name)
        return Response(shapes.show_secrets([row])[0], status=201 if is_new else 200)

    @extend_schema(parameters=[TENANT_PATH], responses={204: None})
    def delete(self, request: Request, tenant: str, name: str) -> Response:
        """Delete a secret. Running jobs keep its value."""
        found = _tenant(self.actor, tenant, "secret.delete")
        delete_secret(actor=self.actor, tenant_id=found.pk, name=name, now=database_now())
        return Response(status=204)


class ServiceAccountsView(ApiView):
    """Accounts for programs of one tenant."""

    @extend_schema(parameters=[TENANT_PATH], responses=page_of(bodies.UserOut))
    def get(self, request: Request, tenant: str) -> Response:
        """List service accounts of a tenant, by name."""
        known_query(request, ())
        found = _tenant(self.actor, tenant, "service_account.read")
        rows = visible(self.actor, User).filter(tenant=found, kind=UserKind.SERVICE)
        return page(request, rows, order=("name",), serialize=lambda rows: shapes.show_users(self.actor, rows))

    @extend_schema(parameters=[TENANT_PATH], request=bodies.ServiceAccountIn, responses={201: bodies.UserOut})
    @idempotent
    def post(self, request: Request, tenant: str) -> Response:
        """Create a service account; create its token by `POST /tokens` with `service_account`."""
        found = _tenant(self.actor, tenant, "service_account.edit")
        body = bodies.ServiceAccountIn.validated(request.data)
        user = create_service_account(
            actor=self.actor, tenant=found, name=body["name"], role=TenantRole(body["role"]), now=database_now()
        )
        return with_etag(Response(shapes.show_users(self.actor, [user])[0], status=201), user.version)


class ServiceAccountView(ApiView):
    """One service account."""

    @extend_schema(parameters=[TENANT_PATH, USER_PATH], responses={204: None})
    def delete(self, request: Request, tenant: str, user_id: str) -> Response:
        """Disable a service account: its tokens end at once. Its running jobs continue, its waiting jobs do not start."""
        found = _tenant(self.actor, tenant, "service_account.edit")
        user = fetch(self.actor, User, user_id, "service_account.edit", within=Q(tenant=found, kind=UserKind.SERVICE))
        disable_service_account(actor=self.actor, user=user, now=database_now())
        return Response(status=204)


def _tenant(actor: Actor, text: str, verb: str) -> Tenant:
    tenant = selectors.get_tenant(actor, text)
    demand(actor, tenant.pk, verb)
    return tenant


def _membership(actor: Actor, tenant: Tenant, user_id: str, verb: str) -> Membership:
    return fetch(actor, Membership, user_id, verb, key="user_id", within=Q(tenant=tenant), related=("user",))
