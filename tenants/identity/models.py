"""Rows of identity: tenants, users, memberships, tokens, sessions, sign-in, invitations, secrets."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower

from kernel.actor import TenantRole
from kernel.ids import new_id


class UserKind(models.TextChoices):
    PERSON = "person"
    SERVICE = "service"


class TokenKind(models.TextChoices):
    """What a credential is for: a program's header, or a browser's cookie. Neither is ever taken for the other."""

    PERSONAL = "personal"
    SESSION = "session"


ROLE_CHOICES = [(str(role), str(role)) for role in TenantRole]


class Tenant(models.Model):
    """A boundary of isolation. Slug and number never change and are never given to another tenant.

    In a disabled one, and in those below, nothing begins. A deleted one is disabled for good; its row stays for the ledger.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.CharField(max_length=10)
    name = models.CharField(max_length=63)
    number = models.PositiveIntegerField()
    parent = models.ForeignKey("self", models.PROTECT, null=True, related_name="children")
    description = models.CharField(max_length=1000, blank=True, default="")
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    disabled_at = models.DateTimeField(null=True)
    disabled_reason = models.CharField(max_length=500, null=True)  # noqa: DJ001 - SQLite adds nothing else without a copy.
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["slug"], name="tenant_slug_unique"),
            models.UniqueConstraint(fields=["number"], name="tenant_number_unique"),
            models.UniqueConstraint(fields=["parent", "name"], name="tenant_name_unique_below_parent"),
            models.UniqueConstraint(fields=["name"], condition=Q(parent__isnull=True), name="tenant_name_unique_at_top"),
            models.CheckConstraint(condition=Q(number__gte=1), name="tenant_number_from_1"),
        ]

    def __str__(self) -> str:
        return f"tenant {self.name} ({self.slug})"


class TenantAncestor(models.Model):
    """Every tenant above a tenant, itself included at depth 0: inherited roles are one indexed join."""

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="ancestor_links")
    ancestor = models.ForeignKey(Tenant, models.CASCADE, related_name="descendant_links")
    depth = models.PositiveSmallIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "ancestor"], name="tenant_ancestor_unique")]

    def __str__(self) -> str:
        return f"tenant {self.tenant_id} is {self.depth} below {self.ancestor_id}"


class Counter(models.Model):
    """A number that only grows, so that what it allots is never given out twice."""

    name = models.CharField(max_length=50, primary_key=True)
    value = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"counter {self.name} at {self.value}"


class User(AbstractBaseUser):
    """A person, or a service account that belongs to one tenant. Service accounts have no usable password.

    `email` is confirmed: a party other than its owner vouched for it, an operator, an identity provider or a directory. It is
    unique, and it alone leads to the account. What people write about themselves is `email_claimed` until it is confirmed, and is
    not compared with others', so that no answer tells who has an account. `email_claimed_at` is null where it came with the
    account.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(max_length=100)
    email = models.EmailField(blank=True, default="")
    email_claimed = models.EmailField(null=True)  # noqa: DJ001 - another column is remade on SQLite, without its triggers.
    email_claimed_at = models.DateTimeField(null=True)
    kind = models.CharField(max_length=10, choices=UserKind.choices, default=UserKind.PERSON)
    tenant = models.ForeignKey(Tenant, models.PROTECT, null=True, related_name="service_accounts")
    is_operator = models.BooleanField(default=False)
    is_active = models.BooleanField(default=True)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    last_login = None

    USERNAME_FIELD = "name"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []
    objects = BaseUserManager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name"], name="user_name_unique"),
            models.UniqueConstraint(Lower("email"), condition=~Q(email=""), name="user_email_unique"),
            models.CheckConstraint(
                condition=Q(kind=UserKind.PERSON, tenant__isnull=True) | Q(kind=UserKind.SERVICE, tenant__isnull=False),
                name="user_service_has_tenant",
            ),
            models.CheckConstraint(condition=Q(kind=UserKind.PERSON) | Q(is_operator=False), name="user_operator_is_person"),
        ]

    @property
    def is_staff(self) -> bool:
        """Whether the operators' console is theirs, as Django's admin asks for it."""
        return self.is_operator

    def has_perm(self, perm: str, obj: object = None) -> bool:
        """The console's pages decide for themselves; rights of the API are in `tenants.identity.permissions`."""
        return self.is_active and self.is_operator

    def has_module_perms(self, app_label: str) -> bool:
        return self.has_perm("")

    @property
    def address(self) -> str:
        """Where mail for the user goes, confirmed or not."""
        return self.email_claimed or self.email

    @property
    def email_is_confirmed(self) -> bool:
        return bool(self.email) and not self.email_claimed

    def __str__(self) -> str:
        return f"user {self.name}"


