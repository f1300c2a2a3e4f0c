"""Secrets: written by managers, given to jobs, shown to nobody.

Each value is encrypted under a key of its own, derived (HKDF) from the installation's secret key, the tenant and the name: a
row that is copied to another tenant or name cannot be opened. To rotate the installation's key, put the old one into
`SECRET_KEY_FALLBACKS` and run `rotate_secrets`; until then values under an old key still open.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable
from datetime import datetime

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.db import transaction

from activity.services import record_audit
from kernel.actor import Actor
from kernel.errors import FieldError, InvalidInput, NotFound, QuotaExceeded, Unavailable
from kernel.limits import SECRET_BYTES
from reconciling import bulk
from tenants.access import demand
from tenants.models import Secret, Tenant
from tenants.services.names import Problems, secret_name

SECRETS_PER_TENANT = 1_000
_PURPOSE = b"berth tenant secret v1"


def set_secret(*, actor: Actor, tenant_id: uuid.UUID, name: str, value: str, now: datetime) -> bool:
    """Store a value under a name; True if the name is new. The value goes into no answer, event, audit row or log."""
    demand(actor, tenant_id, "secret.edit")
    problems = Problems()
    secret_name(name, problems)
    if not value:
        problems.add("/value", "empty", "A secret has a value.", "Delete the secret if it is no longer needed.")
    if len(value.encode("utf-8", "surrogatepass")) > SECRET_BYTES:
        problems.add("/value", "too_large", f"A secret has at most {SECRET_BYTES} bytes.")
    if "\x00" in value or not _is_text(value):
        problems.add("/value", "not_text", "A secret is text without NUL characters; encode binary data as Base64.")
    problems.raise_if_any()
    with transaction.atomic():
        Tenant.objects.select_for_update(no_key=True).get(id=tenant_id)
        ciphertext = _fernet(tenant_id, name).encrypt(value.encode()).decode()
        is_new = not Secret.objects.filter(tenant_id=tenant_id, name=name).update(ciphertext=ciphertext, updated_at=now)
        if is_new:
            if Secret.objects.filter(tenant_id=tenant_id).count() >= SECRETS_PER_TENANT:
                raise QuotaExceeded(f"A tenant has at most {SECRETS_PER_TENANT} secrets.", hint="Delete those not used.")
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
            raise NotFound(f"There is no secret {name[:128]!r}.", hint="`berth secrets list` shows their names.")
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
            f"The tenant has no secret {', '.join(gone)}.",
            fields=[FieldError("/secrets", "secret_missing", f"There is no secret {name}.") for name in gone],
            hint=f"berth secrets set {gone[0]}",
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
            f"The secret {name} does not open with this installation's key.",
            hint="Set it again; or ask an operator to put the key that it was stored under into SECRET_KEY_FALLBACKS.",
        ) from None


def _fernet(tenant_id: uuid.UUID, name: str) -> MultiFernet:
    return box_for(_PURPOSE + tenant_id.bytes + name.encode())


def box_for(info: bytes) -> MultiFernet:
    """Encrypts for one purpose under the present key, opens under it and all former ones."""
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return MultiFernet([Fernet(_derive(key, info)) for key in keys])


def _derive(key: str | bytes, info: bytes) -> bytes:
    derived = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=info).derive(
        key.encode() if isinstance(key, str) else key
    )
    return base64.urlsafe_b64encode(derived)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
