"""Bodies of signing in: what browsers send and are told."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers

from tenants.api.serializers import NewTokenOut, UserRef, WhoTenant, WhoUser
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


class ConnectOut(Out):
    """Where the browser goes to connect an account."""

    url = serializers.CharField(help_text="At the identity provider; it leads back to this portal.")


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


class FactorOut(Out):
    """One's own second factor."""

    enabled = serializers.BooleanField()
    recovery_codes_left = serializers.IntegerField()


@extend_schema_serializer(examples=[OpenApiExample("password", {"password": "correct horse battery staple"})])
class FactorIn(StrictSerializer):
    """Your password again: whoever finds your browser open sets nothing up."""

    password = serializers.CharField(max_length=PASSWORD_LENGTH_MAX, trim_whitespace=False)


@extend_schema_serializer(examples=[OpenApiExample("removal", {"password": "correct horse battery staple", "code": "492039"})])
class FactorRemoval(FactorIn):
    """Your password, and a code of the second factor or a recovery code."""

    code = serializers.CharField(max_length=CODE_LENGTH)


@extend_schema_serializer(examples=[OpenApiExample("code", {"code": "492039"})])
class FactorCode(StrictSerializer):
    """Six digits that the authenticator shows."""

    code = serializers.CharField(max_length=CODE_LENGTH)


class EnrolmentOut(Out):
    """What an authenticator needs, shown this once."""

    secret = serializers.CharField(help_text="For typing it in; Base32.")
    uri = serializers.CharField(help_text="`otpauth://` address of the same.")
    qr_svg = serializers.CharField(help_text="The same as a picture: a `data:` address for an `<img>`.")


class RecoveryCodesOut(Out):
    """Codes that stand in for a lost authenticator, each once."""

    recovery_codes = serializers.ListField(child=serializers.CharField())
    sessions_ended = serializers.IntegerField(help_text="So many other sessions of yours ended by this.")


@extend_schema_serializer(examples=[OpenApiExample("command line", {"client": "berth 0.2.0 on laptop"})])
class DeviceCodeIn(StrictSerializer):
    """What the person who decides is shown of the command line."""

    client = serializers.RegexField(r"^[A-Za-z0-9][ -~]*$", max_length=100, help_text="Program and machine, printable ASCII.")


class DeviceCodeOut(Out):
    """A code for the person, and a secret for the program (RFC 8628)."""

    device_code = serializers.CharField(help_text="The program's secret; never shown.")
    user_code = serializers.CharField(help_text="What the person compares or types.")
    verification_url = serializers.CharField()
    verification_url_complete = serializers.CharField(help_text="The same with the code in it.")
    expires_in = serializers.IntegerField(help_text="Seconds.")
    interval = serializers.IntegerField(help_text="Seconds to wait between two tries to redeem.")


@extend_schema_serializer(examples=[OpenApiExample("redeem", {"device_code": "Zk2mT7cJ0l5xQ9aRb3yW"})])
class RedeemIn(StrictSerializer):
    """The program's secret."""

    device_code = serializers.CharField(max_length=100)


class RedeemedOut(NewTokenOut):
    """The new token, shown this once."""

    user = UserRef()


class WaitingOut(Out):
    """A command line that waits for a decision."""

    user_code = serializers.CharField()
    client = serializers.CharField(help_text="As it calls itself: anybody may claim any name.")
    address = serializers.CharField(help_text="The network address that asks.")
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
