"""Disabling a tenant and enabling it again. Nothing begins in a disabled one; what runs goes on, and reading goes on."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import F

from activity.services import NewEvent, record_audit, record_events
from kernel.actor import Actor
from kernel.words import Text
from tenants.identity.access import demand
from tenants.identity.models import Tenant
from tenants.identity.services.names import Problems
from tenants.identity.standing import Disabled, refusal

REASON_LENGTH = 500


def disable_tenant(*, actor: Actor, tenant: Tenant, reason: str | None = None, now: datetime) -> Tenant:
    """Let nothing begin in a tenant and in those below it, and tell its people why. Twice is once, with the newer reason; None
    leaves the reason as it is."""
    demand(actor, None, "tenant.disable")
    problems = Problems()
    if reason is not None and len(reason) > REASON_LENGTH:
        problems.add(
            "/reason",
            "bad_length",
            Text(f"A reason has at most {REASON_LENGTH} characters.", f"原因最多 {REASON_LENGTH} 个字符。"),
        )
    problems.raise_if_any()
    with transaction.atomic():
        found = _locked(tenant)
        told = found.disabled_reason or "" if reason is None else reason
        _write(actor, found, "disabled", now, disabled_at=found.disabled_at or now, disabled_reason=told)
    return found


def enable_tenant(*, actor: Actor, tenant: Tenant, now: datetime) -> Tenant:
    """Let things begin in a tenant again; its waiting jobs start by themselves. Twice is once."""
    demand(actor, None, "tenant.disable")
    with transaction.atomic():
        found = _locked(tenant)
        _write(actor, found, "enabled", now, disabled_at=None, disabled_reason="")
    return found


def _locked(tenant: Tenant) -> Tenant:
    found = Tenant.objects.select_for_update(no_key=True).get(id=tenant.pk)
    if found.deleted_at is not None:
        raise refusal(Disabled(is_deleted=True), found.name)
    return found


def _write(actor: Actor, tenant: Tenant, what: str, now: datetime, **columns: object) -> None:
    """What changes nothing leaves its audit row, as every accepted call, and no event."""
    before = {key: getattr(tenant, key) for key in columns}
    if any((before[key] or "") != (value or "") for key, value in columns.items()):
        Tenant.objects.filter(id=tenant.pk).update(version=F("version") + 1, **columns)
        tenant.refresh_from_db()
        tell(tenant, what, now)
    record_audit(
        actor=actor,
        verb="tenant.disable",
        tenant_id=tenant.pk,
        target_kind="tenant",
        target_id=tenant.pk,
        target_name=tenant.name,
        before=before,
        after=columns,
        at=now,
    )


def tell(tenant: Tenant, what: str, now: datetime) -> None:
    """The event of what became of a tenant."""
    record_events(
        [
            NewEvent(
                kind=f"tenant.{what}",
                tenant_id=tenant.pk,
                subject_kind="tenant",
                subject_id=tenant.pk,
                data={"name": tenant.name, "slug": tenant.slug},
                at=now,
            )
        ]
    )
