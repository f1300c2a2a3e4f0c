"""Invitations: a code that works once and makes its holder a member, with an account of their own if they have none.

The code is shown once to the person who invites, and it is the credential. An account that is signed in takes it up where it
has the invited address, and had it before the invitation or has it confirmed: people cannot write another's address into their
account to use a code that was not for them. Without an account it makes one, whose address is not confirmed by that, as a
manager may invite any address. Whether another account has the address is not looked at: neither the holder of such a code nor
the manager who invites learns who has an account elsewhere.

Only an operator's invitation looks for the account that has the address confirmed, and sets its first password where it has none:
other inviters could invite an address just to get at what its account reaches elsewhere. Where there is no such account, the
operator's word confirms the address of the new one.
"""

from __future__ import annotations

import secrets
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet

from activity.services import NewEvent, record_audit, record_events
from activity.sessions import recheck
from kernel.actor import Actor, TenantRole
from kernel.config import current
from kernel.errors import Conflict, Forbidden, NotFound, QuotaExceeded
from kernel.words import Text
from tenants.identity.access import actor_for, demand, is_system
from tenants.identity.models import Invitation, Membership, User, UserKind
from tenants.identity.permissions import ROLE_RANK, Scope
from tenants.identity.services import names
from tenants.identity.services.addresses import find_by_confirmed_address, is_same_address
from tenants.identity.services.tokens import DAYS_DEFAULT, IssuedToken, issue
from tenants.identity.services.users import insert_user
from tenants.identity.token_text import digest_of

LIFETIME = timedelta(days=7)
SECRET_BYTES = 32
OPEN_PER_TENANT = 1_000
TEXT_PREFIX = "bi_"


@dataclass(frozen=True, slots=True)
class IssuedInvitation:
    """A new invitation with its one-time code, which cannot be read again."""

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
    """Invite a person by address. No user invites to a role above their own; operators may invite to any."""
    demand(actor, tenant_id, "invitation.create")
    own = actor.roles.get(tenant_id)
    if not (actor.is_operator or is_system(actor)) and (own is None or ROLE_RANK[own] < ROLE_RANK[role]):
        raise Forbidden(
            Text("You cannot give a role above your own.", "不能授予高于自己的角色。"),
            hint=Text("Ask a manager of the tenant.", "请联系租户管理员。"),
        )
    problems = names.Problems()
    email = names.email_address(email, problems, required=True)
    problems.raise_if_any()
    text = TEXT_PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    with transaction.atomic():
        open_now = Invitation.objects.filter(tenant_id=tenant_id, accepted_at=None, revoked_at=None, expires_at__gt=now)
        if open_now.count() >= OPEN_PER_TENANT:
            raise QuotaExceeded(
                Text(f"{OPEN_PER_TENANT} invitations are open.", f"已有 {OPEN_PER_TENANT} 个未接受的邀请。"),
                hint=Text("Withdraw invitations that are not accepted.", "请撤回无人接受的邀请。"),
            )
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
            raise Conflict(Text("This invitation is no longer open.", "此邀请已失效。"))
        record_audit(
            actor=actor,
            verb="invitation.delete",
            tenant_id=invitation.tenant_id,
            target_kind="invitation",
            target_id=invitation.pk,
            target_name=invitation.email,
            at=now,
        )


@dataclass(frozen=True, slots=True)
class OpenInvitation:
    """What the holder of a code is told before accepting. `name` is that of the account that waits for its first password."""

    invitation: Invitation
    name: str | None


def read_invitation(*, text: str, now: datetime) -> OpenInvitation:
    """What a code is for, without using it up. Raises NotFound as accepting it would."""
    row = _open_invitations(text, now).select_related("tenant", "invited_by").first()
    if row is None:
        raise _no_such_invitation()
    account = _account_of(row)
    return OpenInvitation(row, account.name if account is not None and _waits(account) else None)


