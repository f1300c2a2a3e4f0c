"""Bodies of the operations on tenants and people: what they take, strictly, and what they answer."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers

from kernel.actor import TenantRole
from tenants.bounds import SECRET_BYTES
from tenants.identity.permissions import Scope
from tenants.identity.services.names import DESCRIPTION_LENGTH, DISPLAY_NAME_LENGTH, PASSWORD_LENGTH_MAX
from tenants.identity.services.tokens import NAME_LENGTH as TOKEN_NAME_LENGTH
from webapi.fields import UtcTimeField
from webapi.serializers import StrictSerializer

ROLES = [str(role) for role in TenantRole]
SCOPES = [str(scope) for scope in Scope]
Out = serializers.Serializer[Any]


def text_field(**options: Any) -> Any:
    """A text field by a name that serializers themselves use, such as `parent`: declared fields never become attributes."""
    return serializers.CharField(**options)


class TenantRef(Out):
    """A reference to a tenant."""

    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()


class UserRef(Out):
    """A reference to a user."""

    id = serializers.UUIDField()
    name = serializers.CharField()


class TenantOut(Out):
    """A tenant. `parent` is null at the top, and if you cannot see it."""

    id = serializers.UUIDField()
    slug = serializers.CharField(help_text="Stable; safe in scripts.")
    name = serializers.CharField()
    description = serializers.CharField()
    parent = TenantRef(allow_null=True)
    role = serializers.ChoiceField(ROLES, allow_null=True, help_text="Your role, inherited from above if it is stronger there.")
    created_at = serializers.DateTimeField()
    is_disabled = serializers.BooleanField(
        help_text="No job can be submitted or started: the tenant is disabled, or a tenant above it is."
    )
    disabled_at = serializers.DateTimeField(
        allow_null=True, help_text="Time at which the tenant itself was disabled. Null if only a tenant above it is."
    )
    disabled_reason = serializers.CharField(help_text="Reason of the operator who disabled the tenant itself.")
    deleted_at = serializers.DateTimeField(allow_null=True, help_text="Only operators see deleted tenants.")
    version = serializers.IntegerField()


@extend_schema_serializer(examples=[OpenApiExample("tenant", {"name": "vision", "description": "Cameras", "parent": None})])
class TenantIn(StrictSerializer):
    """A new tenant."""

    name = serializers.CharField(max_length=DISPLAY_NAME_LENGTH, trim_whitespace=False)
    parent = text_field(max_length=100, required=False, allow_null=True, help_text="Slug, id or name; null: at the top.")
    description = serializers.CharField(max_length=DESCRIPTION_LENGTH, required=False, allow_blank=True, default="")


class TenantChange(StrictSerializer):
    """Fields of a tenant that may change."""

    name = serializers.CharField(max_length=DISPLAY_NAME_LENGTH, trim_whitespace=False, required=False)
    description = serializers.CharField(max_length=DESCRIPTION_LENGTH, allow_blank=True, required=False)


class MemberUser(Out):
    """Account of a member. `email` is shown to managers and operators."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(["person", "service"])
    is_active = serializers.BooleanField()
    email = serializers.CharField(allow_null=True)


class MemberOut(Out):
    """Role of a user in a tenant."""

    user = MemberUser()
    role = serializers.ChoiceField(ROLES)
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField()


@extend_schema_serializer(examples=[OpenApiExample("member", {"user": "bob", "role": "member"})])
class MemberIn(StrictSerializer):
    """A user that you can see, by id or name, and the role to give. Invite other users instead."""

    user = serializers.CharField(max_length=100)
    role = serializers.ChoiceField(ROLES)


class MemberChange(StrictSerializer):
    """The new role."""

    role = serializers.ChoiceField(ROLES)


class SecretOut(Out):
    """Name of a secret. Its value cannot be read."""

    name = serializers.CharField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class SecretIn(StrictSerializer):
    """Value of a secret, text of at most 64 KiB."""

    value = serializers.CharField(max_length=SECRET_BYTES, trim_whitespace=False, write_only=True)


