"""Who may use which priority without asking. What members may use is their managers' business; what managers may use is that of
whoever stands above them: nobody raises their own grant."""

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
from tenants.access import demand
from tenants.grants import default_grant, granted_to, priority_grants
from tenants.models import PriorityGrant, Tenant
from tenants.quota.grants import GRANTED_ROLES, PriorityGrants


def set_priority_grants(*, actor: Actor, tenant: Tenant, lines: Mapping[TenantRole, int | None], now: datetime) -> None:
    """Set the named roles' highest priorities; None takes a tenant's own line away. Acts on what is asked for from now on:
    jobs keep what they have.

    Nobody grants more than they may use themselves, and members never get more than their managers.
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
            message = f"{priority} is not between 0 and {PRIORITY_MAX}."
            fields.append(FieldError(f"/{role}", "out_of_range", message, "Give a number of that range, or a class by name."))
        elif found[role] > most:
            message = f"You may use priority {format_priority(most)} at most, and grant no more than that."
            fields.append(
                FieldError(f"/{role}", "above_own_grant", message, "Ask a manager of the tenant above, or an operator.")
            )
    if not fields and found[TenantRole.MEMBER] > found[TenantRole.MANAGER]:
        members, managers = (format_priority(found[role]) for role in GRANTED_ROLES)
        message = f"Members would use up to {members}, their managers only {managers}."
        fields.append(FieldError("/member", "above_managers", message, f"Grant members {managers} or less."))
    if fields:
        raise InvalidInput(fields[0].message, fields=fields, hint=fields[0].hint)
