"""Which tenants are disabled: nothing is submitted or started in them, nor in those below, until an operator enables them again.

Reading goes on, and so does what runs. A deleted tenant is disabled for good.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass

from kernel.errors import Conflict
from kernel.words import Text
from tenants.identity.models import Membership, TenantAncestor, User

Place = tuple[uuid.UUID, uuid.UUID]
"""A tenant, and a user who has jobs in it."""

# What begins something in a tenant: asked of `tenants.identity.access.demand`, beside the right to do it.
BEGINNINGS = frozenset(
    {
        "job.submit", "job.rerun", "image.create", "volume.create", "volume.place", "upload.create", "code.create",
        "booking.create", "tenant.create",
    }
)  # fmt: skip
# What would make people of a deleted tenant.
JOININGS = frozenset({"member.edit", "invitation.create", "service_account.edit", "secret.edit"})


class TenantDisabled(Conflict):
    """The tenant is disabled: its data can be read, but no job can be submitted or started."""

    code = "tenant_disabled"
    title = Text("The tenant is disabled", "租户已停用")


@dataclass(frozen=True, slots=True)
class Disabled:
    """Why nothing begins in a tenant. `is_above`: one above it is disabled, whose reason is not told."""

    is_above: bool = False
    reason: str = ""
    is_deleted: bool = False

    def as_detail(self) -> dict[str, object]:
        """For the reason of a job that waits."""
        return {"above": True} if self.is_above else {"note": self.reason} if self.reason else {}


def disabled_tenants() -> dict[uuid.UUID, Disabled]:
    """All tenants in which nothing begins. One query."""
    rows = TenantAncestor.objects.filter(ancestor__disabled_at__isnull=False).order_by("-depth", "tenant_id")
    found: dict[uuid.UUID, Disabled] = {}
    for tenant_id, depth, reason, deleted_at in rows.values_list(
        "tenant_id", "depth", "ancestor__disabled_reason", "ancestor__deleted_at"
    ):
        found[tenant_id] = Disabled(is_above=True) if depth else Disabled(False, reason or "", deleted_at is not None)
    return found


@dataclass(frozen=True, slots=True)
class Departed:
    """A user whose jobs do not start in a tenant: disabled, or without any role there."""

    user: str
    is_disabled: bool

    def as_detail(self) -> dict[str, object]:
        """For the reason of a job that waits."""
        return {"user": self.user, "disabled": self.is_disabled}


def departed_from(places: Collection[Place]) -> dict[Place, Departed]:
    """Of these tenants and users those in which the user has no role any more, or is disabled. A query, and one more where there
    are such users."""
    if not places:
        return {}
    tenants, users = frozenset(place[0] for place in places), frozenset(place[1] for place in places)
    rows = Membership.objects.filter(
        user_id__in=users, user__is_active=True, tenant__descendant_links__tenant_id__in=tenants
    ).values_list("tenant__descendant_links__tenant_id", "user_id")
    gone = frozenset(places) - frozenset(rows)
    if not gone:
        return {}
    people = User.objects.filter(id__in={user_id for _, user_id in gone}).values_list("id", "name", "is_active")
    told = {user_id: Departed(name, not is_active) for user_id, name, is_active in people}
    return {place: told[place[1]] for place in gone}


def demand_enabled(tenant_id: uuid.UUID, verb: str = "job.submit") -> None:
    """Raise TenantDisabled where `verb` begins something and nothing begins. One query, none for other verbs."""
    if verb not in BEGINNINGS and verb not in JOININGS:
        return
    rows = TenantAncestor.objects.filter(tenant_id=tenant_id, ancestor__disabled_at__isnull=False).order_by("depth")
    found = rows.values_list("depth", "ancestor__disabled_reason", "ancestor__deleted_at", "tenant__name").first()
    if found is None:
        return
    depth, reason, deleted_at, name = found
    if verb in BEGINNINGS or deleted_at is not None:
        raise refusal(Disabled(depth > 0, "" if depth else reason or "", depth == 0 and deleted_at is not None), name)


def refusal(why: Disabled, tenant: str) -> TenantDisabled:
    """What somebody is told who wants to begin something in this tenant."""
    if why.is_deleted:
        return TenantDisabled(
            Text(f"Tenant {tenant} was deleted.", f"租户 {tenant} 已删除。"),
            hint=Text("Ask an operator for another tenant.", "请向运维人员申请其他租户。"),
        )
    text = Text(
        f"A tenant above tenant {tenant} is disabled" if why.is_above else f"Tenant {tenant} is disabled",
        f"租户 {tenant} 的上级租户已停用" if why.is_above else f"租户 {tenant} 已停用",
    )
    return TenantDisabled(
        Text(f"{text.en}: {why.reason}", f"{text.zh}：{why.reason}") if why.reason else Text(f"{text.en}.", f"{text.zh}。"),
        hint=Text(
            "Nothing is submitted or started in it; what is there can be read. Ask an operator to enable it.",
            "其中不能提交或启动任何内容；已有内容可以查看。请联系运维人员启用。",
        ),
    )
