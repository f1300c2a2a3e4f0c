"""Who sees queues and what is said of their limits, and who may change them."""

from __future__ import annotations

from typing import Any

from django.db.models import Q

from kernel.actor import Actor
from kernel.words import Text
from tenants.capacity.models import Booking, PriorityGrant, Queue, QuotaEdit, QuotaRequest, UserCap
from tenants.identity.access import role_allows, tenant_rule, tenants_with
from webapi.access import register


def register_rules() -> None:
    """The rules of the rows of this room."""
    tenant_rule(QuotaEdit, noun="quota_edit")
    tenant_rule(QuotaRequest, noun="quota_request")
    tenant_rule(UserCap, noun="cap")
    tenant_rule(PriorityGrant, noun="priority_grant")
    tenant_rule(Booking, owner="created_by_id")
    limits = Text(
        "Those who manage the queue above a queue limit it, operators the top queue of a tenant. Limit a queue below your own.",
        "队列的额度由其上级队列的管理员设定，租户的顶层队列由运维人员设定。您可以设定自己队列的下级队列。",
    )
    register(Queue, sees=_sees_queue, allows=_allows_queue, hints={"queue.limit": limits})


def _sees_queue(actor: Actor) -> Q | None:
    tenant_ids = tenants_with(actor, "queue.read")
    present = Q(deleted_at__isnull=True)
    return present if tenant_ids is None else present & Q(tenant_id__in=tenant_ids)


def _allows_queue(actor: Actor, queue: Any, verb: str) -> bool:
    if verb in {"queue.limit", "budget.edit"}:  # Owners of the queue above give capacity; operators that of root.
        return queue.parent_id is not None and role_allows(actor, queue.parent.tenant_id, verb)
    return role_allows(actor, queue.tenant_id, verb)
