"""Whether a cluster answers, as its observer sees it. Events tell of changes only; the row always has the latest detail."""

from __future__ import annotations

import uuid
from datetime import datetime

from django.db import transaction

from activity.services import NewEvent, record_events
from clusters.models import Cluster, ClusterCondition
from kernel.limits import NOTE_LENGTH
from reconciling import bulk


def record_contact(cluster_id: uuid.UUID, *, reachable: bool, detail: str = "", now: datetime) -> bool:
    """Say that a cluster answered, or did not and why. Returns whether that is news."""
    return set_condition(cluster_id, ClusterCondition.REACHABLE if reachable else ClusterCondition.LOST_CONTACT, detail, now)


def set_condition(cluster_id: uuid.UUID, condition: ClusterCondition, detail: str, now: datetime) -> bool:
    """Record what the last contact with a cluster showed. Returns whether the condition changed; one read if nothing did.

    Nothing else follows from lost contact: what ran is taken to run on until the engine says otherwise. Of a cluster that was
    removed meanwhile there is nothing to record.
    """
    detail = detail[:NOTE_LENGTH]
    before = Cluster.objects.only("name", "condition", "condition_detail").filter(pk=cluster_id).first()
    if before is None:
        return False
    if before.condition == condition and before.condition_detail == detail:
        return False
    if before.condition == condition:
        Cluster.objects.filter(pk=cluster_id, condition=condition).update(condition_detail=detail)
        return False
    columns = {"id": cluster_id, "condition": condition.value, "condition_detail": detail, "condition_since_at": now}
    with transaction.atomic():
        if not bulk.update(Cluster, [columns], equals={"condition": before.condition}):
            return False  # Another process saw the change first and told of it.
        data = {"name": before.name, "from": before.condition, "detail": detail}
        event = NewEvent(
            kind=f"cluster.{condition.value}",
            tenant_id=None,
            subject_kind="cluster",
            subject_id=cluster_id,
            data=data,
            at=now,
        )
        record_events([event])
    return True
