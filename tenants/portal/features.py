"""Which features are on for whom: as said for the tenant, else for the nearest above it, else for the installation, else on."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from kernel.actor import Actor
from kernel.errors import NotFound
from kernel.facts import Facts
from tenants.identity.access import is_system
from tenants.identity.facts import remembered_tenant_paths
from tenants.identity.selectors import find_tenant
from tenants.portal.models import FeatureSetting
from webapi.features import FEATURES

Settings = Mapping[tuple[uuid.UUID | None, str], bool]


class Features:
    """What `webapi.features` asks. Nothing is asked of the database while nothing has changed."""

    def installation(self, facts: Facts) -> Mapping[str, bool]:
        rows = settings(facts)
        return {name: rows.get((None, name), True) for name in FEATURES}

    def is_on(self, facts: Facts, actor: Actor, name: str, tenant: object) -> bool:
        rows = settings(facts)
        if is_system(actor) or not any(key[1] == name for key in rows):
            return True
        if tenant is not None:
            try:
                tenant_id = tenant if isinstance(tenant, uuid.UUID) else find_tenant(actor, str(tenant)).id
            except NotFound:  # The handler says so.
                return True
            return in_tenant(facts, name, tenant_id)
        whole = rows.get((None, name), True)
        if actor.is_operator or not actor.roles:
            return whole
        return any(in_tenant(facts, name, tenant_id) for tenant_id in actor.roles)


def settings(facts: Facts) -> Settings:
    """All settings made by people; usually few or none. One query, unless it is known."""
    return facts.find(
        "features",
        lambda: {
            (tenant_id, name): enabled
            for tenant_id, name, enabled in FeatureSetting.objects.values_list("tenant_id", "name", "enabled")
        },
    )


def in_tenant(facts: Facts, name: str, tenant_id: uuid.UUID) -> bool:
    """Whether a feature is on in a tenant."""
    rows = settings(facts)
    for above in remembered_tenant_paths(facts).get(tenant_id, (tenant_id,)):
        if (above, name) in rows:
            return rows[above, name]
    return rows.get((None, name), True)


def tenants_without(facts: Facts, name: str) -> frozenset[uuid.UUID]:
    """Tenants in which a feature is off: their rows are left out of lists over several tenants."""
    if not any(key[1] == name for key in settings(facts)):
        return frozenset()
    return frozenset(tenant_id for tenant_id in remembered_tenant_paths(facts) if not in_tenant(facts, name, tenant_id))
