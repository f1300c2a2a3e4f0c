"""Letting a command line in by a browser that is signed in (RFC 8628): the one shows a short code, the other approves it.

The command line holds a long secret and asks whether it was approved; the short code only finds the row, and is worth nothing
without a session. The token is made when it is fetched: until then there is none that could leak.
"""

from __future__ import annotations

import secrets
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from activity.services import record_audit
from kernel.actor import Actor
from kernel.errors import BerthError, Conflict, NotFound, TooManyRequests
from kernel.words import Text
from tenants.identity.access import actor_for, demand
from tenants.identity.models import DeviceCode, Token, User
from tenants.identity.permissions import Scope
from tenants.identity.services.tokens import DAYS_DEFAULT, NAME_LENGTH, TOKENS_PER_USER, IssuedToken, issue
from tenants.identity.token_text import digest_of
from webapi.addresses import network_of
from webapi.throttles import Charge, take_all

LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # RFC 8628, section 6.1: no vowels, so no words.
USER_CODE_LENGTH = 8
LIFETIME = timedelta(minutes=10)
INTERVAL_SECONDS = 5  # RFC 8628, section 3.5.
INTERVAL_SECONDS_MAX = 60
OPEN_MAX = 5_000  # Of the installation: strangers make rows here, which end by themselves.
CODES_PER_MINUTE = 10  # Of one address.
LOOKS_PER_MINUTE = 20  # Of one user: a code is copied, not guessed.
KEPT = timedelta(days=1)  # So long a code that is over is still told from one that never was.


class AuthorizationPending(BerthError):
    """The code is neither approved nor denied yet; ask again after `interval` seconds."""

    code = "authorization_pending"
    status = 400
    title = Text("The approval is pending", "尚未有人批准")
    retryable = True


class SlowDown(BerthError):
    """The command line polls too often; its interval is five seconds longer from now on."""

    code = "slow_down"
    status = 400
    title = Text("Asked too often", "请求过于频繁")
    retryable = True


class ExpiredCode(BerthError):
    """The code has expired, was used, or never existed."""

    code = "expired_code"
    status = 400
    title = Text("The code is no longer valid", "代码已失效")


class AccessDenied(BerthError):
    """The user denied the code."""

    code = "access_denied"
    status = 403
    title = Text("The sign-in was denied", "登录请求被拒绝")


@dataclass(frozen=True, slots=True)
class NewDeviceCode:
    """A code with its secret text, which cannot be read again."""

    row: DeviceCode
    text: str

    @property
    def shown(self) -> str:
        return shown_code(self.row.user_code)


def shown_code(user_code: str) -> str:
    """As people read it: two groups of four."""
    return f"{user_code[:4]}-{user_code[4:]}"


def make_device_code(*, client: str, address: str, now: datetime) -> NewDeviceCode:
    """Let a command line ask for approval. TooManyRequests from an address, or altogether."""
    [wait] = take_all([Charge(f"device-code:{network_of(address)}", CODES_PER_MINUTE)])
    if wait or DeviceCode.objects.filter(expires_at__gt=now, decided_at__isnull=True).count() >= OPEN_MAX:
        raise TooManyRequests(
            Text("Too many sign-ins wait for approval.", "等待批准的登录过多。"),
            hint=Text("Wait a minute and try again.", "请等待一分钟后重试。"),
            retry_after_seconds=int(wait) + 1,
        )
    text = secrets.token_urlsafe(32)
    for _ in range(5):
        user_code = "".join(secrets.choice(LETTERS) for _ in range(USER_CODE_LENGTH))
        try:
            with transaction.atomic():
                row = DeviceCode.objects.create(
                    digest=digest_of(text),
                    user_code=user_code,
                    client=client,
                    address=address,
                    interval_seconds=INTERVAL_SECONDS,
                    created_at=now,
                    expires_at=now + LIFETIME,
                )
        except IntegrityError:  # Drawn before: once in millions.
            continue
        return NewDeviceCode(row, text)
    raise TooManyRequests(
        Text("No code could be drawn.", "未能生成代码。"), hint=Text("Try again.", "请重试。"), retry_after_seconds=1
    )


def find_device_code(*, actor: Actor, text: str, now: datetime) -> DeviceCode:
    """The command line that waits under a short code. NotFound also for those that are over; a few looks a minute."""
    demand(actor, None, "token.read")
    [wait] = take_all([Charge(f"device-code-user:{actor.user_id}", LOOKS_PER_MINUTE)])
    if wait:
        raise TooManyRequests(
            Text("You looked at too many codes.", "您查看的代码过多。"),
            hint=Text("Wait a minute.", "请等待一分钟。"),
            retry_after_seconds=int(wait) + 1,
        )
    code = "".join(sign for sign in text.upper() if sign.isalnum())
    row = DeviceCode.objects.filter(user_code=code, expires_at__gt=now, decided_at__isnull=True).first() if code else None
    if row is None:
        raise NotFound(
            Text("There is no such code, or it is over.", "没有这个代码，或已失效。"),
            hint=Text("Run `berth login` again and copy its code.", "请重新运行 `berth login` 并复制其代码。"),
        )
    return row


