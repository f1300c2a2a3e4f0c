"""Tenants and people as the API shows them, always a whole page at once: no query per row."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from kernel.actor import Actor
from kernel.clock import utc_text
from tenants.identity import selectors
from tenants.identity.access import role_allows
from tenants.identity.models import BrowserSession, Invitation, Membership, Secret, Tenant, Token, User
from tenants.identity.services import passwords
from tenants.identity.services.tokens import IssuedToken
from tenants.identity.standing import disabled_tenants
from tenants.identity.user_agents import device_of

Shown = dict[str, Any]


def tenant_ref(tenant: Tenant) -> Shown:
    return {"id": str(tenant.pk), "slug": tenant.slug, "name": tenant.name}


def user_ref(user: User | None) -> Shown | None:
    return None if user is None else {"id": str(user.pk), "name": user.name}


def show_tenants(actor: Actor, rows: Sequence[Tenant]) -> list[Shown]:
    """One query for the parents that the actor sees, and one for which are disabled."""
    wanted = {row.parent_id for row in rows if row.parent_id}
    if not actor.is_operator:
        wanted &= set(actor.roles)
    parents = {row.pk: row for row in Tenant.objects.filter(id__in=wanted)} if wanted else {}
    disabled = disabled_tenants() if rows else {}
    return [
        {
            **tenant_ref(row),
            "description": row.description,
            "parent": tenant_ref(parents[row.parent_id]) if row.parent_id in parents else None,
            "role": _text(actor.roles.get(row.pk)),
            "created_at": utc_text(row.created_at),
            "is_disabled": row.pk in disabled,
            "disabled_at": utc_text(row.disabled_at),
            "disabled_reason": row.disabled_reason or "",
            "deleted_at": utc_text(row.deleted_at),
            "version": row.version,
        }
        for row in rows
    ]


def show_members(actor: Actor, tenant_id: uuid.UUID, rows: Sequence[Membership]) -> list[Shown]:
    """Rows come with their user."""
    with_email = role_allows(actor, tenant_id, "member.edit")
    return [
        {
            "user": {
                "id": str(row.user.pk),
                "name": row.user.name,
                "kind": row.user.kind,
                "is_active": row.user.is_active,
                "email": row.user.address if with_email or row.user_id == actor.user_id else None,
            },
            "role": row.role,
            "created_at": utc_text(row.created_at),
            "version": row.version,
        }
        for row in rows
    ]


def show_secrets(rows: Sequence[Secret]) -> list[Shown]:
    return [{"name": row.name, "created_at": utc_text(row.created_at), "updated_at": utc_text(row.updated_at)} for row in rows]


def show_users(actor: Actor, rows: Sequence[User]) -> list[Shown]:
    return [
        {
            "id": str(row.pk),
            "name": row.name,
            "kind": row.kind,
            "is_operator": row.is_operator,
            "is_active": row.is_active,
            "email": row.address if (is_shown := actor.is_operator or row.pk == actor.user_id) else None,
            "email_is_confirmed": row.email_is_confirmed if is_shown else None,
            "created_at": utc_text(row.created_at),
            "version": row.version,
        }
        for row in rows
    ]


def show_invitations(rows: Sequence[Invitation], *, now: datetime) -> list[Shown]:
    """Rows come with their tenant and with the inviter."""
    return [
        {
            "id": str(row.pk),
            "email": row.email,
            "tenant": tenant_ref(row.tenant),
            "role": row.role,
            "state": _invitation_state(row, now),
            "invited_by": user_ref(row.invited_by),
            "created_at": utc_text(row.created_at),
            "expires_at": utc_text(row.expires_at),
        }
        for row in rows
    ]


def show_who(user: User, tenants: Sequence[selectors.TenantOfActor]) -> Shown:
    """A user with the tenants that it belongs to, as it sees them."""
    slugs = {tenant.id: tenant.slug for tenant in tenants}
    return {
        "user": {
            "id": str(user.pk),
            "name": user.name,
            "email": user.address,
            "email_is_confirmed": user.email_is_confirmed,
            "kind": user.kind,
            "is_operator": user.is_operator,
            "password_in": passwords.kept_in(user),
        },
        "tenants": [
            {
                "id": str(tenant.id),
                "slug": tenant.slug,
                "name": tenant.name,
                "role": str(tenant.role),
                "parent": slugs.get(tenant.parent_id) if tenant.parent_id else None,
            }
            for tenant in tenants
        ],
    }


def show_sessions(actor: Actor, rows: Sequence[BrowserSession]) -> list[Shown]:
    """The digest and the prefix stay here."""
    return [_show_session(actor, row) for row in rows]


def _show_session(actor: Actor, row: BrowserSession) -> Shown:
    device = device_of(row.agent)
    return {
        "id": str(row.pk),
        "device": device.words,
        "browser": device.browser,
        "system": device.system,
        "address": row.address,
        "created_at": utc_text(row.created_at),
        "last_used_at": utc_text(row.last_used_at),
        "expires_at": utc_text(row.expires_at),
        "is_current": row.pk == actor.token_id,
    }


def show_tokens(rows: Sequence[Token]) -> list[Shown]:
    """Rows come with their user. The digest stays here."""
    return [
        {
            "id": str(row.pk),
            "name": row.name,
            "prefix": row.prefix,
            "user": user_ref(row.user),
            "scopes": row.scopes,
            "created_at": utc_text(row.created_at),
            "expires_at": utc_text(row.expires_at),
            "last_used_at": utc_text(row.last_used_at),
            "revoked_at": utc_text(row.revoked_at),
        }
        for row in rows
    ]


def show_new_token(issued: IssuedToken) -> Shown:
    return {**show_tokens([issued.token])[0], "token": issued.text}


def _invitation_state(row: Invitation, now: datetime) -> str:
    if row.accepted_at is not None:
        return "accepted"
    if row.revoked_at is not None:
        return "withdrawn"
    return "expired" if row.expires_at <= now else "open"


def _text(value: object) -> str | None:
    return None if value is None else str(value)
