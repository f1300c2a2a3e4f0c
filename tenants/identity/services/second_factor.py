"""A second factor beside the password: six digits of an authenticator (RFC 6238), or a recovery code that works once.

No code is taken twice, and after ten wrong ones in a row there is one try in a quarter of an hour: an attacker who knows the
password alone does not come in by patience. The secret lies under the installation's key, like other secrets.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyotp
import segno
import structlog
from cryptography.fernet import InvalidToken, MultiFernet
from django.db import transaction
from django.db.models import F

from activity.services import record_audit
from kernel.actor import Actor
from kernel.errors import BerthError, Conflict, FieldError, Forbidden, InvalidInput, Unavailable
from kernel.words import Text
from tenants.identity.access import demand
from tenants.identity.models import RecoveryCode, SecondFactor, TokenKind, User
from tenants.identity.services import passwords
from tenants.identity.services.tokens import revoke_all
from tenants.identity.token_text import digest_of
from webapi.encryption import box_for

ISSUER = "Berth"
STEP_SECONDS = 30  # RFC 6238, section 4.
STEPS_AROUND = 1  # RFC 6238, section 5.2: a clock that is half a minute off, and a code typed late.
RECOVERY_CODES = 10
RECOVERY_GROUPS = 4  # Of four letters each: 80 bits, so that a plain SHA-256 is enough.
LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"  # 32 of them, none like another.
FAILURES_MAX = 10
FAILURE_PAUSE = timedelta(minutes=15)
_PURPOSE = b"berth second factor v1"

log = structlog.get_logger("tenants")


class SecondFactorRequired(BerthError):
    """Name and password are right, and the account asks for a code of its authenticator beside them."""

    code = "second_factor_required"
    status = 401
    title = Text("A code of your authenticator is needed", "需要验证器的验证码")


class BadCode(BerthError):
    """The code of the second factor is wrong, was used before, or is of another time."""

    code = "bad_code"
    status = 401
    title = Text("The code is wrong", "验证码错误")


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A new authenticator's secret; shown once, to the user who sets it up."""

    secret: str
    uri: str
    qr_svg: str


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The recovery codes, which cannot be read again, and how many sessions elsewhere ended."""

    recovery_codes: list[str]
    sessions_ended: int


@dataclass(frozen=True, slots=True)
class FactorState:
    enabled: bool
    recovery_codes_left: int


def factor_state(user_id: uuid.UUID) -> FactorState:
    """Whether a person has a second factor, and how many recovery codes are left. Two queries."""
    enabled = has_second_factor(user_id)
    left = RecoveryCode.objects.filter(user_id=user_id, used_at__isnull=True).count() if enabled else 0
    return FactorState(enabled, left)


def has_second_factor(user_id: uuid.UUID) -> bool:
    return SecondFactor.objects.filter(user_id=user_id, confirmed_at__isnull=False).exists()


def begin_second_factor(*, actor: Actor, user: User, password: str, now: datetime) -> Enrolment:
    """Make an authenticator's secret. It counts once a code of it was confirmed; until then another one replaces it."""
    _demand_own(actor, user)
    if not passwords.has_one(user):
        raise Conflict(
            Text("This account has no password.", "此账户没有密码。"),
            hint=Text("Set the second factor up where you sign in.", "请在您登录的地方设置双重验证。"),
        )
    _check_password(user, password)
    secret = pyotp.random_base32()
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(id=user.pk)
        if has_second_factor(user.pk):
            raise Conflict(
                Text("There is a second factor already.", "已设置双重验证。"), hint=Text("Remove it first.", "请先移除。")
            )
        SecondFactor.objects.filter(user=user).delete()
        sealed = _box(user.pk).encrypt(secret.encode()).decode()
        SecondFactor.objects.create(user=user, ciphertext=sealed, created_at=now)
        _audit(actor, user, "second_factor.begin", now)
    uri = pyotp.TOTP(secret).provisioning_uri(name=user.name, issuer_name=ISSUER)
    return Enrolment(secret, uri, segno.make(uri, error="m").svg_data_uri(scale=4, dark="#000", light="#fff"))


