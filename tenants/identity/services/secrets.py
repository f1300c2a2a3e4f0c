"""Secrets: written by managers, given to jobs, shown to no user.

Each value is encrypted under a key of its own, derived (HKDF) from the installation's secret key, the tenant and the name: a
row that is copied to another tenant or name cannot be opened. To rotate the installation's key, put the old one into
`SECRET_KEY_FALLBACKS` and run `rotate_secrets`; until then values under an old key still open.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime

from cryptography.fernet import InvalidToken, MultiFernet
from django.db import transaction

from activity.services import record_audit
from kernel.actor import Actor
from kernel.errors import FieldError, InvalidInput, NotFound, QuotaExceeded, Unavailable
from kernel.words import Text
from reconciling import bulk
from tenants.bounds import SECRET_BYTES
from tenants.identity.access import demand
from tenants.identity.models import Secret, Tenant
from tenants.identity.services.names import Problems, secret_name
from webapi.encryption import box_for

SECRETS_PER_TENANT = 1_000
_PURPOSE = b"berth tenant secret v1"


def set_secret(*, actor: Actor, tenant_id: uuid.UUID, name: str, value: str, now: datetime) -> bool:
    """Store a value under a name; True if the name is new. The value goes into no answer, event, audit row or log."""
    demand(actor, tenant_id, "secret.edit")
    problems = Problems()
    secret_name(name, problems)
    if not value:
        problems.add(
            "/value",
            "empty",
            Text("A secret has a value.", "密钥必须有值。"),
            Text("Delete the secret if it is no longer needed.", "如不再需要，请删除该密钥。"),
        )
    if len(value.encode("utf-8", "surrogatepass")) > SECRET_BYTES:
        problems.add(
            "/value", "too_large", Text(f"A secret has at most {SECRET_BYTES} bytes.", f"密钥最多 {SECRET_BYTES} 字节。")
        )
    if "\x00" in value or not _is_text(value):
        problems.add(
            "/value",
            "not_text",
            Text(
                "A secret is text without NUL characters; encode binary data as Base64.",
                "密钥是不含 NUL 字符的文本；二进制数据请用 Base64 编码。",
            ),
        )
    problems.raise_if_any()
    with transaction.atomic():
        Tenant.objects.select_for_update(no_key=True).get(id=tenant_id)
        ciphertext = _fernet(tenant_id, name).encrypt(value.encode()).decode()
        is_new = not Secret.objects.filter(tenant_id=tenant_id, name=name).update(ciphertext=ciphertext, updated_at=now)
        if is_new:
            if Secret.objects.filter(tenant_id=tenant_id).count() >= SECRETS_PER_TENANT:
                raise QuotaExceeded(
                    Text(f"A tenant has at most {SECRETS_PER_TENANT} secrets.", f"每个租户最多 {SECRETS_PER_TENANT} 个密钥。"),
                    hint=Text("Delete those not used.", "请删除不用的。"),
                )
            Secret.objects.create(tenant_id=tenant_id, name=name, ciphertext=ciphertext, created_at=now, updated_at=now)
        record_audit(
            actor=actor,
            verb="secret.edit",
            tenant_id=tenant_id,
            target_kind="secret",
            target_id=name,
            target_name=name,
            after={"created": is_new},
            at=now,
        )
    return is_new


def delete_secret(*, actor: Actor, tenant_id: uuid.UUID, name: str, now: datetime) -> None:
    """Forget a secret. Jobs that already run keep what they were given. NotFound if there is none."""
    demand(actor, tenant_id, "secret.delete")
    with transaction.atomic():
        deleted, _ = Secret.objects.filter(tenant_id=tenant_id, name=name).delete()
        if not deleted:
            raise NotFound(
                Text(f"There is no secret {name[:128]!r}.", f"没有密钥 {name[:128]!r}。"),
                hint=Text("`berth secrets list` shows their names.", "`berth secrets list` 列出密钥名。"),
            )
        record_audit(
            actor=actor,
            verb="secret.delete",
            tenant_id=tenant_id,
            target_kind="secret",
            target_id=name,
            target_name=name,
            at=now,
        )


def missing_secrets(tenant_id: uuid.UUID, names: Iterable[str]) -> list[str]:
    """Those of the names that the tenant has no secret for, sorted. One query."""
    wanted = frozenset(names)
    if not wanted:
        return []
    return sorted(wanted - set(Secret.objects.filter(tenant_id=tenant_id, name__in=wanted).values_list("name", flat=True)))


def decrypt_secrets(tenant_id: uuid.UUID, names: Iterable[str]) -> dict[str, str]:
    """The values of a tenant's secrets, for the launch of its own job and for nothing else. One query.

    InvalidInput naming every secret that no longer exists; Unavailable if the installation's key does not open one.
    """
    wanted = frozenset(names)
    if not wanted:
        return {}
    rows = Secret.objects.filter(tenant_id=tenant_id, name__in=wanted).values_list("name", "ciphertext")
    values = {name: _open(tenant_id, name, ciphertext) for name, ciphertext in rows}
    gone = sorted(wanted - set(values))
    if gone:
        raise InvalidInput(
            Text(f"The tenant has no secret {', '.join(gone)}.", f"租户没有密钥 {', '.join(gone)}。"),
            fields=[
                FieldError("/secrets", "secret_missing", Text(f"There is no secret {name}.", f"没有密钥 {name}。"))
                for name in gone
            ],
            hint=Text(f"berth secrets set {gone[0]}", f"berth secrets set {gone[0]}"),
        )
    return values


def rotate_secrets() -> int:
    """Encrypt every value anew under the present key; returns how many. May be repeated. For the operator's command."""
    with transaction.atomic():
        rows = list(Secret.objects.select_for_update().order_by("id").values_list("id", "tenant_id", "name", "ciphertext"))
        bulk.update(
            Secret,
            [
                {"id": row_id, "ciphertext": _fernet(tenant_id, name).rotate(ciphertext.encode()).decode()}
                for row_id, tenant_id, name, ciphertext in rows
            ],
        )
    return len(rows)


def _open(tenant_id: uuid.UUID, name: str, ciphertext: str) -> str:
    try:
        return _fernet(tenant_id, name).decrypt(ciphertext.encode()).decode()
    except InvalidToken:
        raise Unavailable(
            Text(f"The secret {name} does not open with this installation's key.", f"密钥 {name} 无法用本系统的密钥解开。"),
            hint=Text(
                "Set it again; or ask an operator to put the key that it was stored under into SECRET_KEY_FALLBACKS.",
                "请重新设置；或请运维人员将存储时所用的密钥放入 SECRET_KEY_FALLBACKS。",
            ),
        ) from None


def _fernet(tenant_id: uuid.UUID, name: str) -> MultiFernet:
    return box_for(_PURPOSE + tenant_id.bytes + name.encode())


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
