"""Which priority a user may give a job without approval."""

from __future__ import annotations

import uuid

from kernel.actor import Actor, TenantRole
from kernel.config import current
from kernel.priorities import PRIORITY_MAX
from tenants.capacity.models import PriorityGrant
from tenants.capacity.quota.grants import PriorityGrants
from tenants.identity.access import is_system
from tenants.identity.selectors import tenant_paths


def priority_grants() -> PriorityGrants:
    """All lines of all tenants, from tables whose changes leave a mark. Two queries."""
    rows = PriorityGrant.objects.values_list("tenant_id", "role", "priority")
    return PriorityGrants({(tenant_id, TenantRole(role)): priority for tenant_id, role, priority in rows}, tenant_paths())


def default_grant(role: TenantRole | None) -> int:
    """What a role may use where no tenant says otherwise."""
    if role == TenantRole.MANAGER:
        return current().priority_manager
    return current().priority_member if role == TenantRole.MEMBER else 0


def granted_to(actor: Actor, tenant_id: uuid.UUID, grants: PriorityGrants) -> int:
    """The highest priority that the actor may use in a tenant by role. Operators and the platform itself may use any."""
    if actor.is_operator or is_system(actor):
        return PRIORITY_MAX
    role = actor.roles.get(tenant_id)
    return 0 if role is None else grants.highest(tenant_id, role, default_grant(role))