def accept_invitation(
    *,
    text: str,
    actor: Actor | None = None,
    name: str = "",
    password: str = "",
    with_token: bool = True,
    request_id: str = "",
    now: datetime,
) -> Accepted:
    """Use an invitation up. `actor` is the person who is signed in; without one `name` and `password` make the account.

    `with_token`: a new account gets a first token; a browser, which signs in by password, asks for none.
    """
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
        if actor is None and with_token:  # A person who is signed in has a token already.
            token = issue(user, name="first token", scopes=[Scope.ALL], lifetime=timedelta(days=DAYS_DEFAULT), now=now)
        _record(invitation, user, membership, token, request_id=request_id, now=now)
        recheck()
    return Accepted(user, membership, token)


def _claim(text: str, now: datetime) -> Invitation:
    """Of two who bring the same code, the one whose update finds the row open gets in."""
    if not _open_invitations(text, now).update(accepted_at=now):
        raise _no_such_invitation()
    return Invitation.objects.select_related("invited_by").get(digest=digest_of(text))


def _open_invitations(text: str, now: datetime) -> QuerySet[Invitation]:
    return Invitation.objects.filter(digest=digest_of(text), accepted_at=None, revoked_at=None, expires_at__gt=now)


def _no_such_invitation() -> NotFound:
    return NotFound(
        Text("This invitation does not exist, is used, or older than 7 days.", "此邀请不存在、已使用，或已超过 7 天。"),
        hint=Text("Ask for a new one.", "请索取新的邀请。"),
    )


def _is_by_operator(invitation: Invitation) -> bool:
    return invitation.invited_by is None or invitation.invited_by.is_operator


def _account_of(invitation: Invitation) -> User | None:
    """The account that has the invited address confirmed; looked for only where an operator invited."""
    return find_by_confirmed_address(User.objects.all(), invitation.email) if _is_by_operator(invitation) else None


def _waits(account: User | None) -> bool:
    """Whether an operator's invitation may set the account's first password."""
    return account is not None and account.is_active and not account.has_usable_password()


def _has_address(user: User, invitation: Invitation) -> bool:
    """Whether the account is the one that was invited, by what stands in it and in the invitation alone."""
    if is_same_address(user.email, invitation.email):
        return True
    was_there = user.email_claimed_at is None or user.email_claimed_at <= invitation.created_at
    return was_there and is_same_address(user.email_claimed or "", invitation.email)


def _user_for(invitation: Invitation, actor: Actor | None, *, name: str, password: str, now: datetime) -> User:
    problems = names.Problems()
    if actor is not None and actor.user_id is not None:
        demand(actor, None, "invitation.accept")
        if name or password:
            problems.add(
                "",
                "signed_in",
                Text(
                    "You are signed in: the invitation is for your account, without name and password.",
                    "您已登录：邀请针对您的账户，无需用户名和密码。",
                ),
            )
            problems.raise_if_any()
        user = User.objects.get(id=actor.user_id)
        if user.kind != UserKind.PERSON:
            raise Forbidden(
                Text("Invitations are for people.", "邀请只适用于个人用户。"),
                hint=Text("Create a service account in the tenant.", "请在租户中创建服务账户。"),
            )
        if not _has_address(user, invitation):
            raise Forbidden(
                Text(
                    "This invitation is for another address than your account had when it was made.",
                    "此邀请所针对的地址与发出邀请时您账户的地址不同。",
                ),
                hint=Text(
                    "Sign out and accept it with an account of the invited address, or ask for a new invitation to yours.",
                    "请退出登录，用受邀地址的账户接受；或请对方重新邀请您的地址。",
                ),
            )
        return user
    names.user_name(name, problems)
    names.password(password, problems, user_name=name)
    problems.raise_if_any()
    account = _account_of(invitation)
    if account is not None:
        account = User.objects.select_for_update(no_key=True).get(id=account.pk)
    if account is None or not _waits(account):
        is_confirmed = _is_by_operator(invitation) and account is None
        return insert_user(name=name, email=invitation.email, email_is_confirmed=is_confirmed, password=password, now=now)
    if account.name != name:  # Reading the invitation tells its holder the name.
        raise Conflict(
            Text(f"This invitation is for the account {account.name}.", f"此邀请针对账户 {account.name}。"),
            hint=Text(f"Accept it with the name {account.name}.", f"请以用户名 {account.name} 接受。"),
        )
    account.set_password(password)
    account.save(update_fields=["password"])
    return account


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
