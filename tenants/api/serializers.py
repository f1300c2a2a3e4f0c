"""Bodies of this app's operations: what they take, strictly, and what they answer."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers

from kernel.actor import TenantRole
from kernel.limits import SECRET_BYTES
from tenants.permissions import Scope
from tenants.quota.limits import AMOUNT_MAX as SUM_MAX
from tenants.quota.limits import WEIGHT_MAX
from tenants.services.names import DISPLAY_NAME_LENGTH, PASSWORD_LENGTH_MAX
from tenants.services.queues import AMOUNT_MAX
from tenants.services.tenants import DESCRIPTION_LENGTH
from tenants.services.tokens import NAME_LENGTH as TOKEN_NAME_LENGTH
from webapi.fields import QuantityField, UtcTimeField
from webapi.serializers import StrictSerializer

ROLES = [str(role) for role in TenantRole]
SCOPES = [str(scope) for scope in Scope]
Out = serializers.Serializer[Any]


def _text_field(**options: Any) -> Any:
    """A text field by a name that serializers themselves use, such as `parent`: declared fields never become attributes."""
    return serializers.CharField(**options)


class TenantRef(Out):
    """A tenant, where another object names it."""

    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()


class UserRef(Out):
    """A user, where another object names it."""

    id = serializers.UUIDField()
    name = serializers.CharField()


class PoolRef(Out):
    """A pool, where another object names it."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    cluster = serializers.CharField()


class TenantOut(Out):
    """A tenant. `parent` is null at the top, and where you do not see it."""

    id = serializers.UUIDField()
    slug = serializers.CharField(help_text="Never changes; safe in scripts.")
    name = serializers.CharField()
    description = serializers.CharField()
    parent = TenantRef(allow_null=True)
    role = serializers.ChoiceField(ROLES, allow_null=True, help_text="Yours, inherited from above if it is stronger there.")
    created_at = serializers.DateTimeField()
    is_disabled = serializers.BooleanField(help_text="Nothing begins in it: it is disabled, or a tenant above it is.")
    disabled_at = serializers.DateTimeField(allow_null=True, help_text="Of the tenant itself. Null where only one above it is.")
    disabled_reason = serializers.CharField(help_text="In the words of the operator who disabled the tenant itself.")
    deleted_at = serializers.DateTimeField(allow_null=True, help_text="Deleted tenants are shown to operators alone.")
    version = serializers.IntegerField()


@extend_schema_serializer(examples=[OpenApiExample("tenant", {"name": "vision", "description": "Cameras", "parent": None})])
class TenantIn(StrictSerializer):
    """A new tenant."""

    name = serializers.CharField(max_length=DISPLAY_NAME_LENGTH, trim_whitespace=False)
    parent = _text_field(max_length=100, required=False, allow_null=True, help_text="Slug, id or name; null: at the top.")
    description = serializers.CharField(max_length=DESCRIPTION_LENGTH, required=False, allow_blank=True, default="")


class TenantChange(StrictSerializer):
    """What to change of a tenant."""

    name = serializers.CharField(max_length=DISPLAY_NAME_LENGTH, trim_whitespace=False, required=False)
    description = serializers.CharField(max_length=DESCRIPTION_LENGTH, allow_blank=True, required=False)


class MemberUser(Out):
    """A member's account. `email` is for managers and operators."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(["person", "service"])
    is_active = serializers.BooleanField()
    email = serializers.CharField(allow_null=True)


class MemberOut(Out):
    """Somebody's role in a tenant."""

    user = MemberUser()
    role = serializers.ChoiceField(ROLES)
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField()


@extend_schema_serializer(examples=[OpenApiExample("member", {"user": "bob", "role": "member"})])
class MemberIn(StrictSerializer):
    """A user that you see, by id or name, and the role to give. Strangers are invited instead."""

    user = serializers.CharField(max_length=100)
    role = serializers.ChoiceField(ROLES)


class MemberChange(StrictSerializer):
    """The new role."""

    role = serializers.ChoiceField(ROLES)


class SecretOut(Out):
    """A secret's name. There is no way to read its value."""

    name = serializers.CharField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class SecretIn(StrictSerializer):
    """A secret's value, text of at most 64 KiB."""

    value = serializers.CharField(max_length=SECRET_BYTES, trim_whitespace=False, write_only=True)


