"""The parent of an array has no life of its own: its state follows from its children, in the transaction that moves them."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from django.db.models import Count

from jobs.lifecycle.completion import derive_array_state
from jobs.lifecycle.states import JOB_LIFECYCLE, JobState
from jobs.models import Job
from jobs.services.transition import JOB, Change, apply
from kernel.wait_codes import WaitCode


def derive_parents(child_ids: Sequence[uuid.UUID], *, now: datetime) -> list[uuid.UUID]:
    """Move the parents of these children to where their children are; returns parents that reached an end."""
    parent_ids = set(
        Job.objects.filter(id__in=child_ids, parent_id__isnull=False).order_by().values_list("parent_id", flat=True).distinct()
    )
    if not parent_ids:
        return []
    counts: dict[uuid.UUID, dict[str, int]] = defaultdict(dict)
    for parent_id, state, number in (
        Job.objects.filter(parent_id__in=parent_ids).order_by().values_list("parent_id", "state").annotate(number=Count("id"))
    ):
        counts[parent_id][state] = number
    changes = []
    for parent_id, state, started_at in Job.objects.filter(id__in=parent_ids).values_list("id", "state", "started_at"):
        target = derive_array_state(counts[parent_id])
        if target == state or not JOB_LIFECYCLE.allows(state, target) or target == JobState.QUEUED:
            continue
        changes.append(
            Change(
                parent_id,
                state,
                target,
                reason="derived",
                detail={"children": counts[parent_id]},
                also={
                    "reason_code": WaitCode.ARRAY,
                    "reason_detail": counts[parent_id],
                    "started_at": started_at or now,
                    "ended_at": now if JOB_LIFECYCLE.is_terminal(target) else None,
                },
            )
        )
    moved = apply(JOB, changes, actor="system:arrays", at=now)
    return [change.id for change in moved if JOB_LIFECYCLE.is_terminal(change.to_state)]
