"""Accounts of tenants at registries: sealed like secrets, used for checks and pulls of the tenant's own images alone.

Each password is encrypted under a key derived from the installation's secret key, the tenant and the registry: a row that is
copied to another tenant cannot be opened.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime

import structlog
from cryptography.fernet import InvalidToken, MultiFernet
from django.db import transaction
from django.db.models import Q

from activity.services import record_audit
from clusters.registries import references
from clusters.registries.errors import RegistryError
from clusters.registries.rules import Account, rules_of
from images.errors import failure_of
from images.models import RegistryAccount
from kernel.actor import Actor
from kernel.config import current
from kernel.errors import FieldError, InvalidInput, NotFound, QuotaExceeded, Unavailable
from kernel.words import Text
from reconciling import bulk
from tenants.identity.access import demand
from webapi.encryption import box_for

ACCOUNTS_PER_TENANT = 100
USERNAME_LENGTH = 255
PASSWORD_LENGTH = 8_192  # Cloud registries hand out tokens of some kilobytes.
_PURPOSE = b"berth registry account v1"

log = structlog.get_logger("images")


def set_account(
    *, actor: Actor, tenant_id: uuid.UUID, host: str, username: str, password: str, now: datetime
) -> tuple[RegistryAccount, bool]:
    """Store the tenant's account at a registry, in place of the one there; also whether it is new.

    The password goes into no answer, event, audit row or log. Raises InvalidInput and QuotaExceeded.
    """
    demand(actor, tenant_id, "registry.edit")
    host = host.lower()
    _check(host, username, password)
    with transaction.atomic():
        values = {"username": username, "ciphertext": _seal(tenant_id, host, password), "updated_at": now}
        is_new = not RegistryAccount.objects.filter(tenant_id=tenant_id, host=host).update(**values)
        if is_new:
            if RegistryAccount.objects.filter(tenant_id=tenant_id).count() >= ACCOUNTS_PER_TENANT:
                raise QuotaExceeded(
                    Text(
                        f"A tenant has at most {ACCOUNTS_PER_TENANT} accounts.", f"一个租户最多有 {ACCOUNTS_PER_TENANT} 个账户。"
                    ),
                    hint=Text("Delete those not used.", "请删除不用的账户。"),
                )
            RegistryAccount.objects.update_or_create(
                tenant_id=tenant_id, host=host, defaults=values, create_defaults={**values, "created_at": now}
            )
        account = RegistryAccount.objects.get(tenant_id=tenant_id, host=host)
        record_audit(
            actor=actor,
            verb="registry.edit",
            tenant_id=tenant_id,
            target_kind="registry",
            target_id=account.id,
            target_name=host,
            after={"username": username, "created": is_new},
            at=now,
        )
    return account, is_new


def delete_account(*, actor: Actor, tenant_id: uuid.UUID, host: str, now: datetime) -> None:
    """Forget an account. Jobs that run go on; a later start of a private image is refused. NotFound if there is none."""
    demand(actor, tenant_id, "registry.delete")
    with transaction.atomic():
        deleted, _ = RegistryAccount.objects.filter(tenant_id=tenant_id, host=host.lower()).delete()
        if not deleted:
            raise _no_account(host)
        record_audit(
            actor=actor,
            verb="registry.delete",
            tenant_id=tenant_id,
            target_kind="registry",
            target_id=host.lower()[: references.HOST_LENGTH],
            target_name=host.lower()[: references.HOST_LENGTH],
            at=now,
        )


def get_account(*, actor: Actor, tenant_id: uuid.UUID, host: str) -> RegistryAccount:
    """One account of a tenant, for who may see it. NotFound if there is none."""
    demand(actor, tenant_id, "registry.read")
    found = RegistryAccount.objects.filter(tenant_id=tenant_id, host=host.lower()).first()
    if found is None:
        raise _no_account(host)
    return found


def accounts_at(wanted: Iterable[tuple[uuid.UUID, str]]) -> Mapping[tuple[uuid.UUID, str], Account]:
    """Accounts of tenants at registries, opened, for pulls of their own images and nothing else. One query.

    One that the installation's key does not open is left out: its tenant's images are refused, and those of others start.
    """
    found = {}
    for row in _rows(wanted):
        try:
            found[row.tenant_id, row.host] = _open(row)
        except Unavailable as error:
            log.warning("registry_account_sealed", tenant_id=str(row.tenant_id), host=row.host, error=error.detail)
    return found


def account_at(tenant_id: uuid.UUID, host: str) -> Account | None:
    """The same for one; Unavailable if the installation's key does not open it."""
    return next((_open(row) for row in _rows([(tenant_id, host)])), None)


