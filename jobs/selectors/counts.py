"""How many jobs there are in each state, without counting them."""

from __future__ import annotations

import uuid

from django.db.models import QuerySet, Sum

from jobs.lifecycle.states import JobState
from jobs.models import JobCount
from kernel.actor import Actor
from tenants.identity.access import tenants_with

_LIVE = ("queued", "admitted", "starting", "running", "stopping")


def job_counts(
    actor: Actor, *, tenant_id: uuid.UUID | None = None, queue_ids: frozenset[uuid.UUID] | None = None
) -> dict[str, int]:
    """Jobs per state that the actor may see, arrays as one; of one tenant and of some queues if given. One query."""
    rows = _counted(actor, tenant_id, queue_ids)
    found = dict(rows.values_list("state").annotate(number=Sum("number")).order_by())
    return {str(state): found.get(str(state), 0) for state in JobState}


def job_counts_by_queue(
    actor: Actor, *, tenant_id: uuid.UUID | None = None, queue_ids: frozenset[uuid.UUID] | None = None
) -> dict[uuid.UUID, dict[str, int]]:
    """The same of each queue that has jobs which have not ended, in those states alone. One query."""
    rows = _counted(actor, tenant_id, queue_ids).filter(state__in=_LIVE)
    found: dict[uuid.UUID, dict[str, int]] = {}
    for queue_id, state, number in rows.values_list("queue_id", "state").annotate(number=Sum("number")).order_by("queue_id"):
        if number:
            found.setdefault(queue_id, dict.fromkeys(_LIVE, 0))[state] = number
    return found


def _counted(actor: Actor, tenant_id: uuid.UUID | None, queue_ids: frozenset[uuid.UUID] | None) -> QuerySet[JobCount]:
    rows = JobCount.objects.all()
    visible = tenants_with(actor, "job.read")
    if visible is not None:
        rows = rows.filter(tenant_id__in=visible)
    if tenant_id is not None:
        rows = rows.filter(tenant_id=tenant_id)
    if queue_ids is not None:
        rows = rows.filter(queue_id__in=queue_ids)
    return rows