class UserOut(Out):
    """A user. `email` is for the user and operators."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(["person", "service"])
    is_operator = serializers.BooleanField()
    is_active = serializers.BooleanField()
    email = serializers.CharField(allow_null=True)
    email_is_confirmed = serializers.BooleanField(
        allow_null=True,
        help_text="Whether an operator, an identity provider or a directory vouched for the address. Null where it is not shown.",
    )
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField()


@extend_schema_serializer(examples=[OpenApiExample("user", {"name": "bob", "email": "bob@example.org"})])
class UserIn(StrictSerializer):
    """A new person, who comes in by an invitation to the address."""

    name = serializers.CharField(max_length=63)
    email = serializers.CharField(max_length=254, required=False, allow_blank=True, default="")
    is_operator = serializers.BooleanField(required=False, default=False)


class UserChange(StrictSerializer):
    """What to change of a user. Disabling ends all of their tokens and connections at once. An address that an operator writes is
    confirmed by that, also where it stood there before."""

    email = serializers.CharField(max_length=254, required=False, allow_blank=True)
    is_active = serializers.BooleanField(required=False)
    is_operator = serializers.BooleanField(required=False)


class ImportedLineOut(Out):
    """What became of one line."""

    line = serializers.IntegerField()
    name = serializers.CharField()
    action = serializers.ChoiceField(["created", "updated", "unchanged"])


class ImportOut(Out):
    """What an import did, or with `dry_run` would do."""

    dry_run = serializers.BooleanField()
    created = serializers.IntegerField()
    updated = serializers.IntegerField()
    unchanged = serializers.IntegerField()
    lines = ImportedLineOut(many=True)


@extend_schema_serializer(examples=[OpenApiExample("service account", {"name": "ci", "role": "member"})])
class ServiceAccountIn(StrictSerializer):
    """A new service account. It will be called `<name>@<slug>`."""

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
    """A new invitation with its one-time code, shown this once, and the command that takes it."""

    token = serializers.CharField(help_text="The one-time code.")
    command = serializers.CharField(help_text="What the invited person runs; it asks for the code.")


@extend_schema_serializer(
    examples=[OpenApiExample("invitation", {"email": "bob@example.org", "tenant": "vision", "role": "member"})]
)
class InvitationIn(StrictSerializer):
    """Whom to invite, where, as what."""

    email = serializers.CharField(max_length=254)
    tenant = serializers.CharField(max_length=100, required=False, allow_null=True, default=None)
    role = serializers.ChoiceField(ROLES, required=False, default=str(TenantRole.MEMBER))


class AcceptIn(StrictSerializer):
    """The invitation's one-time code; without an account, the name and password (12 characters or more) of the new one."""

    token = serializers.CharField(max_length=200, trim_whitespace=True)
    name = serializers.CharField(max_length=63, required=False, allow_blank=True, default="")
    password = serializers.CharField(
        max_length=PASSWORD_LENGTH_MAX, required=False, allow_blank=True, default="", trim_whitespace=False, write_only=True
    )
    with_token = serializers.BooleanField(
        required=False, default=True, help_text="Whether a new account gets a first token. A browser, which signs in, needs none."
    )


class InvitationCodeIn(StrictSerializer):
    """The invitation's one-time code. In the body, because addresses are logged."""

    token = serializers.CharField(max_length=200, trim_whitespace=True)


class ReadInvitationOut(Out):
    """What an open invitation is for."""

    email = serializers.CharField()
    tenant = TenantRef()
    role = serializers.ChoiceField(ROLES)
    invited_by = UserRef(allow_null=True)
    expires_at = serializers.DateTimeField()
    name = serializers.CharField(
        allow_null=True, help_text="Of the account that waits for its first password; null where `name` is free to choose."
    )


class TokenOut(Out):
    """A token as it can be seen afterwards: without its secret part."""

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
    """A new token. `token` is what goes into the Authorization header, and is shown this once."""

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
    expires_at = UtcTimeField(required=False, allow_null=True, help_text="At most a year ahead; in 90 days by default.")
    service_account = serializers.CharField(max_length=100, required=False, allow_null=True, default=None)


class AcceptedOut(Out):
    """What accepting an invitation gave. `token` is the new account's first one, shown this once; null if you had an
    account, or asked for none."""

    user = UserRef()
    tenant = TenantRef()
    role = serializers.ChoiceField(ROLES)
    token = NewTokenOut(allow_null=True)


class WhoUser(Out):
    """The user that acts."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    email = serializers.CharField()
    email_is_confirmed = serializers.BooleanField(
        help_text="Whether an operator, an identity provider or a directory vouched for the address: only such a one signs in."
    )
    kind = serializers.ChoiceField(["person", "service"])
    is_operator = serializers.BooleanField()
    password_in = serializers.ChoiceField(
        ["here", "directory"],
        allow_null=True,
        help_text="Where the password is kept and changed. Null: there is none, as for who signs in by an identity provider.",
    )


class WhoToken(Out):
    """The token that was sent."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    prefix = serializers.CharField()
    scopes = serializers.ListField(child=serializers.ChoiceField(SCOPES))
    expires_at = serializers.DateTimeField()


