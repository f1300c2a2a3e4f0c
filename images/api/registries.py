"""Accounts of a tenant at registries over HTTP: written, checked and deleted, never read back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.registries.references import HOST_LENGTH
from images.errors import RegistryFailure
from images.models import RegistryAccount
from images.registry import check_account, look_up
from images.services.accounts import PASSWORD_LENGTH, USERNAME_LENGTH, delete_account, get_account, set_account
from images.services.catalogue import registry_reference
from kernel.clock import database_now, utc_text
from tenants.identity.access import demand
from tenants.identity.api.parameters import TENANT_PATH
from tenants.selectors import find_tenant
from webapi.access import visible
from webapi.fields import UtcTimeField
from webapi.pagination import page
from webapi.schema import page_of
from webapi.serializers import StrictSerializer
from webapi.views import ApiView, known_query
from webapi.wording import reader_language

HOST_PATH = OpenApiParameter(
    "host", str, OpenApiParameter.PATH, description="Host of the registry as references write it, with its port if it has one."
)


class RegistryAccountIn(StrictSerializer):
    """An account at a registry. The password cannot be read back."""

    username = serializers.CharField(max_length=USERNAME_LENGTH)
    password = serializers.CharField(max_length=PASSWORD_LENGTH, trim_whitespace=False, write_only=True)


class RegistryAccountOut(serializers.Serializer[Any]):
    """An account at a registry, without its password."""

    host = serializers.CharField()
    username = serializers.CharField()
    created_at = UtcTimeField()
    updated_at = UtcTimeField()


class RegistryCheckIn(StrictSerializer):
    """What to check: an image of this registry, or only that it answers and takes the account."""

    image = serializers.CharField(max_length=500, allow_null=True, default=None, help_text="A reference at this registry.")


class RegistryCheckOut(serializers.Serializer[Any]):
    """What the registry answered. `code` is null where it answers as it should, else a code of the error reference."""

    ok = serializers.BooleanField()
    code = serializers.CharField(allow_null=True)
    title = serializers.CharField(allow_null=True)
    detail = serializers.CharField(allow_null=True)
    hint = serializers.CharField(allow_null=True)
    digest = serializers.CharField(allow_null=True, help_text="Of the image, if one was named.")
    size_bytes = serializers.IntegerField(allow_null=True, help_text="Of the image as it is transferred.")


class RegistriesView(ApiView):
    """Accounts at registries."""

    @extend_schema(parameters=[TENANT_PATH], responses=page_of(RegistryAccountOut))
    def get(self, request: Request, tenant: str) -> Response:
        """List a tenant's accounts at registries, by host. Passwords cannot be read."""
        known_query(request, ())
        found = find_tenant(self.actor, tenant)
        demand(self.actor, found.id, "registry.read")
        rows = visible(self.actor, RegistryAccount).filter(tenant_id=found.id).defer("ciphertext")
        return page(request, rows, order=("host",), serialize=_show)


class RegistryView(ApiView):
    """One account at a registry."""

    @extend_schema(
        parameters=[TENANT_PATH, HOST_PATH],
        request=RegistryAccountIn,
        responses={200: RegistryAccountOut, 201: RegistryAccountOut},
        examples=[OpenApiExample("An account", value={"username": "robot", "password": "from the registry"}, request_only=True)],
    )
    def put(self, request: Request, tenant: str, host: str) -> Response:
        """Set an account at a registry. 201 if it is new. The password is in no answer, event or audit row."""
        found = find_tenant(self.actor, tenant)
        demand(self.actor, found.id, "registry.edit")
        body = RegistryAccountIn.validated(request.data)
        account, is_new = set_account(actor=self.actor, tenant_id=found.id, host=host, now=database_now(), **body)
        return Response(_show([account])[0], status=201 if is_new else 200)

    @extend_schema(parameters=[TENANT_PATH, HOST_PATH], responses={204: None})
    def delete(self, request: Request, tenant: str, host: str) -> Response:
        """Delete an account at a registry. Running jobs continue."""
        found = find_tenant(self.actor, tenant)
        demand(self.actor, found.id, "registry.delete")
        delete_account(actor=self.actor, tenant_id=found.id, host=host[: HOST_LENGTH + 1], now=database_now())
        return Response(status=204)


class RegistryCheckView(ApiView):
    """Whether an account works."""

    @extend_schema(
        parameters=[TENANT_PATH, HOST_PATH],
        request=RegistryCheckIn,
        responses=RegistryCheckOut,
        examples=[OpenApiExample("An image", value={"image": "registry.example.org/vision/train:1.2"}, request_only=True)],
    )
    def post(self, request: Request, tenant: str, host: str) -> Response:
        """Check an account: ask the registry whether it takes it, and whether it may pull an image. Changes nothing."""
        found = find_tenant(self.actor, tenant)
        account = get_account(actor=self.actor, tenant_id=found.id, host=host)
        image = RegistryCheckIn.validated(request.data)["image"]
        reference = registry_reference(image, host=account.host) if image is not None else None
        answer: dict[str, Any] = dict.fromkeys(("code", "title", "detail", "hint", "digest", "size_bytes"))
        try:
            if reference is None:
                check_account(tenant_id=found.id, host=account.host)
            else:
                known = look_up(tenant_id=found.id, reference=reference)
                answer |= {"digest": known.digest, "size_bytes": known.size_bytes}
        except RegistryFailure as failure:
            language = reader_language(request)
            answer |= {
                "code": failure.code,
                "title": failure.title.in_language(language),
                "detail": failure.detail_text.in_language(language),
                "hint": failure.hint_text.in_language(language),
            }
        return Response({"ok": answer["code"] is None, **answer})


def _show(rows: Sequence[RegistryAccount]) -> list[dict[str, Any]]:
    return [
        {
            "host": row.host,
            "username": row.username,
            "created_at": utc_text(row.created_at),
            "updated_at": utc_text(row.updated_at),
        }
        for row in rows
    ]
