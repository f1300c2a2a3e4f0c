"""What requests remember of tenants (`kernel/facts.py`). Each reads tables alone whose changes leave a mark."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from kernel.actor import Actor
from kernel.facts import Facts
from tenants.identity.selectors import TenantFacts, find_tenant, tenant_paths
from tenants.identity.standing import Disabled, disabled_tenants


def remembered_tenant(facts: Facts, actor: Actor, text: str | None) -> TenantFacts:
    """As `find_tenant`."""
    return facts.find(("tenant", text, *sight_of(actor)), lambda: find_tenant(actor, text))


def remembered_tenant_paths(facts: Facts) -> Mapping[uuid.UUID, tuple[uuid.UUID, ...]]:
    """As `tenant_paths`."""
    return facts.find("tenant_paths", tenant_paths)


def remembered_disabled_tenants(facts: Facts) -> Mapping[uuid.UUID, Disabled]:
    """As `disabled_tenants`."""
    return facts.find("disabled_tenants", disabled_tenants)


def sight_of(actor: Actor) -> tuple[object, ...]:
    """What decides what an actor sees, as long as no mark says that roles have changed: a part of the key of what was found."""
    return (actor.user_id, actor.token_id, actor.scopes, actor.is_operator, actor.name if actor.user_id is None else "")
