"""Memberships: no user gives, takes or keeps more than their own role allows (security C32)."""

from __future__ import annotations

import uuid
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import F

from activity.services import NewEvent, record_audit, record_events
from activity.sessions import recheck
from kernel.actor import Actor, TenantRole
from kernel.errors import Conflict, Forbidden, PreconditionFailed
from kernel.words import Text
from tenants.identity.access import demand, is_system
from tenants.identity.leaving import tenants_lost
from tenants.identity.models import Membership, Tenant, User, UserKind
from tenants.identity.permissions import ROLE_RANK
from tenants.identity.services.leaving import HOLD, Settlement, settle, told


def add_member(*, actor: Actor, tenant_id: uuid.UUID, user: User, role: TenantRole, now: datetime) -> Membership:
    """Give a user a role in a tenant. The user must be visible to the actor; strangers are invited instead."""
    demand(actor, tenant_id, "member.edit")
    _check_grant(actor, tenant_id, user, role)
    with transaction.atomic():
        try:
            with transaction.atomic():
                membership = Membership.objects.create(tenant_id=tenant_id, user=user, role=role, created_at=now)
        except IntegrityError:
            raise Conflict(
                Text(f"{user.name} already belongs to this tenant.", f"{user.name} 已属于此租户。"),
                hint=Text("Change the role instead.", "请改为修改角色。"),
            ) from None
        _tell(membership, "member.added", now)
        record_audit(
            actor=actor,
            verb="member.edit",
            tenant_id=tenant_id,
            target_kind="user",
            target_id=user.pk,
            target_name=user.name,
            after={"role": role},
            at=now,
        )
    return membership


def change_role(
    *, actor: Actor, membership: Membership, role: TenantRole, expected_version: int | None = None, now: datetime
) -> Membership:
    """Give a member another role. The last manager stays one."""
    demand(actor, membership.tenant_id, "member.edit")
    _check_grant(actor, membership.tenant_id, membership.user, role)
    _check_reach(actor, membership)
    with transaction.atomic():
        if role != TenantRole.MANAGER:
            _keep_a_manager(membership)
        rows = Membership.objects.filter(id=membership.pk)
        if expected_version is not None:
            rows = rows.filter(version=expected_version)
        if not rows.update(role=role, version=F("version") + 1):
            raise PreconditionFailed(
                Text("The membership was changed meanwhile.", "成员关系已被他人修改。"),
                hint=Text("Read it again and repeat your change.", "请重新读取，再做修改。"),
            )
        before = membership.role
        membership.refresh_from_db(fields=["role", "version"])
        _tell(membership, "member.changed", now)
        record_audit(
            actor=actor,
            verb="member.edit",
            tenant_id=membership.tenant_id,
            target_kind="user",
            target_id=membership.user_id,
            target_name=membership.user.name,
            before={"role": before},
            after={"role": role},
            at=now,
        )
    return membership


def remove_member(*, actor: Actor, membership: Membership, settlement: Settlement = HOLD, now: datetime) -> None:
    """Take a user out of a tenant; any member may leave by themselves. The last manager stays. What runs of theirs goes on and
    what waits is withheld, unless the settlement says otherwise; only managers hand things over."""
    if membership.user_id != actor.user_id or settlement.hand_to is not None:
        demand(actor, membership.tenant_id, "member.edit")
        _check_reach(actor, membership)
    elif not actor.is_authenticated or (actor.scopes is not None and "tenant" not in actor.scopes):
        demand(actor, membership.tenant_id, "member.edit")
    with transaction.atomic():
        _keep_a_manager(membership)
        lost = tenants_lost(membership.tenant_id, membership.user_id)
        Membership.objects.filter(id=membership.pk).delete()
        done = settle(actor=actor, user=membership.user, tenant_ids=lost, settlement=settlement, now=now)
        _tell(membership, "member.removed", now)
        record_audit(
            actor=actor,
            verb="member.edit",
            tenant_id=membership.tenant_id,
            target_kind="user",
            target_id=membership.user_id,
            target_name=membership.user.name,
            before={"role": membership.role},
            after=told(settlement, done) or None,
            at=now,
        )


def _check_grant(actor: Actor, tenant_id: uuid.UUID, user: User, role: TenantRole) -> None:
    """Managers give up to their own role. Operators appoint others, never themselves: they would reach its secrets."""
    if user.kind == UserKind.SERVICE and user.tenant_id != tenant_id:
        raise Forbidden(
            Text("A service account works in its own tenant only.", "服务账户只能在其所属租户中使用。"),
            hint=Text("Create one in this tenant.", "请在此租户中创建。"),
        )
    if is_system(actor):
        return
    own = actor.roles.get(tenant_id)
    if own is not None and ROLE_RANK[own] >= ROLE_RANK[role]:
        return
    if not actor.is_operator:
        raise Forbidden(
            Text("You cannot give a role above your own.", "不能授予高于自己的角色。"),
            hint=Text("Ask a manager of the tenant.", "请联系租户管理员。"),
        )
    if user.pk == actor.user_id:
        raise Forbidden(
            Text("Operators do not let themselves into a tenant.", "运维人员不能自行加入租户。"),
            hint=Text("Ask a manager of the tenant to add you.", "请租户管理员添加您。"),
        )


def _check_reach(actor: Actor, membership: Membership) -> None:
    """The actor who changes a member must hold at least that member's role."""
    own = actor.roles.get(membership.tenant_id)
    if is_system(actor) or actor.is_operator:
        return
    if own is None or ROLE_RANK[own] < ROLE_RANK[TenantRole(membership.role)]:
        raise Forbidden(
            Text("This member's role is above your own.", "该成员的角色高于您的角色。"),
            hint=Text("Ask a manager of the tenant.", "请联系租户管理员。"),
        )


def _keep_a_manager(membership: Membership) -> None:
    """Refuse to leave a tenant, or one above it, without an active manager. Locks the tenant against a second such change."""
    if membership.role != TenantRole.MANAGER:
        return
    above = Tenant.objects.filter(descendant_links__tenant_id=membership.tenant_id)
    ids = list(above.select_for_update(no_key=True, of=("self",)).order_by("id").values_list("id", flat=True))
    others = Membership.objects.filter(
        tenant_id__in=ids, role=TenantRole.MANAGER, user__is_active=True, user__kind=UserKind.PERSON
    ).exclude(id=membership.pk)
    if not others.exists():
        raise Conflict(
            Text(
                f"{membership.user.name} is the last manager of this tenant.",
                f"{membership.user.name} 是此租户的最后一名管理员。",
            ),
            hint=Text("Make another member a manager first.", "请先指定另一名管理员。"),
        )


def _tell(membership: Membership, kind: str, now: datetime) -> None:
    recheck()
    record_events(
        [
            NewEvent(
                kind=kind,
                tenant_id=membership.tenant_id,
                subject_kind="user",
                subject_id=membership.user_id,
                data={"user_id": membership.user_id, "role": membership.role},
                at=now,
            )
        ]
    )