def confirm_second_factor(*, actor: Actor, user: User, code: str, now: datetime) -> Confirmed:
    """Let the authenticator count from now on. Every session but the one that asks ends: an intruder with the password alone is
    out (security T14)."""
    _demand_own(actor, user)
    with transaction.atomic():
        factor = SecondFactor.objects.select_for_update().filter(user=user).first()
        if factor is None or factor.confirmed_at is not None:
            raise Conflict(
                Text("Nothing waits for a code.", "没有等待验证码的操作。"),
                hint=Text("Begin with POST /api/v1/totp.", "请从 POST /api/v1/totp 开始。"),
            )
        step = _step_of(factor, code, now)
        if step is None:
            message = Text("The code is wrong.", "验证码错误。")
            hint = Text(
                "Type the six digits that are shown now; the clocks must agree to half a minute.",
                "请输入当前显示的六位数字；两边时钟相差不得超过半分钟。",
            )
            raise InvalidInput(message, fields=[FieldError("/code", "bad_code", message, hint)], hint=hint)
        SecondFactor.objects.filter(id=factor.pk).update(confirmed_at=now, last_step=step, failures=0)
        ended = revoke_all(user, now=now, but=actor.token_id, kinds=(TokenKind.SESSION,))
        confirmed = Confirmed(_new_recovery_codes(user, now), ended)
        _audit(actor, user, "second_factor.confirm", now, {"sessions_ended": ended})
    return confirmed


def remove_second_factor(*, actor: Actor, user: User, password: str, code: str, now: datetime) -> None:
    """Do without a second factor again: by password and a code of it."""
    _demand_own(actor, user)
    if not has_second_factor(user.pk):
        raise Conflict(Text("There is no second factor.", "没有设置双重验证。"))
    _check_password(user, password)
    demand_second_factor(user, code, now=now)
    with transaction.atomic():
        _forget(user)
        _audit(actor, user, "second_factor.delete", now)


def reset_second_factor(*, actor: Actor, user: User, now: datetime) -> None:
    """Take a second factor away from a user who lost it, as an operator. Of no effect on a user without one."""
    demand(actor, None, "user.edit")
    with transaction.atomic():
        _forget(user)
        _audit(actor, user, "second_factor.reset", now)


def demand_second_factor(user: User, code: str | None, *, now: datetime) -> None:
    """Take a code, or a recovery code, where the person has a second factor; else nothing is asked. Outside any transaction that
    is rolled back by the refusal: a wrong code is counted."""
    factor = SecondFactor.objects.filter(user=user, confirmed_at__isnull=False).first()
    if factor is None:
        return
    if not code:
        raise SecondFactorRequired(
            Text("This account asks for a code of its authenticator.", "此账户需要验证器的验证码。"),
            hint=Text("Send all again with `code`.", "请附上 `code` 重新发送。"),
        )
    if factor.failures >= FAILURES_MAX and factor.failed_at is not None and now - factor.failed_at < FAILURE_PAUSE:
        wait = int((factor.failed_at + FAILURE_PAUSE - now).total_seconds()) + 1
        raise BadCode(
            Text("There were too many wrong codes.", "错误的验证码过多。"),
            hint=Text(
                "Wait a quarter of an hour; an operator can take the second factor away.",
                "请等待一刻钟；运维人员可以移除双重验证。",
            ),
            retry_after_seconds=wait,
        )
    if _take_step(factor, code, now) or _take_recovery_code(user, code, now):
        SecondFactor.objects.filter(id=factor.pk, failures__gt=0).update(failures=0)
        return
    SecondFactor.objects.filter(id=factor.pk).update(failures=F("failures") + 1, failed_at=now)
    log.info("second_factor_refused", user_id=str(user.pk))
    raise BadCode(
        Text("The code is wrong, or was used before.", "验证码错误，或已使用过。"),
        hint=Text("Type the six digits that are shown now, or a recovery code.", "请输入当前显示的六位数字，或恢复码。"),
    )


