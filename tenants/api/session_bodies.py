"""Bodies of signing in: what browsers send and are told."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers

from tenants.api.serializers import WhoTenant, WhoUser
from tenants.services.names import PASSWORD_LENGTH_MAX
from webapi.serializers import StrictSerializer

Out = serializers.Serializer[Any]
NAME_LENGTH = 254
CODE_LENGTH = 40


@extend_schema_serializer(examples=[OpenApiExample("sign in", {"name": "alice", "password": "correct horse battery staple"})])
class SignInBody(StrictSerializer):
    """Who signs in. `code` is six digits of an authenticator or a recovery code, where a second factor is set up."""

    name = serializers.CharField(max_length=NAME_LENGTH, help_text="User name or e-mail address.")
    password = serializers.CharField(max_length=PASSWORD_LENGTH_MAX, trim_whitespace=False)
    code = serializers.CharField(max_length=CODE_LENGTH, required=False, allow_null=True, default=None)


class SessionOut(Out):
    """Who is signed in, and by what."""

    user = WhoUser()
    tenants = WhoTenant(many=True)
    session = serializers.UUIDField(help_text="The session's id among your sessions.")
    csrf = serializers.CharField(help_text="Goes into the header `X-Berth-CSRF` of whatever is no GET.")
    expires_at = serializers.DateTimeField(help_text="The end at the latest; unused it ends sooner.")


class OidcOut(Out):
    """An identity provider that people may sign in by."""

    name = serializers.CharField()
    url = serializers.CharField(help_text="Where the browser goes, with `?next=` a path of the portal.")


class SignInMethodsOut(Out):
    """How people sign in here."""

    password = serializers.BooleanField()
    oidc = OidcOut(allow_null=True)


class OwnSessionOut(Out):
    """A browser in which you are signed in."""

    id = serializers.UUIDField()
    device = serializers.CharField(help_text="Browser and system in words, as the browser tells them.")
    browser = serializers.CharField(allow_null=True)
    system = serializers.CharField(allow_null=True)
    address = serializers.CharField(help_text="The network address that signed in.")
    created_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(help_text="To the minute.")
    expires_at = serializers.DateTimeField()
    is_current = serializers.BooleanField(help_text="Whether it is the one that asks.")


class EndedOut(Out):
    """How many sessions ended."""

    ended = serializers.IntegerField()


@extend_schema_serializer(
    examples=[OpenApiExample("password", {"current": "correct horse battery staple", "new": "four other words together"})]
)
class PasswordBody(StrictSerializer):
    """A new password, and the present one."""

    current = serializers.CharField(max_length=PASSWORD_LENGTH_MAX, trim_whitespace=False)
    new = serializers.CharField(max_length=PASSWORD_LENGTH_MAX, trim_whitespace=False, allow_blank=True)
