"""Whose account it is that an identity provider or a directory speaks of, and where its groups put that person.

Issuer and subject name a person for good. A verified address brings a person to an account that was there before only if the
address is confirmed there: people write their addresses by themselves, and an account that only claims a person's address
is passed over, so that it opens no account and blocks none. And only if that account was never used: its
owner connects it once, from a session.

Where groups are mapped, they decide about the tenants that the mapping names, at each sign-in; a provider that says nothing
of groups lets no person in (security C35).
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import datetime

import structlog
from django.db import IntegrityError, transaction

from activity.services import record_audit
from kernel.actor import Actor, TenantRole, system_actor
from kernel.config import Config
from kernel.errors import BerthError, Conflict
from tenants.identity import selectors
from tenants.identity.identity_claims import Claims, SignInFailed
from tenants.identity.models import ExternalIdentity, Membership, Token, User, UserKind
from tenants.identity.permissions import ROLE_RANK
from tenants.identity.services import names
from tenants.identity.services.addresses import confirm_address, find_by_confirmed_address
from tenants.identity.services.members import add_member, change_role, remove_member
from tenants.identity.services.users import insert_user

NAME_TRIES = 5

log = structlog.get_logger("tenants")


@dataclass(frozen=True, slots=True)
class Policy:
    """What operators let a provider or a directory do here."""

    source: str  # As it is called in the log and, after `system:`, in the audit.
    creates_users: bool
    links_by_email: bool
    domains: frozenset[str]  # Empty: any.
    groups: tuple[tuple[str, str, str], ...]  # Group, tenant and role.

    @property
    def actor(self) -> Actor:
        return system_actor(self.source)


def of_provider(config: Config) -> Policy:
    domains = frozenset(domain.strip().lower() for domain in config.oidc_domains.split(",") if domain.strip())
    return Policy("oidc", config.oidc_creates_users, config.oidc_links_by_email, domains, config.oidc_groups_mapping)


def of_directory(config: Config) -> Policy:
    """Of any domain: whom the directory's search finds is said by its filter."""
    return Policy("directory", config.ldap_creates_users, config.ldap_links_by_email, frozenset(), config.ldap_groups_mapping)


def connect(claims: Claims, *, actor: Actor, policy: Policy, now: datetime) -> User:
    """Let a person of elsewhere be the user who set out to connect them. SignInFailed if they have an account here already."""
    _check_domain(claims, policy)
    rows = User.objects.filter(is_active=True, kind=UserKind.PERSON)
    user = rows.filter(id=actor.user_id).first() if actor.user_id else None
    if user is None:
        raise SignInFailed("account_disabled", "the account is disabled")
    known = _known(claims)
    if known is not None and known.pk != user.pk:
        raise SignInFailed("oidc_taken", "this person is connected with another account")
    if known is None:
        try:
            with transaction.atomic():
                _link(user, claims, "identity.link", now, actor=actor)
        except IntegrityError:
            raise SignInFailed("oidc_taken", "this person was connected a moment ago") from None
    if claims.email_verified:
        confirm_address(user, claims.email)
    return user


def person_of(claims: Claims, *, policy: Policy, now: datetime, namesake: User | None = None) -> User:
    """The person of checked claims: known, found by a verified address, or made where that is allowed; with the roles that the
    groups give. `namesake` has the account of the name that was typed, whose owner connects it: no second account is made.
    SignInFailed for all others."""
    _check_domain(claims, policy)
    wanted = wanted_roles(claims, policy)
    try:
        with transaction.atomic():
            user = _known(claims) or _linked(claims, policy, now) or _made(claims, policy, namesake, now)
    except IntegrityError:  # The same person came in twice at once for the first time.
        found = _known(claims)
        if found is None:
            raise SignInFailed("no_account", "two people came in at once") from None
        user = found
    if not user.is_active or user.kind != UserKind.PERSON:
        raise SignInFailed("account_disabled", "the account is disabled")
    ExternalIdentity.objects.filter(issuer=claims.issuer, subject=claims.subject).update(last_used_at=now)
    for tenant, role in wanted.items():
        _give(policy, user, tenant, role, now)
    return user


def wanted_roles(claims: Claims, policy: Policy) -> dict[str, TenantRole | None]:
    """The role in each tenant of the mapping, the strongest where several groups give one; None where no group does."""
    if not policy.groups:
        return {}
    if claims.groups is None:
        raise SignInFailed("oidc_groups", "the id_token holds no list of the claim that BERTH_OIDC_GROUPS_CLAIM names")
    wanted: dict[str, TenantRole | None] = {}
    for group, tenant, text in policy.groups:
        role, before = TenantRole(text), wanted.setdefault(tenant, None)
        if group in claims.groups and (before is None or ROLE_RANK[role] > ROLE_RANK[before]):
            wanted[tenant] = role
    return wanted


