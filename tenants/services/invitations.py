"""Invitations: a code that works once and makes its holder a member, with an account of their own if they have none.

The code is shown once to whoever invites. Accepting it while signed in adds the membership to that account. Accepting
it without an account makes one. An existing account can be taken up this way only where it has no password yet and an operator
invited its address: anybody else could invite an address just to get at what its account reaches elsewhere.
"""

from __future__ import annotations

import secrets
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from activity.services import NewEvent, record_audit, record_events
from activity.sessions import recheck
from kernel.actor import Actor, TenantRole
from kernel.config import current
from kernel.errors import Conflict, Forbidden, NotFound, QuotaExceeded
from tenants.access import actor_for, demand, is_system
from tenants.models import Invitation, Membership, User, UserKind
from tenants.permissions import ROLE_RANK, Scope
from tenants.services import names
from tenants.services.tokens import DAYS_DEFAULT, IssuedToken, digest_of, issue
from tenants.services.users import insert_user

LIFETIME = timedelta(days=7)
SECRET_BYTES = 32
OPEN_PER_TENANT = 1_000
TEXT_PREFIX = "bi_"


@dataclass(frozen=True, slots=True)
class IssuedInvitation:
    """A new invitation with its one-time code, which nobody can read again."""

    invitation: Invitation
    text: str

    @property
    def command(self) -> str:
        """What the invited person runs. It asks for the code, which therefore stands in no command line and no history."""
        return f"berth users accept --server {current().url}"


@dataclass(frozen=True, slots=True)
class Accepted:
    """What accepting gave: the account, its membership, and for a new account its first token."""

    user: User
    membership: Membership
    token: IssuedToken | None


def invite_user(*, actor: Actor, tenant_id: uuid.UUID, email: str, role: TenantRole, now: datetime) -> IssuedInvitation:
    """Invite somebody by address. Nobody invites to a role above their own; operators may invite to any."""
    demand(actor, tenant_id, "invitation.create")
    own = actor.roles.get(tenant_id)
    if not (actor.is_operator or is_system(actor)) and (own is None or ROLE_RANK[own] < ROLE_RANK[role]):
        raise Forbidden("Nobody gives a role above their own.", hint="Ask a manager of the tenant.")
    problems = names.Problems()
    email = names.email_address(email, problems, required=True)
    problems.raise_if_any()
    text = TEXT_PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    with transaction.atomic():
        open_now = Invitation.objects.filter(tenant_id=tenant_id, accepted_at=None, revoked_at=None, expires_at__gt=now)
        if open_now.count() >= OPEN_PER_TENANT:
            raise QuotaExceeded(f"{OPEN_PER_TENANT} invitations are open.", hint="Withdraw those that nobody takes up.")
        invitation = Invitation.objects.create(
            tenant_id=tenant_id,
            email=email,
            role=role,
            digest=digest_of(text),
            invited_by_id=actor.user_id,
            created_at=now,
            expires_at=now + LIFETIME,
        )
        record_audit(
            actor=actor,
            verb="invitation.create",
            tenant_id=tenant_id,
            target_kind="invitation",
            target_id=invitation.pk,
            target_name=email,
            after={"email": email, "role": role},
            at=now,
        )
    return IssuedInvitation(invitation, text)


def withdraw_invitation(*, actor: Actor, invitation: Invitation, now: datetime) -> None:
    """End an open invitation; of no effect on one that was used."""
    demand(actor, invitation.tenant_id, "invitation.delete")
    with transaction.atomic():
        open_rows = Invitation.objects.filter(id=invitation.pk, accepted_at=None, revoked_at=None)
        if not open_rows.update(revoked_at=now):
            raise Conflict("This invitation is no longer open.")
        record_audit(
            actor=actor,
            verb="invitation.delete",
            tenant_id=invitation.tenant_id,
            target_kind="invitation",
            target_id=invitation.pk,
            target_name=invitation.email,
            at=now,
        )