def rotate_second_factors() -> int:
    """Encrypt all secrets anew under the present key; returns how many. May be repeated."""
    with transaction.atomic():
        rows = list(SecondFactor.objects.select_for_update().order_by("id"))
        for factor in rows:  # As many as people: a rare command.
            factor.ciphertext = _box(factor.user_id).rotate(factor.ciphertext.encode()).decode()
            factor.save(update_fields=["ciphertext"])
    return len(rows)


def _demand_own(actor: Actor, user: User) -> None:
    demand(actor, None, "user.edit_self")
    if user.pk != actor.user_id:
        raise Forbidden(Text("Only users themselves change their second factor.", "只有用户本人可以修改双重验证。"))


def _check_password(user: User, password: str) -> None:
    if not passwords.belongs_to(user, password):
        message = Text("The password is wrong.", "密码错误。")
        raise InvalidInput(message, fields=[FieldError("/password", "wrong_password", message)])


def _take_step(factor: SecondFactor, code: str, now: datetime) -> bool:
    """Take six digits; the guarded update lets one of two callers with the same code in."""
    step = _step_of(factor, code, now)
    if step is None:
        return False
    return bool(SecondFactor.objects.filter(id=factor.pk, last_step__lt=step).update(last_step=step))


def _step_of(factor: SecondFactor, code: str, now: datetime) -> int | None:
    """The half minute whose code this is; None for a wrong code."""
    digits = code.replace(" ", "")
    if len(digits) != 6 or not (digits.isascii() and digits.isdecimal()):
        return None
    try:
        secret = _box(factor.user_id).decrypt(factor.ciphertext.encode()).decode()
    except InvalidToken:
        raise Unavailable(
            Text("The second factor does not open with this installation's key.", "双重验证的密钥无法用本系统的密钥解开。"),
            hint=Text(
                "Ask an operator to put the former key into secret.key.previous, or to take the second factor away.",
                "请运维人员将旧密钥放入 secret.key.previous，或移除双重验证。",
            ),
        ) from None
    now_step = int(now.timestamp()) // STEP_SECONDS
    totp = pyotp.TOTP(secret, interval=STEP_SECONDS)
    steps = range(now_step - STEPS_AROUND, now_step + STEPS_AROUND + 1)
    found = [step for step in steps if secrets.compare_digest(totp.at(step * STEP_SECONDS), digits)]
    return found[-1] if found else None


def _take_recovery_code(user: User, code: str, now: datetime) -> bool:
    digest = _recovery_digest(user.pk, code)
    return bool(RecoveryCode.objects.filter(user=user, digest=digest, used_at__isnull=True).update(used_at=now))


def _new_recovery_codes(user: User, now: datetime) -> list[str]:
    codes = [
        "-".join("".join(secrets.choice(LETTERS) for _ in range(4)) for _ in range(RECOVERY_GROUPS))
        for _ in range(RECOVERY_CODES)
    ]
    RecoveryCode.objects.filter(user=user).delete()
    RecoveryCode.objects.bulk_create(
        RecoveryCode(user=user, digest=_recovery_digest(user.pk, code), created_at=now) for code in codes
    )
    return codes


def _recovery_digest(user_id: uuid.UUID, code: str) -> str:
    return digest_of(f"{user_id}:{''.join(sign for sign in code.lower() if sign.isalnum())}")


def _forget(user: User) -> None:
    SecondFactor.objects.filter(user=user).delete()
    RecoveryCode.objects.filter(user=user).delete()


def _audit(actor: Actor, user: User, verb: str, now: datetime, after: Mapping[str, Any] | None = None) -> None:
    record_audit(
        actor=actor, verb=verb, tenant_id=None, target_kind="user", target_id=user.pk, target_name=user.name, after=after, at=now
    )  # fmt: skip


def _box(user_id: uuid.UUID) -> MultiFernet:
    return box_for(_PURPOSE + user_id.bytes)
