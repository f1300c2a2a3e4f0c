"""Jobs of a user who leaves: which there are, handing them to another member, and stopping them. All in batches."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from django.db.models import F, QuerySet

from jobs.lifecycle.states import JOB_LIFECYCLE, JobState
from jobs.models import Job, Template
from jobs.services.edit_events import tell_edited
from jobs.services.stop import stop_jobs
from tenants.identity.leaving import LeavingChange

BATCH = 1_000
LIVE = frozenset(JOB_LIFECYCLE.live_states)
RUNNING = LIVE - {JobState.QUEUED}
WAITING = frozenset({JobState.QUEUED})


def jobs_of(user_id: uuid.UUID, states: Collection[str] = LIVE) -> QuerySet[Job]:
    """Jobs of a user that are no arrays, which are counted by their children."""
    return Job.objects.filter(user_id=user_id, state__in=states, array_size__isnull=True)


def hand_over_jobs(change: LeavingChange, *, states: Collection[str]) -> int:
    """Make another user the owner; how many jobs that are no arrays have another one now. What runs goes on as it was started. In
    the caller's transaction; one event a job."""
    assert change.to is not None
    handed, last = 0, None
    while rows := _batch(change, states, last):
        ids = [job_id for job_id, _ in rows]
        Job.objects.filter(id__in=ids, user_id=change.user.pk).update(user_id=change.to.pk, version=F("version") + 1)
        tell_edited(
            ids, reason="handed_over", now=change.now, data={"changed": ["user"], "by": change.actor.name, "to": change.to.name}
        )
        handed += sum(array_size is None for _, array_size in rows)
        last = ids[-1]
    return handed


def _batch(change: LeavingChange, states: Collection[str], last: uuid.UUID | None) -> list[tuple[uuid.UUID, int | None]]:
    rows = Job.objects.filter(user_id=change.user.pk, state__in=states)
    if change.tenant_ids is not None:
        rows = rows.filter(tenant_id__in=change.tenant_ids)
    rows = rows if last is None else rows.filter(id__gt=last)
    return list(rows.order_by("id").select_for_update(no_key=True).values_list("id", "array_size")[:BATCH])


def stop_jobs_of(change: LeavingChange, *, states: Collection[str]) -> int:
    """Ask jobs to stop, with an audit row for each thousand of a tenant. In the caller's transaction."""
    rows = jobs_of(change.user.pk, states).filter(desired="run")
    if change.tenant_ids is not None:
        rows = rows.filter(tenant_id__in=change.tenant_ids)
    asked = 0
    for tenant_id in rows.order_by("tenant_id").values_list("tenant_id", flat=True).distinct():
        while jobs := list(rows.filter(tenant_id=tenant_id).order_by("id")[:BATCH]):
            asked += stop_jobs(jobs, actor=change.actor, grace_seconds=None, now=change.now)
    return asked


def templates_of(user_id: uuid.UUID) -> QuerySet[Template]:
    return Template.objects.filter(owner_id=user_id, tenant_id__isnull=False)
