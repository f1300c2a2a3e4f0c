"""What requests remember of queues and limits (`kernel/facts.py`). Each reads tables alone whose changes leave a mark."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from kernel.actor import Actor
from kernel.facts import Facts
from tenants.capacity.grants import priority_grants
from tenants.capacity.quota.caps import UserCaps
from tenants.capacity.quota.grants import PriorityGrants
from tenants.capacity.quota.tree import QueueFacts, QueueTree
from tenants.capacity.reads import default_runtimes, runtime_limits, user_caps
from tenants.capacity.selectors import queue_tree, resolve_queue
from tenants.identity.facts import sight_of


def remembered_queue(facts: Facts, actor: Actor, tenant_id: uuid.UUID, name: str | None) -> QueueFacts:
    """As `resolve_queue`."""
    return facts.find(("queue", tenant_id, name, *sight_of(actor)), lambda: resolve_queue(actor, tenant_id, name))


def remembered_ceilings(facts: Facts) -> QueueTree:
    """All queues with their ceilings; use and other limits are not to be read from it: their changes leave no mark."""
    return facts.find("ceilings", lambda: queue_tree(with_usage=False))


def remembered_runtime_limits(facts: Facts) -> Mapping[uuid.UUID, int]:
    """As `runtime_limits`."""
    return facts.find("runtime_limits", runtime_limits)


def remembered_default_runtimes(facts: Facts) -> Mapping[uuid.UUID, int]:
    """As `default_runtimes`."""
    return facts.find("default_runtimes", default_runtimes)


def remembered_user_caps(facts: Facts) -> UserCaps:
    """As `user_caps`."""
    return facts.find("user_caps", user_caps)


def remembered_priority_grants(facts: Facts) -> PriorityGrants:
    """As `priority_grants`."""
    return facts.find("priority_grants", priority_grants)