class WhoTenant(TenantRef):
    """A tenant that you belong to. `parent` is its slug, null at the top and where you do not see it."""

    role = serializers.ChoiceField(ROLES)
    parent = _text_field(allow_null=True)


class WhoOut(Out):
    """Who you are, by which token (null: a browser's session), and where you belong."""

    user = WhoUser()
    token = WhoToken(allow_null=True)
    tenants = WhoTenant(many=True)


class AmountsOut(Out):
    """Amounts in the smallest unit: thousandths of a core, bytes, thousandths of a GPU."""

    cpu_millis = serializers.IntegerField()
    memory_bytes = serializers.IntegerField()
    gpu_millis = serializers.IntegerField()


class CeilingOut(Out):
    """Limits in the smallest unit; null is no limit."""

    cpu_millis = serializers.IntegerField(allow_null=True)
    memory_bytes = serializers.IntegerField(allow_null=True)
    gpu_millis = serializers.IntegerField(allow_null=True)


class QueuePoolOut(Out):
    """A queue in one pool: its use with that of all queues below, its own ceiling, and what the queues above leave of it."""

    pool = PoolRef()
    used = AmountsOut()
    ceiling = CeilingOut()
    effective_ceiling = CeilingOut(help_text="The lowest of its own and all above.")
    headroom = CeilingOut(help_text="How much more fits now under all of them.")
    guarantee = AmountsOut(help_text="What is kept for it and never lent.")
    deserved = CeilingOut(help_text="What it may take back from whoever borrowed it; null is the guarantee.")
    weight = AmountsOut(help_text="Its weight where nobody was promised anything, by resource.")


class QueueOut(Out):
    """A queue. `path` names the queues above that you see."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    path = serializers.CharField()
    tenant = TenantRef(allow_null=True)
    parent_id = serializers.UUIDField(allow_null=True)
    is_top = serializers.BooleanField()
    pools = QueuePoolOut(many=True)
    version = serializers.IntegerField()


@extend_schema_serializer(examples=[OpenApiExample("queue", {"name": "nightly", "tenant": "vision"})])
class QueueIn(StrictSerializer):
    """A new queue below another of the same tenant: `parent` by id or name, the tenant's top queue by default."""

    name = serializers.CharField(max_length=DISPLAY_NAME_LENGTH, trim_whitespace=False)
    tenant = serializers.CharField(max_length=100, required=False, allow_null=True, default=None)
    parent = _text_field(max_length=100, required=False, allow_null=True, default=None)


class QueueChange(StrictSerializer):
    """The queue's new name."""

    name = serializers.CharField(max_length=DISPLAY_NAME_LENGTH, trim_whitespace=False)


class AmountsIn(StrictSerializer):
    """Amounts by resource; what is left out stays as it is."""

    cpu_millis = QuantityField(required=False, max_value=SUM_MAX)
    memory_bytes = QuantityField(required=False, max_value=SUM_MAX)
    gpu_millis = QuantityField(required=False, max_value=SUM_MAX)


class DeservedIn(StrictSerializer):
    """Amounts by resource; null is the guarantee, and what is left out stays as it is."""

    cpu_millis = QuantityField(required=False, allow_null=True, max_value=SUM_MAX)
    memory_bytes = QuantityField(required=False, allow_null=True, max_value=SUM_MAX)
    gpu_millis = QuantityField(required=False, allow_null=True, max_value=SUM_MAX)


class WeightsIn(StrictSerializer):
    """Weights by resource; what is left out stays as it is."""

    cpu_millis = QuantityField(required=False, max_value=WEIGHT_MAX)
    memory_bytes = QuantityField(required=False, max_value=WEIGHT_MAX)
    gpu_millis = QuantityField(required=False, max_value=WEIGHT_MAX)


@extend_schema_serializer(
    examples=[OpenApiExample("eight GPUs", {"pool": "a100", "cpu_millis": None, "memory_bytes": None, "gpu_millis": 8000})]
)
class LimitIn(StrictSerializer):
    """Ceilings of one pool, by id or name; null or left out is no limit. Promises and weights stay where they are left out."""

    pool = serializers.CharField(max_length=255)
    cpu_millis = QuantityField(required=False, allow_null=True, default=None, max_value=AMOUNT_MAX)
    memory_bytes = QuantityField(required=False, allow_null=True, default=None, max_value=AMOUNT_MAX)
    gpu_millis = QuantityField(required=False, allow_null=True, default=None, max_value=AMOUNT_MAX)
    guarantee = AmountsIn(required=False, help_text="Never lent to others.")
    deserved = DeservedIn(required=False, help_text="Lent while idle, and taken back on demand.")
    weight = WeightsIn(required=False, help_text="Divides what nobody is promised; 1 unless set, and 0 comes last.")
