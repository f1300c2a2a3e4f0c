"""From a token's text to an actor, and from an actor to the actor that it is now. Everything that authenticates asks here.

One small query a request: whether anything changed since this process last looked (`webapi.facts`). A revoked token, a disabled
user and a changed role act on the next request.
"""

from __future__ import annotations

import hmac
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q
from django.db.models.functions import Now

from activity.registry import Recipient
from kernel.actor import Actor, TenantRole
from kernel.config import current
from kernel.errors import NotAuthenticated
from kernel.facts import Facts
from kernel.words import Text
from tenants.identity.access import actor_for, roles_of_many
from tenants.identity.models import Token, TokenKind, User
from tenants.identity.permissions import effective_scopes
from tenants.identity.token_text import digest_of, prefix_of
from webapi.asgi_auth import session_text
from webapi.facts import look

LAST_USED_EVERY = timedelta(minutes=1)  # A token's last use is known to the minute; not a write per request.
_NO_DIGEST = digest_of("")


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose token it is, and what else holds at the moment of asking."""

    user: User
    actor: Actor
    facts: Facts


def authenticate_token(text: str) -> Actor:
    """The actor of a bearer token; NotAuthenticated for one that is unknown, expired, revoked, or of a disabled user."""
    return authenticate(text).actor


def authenticate_session(text: str) -> Actor:
    """The actor of a browser's session; NotAuthenticated for one that is unknown, over, ended, or of a disabled user."""
    return authenticate(text, TokenKind.SESSION).actor


def user_of_cookies(cookies: str | None) -> User | None:
    """Whose session a Cookie header holds; None where it holds none that counts."""
    text = session_text(cookies)
    try:
        return authenticate(text, TokenKind.SESSION).user if text else None
    except NotAuthenticated:
        return None


def authenticate(text: str, kind: TokenKind = TokenKind.PERSONAL) -> Identity:
    """The same for a credential of either kind, with the user's row, which no caller may change. Takes as long for an unknown
    token as for a wrong one."""
    facts = look()
    prefix = prefix_of(text, kind)
    found = _remembered_token(facts, prefix)
    token = found[0] if found else None
    if not hmac.compare_digest(token.digest if token else _NO_DIGEST, digest_of(text)) or found is None or token is None:
        raise NotAuthenticated(
            Text("This token is not known.", "无此令牌。"),
            hint=Text("Run `berth login` with a token that you copied completely.", "请用完整复制的令牌运行 `berth login`。"),
        )
    if token.kind != kind:
        raise NotAuthenticated(
            Text("This is another kind of credential.", "凭据类型不符。"),
            hint=Text("Sessions are cookies, tokens are headers.", "会话使用 cookie，令牌使用请求头。"),
        )
    if token.revoked_at is not None:
        raise NotAuthenticated(
            Text("This token was revoked.", "此令牌已吊销。"),
            hint=Text(
                "Make a new one with `berth tokens create`, or ask who revoked it.",
                "请用 `berth tokens create` 创建新令牌，或询问吊销者。",
            ),
        )
    if token.expires_at <= facts.at:
        raise NotAuthenticated(
            Text("This token has expired.", "此令牌已过期。"),
            hint=Text("Make a new one and run `berth login`.", "请创建新令牌并运行 `berth login`。"),
        )
    if not token.user.is_active:
        raise NotAuthenticated(
            Text("This account is disabled.", "此账户已停用。"),
            hint=Text("Ask an operator to enable it.", "请联系运维人员启用。"),
        )
    if kind is TokenKind.SESSION and _is_idle(token, facts.at):
        raise NotAuthenticated(
            Text("This session was not used for too long.", "会话因长时间未使用而失效。"),
            hint=Text("Sign in again.", "请重新登录。"),
        )
    _note_use(token, facts.at)
    return Identity(token.user, found[1], facts)


def _remembered_token(facts: Facts, prefix: str | None) -> tuple[Token, Actor] | None:
    return facts.find(("token", prefix), lambda: _load(prefix))


def _load(prefix: str | None) -> tuple[Token, Actor] | None:
    """A token's row with its user's, and the actor that they make. Two queries."""
    token = Token.objects.select_related("user").filter(prefix=prefix).first() if prefix else None
    return None if token is None else (token, actor_for(token.user, token))


def refresh_actors(actors: Sequence[Actor]) -> Sequence[Actor | None]:
    """The actors of long connections as they are now, None where the credential no longer counts. Three queries for all."""
    users = {user.pk: user for user in User.objects.filter(id__in={actor.user_id for actor in actors}, is_active=True)}
    used_since = Now() - timedelta(hours=current().session_idle_hours)
    good = Token.objects.filter(
        Q(kind=TokenKind.PERSONAL) | Q(last_used_at__gt=used_since),
        Q(revoked_at__isnull=True, expires_at__gt=Now()),
        id__in={actor.token_id for actor in actors if actor.token_id},
    )
    tokens = {token.pk: token for token in good}
    roles = roles_of_many(users)
    return [_refreshed(actor, users, tokens, roles) for actor in actors]


def recipients(user_ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, Recipient]:
    """Active users as notifications need them: name, address, what they may see now, and their language. Two queries."""
    users = {user.pk: user for user in User.objects.filter(id__in=set(user_ids), is_active=True).select_related("preference")}
    roles = roles_of_many(users)
    return {
        user_id: Recipient(
            user_id=user_id,
            name=user.name,
            email=user.address,
            actor=Actor(user_id=user_id, name=user.name, is_operator=user.is_operator, roles=roles.get(user_id, {})),
            language=getattr(getattr(user, "preference", None), "language", "")
            or "en",  # Empty: as the browser says; here is none.
        )
        for user_id, user in users.items()
    }


def _refreshed(
    actor: Actor,
    users: Mapping[uuid.UUID, User],
    tokens: Mapping[uuid.UUID, Token],
    roles: Mapping[uuid.UUID, dict[uuid.UUID, TenantRole]],
) -> Actor | None:
    user = users.get(actor.user_id) if actor.user_id else None
    token = tokens.get(actor.token_id) if actor.token_id else None
    if user is None or (actor.token_id is not None and token is None):
        return None
    return Actor(
        user_id=user.pk,
        name=user.name,
        is_operator=user.is_operator,
        roles=roles.get(user.pk, {}),
        scopes=actor.scopes if token is None else effective_scopes(token.scopes),
        token_id=actor.token_id,
        request_id=actor.request_id,
    )


def _is_idle(session: Token, now: datetime) -> bool:
    """Whether a session was unused for too long. Its use in another process is asked for only where it would decide."""
    since = now - timedelta(hours=current().session_idle_hours)
    if session.last_used_at is not None and session.last_used_at > since:
        return False
    last = Token.objects.filter(id=session.pk).values_list("last_used_at", flat=True).first()
    if last is None or last <= since:
        return True
    session.last_used_at = last  # As in `_note_use`.
    return False


def _note_use(token: Token, now: datetime) -> None:
    if token.last_used_at is not None and now - token.last_used_at < LAST_USED_EVERY:
        return
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now - LAST_USED_EVERY)
    Token.objects.filter(stale, id=token.pk).update(last_used_at=now)
    token.last_used_at = now  # The row is remembered; its last use leaves no mark.