def decide_device_code(*, actor: Actor, code: DeviceCode, approve: bool, now: datetime) -> None:
    """Let a command line in with the rights of the actor, or turn it away. Conflict if another decision was faster."""
    demand(actor, None, "token.create")
    with transaction.atomic():
        rows = DeviceCode.objects.filter(id=code.pk, decided_at__isnull=True, expires_at__gt=now)
        if not rows.update(decided_at=now, is_approved=approve, user_id=actor.user_id):
            raise Conflict(
                Text("This code was decided already.", "此代码已被处理。"),
                hint=Text("Run `berth login` again.", "请重新运行 `berth login`。"),
            )
        record_audit(
            actor=actor,
            verb="device_code.approve" if approve else "device_code.deny",
            tenant_id=None,
            target_kind="device_code",
            target_id=code.pk,
            target_name=code.client,
            after={"address": code.address},
            at=now,
        )


def redeem_device_code(*, text: str, request_id: str, now: datetime) -> tuple[User, IssuedToken]:
    """The token of an approved code, once. AuthorizationPending, SlowDown, AccessDenied or ExpiredCode."""
    row = DeviceCode.objects.select_related("user").filter(digest=digest_of(text)).first()
    if row is None or row.redeemed_at is not None or row.expires_at <= now:
        raise ExpiredCode(
            Text("This code is over.", "此代码已失效。"), hint=Text("Run `berth login` again.", "请重新运行 `berth login`。")
        )
    if row.decided_at is None:
        _count_poll(row, now)
        raise AuthorizationPending(
            Text("The approval is pending.", "尚未批准。"),
            hint=Text("Open the address, and check the code there.", "请打开该地址并核对代码。"),
        )
    if not row.is_approved or row.user is None or not row.user.is_active:
        raise AccessDenied(
            Text("This sign-in was denied.", "此次登录被拒绝。"),
            hint=Text("Run `berth login` again if you wanted it.", "如确需登录，请重新运行 `berth login`。"),
        )
    return row.user, _issue(row, row.user, request_id, now)


def forget_device_codes(now: datetime) -> int:
    """Delete codes that were over a day ago; returns how many. A part of the sweep."""
    return DeviceCode.objects.filter(expires_at__lt=now - KEPT).delete()[0]


def _count_poll(row: DeviceCode, now: datetime) -> None:
    is_early = row.polled_at is not None and now - row.polled_at < timedelta(seconds=row.interval_seconds - 1)
    interval = min(row.interval_seconds + 5, INTERVAL_SECONDS_MAX) if is_early else row.interval_seconds
    DeviceCode.objects.filter(id=row.pk).update(polled_at=now, interval_seconds=interval)
    if is_early:
        raise SlowDown(
            Text("This was asked too soon.", "请求过早。"),
            hint=Text(f"Wait {interval} seconds.", f"请等待 {interval} 秒。"),
            retry_after_seconds=interval,
        )


def _issue(row: DeviceCode, user: User, request_id: str, now: datetime) -> IssuedToken:
    with transaction.atomic():
        # The user's row first, as at the end of all tokens: a code that is revoked while we look is revoked.
        locked = User.objects.select_for_update(no_key=True).get(id=user.pk)
        if not DeviceCode.objects.filter(id=row.pk, is_approved=True, redeemed_at__isnull=True).update(redeemed_at=now):
            raise ExpiredCode(
                Text("This code was used, or taken back.", "此代码已使用或已撤回。"),
                hint=Text("Run `berth login` again.", "请重新运行 `berth login`。"),
            )
        if not locked.is_active:
            raise AccessDenied(
                Text("This account is disabled.", "此账户已停用。"),
                hint=Text("Ask an operator to enable it.", "请联系运维人员启用。"),
            )
        if _live_tokens(user.pk, now) >= TOKENS_PER_USER:
            raise Conflict(
                Text(f"{user.name} has {TOKENS_PER_USER} tokens.", f"{user.name} 已有 {TOKENS_PER_USER} 个令牌。"),
                hint=Text("Revoke those that are no longer used.", "请吊销不再使用的令牌。"),
            )
        name = f"berth login: {row.client}"[:NAME_LENGTH]
        issued = issue(user, name=name, scopes=[Scope.ALL], lifetime=timedelta(days=DAYS_DEFAULT), now=now)
        record_audit(
            actor=actor_for(user, issued.token, request_id=request_id),
            verb="token.create",
            tenant_id=None,
            target_kind="token",
            target_id=issued.token.pk,
            target_name=name,
            after={"user": user.name, "prefix": issued.token.prefix, "by": "device code", "expires_at": issued.token.expires_at},
            at=now,
        )
    return issued


def _live_tokens(user_id: uuid.UUID, now: datetime) -> int:
    return Token.objects.filter(user_id=user_id, kind="personal", revoked_at__isnull=True, expires_at__gt=now).count()