class UserOut(Out):
    """A user. `email` is shown to the user and to operators."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(["person", "service"])
    is_operator = serializers.BooleanField()
    is_active = serializers.BooleanField()
    email = serializers.CharField(allow_null=True)
    email_is_confirmed = serializers.BooleanField(
        allow_null=True,
        help_text="The address was confirmed by an operator, an identity provider or a directory. Null if it is not shown.",
    )
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField()


@extend_schema_serializer(examples=[OpenApiExample("user", {"name": "bob", "email": "bob@example.org"})])
class UserIn(StrictSerializer):
    """A new user, who signs in after an invitation to the address."""

    name = serializers.CharField(max_length=63)
    email = serializers.CharField(max_length=254, required=False, allow_blank=True, default="")
    is_operator = serializers.BooleanField(required=False, default=False)


class UserChange(StrictSerializer):
    """Fields of a user that may change. Disabling a user ends all tokens and connections of the user at once. An address that an
    operator sets is confirmed by that, even if it is unchanged."""

    email = serializers.CharField(max_length=254, required=False, allow_blank=True)
    is_active = serializers.BooleanField(required=False)
    is_operator = serializers.BooleanField(required=False)
    stop_jobs = serializers.BooleanField(
        required=False, help_text="With `is_active: false`: stop all jobs of the user; otherwise running jobs continue."
    )
    hand_to = serializers.CharField(
        max_length=100,
        required=False,
        help_text="With `is_active: false`: id or name of the user who gets the jobs, templates, volumes, images and bookings.",
    )


class ImportedLineOut(Out):
    """Result of a line."""

    line = serializers.IntegerField()
    name = serializers.CharField()
    action = serializers.ChoiceField(["created", "updated", "unchanged"])


class ImportOut(Out):
    """Result of an import, or of its dry run."""

    dry_run = serializers.BooleanField()
    created = serializers.IntegerField()
    updated = serializers.IntegerField()
    unchanged = serializers.IntegerField()
    lines = ImportedLineOut(many=True)


@extend_schema_serializer(examples=[OpenApiExample("service account", {"name": "ci", "role": "member"})])
class ServiceAccountIn(StrictSerializer):
    """A new service account, named `<name>@<slug>`."""

    name = serializers.CharField(max_length=63)
    role = serializers.ChoiceField(ROLES, required=False, default=str(TenantRole.MEMBER))


class InvitationOut(Out):
    """An invitation. `state` is open, accepted, withdrawn or expired."""

    id = serializers.UUIDField()
    email = serializers.CharField()
    tenant = TenantRef()
    role = serializers.ChoiceField(ROLES)
    state = serializers.ChoiceField(["open", "accepted", "withdrawn", "expired"])
    invited_by = UserRef(allow_null=True)
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()


class NewInvitationOut(InvitationOut):
    """A new invitation with its one-time code, which is shown only once, and the command that accepts it."""

    token = serializers.CharField(help_text="The one-time code.")
    command = serializers.CharField(help_text="Command for the invited user; it prompts for the code.")


@extend_schema_serializer(
    examples=[OpenApiExample("invitation", {"email": "bob@example.org", "tenant": "vision", "role": "member"})]
)
class InvitationIn(StrictSerializer):
    """Address, tenant and role of an invitation."""

    email = serializers.CharField(max_length=254)
    tenant = serializers.CharField(max_length=100, required=False, allow_null=True, default=None)
    role = serializers.ChoiceField(ROLES, required=False, default=str(TenantRole.MEMBER))


class AcceptIn(StrictSerializer):
    """One-time code of the invitation; a new account also needs a name and a password of 12 characters or more."""

    token = serializers.CharField(max_length=200, trim_whitespace=True)
    name = serializers.CharField(max_length=63, required=False, allow_blank=True, default="")
    password = serializers.CharField(
        max_length=PASSWORD_LENGTH_MAX, required=False, allow_blank=True, default="", trim_whitespace=False, write_only=True
    )
    with_token = serializers.BooleanField(
        required=False,
        default=True,
        help_text="Create a first token for a new account. A browser needs none, because it signs in.",
    )


class InvitationCodeIn(StrictSerializer):
    """One-time code of the invitation. It is in the body, because URLs are logged."""

    token = serializers.CharField(max_length=200, trim_whitespace=True)


class ReadInvitationOut(Out):
    """Contents of an open invitation."""

    email = serializers.CharField()
    tenant = TenantRef()
    role = serializers.ChoiceField(ROLES)
    invited_by = UserRef(allow_null=True)
    expires_at = serializers.DateTimeField()
    name = serializers.CharField(
        allow_null=True, help_text="Name of the account that waits for its first password; null if `name` is free to choose."
    )


class TokenOut(Out):
    """A token, without its secret part."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    prefix = serializers.CharField()
    user = UserRef()
    scopes = serializers.ListField(child=serializers.ChoiceField(SCOPES))
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)


class NewTokenOut(TokenOut):
    """A new token. `token` is the value of the Authorization header and is shown only once."""

    token = serializers.CharField()


@extend_schema_serializer(
    examples=[OpenApiExample("token", {"name": "laptop", "scopes": ["read", "jobs"], "expires_at": "2027-01-31T00:00:00Z"})]
)
class TokenIn(StrictSerializer):
    """A new token for yourself, or for a service account (by id or name) of a tenant that you manage."""

    name = serializers.CharField(max_length=TOKEN_NAME_LENGTH)
    scopes = serializers.ListField(
        child=serializers.CharField(max_length=40), max_length=len(SCOPES), required=False, help_text=f"Of {', '.join(SCOPES)}."
    )
    expires_at = UtcTimeField(required=False, allow_null=True, help_text="At most a year ahead; default: 90 days.")
    service_account = serializers.CharField(max_length=100, required=False, allow_null=True, default=None)


class AcceptedOut(Out):
    """Result of accepting an invitation. `token` is the first token of a new account and is shown only once; null if the account
    existed or no token was requested."""

    user = UserRef()
    tenant = TenantRef()
    role = serializers.ChoiceField(ROLES)
    token = NewTokenOut(allow_null=True)


class WhoUser(Out):
    """Acting user."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    email = serializers.CharField()
    email_is_confirmed = serializers.BooleanField(
        help_text="The address was confirmed by an operator, an identity provider or a directory; only a confirmed address can "
        "sign in."
    )
    kind = serializers.ChoiceField(["person", "service"])
    is_operator = serializers.BooleanField()
    password_in = serializers.ChoiceField(
        ["here", "directory"],
        allow_null=True,
        help_text="Place of the password. Null: there is none, as for users who sign in through an identity provider.",
    )


class WhoToken(Out):
    """Token of the request."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    prefix = serializers.CharField()
    scopes = serializers.ListField(child=serializers.ChoiceField(SCOPES))
    expires_at = serializers.DateTimeField()


class WhoTenant(TenantRef):
    """A tenant of which you are a member. `parent` is its slug, null at the top and if you cannot see it."""

    role = serializers.ChoiceField(ROLES)
    parent = text_field(allow_null=True)


class WhoOut(Out):
    """The signed-in user, the token (null: a browser session), and the tenants of the user."""

    user = WhoUser()
    token = WhoToken(allow_null=True)
    tenants = WhoTenant(many=True)