def _check_domain(claims: Claims, policy: Policy) -> None:
    if not policy.domains:
        return
    if not claims.email_verified or claims.email.rpartition("@")[2].lower() not in policy.domains:
        raise SignInFailed("oidc_domain", "the address is of another domain, or not verified")


def _known(claims: Claims) -> User | None:
    found = ExternalIdentity.objects.select_related("user").filter(issuer=claims.issuer, subject=claims.subject).first()
    return found.user if found else None


def _linked(claims: Claims, policy: Policy, now: datetime) -> User | None:
    """An account that was there before, by its verified address."""
    if not claims.email or not claims.email_verified:
        return None
    user = find_by_confirmed_address(User.objects.filter(kind=UserKind.PERSON), claims.email)
    if user is None:
        return None
    if not user.is_active:
        raise SignInFailed("account_disabled", "the account is disabled")
    issuers = set(ExternalIdentity.objects.filter(user=user).values_list("issuer", flat=True))
    # Another subject of the same provider is another person: addresses are given to new people, subjects never.
    was_used = bool(issuers) or user.has_usable_password() or Token.objects.filter(user=user).exists()
    if claims.issuer in issuers or (was_used and not policy.links_by_email):
        raise SignInFailed("link_needed", "the account of this address was used before; its owner connects it")
    _link(user, claims, "identity.link", now, actor=policy.actor)
    return user


def _made(claims: Claims, policy: Policy, namesake: User | None, now: datetime) -> User:
    if namesake is not None:
        raise SignInFailed("link_needed" if namesake.is_active else "account_disabled", "there is an account of this name")
    if not policy.creates_users and _usable_email(claims) and User.objects.filter(email_claimed__iexact=claims.email).exists():
        raise SignInFailed("link_needed", "an account says to have this address; its owner connects it")
    if not policy.creates_users:
        raise SignInFailed("no_account", "nobody has this address, and accounts are not made")
    email = _usable_email(claims)
    for number in range(NAME_TRIES):
        name = _user_name(claims, is_first=number == 0)
        try:
            with transaction.atomic():
                user = insert_user(name=name, email=email, email_is_confirmed=True, password=None, now=now)
                _link(user, claims, "user.create", now, actor=policy.actor)
        except Conflict:
            continue
        return user
    raise SignInFailed("no_account", "no free name was found")


def _link(user: User, claims: Claims, verb: str, now: datetime, *, actor: Actor) -> None:
    ExternalIdentity.objects.create(user=user, issuer=claims.issuer, subject=claims.subject, created_at=now)
    record_audit(
        actor=actor,
        verb=verb,
        tenant_id=None,
        target_kind="user",
        target_id=user.pk,
        target_name=user.name,
        after={"name": user.name, "email": user.email, "issuer": claims.issuer, "subject": claims.subject},
        at=now,
    )


def _usable_email(claims: Claims) -> str:
    """An unverified address is not written: it would let its owner be mistaken for another."""
    if not claims.email_verified:
        return ""
    problems = names.Problems()
    email = names.email_address(claims.email, problems)
    return "" if problems.fields else email


def _user_name(claims: Claims, *, is_first: bool) -> str:
    """A name of our grammar that is like the one elsewhere."""
    plain = re.sub(r"[^a-z0-9._-]+", "-", claims.name.partition("@")[0].lower()).strip("._-")[:40].strip("._-")
    problems = names.Problems()
    names.user_name(plain, problems)
    if problems.fields:
        plain = "user"
    return plain if is_first and plain != "user" else f"{plain}-{secrets.token_hex(3)}"


def _give(policy: Policy, user: User, tenant_name: str, role: TenantRole | None, now: datetime) -> None:
    """Bring one membership to what the groups say. What cannot be, such as taking the last manager away, is logged and left."""
    try:
        tenant = selectors.get_tenant(policy.actor, tenant_name)
        membership = Membership.objects.select_related("user").filter(tenant=tenant, user=user).first()
        if membership is None and role is not None:
            add_member(actor=policy.actor, tenant_id=tenant.pk, user=user, role=role, now=now)
        elif membership is not None and role is None:
            remove_member(actor=policy.actor, membership=membership, now=now)
        elif membership is not None and role is not None and membership.role != role:
            change_role(actor=policy.actor, membership=membership, role=role, now=now)
    except BerthError as error:
        log.warning("group_not_applied", source=policy.source, tenant=tenant_name, user=user.name, code=error.code)