def account_marks(tenant_id: uuid.UUID, host: str) -> tuple[object, ...]:
    """What changes whenever the tenant's account at a registry does. One query."""
    rows = RegistryAccount.objects.filter(tenant_id=tenant_id, host=host.lower())
    return tuple(rows.values_list("id", "updated_at", "ciphertext"))


def delete_accounts_of(*, tenant_id: uuid.UUID) -> int:
    """Forget all accounts of a tenant, in the transaction of who deletes the tenant, whose audit row tells it."""
    return RegistryAccount.objects.filter(tenant_id=tenant_id).delete()[0]


def rotate_accounts() -> int:
    """Encrypt every password anew under the present key; returns how many. May be repeated. For the operator's command."""
    with transaction.atomic():
        rows = list(RegistryAccount.objects.select_for_update().order_by("id"))
        bulk.update(
            RegistryAccount,
            [
                {"id": row.id, "ciphertext": _box(row.tenant_id, row.host).rotate(row.ciphertext.encode()).decode()}
                for row in rows
            ],
        )
    return len(rows)


def _rows(wanted: Iterable[tuple[uuid.UUID, str]]) -> list[RegistryAccount]:
    pairs = frozenset(wanted)
    condition = Q()
    for tenant_id, host in pairs:
        condition |= Q(tenant_id=tenant_id, host=host.lower())
    return list(RegistryAccount.objects.filter(condition)) if pairs else []


def _check(host: str, username: str, password: str) -> None:
    errors = []
    if not references.is_host(host):
        message = Text(f"{host[:100]!r} is no host of a registry.", f"{host[:100]!r} 不是镜像仓库的主机。")
        hint = Text(
            "For example: registry.example.org, or registry.example.org:5000",
            "例如：registry.example.org 或 registry.example.org:5000",
        )
        errors.append(FieldError("/host", "bad_host", message, hint))
    else:
        try:
            rules_of(current()).check_registry(host)
        except RegistryError as error:
            failure = failure_of(error)
            errors.append(FieldError("/host", failure.code, failure.detail_text, failure.hint_text))
    if not username or len(username) > USERNAME_LENGTH or ":" in username or not username.isprintable():
        message = Text(
            f"A user name has 1 to {USERNAME_LENGTH} characters, without colons and control characters.",
            f"用户名为 1 至 {USERNAME_LENGTH} 个字符，不能含冒号或控制字符。",
        )
        errors.append(FieldError("/username", "bad_username", message))
    if not password or len(password) > PASSWORD_LENGTH or any(ord(character) < 32 for character in password):
        message = Text(
            f"A password is one line of 1 to {PASSWORD_LENGTH:,} characters.", f"密码为一行 1 至 {PASSWORD_LENGTH:,} 个字符。"
        )
        errors.append(FieldError("/password", "bad_password", message))
    elif not _is_text(password) or not _is_text(username):
        errors.append(FieldError("/password", "bad_password", Text("User name and password are text.", "用户名和密码须为文本。")))
    if errors:
        raise InvalidInput(errors[0].message, fields=errors, hint=errors[0].hint)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _seal(tenant_id: uuid.UUID, host: str, password: str) -> str:
    return _box(tenant_id, host).encrypt(password.encode()).decode()


def _open(row: RegistryAccount) -> Account:
    try:
        return Account(row.username, _box(row.tenant_id, row.host).decrypt(row.ciphertext.encode()).decode())
    except InvalidToken:
        raise Unavailable(
            Text(
                f"The account at {row.host} does not open with this installation's key.",
                f"{row.host} 的账户无法用本系统的密钥打开。",
            ),
            hint=Text(
                "Set it again; or ask an operator to put the key that it was stored under into SECRET_KEY_FALLBACKS.",
                "请重新设置；或请运维人员将存入时所用的密钥放入 SECRET_KEY_FALLBACKS。",
            ),
        ) from None


def _box(tenant_id: uuid.UUID, host: str) -> MultiFernet:
    return box_for(_PURPOSE + tenant_id.bytes + host.encode())


def _no_account(host: str) -> NotFound:
    return NotFound(
        Text(f"The tenant has no account at {host[:100]!r}.", f"该租户在 {host[:100]!r} 没有账户。"),
        hint=Text("`berth registries list` shows its accounts.", "`berth registries list` 显示其账户。"),
    )