def accept_invitation(
    *, text: str, actor: Actor | None = None, name: str = "", password: str = "", request_id: str = "", now: datetime
) -> Accepted:
    """Use an invitation up. `actor` is whoever is signed in; without one `name` and `password` make the account."""
    with transaction.atomic():
        invitation = _claim(text, now)
        user = _user_for(invitation, actor, name=name, password=password, now=now)
        role = TenantRole(invitation.role)
        membership = Membership.objects.select_for_update().filter(tenant_id=invitation.tenant_id, user=user).first()
        if membership is None:
            membership = Membership.objects.create(tenant_id=invitation.tenant_id, user=user, role=role, created_at=now)
        elif ROLE_RANK[TenantRole(membership.role)] < ROLE_RANK[role]:
            membership.role = role
            membership.version += 1
            membership.save(update_fields=["role", "version"])
        Invitation.objects.filter(id=invitation.pk).update(accepted_by=user)
        token = None
        if actor is None:  # Whoever is signed in has a token already.
            token = issue(user, name="first token", scopes=[Scope.ALL], lifetime=timedelta(days=DAYS_DEFAULT), now=now)
        _record(invitation, user, membership, token, request_id=request_id, now=now)
        recheck()
    return Accepted(user, membership, token)


def _claim(text: str, now: datetime) -> Invitation:
    """Of two who bring the same code, the one whose update finds the row open gets in."""
    digest = digest_of(text)
    open_rows = Invitation.objects.filter(digest=digest, accepted_at=None, revoked_at=None, expires_at__gt=now)
    if not open_rows.update(accepted_at=now):
        raise NotFound("This invitation does not exist, is used, or older than 7 days.", hint="Ask for a new one.")
    return Invitation.objects.select_related("invited_by").get(digest=digest)


def _user_for(invitation: Invitation, actor: Actor | None, *, name: str, password: str, now: datetime) -> User:
    problems = names.Problems()
    if actor is not None and actor.user_id is not None:
        if name or password:
            problems.add("", "signed_in", "You are signed in: the invitation is for your account, without name and password.")
            problems.raise_if_any()
        user = User.objects.get(id=actor.user_id)
        if user.kind != UserKind.PERSON:
            raise Forbidden("Invitations are for people.", hint="Create a service account in the tenant.")
        return user
    names.user_name(name, problems)
    names.password(password, problems, user_name=name)
    problems.raise_if_any()
    existing = User.objects.select_for_update().filter(email__iexact=invitation.email).first()
    if existing is None:
        return insert_user(name=name, email=invitation.email, password=password, now=now)
    by_operator = invitation.invited_by is None or invitation.invited_by.is_operator
    if existing.has_usable_password() or not existing.is_active or not by_operator or existing.name != name:
        raise Conflict(
            "There is an account for this address.",
            hint="Sign in first, then accept; or ask an operator for an invitation that sets the first password.",
        )
    existing.set_password(password)
    existing.save(update_fields=["password"])
    return existing


def _record(
    invitation: Invitation, user: User, membership: Membership, issued: IssuedToken | None, *, request_id: str, now: datetime
) -> None:
    record_events(
        [
            NewEvent(
                kind="member.added",
                tenant_id=invitation.tenant_id,
                subject_kind="user",
                subject_id=user.pk,
                data={"user_id": user.pk, "role": membership.role},
                at=now,
            )
        ]
    )
    record_audit(
        actor=actor_for(user, None, request_id=request_id),
        verb="invitation.accept",
        tenant_id=invitation.tenant_id,
        target_kind="user",
        target_id=user.pk,
        target_name=user.name,
        after={"role": membership.role, "email": invitation.email, "first_token": _facts(issued)},
        at=now,
    )


def _facts(issued: IssuedToken | None) -> dict[str, object] | None:
    """What the audit log keeps of the first token."""
    if issued is None:
        return None
    token = issued.token
    return {"id": token.pk, "prefix": token.prefix, "scopes": token.scopes, "expires_at": token.expires_at}
