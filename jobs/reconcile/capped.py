"""Caps on users and on tenants, asked once more in the transaction that admits: no two schedulers can take the last place.

The core keeps to the caps by itself (`jobs/scheduling/core/state/user_caps.py`), as far as it knows what runs. What it cannot
know is what a scheduler that led before, and does not know yet that it leads no more, admits at the same moment. So the tenants
that have caps are locked, what their users hold by then is counted from the attempts themselves, and jobs that would pass a cap
are left out.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence

from django.db.models import Count, Sum

from jobs.lifecycle.states import ATTEMPT_LIFECYCLE
from jobs.models import Task
from tenants.capacity.quota.caps import CapAsk, CapRefusal, Held, Place, held_along, over_caps
from tenants.capacity.reads import LockedCaps, lock_caps


def refused_by_caps(
    asks: Sequence[tuple[uuid.UUID, uuid.UUID, uuid.UUID, Held]],
) -> Mapping[uuid.UUID, CapRefusal]:
    """Who of (job, tenant, user, amounts) would pass a cap, in their order. Inside the transaction that admits the others.

    Two statements where no cap holds, seven else, however many there are.
    """
    locked = lock_caps({tenant_id for _, tenant_id, _, _ in asks})
    if locked is None:
        return {}
    users = None if locked.caps.counts_together else {user_id for _, _, user_id, _ in asks}
    held = _held(locked, users)
    return over_caps(
        locked.caps,
        [CapAsk(job_id, user_id, locked.paths.get(tenant_id, ()), amounts) for job_id, tenant_id, user_id, amounts in asks],
        held,
    )


def _held(locked: LockedCaps, users: Collection[uuid.UUID] | None) -> dict[Place, Held]:
    """What these users (None: all) hold where the caps count. What is being stopped counts until it has ended."""
    tasks = Task.objects.filter(
        attempt__state__in=ATTEMPT_LIFECYCLE.live_states, attempt__tenant_id__in=locked.paths.keys()
    ).order_by()
    if users is not None:
        tasks = tasks.filter(attempt__job__user_id__in=users)
    rows = tasks.values_list("attempt__tenant_id", "attempt__job__user_id").annotate(
        gpus=Sum("gpu_millis"), jobs=Count("attempt_id", distinct=True), containers=Count("id")
    )
    return held_along(
        locked.paths,
        [(tenant_id, user_id, Held(int(gpus or 0), jobs, containers)) for tenant_id, user_id, gpus, jobs, containers in rows],
    )
