"""Which priority a user may use without asking. Managers decide for members, and the roles above a tenant for its
managers: no user raises their own grant."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime

from django.db import transaction

from activity.services import record_audit
from kernel.actor import Actor, TenantRole
from kernel.errors import FieldError, InvalidInput
from kernel.ids import new_id
from kernel.priorities import PRIORITY_MAX, format_priority
from kernel.words import Text, counted
from tenants.capacity.grants import default_grant, granted_to, priority_grants
from tenants.capacity.models import PriorityGrant
from tenants.capacity.quota.grants import GRANTED_ROLES, PriorityGrants
from tenants.identity.access import demand
from tenants.identity.models import Tenant
from tenants.identity.selectors import tenants_below


def set_priority_grants(*, actor: Actor, tenant: Tenant, lines: Mapping[TenantRole, int | None], now: datetime) -> None:
    """Set the named roles' highest priorities; None takes a tenant's own line away. Acts on what is asked for from now on:
    jobs keep what they have.

    An actor grants no more than they may use themselves, and members never get more than their managers, here or in a tenant
    below.
    """
    demand(actor, tenant.pk, "priority_grant.edit")
    if TenantRole.MANAGER in lines:
        demand(actor, tenant.parent_id if tenant.parent_id in actor.roles else None, "priority_grant.edit")
    with transaction.atomic():
        Tenant.objects.select_for_update(no_key=True).get(id=tenant.pk)
        grants = priority_grants()
        own = {role: grants.lines.get((tenant.pk, role)) for role in GRANTED_ROLES}
        after = {**own, **lines}
        if after == own:
            return
        _check(actor, tenant.pk, lines, after, grants)
        PriorityGrant.objects.filter(tenant=tenant, role__in=[str(role) for role in lines]).delete()
        PriorityGrant.objects.bulk_create(
            PriorityGrant(id=new_id(), tenant=tenant, role=str(role), priority=priority)
            for role, priority in lines.items()
            if priority is not None
        )
        record_audit(
            actor=actor,
            verb="priority_grant.edit",
            tenant_id=tenant.pk,
            target_kind="tenant",
            target_id=tenant.pk,
            target_name=tenant.name,
            before={str(role): priority for role, priority in own.items()},
            after={str(role): priority for role, priority in after.items()},
            at=now,
        )


def _check(
    actor: Actor,
    tenant_id: uuid.UUID,
    lines: Mapping[TenantRole, int | None],
    after: Mapping[TenantRole, int | None],
    grants: PriorityGrants,
) -> None:
    fields = []
    later = PriorityGrants(
        {
            **{key: value for key, value in grants.lines.items() if key[0] != tenant_id},
            **{(tenant_id, role): priority for role, priority in after.items() if priority is not None},
        },
        grants.paths,
    )
    most = granted_to(actor, tenant_id, grants)
    found = {role: later.highest(tenant_id, role, default_grant(role)) for role in GRANTED_ROLES}
    for role, priority in lines.items():
        if priority is not None and not 0 <= priority <= PRIORITY_MAX:
            message = Text(f"{priority} is not between 0 and {PRIORITY_MAX}.", f"{priority} 不在 0 到 {PRIORITY_MAX} 之间。")
            fields.append(
                FieldError(
                    f"/{role}",
                    "out_of_range",
                    message,
                    Text("Give a number of that range, or a class by name.", "请给出此范围内的数字，或优先级类别名称。"),
                )
            )
        elif found[role] > most:
            message = Text(
                f"You may use priority {format_priority(most)} at most, and grant no more than that.",
                f"您最高可用优先级 {format_priority(most)}，授予他人也不能超过它。",
            )
            fields.append(
                FieldError(
                    f"/{role}",
                    "above_own_grant",
                    message,
                    Text("Ask a manager of the tenant above, or an operator.", "请联系上级租户的管理员或运维人员。"),
                )
            )
    if not fields and found[TenantRole.MEMBER] > found[TenantRole.MANAGER]:
        members, managers = (format_priority(found[role]) for role in GRANTED_ROLES)
        message = Text(
            f"Members would use up to {members}, their managers only {managers}.",
            f"成员最高可用 {members}，而管理员只有 {managers}。",
        )
        fields.append(
            FieldError(
                "/member",
                "above_managers",
                message,
                Text(f"Grant members {managers} or less.", f"请授予成员不高于 {managers} 的优先级。"),
            )
        )
    if not fields and (below := _turned_over_below(tenant_id, grants, later)):
        message = Text(
            f"In {counted(below, 'tenant', 'tenants')} below, members would use more than their managers.",
            f"在 {below} 个下级租户中，成员可用的优先级会高于其管理员。",
        )
        hint = Text("Change the lines of the tenants below first.", "请先修改下级租户的设置。")
        fields += [FieldError(f"/{role}", "above_managers", message, hint) for role in lines]
    if fields:
        raise InvalidInput(fields[0].message, fields=fields, hint=fields[0].hint)


def _turned_over_below(tenant_id: uuid.UUID, before: PriorityGrants, later: PriorityGrants) -> int:
    """In how many tenants below members would get more than their managers, where they do not already. One query."""

    def is_turned(grants: PriorityGrants, below: uuid.UUID) -> bool:
        member, manager = (grants.highest(below, role, default_grant(role)) for role in GRANTED_ROLES)
        return member > manager

    others = (below for below in tenants_below(tenant_id) if below != tenant_id)
    return sum(is_turned(later, below) and not is_turned(before, below) for below in others)
