"""Deleting a tenant: what is its people's goes, what says who used and did what stays. `jobs.services.deleting` owns the whole.

The row stays for the ledger, statements and audit, under a name that sets the old one free; the slug is never given out again.
Ledger, statements and audit are never deleted: they are the record of money and of deeds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

from django.db.models import F, QuerySet

from activity.services import record_audit
from activity.sessions import recheck
from kernel.actor import Actor
from kernel.errors import Conflict, FieldError, InvalidInput
from kernel.words import Text, counted
from tenants.capacity.lifecycle import BookingState
from tenants.capacity.models import Booking, Queue, QueueLimit
from tenants.capacity.quota.edits import Change
from tenants.capacity.services.bookings import cancel_booking
from tenants.capacity.services.edits import lock_and_try, write_limits
from tenants.identity.access import demand
from tenants.identity.models import Invitation, Membership, Secret, Tenant, TenantAncestor, User, UserKind
from tenants.identity.services.names import DISPLAY_NAME_LENGTH
from tenants.identity.services.standing import tell
from tenants.identity.services.tokens import revoke_all
from tenants.services.tenants import rename_top_queue


@dataclass(frozen=True, slots=True)
class Belongings:
    """How much of each kind goes with a tenant, as far as this app knows."""

    members: int
    service_accounts: int
    invitations: int
    secrets: int
    bookings: int

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


def belongings_of(tenant: Tenant, *, now: datetime) -> Belongings:
    """What would go. Five queries."""
    return Belongings(
        members=Membership.objects.filter(tenant=tenant, user__kind=UserKind.PERSON).count(),
        service_accounts=User.objects.filter(tenant=tenant, is_active=True).count(),
        invitations=_open_invitations(tenant, now).count(),
        secrets=Secret.objects.filter(tenant=tenant).count(),
        bookings=_held_bookings(tenant, now).count(),
    )


def demand_deletable(*, actor: Actor, tenant: Tenant) -> Tenant:
    """The tenant, locked. Raises Conflict unless it is disabled and has no tenants below. In the caller's transaction."""
    demand(actor, None, "tenant.delete")
    found = Tenant.objects.select_for_update(no_key=True).get(id=tenant.pk)
    if found.deleted_at is not None:
        raise Conflict(Text(f"Tenant {found.name} was deleted before.", f"租户 {found.name} 已被删除。"))
    if found.disabled_at is None:
        above = TenantAncestor.objects.filter(tenant=found, depth__gt=0, ancestor__disabled_at__isnull=False).exists()
        raise Conflict(
            Text(
                f"Tenant {found.name} is disabled only through the tenant above it.",
                f"租户 {found.name} 只是随上级租户被停用。",
            )
            if above
            else Text(f"Tenant {found.name} is not disabled.", f"租户 {found.name} 未停用。"),
            hint=Text("Disable it first, for itself: `berth tenants disable`.", "请先停用该租户本身：`berth tenants disable`。"),
        )
    below = Tenant.objects.filter(parent=found, deleted_at__isnull=True).count()
    if below:
        raise Conflict(
            Text(
                f"{counted(below, 'tenant is', 'tenants are')} below {found.name}.",
                f"{found.name} 之下还有 {below} 个租户。",
            ),
            hint=Text("Delete those first.", "请先删除下级租户。"),
        )
    return found


def demand_name(tenant: Tenant, confirm: str) -> None:
    """Raise unless the tenant's name was typed."""
    if confirm != tenant.name:
        message = Text("`confirm` is not the name of the tenant.", "`confirm` 与租户名称不符。")
        hint = Text("Type its name exactly as it is shown.", "请按显示的名称准确输入。")
        raise InvalidInput(message, hint=hint, fields=[FieldError("/confirm", "not_the_name", message, hint)])


def delete_belongings(*, actor: Actor, tenant: Tenant, gone: dict[str, int], now: datetime) -> Tenant:
    """Let all of it go, and hide the tenant. In the caller's transaction, after `demand_deletable`; one audit row, with `gone`,
    and one for each booking."""
    name = tenant.name
    for booking in _held_bookings(tenant, now):
        cancel_booking(actor=actor, booking=booking, now=now)
    _drop_promises(tenant, now)
    for account in User.objects.filter(tenant=tenant, is_active=True):
        User.objects.filter(id=account.pk).update(is_active=False, version=F("version") + 1)
        revoke_all(account, now=now)
    Membership.objects.filter(tenant=tenant).delete()
    _open_invitations(tenant, now).update(revoked_at=now)
    Secret.objects.filter(tenant=tenant).delete()
    named = f"{name[: DISPLAY_NAME_LENGTH - len(tenant.slug) - 3]} ({tenant.slug})"
    rename_top_queue(tenant, named)
    tenant.name = named
    tenant.deleted_at = now
    tenant.version += 1
    tenant.save(update_fields=["name", "deleted_at", "version"])
    recheck()
    tell(tenant, "deleted", now)
    record_audit(
        actor=actor,
        verb="tenant.delete",
        tenant_id=tenant.pk,
        target_kind="tenant",
        target_id=tenant.pk,
        target_name=name,
        before={"name": name},
        after={"name": tenant.name, "gone": gone},
        at=now,
    )
    return tenant


def _open_invitations(tenant: Tenant, now: datetime) -> QuerySet[Invitation]:
    return Invitation.objects.filter(tenant=tenant, accepted_at=None, revoked_at=None, expires_at__gt=now)


def _held_bookings(tenant: Tenant, now: datetime) -> QuerySet[Booking]:
    return Booking.objects.filter(tenant=tenant, state=BookingState.HELD, ends_at__gt=now).select_related("queue")


def _drop_promises(tenant: Tenant, now: datetime) -> None:
    """What its queues were promised is free for others."""
    queues = Queue.objects.filter(tenant=tenant).values("id")
    promised = QueueLimit.objects.filter(queue_id__in=queues).values_list("queue_id", "pool_id", "resource")
    changes = [Change(*row, {"guarantee": 0, "deserved": None}) for row in promised]
    if changes:
        write_limits(lock_and_try(changes), now)