class Membership(models.Model):
    """A user's role in a tenant and in all tenants below it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=ROLE_CHOICES)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "user"], name="membership_unique"),
            models.CheckConstraint(condition=Q(role__in=[str(role) for role in TenantRole]), name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} is {self.role} of tenant {self.tenant_id}"


class Token(models.Model):
    """A personal access token, or a browser's session. Only its SHA-256 is kept; `prefix` finds the row and is what people see
    afterwards. `agent` and `address` say of a session which browser signed in from where."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(User, models.CASCADE, related_name="tokens")
    kind = models.CharField(
        max_length=10, choices=TokenKind.choices, default=TokenKind.PERSONAL, db_default=TokenKind.PERSONAL.value
    )
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12)
    digest = models.CharField(max_length=64)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    agent = models.CharField(max_length=200, blank=True, default="", db_default="")
    address = models.CharField(max_length=45, blank=True, default="", db_default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["prefix"], name="token_prefix_unique"),
            models.CheckConstraint(condition=Q(expires_at__gt=F("created_at")), name="token_expires_after_creation"),
        ]

    def __str__(self) -> str:
        return f"token {self.prefix} of {self.user_id}"


class BrowserSession(Token):
    """Tokens of kind `session`, where they are served: they are never listed among personal ones, nor these among them."""

    class Meta:
        proxy = True

    def __str__(self) -> str:
        return f"session {self.prefix} of {self.user_id}"


class SecondFactor(models.Model):
    """An authenticator that a person set up: its secret under the installation's key. It counts once it is confirmed.

    `last_step` is the newest half minute whose code was taken: none is taken twice. `failures` counts wrong ones in a row.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.OneToOneField(User, models.CASCADE, related_name="second_factor")
    ciphertext = models.TextField()
    last_step = models.BigIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    failed_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    confirmed_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"second factor of {self.user_id}"


class RecoveryCode(models.Model):
    """A code that stands in once for a lost authenticator. Only its SHA-256 is kept."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(User, models.CASCADE, related_name="recovery_codes")
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["digest"], name="recovery_code_digest_unique")]

    def __str__(self) -> str:
        return f"recovery code of {self.user_id}"


class DeviceCode(models.Model):
    """A command line that waits to be let in by its user's browser (RFC 8628). Of its own code only the SHA-256 is kept."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    digest = models.CharField(max_length=64)
    user_code = models.CharField(max_length=8)
    client = models.CharField(max_length=100)
    address = models.CharField(max_length=45, blank=True, default="")
    interval_seconds = models.PositiveIntegerField()
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)
    polled_at = models.DateTimeField(null=True)
    user = models.ForeignKey(User, models.CASCADE, null=True, related_name="device_codes")
    decided_at = models.DateTimeField(null=True)
    is_approved = models.BooleanField(default=False)
    redeemed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["digest"], name="device_code_digest_unique"),
            models.UniqueConstraint(fields=["user_code"], name="device_code_user_code_unique"),
        ]

    def __str__(self) -> str:
        return f"device code {self.id}"


class ExternalIdentity(models.Model):
    """A person as an identity provider knows them: its subject never changes, whatever becomes of names and addresses."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(User, models.CASCADE, related_name="identities")
    issuer = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)
    created_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="external_identity_unique")]

    def __str__(self) -> str:
        return f"identity {self.subject} of {self.user_id}"


class SpentState(models.Model):
    """A sign-in at an identity provider that came back: it does not come back again."""

    digest = models.CharField(max_length=64, primary_key=True)
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"spent until {self.expires_at}"


class Invitation(models.Model):
    """A code that makes its holder a member once. Only its SHA-256 is kept."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="invitations")
    email = models.EmailField()
    role = models.CharField(max_length=10, choices=ROLE_CHOICES)
    digest = models.CharField(max_length=64)
    invited_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="sent_invitations")
    accepted_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="accepted_invitations")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["digest"], name="invitation_digest_unique"),
            models.CheckConstraint(condition=Q(role__in=[str(role) for role in TenantRole]), name="invitation_role_known"),
        ]

    def __str__(self) -> str:
        return f"invitation {self.id} to tenant {self.tenant_id}"


class Secret(models.Model):
    """A value that jobs of the tenant may ask for by name. It can be written and used, never read back."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="secrets")
    name = models.CharField(max_length=128)
    ciphertext = models.TextField()
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="secret_name_unique")]

    def __str__(self) -> str:
        return f"secret {self.name} of tenant {self.tenant_id}"
