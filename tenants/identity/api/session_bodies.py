"""Bodies of signing in: what browsers send and are told."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers

from tenants.identity.api.serializers import NewTokenOut, UserRef, WhoTenant, WhoUser
from tenants.identity.services.names import PASSWORD_LENGTH_MAX
from webapi.serializers import StrictSerializer

Out = serializers.Serializer[Any]
NAME_LENGTH = 254
CODE_LENGTH = 40


@extend_schema_serializer(examples=[OpenApiExample("sign in", {"name": "alice", "password": "correct horse battery staple"})])
class SignInBody(StrictSerializer):
    """Credentials of a sign-in. `code`: six digits of an authenticator or a recovery code, if a second factor is set up."""

    name = serializers.CharField(max_length=NAME_LENGTH, help_text="User name or e-mail address.")
    password = serializers.CharField(max_length=PASSWORD_LENGTH_MAX, trim_whitespace=False)
    code = serializers.CharField(max_length=CODE_LENGTH, required=False, allow_null=True, default=None)


class SessionOut(Out):
    """The signed-in user, and the way of signing in."""

    user = WhoUser()
    tenants = WhoTenant(many=True)
    session = serializers.UUIDField(help_text="Id of the session.")
    csrf = serializers.CharField(help_text="Value of the header `X-Berth-CSRF` of every request but GET.")
    expires_at = serializers.DateTimeField(help_text="Latest end; an unused session ends sooner.")


class OidcOut(Out):
    """An identity provider of the sign-in page."""

    name = serializers.CharField()
    url = serializers.CharField(help_text="Address for the browser, with `?next=` a path of the portal.")


class ConnectOut(Out):
    """Address at which the browser links an account."""

    url = serializers.CharField(help_text="Address at the identity provider, which redirects to this portal.")


@extend_schema_serializer(examples=[OpenApiExample("connect", {"name": "alice", "password": "what the directory knows"})])
class DirectoryBody(StrictSerializer):
    """Your account in the directory."""

    name = serializers.CharField(max_length=NAME_LENGTH, help_text="User name in the directory.")
    password = serializers.CharField(max_length=PASSWORD_LENGTH_MAX, trim_whitespace=False)


class SignInMethodsOut(Out):
    """Ways to sign in."""

    password = serializers.BooleanField()
    directory = serializers.BooleanField(help_text="Names and passwords of the organisation's directory are accepted.")
    oidc = OidcOut(allow_null=True)


class OwnSessionOut(Out):
    """A browser session of yours."""

    id = serializers.UUIDField()
    device = serializers.CharField(help_text="Browser and system, as reported by the browser.")
    browser = serializers.CharField(allow_null=True)
    system = serializers.CharField(allow_null=True)
    address = serializers.CharField(help_text="Network address of the sign-in.")
    created_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(help_text="Precise to the minute.")
    expires_at = serializers.DateTimeField()
    is_current = serializers.BooleanField(help_text="The session of this request.")


class EndedOut(Out):
    """Number of sessions that ended."""

    ended = serializers.IntegerField()


@extend_schema_serializer(
    examples=[OpenApiExample("password", {"current": "correct horse battery staple", "new": "four other words together"})]
)
class PasswordBody(StrictSerializer):
    """The new and the present password."""

    current = serializers.CharField(max_length=PASSWORD_LENGTH_MAX, trim_whitespace=False)
    new = serializers.CharField(max_length=PASSWORD_LENGTH_MAX, trim_whitespace=False, allow_blank=True)


class FactorOut(Out):
    """Your second factor."""

    enabled = serializers.BooleanField()
    recovery_codes_left = serializers.IntegerField()


@extend_schema_serializer(examples=[OpenApiExample("password", {"password": "correct horse battery staple"})])
class FactorIn(StrictSerializer):
    """Your password again, so that an unattended browser cannot set up a second factor."""

    password = serializers.CharField(max_length=PASSWORD_LENGTH_MAX, trim_whitespace=False)


@extend_schema_serializer(examples=[OpenApiExample("removal", {"password": "correct horse battery staple", "code": "492039"})])
class FactorRemoval(FactorIn):
    """Your password, and a code of the second factor or a recovery code."""

    code = serializers.CharField(max_length=CODE_LENGTH)


@extend_schema_serializer(examples=[OpenApiExample("code", {"code": "492039"})])
class FactorCode(StrictSerializer):
    """Six digits of the authenticator."""

    code = serializers.CharField(max_length=CODE_LENGTH)


class EnrolmentOut(Out):
    """Data for an authenticator, shown only once."""

    secret = serializers.CharField(help_text="For manual entry; Base32.")
    uri = serializers.CharField(help_text="`otpauth://` address of the same.")
    qr_svg = serializers.CharField(help_text="The same as an image: a `data:` address for an `<img>`.")


class RecoveryCodesOut(Out):
    """Recovery codes for a lost authenticator; each works once."""

    recovery_codes = serializers.ListField(child=serializers.CharField())
    sessions_ended = serializers.IntegerField(help_text="Number of your other sessions that ended.")


@extend_schema_serializer(examples=[OpenApiExample("command line", {"client": "berth 0.2.0 on laptop"})])
class DeviceCodeIn(StrictSerializer):
    """Description of the command line for the user who approves it."""

    client = serializers.RegexField(r"^[A-Za-z0-9][ -~]*$", max_length=100, help_text="Program and computer, in printable ASCII.")


class DeviceCodeOut(Out):
    """A user code and a secret for the program (RFC 8628)."""

    device_code = serializers.CharField(help_text="Secret of the program; never shown.")
    user_code = serializers.CharField(help_text="Code that the user compares or types.")
    verification_url = serializers.CharField()
    verification_url_complete = serializers.CharField(help_text="The same address with the code in it.")
    expires_in = serializers.IntegerField(help_text="Seconds.")
    interval = serializers.IntegerField(help_text="Seconds to wait between two attempts to redeem.")


@extend_schema_serializer(examples=[OpenApiExample("redeem", {"device_code": "Zk2mT7cJ0l5xQ9aRb3yW"})])
class RedeemIn(StrictSerializer):
    """The program's secret."""

    device_code = serializers.CharField(max_length=100)


class RedeemedOut(NewTokenOut):
    """The new token, shown only once."""

    user = UserRef()


class WaitingOut(Out):
    """A command line that waits for a decision."""

    user_code = serializers.CharField()
    client = serializers.CharField(help_text="Name that the program gives itself; it is not verified.")
    address = serializers.CharField(help_text="Network address of the request.")
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
