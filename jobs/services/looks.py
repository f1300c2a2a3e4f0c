"""When clusters were last looked at. An attempt that vanished is known to have run until then, and no longer."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from jobs.models import ClusterLook

NOTED_EVERY = timedelta(seconds=5)  # One small write for each cluster; what vanishes is charged so much too little at most.


def note_look(cluster_id: uuid.UUID, at: datetime) -> None:
    """Say that all attempts of a cluster were looked at, and what was seen is written down."""
    known = ClusterLook.objects.filter(cluster_id=cluster_id)
    if known.filter(looked_at__gt=at - NOTED_EVERY).exists() or known.update(looked_at=at):
        return
    ClusterLook.objects.bulk_create([ClusterLook(cluster_id=cluster_id, looked_at=at)], ignore_conflicts=True)
