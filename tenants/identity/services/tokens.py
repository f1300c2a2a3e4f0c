"""Personal access tokens: shown once, kept as a digest, limited in scope and time. Sessions of browsers are such rows too."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from activity.services import NewEvent, record_audit, record_events
from activity.sessions import recheck
from kernel.actor import Actor
from kernel.errors import Forbidden, QuotaExceeded
from kernel.words import Text
from tenants.identity.access import demand, is_system, right_to_token
from tenants.identity.models import DeviceCode, Token, TokenKind, User
from tenants.identity.permissions import Scope, effective_scopes
from tenants.identity.services.names import Problems
from tenants.identity.token_text import PREFIX_LENGTH, SCHEMES, digest_of

SECRET_BYTES = 32
DAYS_DEFAULT = 90
DAYS_MAX = 365
NAME_LENGTH = 100
TOKENS_PER_USER = 200


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token with its secret text, which cannot be read again."""

    token: Token
    text: str


def create_token(
    *,
    actor: Actor,
    user: User,
    name: str,
    scopes: Sequence[str] = (Scope.ALL,),
    expires_at: datetime | None = None,
    now: datetime,
) -> IssuedToken:
    """Make a token for oneself, or for a service account that one manages. Its scopes are at most those of the actor.

    `expires_at` None: in 90 days. At most a year ahead.
    """
    if user.pk == actor.user_id:
        demand(actor, None, "token.create")
    elif user.tenant_id is None:
        raise Forbidden(
            Text("Tokens are made by their user alone.", "令牌只能由用户本人创建。"),
            hint=Text("Ask them to run `berth tokens create`.", "请该用户运行 `berth tokens create`。"),
        )
    else:
        demand(actor, user.tenant_id, "service_account.edit")
    lifetime = timedelta(days=DAYS_DEFAULT) if expires_at is None else expires_at - now
    _check(actor, name, scopes, lifetime)
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(id=user.pk)
        live = Token.objects.filter(user=user, kind=TokenKind.PERSONAL, revoked_at__isnull=True, expires_at__gt=now)
        if live.count() >= TOKENS_PER_USER:
            raise QuotaExceeded(
                Text(f"{user.name} has {TOKENS_PER_USER} tokens.", f"{user.name} 已有 {TOKENS_PER_USER} 个令牌。"),
                hint=Text("Revoke those that are no longer used.", "请吊销不再使用的令牌。"),
            )
        issued = issue(user, name=name, scopes=scopes, lifetime=lifetime, now=now)
        record_audit(
            actor=actor,
            verb="token.create",
            tenant_id=user.tenant_id,
            target_kind="token",
            target_id=issued.token.pk,
            target_name=name,
            after={
                "user": user.name,
                "prefix": issued.token.prefix,
                "scopes": issued.token.scopes,
                "expires_at": issued.token.expires_at,
            },
            at=now,
        )
    return issued


def issue(
    user: User,
    *,
    name: str,
    scopes: Iterable[str],
    lifetime: timedelta,
    now: datetime,
    kind: TokenKind = TokenKind.PERSONAL,
    agent: str = "",
    address: str = "",
) -> IssuedToken:
    """Write a token's row without asking for permission: for this app's own services, inside their transaction."""
    prefix = secrets.token_hex(PREFIX_LENGTH // 2)
    text = f"{SCHEMES[kind]}_{prefix}_{secrets.token_urlsafe(SECRET_BYTES)}"
    token = Token.objects.create(
        user=user,
        kind=kind,
        agent=agent,
        address=address,
        name=name,
        prefix=prefix,
        digest=digest_of(text),
        scopes=sorted({str(scope) for scope in scopes}),
        created_at=now,
        expires_at=now + lifetime,
        last_used_at=now if kind is TokenKind.SESSION else None,
    )
    return IssuedToken(token, text)


def revoke_token(*, actor: Actor, token: Token, now: datetime) -> bool:
    """End a token at once; False if it was revoked before. Live connections made with it are closed."""
    demand(actor, *right_to_token(actor, token, "token.delete"))
    with transaction.atomic():
        if not Token.objects.filter(id=token.pk, revoked_at__isnull=True).update(revoked_at=now):
            return False
        tell_revoked([token], now=now)
        record_audit(
            actor=actor,
            verb="token.delete",
            tenant_id=token.user.tenant_id,
            target_kind="token",
            target_id=token.pk,
            target_name=token.name,
            before={"user": token.user.name, "prefix": token.prefix},
            at=now,
        )
    return True


def revoke_all(
    user: User, *, now: datetime, but: uuid.UUID | None = None, kinds: Collection[TokenKind] = tuple(TokenKind)
) -> int:
    """End every token and session of a user, all but one if given, and return how many; inside the caller's transaction, who also
    audits."""
    rows = Token.objects.filter(user=user, revoked_at__isnull=True, kind__in=kinds)
    if but is not None:
        rows = rows.exclude(id=but)
    live = list(rows)
    rows.update(revoked_at=now)
    DeviceCode.objects.filter(user=user, redeemed_at__isnull=True).update(is_approved=False)  # No token comes after this.
    tell_revoked(live, now=now)
    return len(live)


def tell_revoked(tokens: Sequence[Token], *, now: datetime) -> None:
    """Let live connections of these tokens be closed."""
    recheck()
    record_events(
        [
            NewEvent(
                kind="token.revoked",
                tenant_id=None,
                subject_kind="token",
                subject_id=token.pk,
                data={"user_id": token.user_id, "prefix": token.prefix},
                at=now,
            )
            for token in tokens
        ]
    )


def _check(actor: Actor, name: str, scopes: Sequence[str], lifetime: timedelta) -> None:
    problems = Problems()
    if not 1 <= len(name.strip()) <= NAME_LENGTH or not name.isprintable():
        problems.add(
            "/name",
            "bad_name",
            Text(f"A token's name has 1 to {NAME_LENGTH} printable characters.", f"令牌名应有 1 到 {NAME_LENGTH} 个可打印字符。"),
        )
    if not timedelta() < lifetime <= timedelta(days=DAYS_MAX):
        problems.add(
            "/expires_at",
            "out_of_range",
            Text(
                f"A token ends in the future, at most {DAYS_MAX} days ahead.", f"令牌的失效时间应在将来，最多 {DAYS_MAX} 天后。"
            ),
        )
    if not scopes:
        problems.add(
            "/scopes",
            "empty",
            Text(f"A token needs a scope. Scopes are {', '.join(Scope)}.", f"令牌需要权限范围。可用范围：{', '.join(Scope)}。"),
        )
    for index, scope in enumerate(scopes):
        if scope not in set(Scope):
            problems.add(
                f"/scopes/{index}",
                "unknown_scope",
                Text(
                    f"{scope[:40]!r} is no scope. Scopes are {', '.join(Scope)}.",
                    f"{scope[:40]!r} 不是权限范围。可用范围：{', '.join(Scope)}。",
                ),
            )
        elif not is_system(actor) and not _holds(actor, scope):
            problems.add(
                f"/scopes/{index}",
                "beyond_own",
                Text(f"The token that you use does not have the scope {scope}.", f"您使用的令牌没有权限范围 {scope}。"),
            )
    problems.raise_if_any()


def _holds(actor: Actor, scope: str) -> bool:
    wanted = effective_scopes([scope])
    return actor.scopes is None or (wanted is not None and wanted <= actor.scopes)
