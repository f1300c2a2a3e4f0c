"""Events of changes that are no change of state: the scheduler and the screens hear of them like of any other."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from activity import hints
from activity.services import NewEvent, record_events
from jobs.models import Job


def tell_edited(job_ids: Sequence[uuid.UUID], *, reason: str, now: datetime, data: Mapping[str, Any] | None = None) -> None:
    """One `job.edited` event per job, in the caller's transaction."""
    if not job_ids:
        return
    tenants = dict(Job.objects.filter(id__in=job_ids).values_list("id", "tenant_id"))
    record_events(
        [
            NewEvent(
                kind="job.edited",
                tenant_id=tenant_id,
                subject_kind="job",
                subject_id=job_id,
                job_id=job_id,
                data={"reason": reason, **(data or {})},
                at=now,
            )
            for job_id, tenant_id in tenants.items()
        ]
    )
    hints.wake("scheduler")
