"""One-time tickets: how a browser opens a WebSocket, where it can send no header. Never a token in a URL.

A ticket works once, for 30 seconds, and carries no more than the actor had who asked for it. Only its digest is stored.
"""

from __future__ import annotations

import hashlib
import secrets
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from activity import registry
from activity.models import Ticket
from kernel.actor import Actor, TenantRole
from kernel.errors import NotAuthenticated, TooManyRequests
from kernel.words import Text

PREFIX = "bt_"
LIFETIME = timedelta(seconds=30)
OPEN_PER_USER_MAX = 100  # A page opens one or two; a loop that asks for more is a mistake.
LENGTH_MAX = 100


@dataclass(frozen=True, slots=True)
class IssuedTicket:
    """The ticket's text, which cannot be read again, and when it ends."""

    text: str
    expires_at: datetime


def issue_ticket(*, actor: Actor, now: datetime) -> IssuedTicket:
    """Make a ticket for the actor."""
    if actor.user_id is None:
        raise NotAuthenticated(Text("Sign in first: only a signed-in user gets a ticket.", "登录后才能获得票据。"))
    text = PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        mine = Ticket.objects.filter(user_id=actor.user_id)
        mine.filter(expires_at__lte=now).delete()
        if mine.count() >= OPEN_PER_USER_MAX:
            raise TooManyRequests(
                Text(f"{OPEN_PER_USER_MAX} tickets are open.", f"已有 {OPEN_PER_USER_MAX} 张未使用的票据。"),
                hint=Text("Use a ticket, or let it expire.", "请使用其中一张，或等待其过期。"),
                retry_after_seconds=30,
            )
        Ticket.objects.create(
            digest=_digest(text), user_id=actor.user_id, actor=_as_json(actor), created_at=now, expires_at=now + LIFETIME
        )
    return IssuedTicket(text, now + LIFETIME)


def redeem_ticket(text: str, *, now: datetime) -> Actor:
    """The actor of a ticket, as it is now; the ticket is used up. NotAuthenticated when it does not work (any more)."""
    if text.startswith(PREFIX) and len(text) <= LENGTH_MAX:
        ticket = Ticket.objects.filter(digest=_digest(text), expires_at__gt=now).first()
        # Of two who bring the same ticket, the one whose DELETE finds the row gets in.
        if ticket is not None and Ticket.objects.filter(digest=ticket.digest).delete()[0] == 1:
            actor = registry.refreshed([_from_json(ticket.actor)])[0]
            if actor is not None:
                return actor
    raise NotAuthenticated(
        Text("The ticket does not exist, is used, or older than 30 seconds.", "票据不存在、已使用，或已超过 30 秒。"),
        hint=Text("Ask for a new one.", "请重新获取一张。"),
    )


def delete_expired(now: datetime) -> int:
    """Forget tickets that were not used."""
    return Ticket.objects.filter(expires_at__lte=now).delete()[0]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _as_json(actor: Actor) -> dict[str, Any]:
    return {
        "user_id": str(actor.user_id),
        "name": actor.name,
        "is_operator": actor.is_operator,
        "roles": {str(tenant_id): str(role) for tenant_id, role in actor.roles.items()},
        "scopes": None if actor.scopes is None else sorted(actor.scopes),
        "token_id": None if actor.token_id is None else str(actor.token_id),
    }


def _from_json(stored: dict[str, Any]) -> Actor:
    return Actor(
        user_id=uuid.UUID(stored["user_id"]),
        name=stored["name"],
        is_operator=stored["is_operator"],
        roles={uuid.UUID(tenant_id): TenantRole(role) for tenant_id, role in stored["roles"].items()},
        scopes=None if stored["scopes"] is None else frozenset(stored["scopes"]),
        token_id=None if stored["token_id"] is None else uuid.UUID(stored["token_id"]),
    )
