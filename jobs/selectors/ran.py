"""When attempts ran, and when their clusters were last looked at: one that vanished is known to have run until then."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from datetime import datetime

from django.db.models import Count, Max, Min, Q

from jobs.models import ClusterLook, Task

Ran = tuple[datetime | None, datetime | None]


def ran_between(attempt_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Ran]:
    """When the first task of each attempt started and the last one ended, by their engine; None: none did, or one has no end.

    Observations bring both into the time from admission to the moment at which they were seen, whatever a host's clock says.
    """
    rows = Task.objects.filter(attempt_id__in=attempt_ids, started_at__isnull=False).order_by().values_list("attempt_id")
    found = rows.annotate(began=Min("started_at"), ended=Max("ended_at"), open=Count("id", filter=Q(ended_at__isnull=True)))
    return {attempt_id: (began, None if unended else ended) for attempt_id, began, ended, unended in found}


def last_looks(cluster_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, datetime]:
    """By cluster; one that was never looked at is missing."""
    return dict(ClusterLook.objects.filter(cluster_id__in=cluster_ids).values_list("cluster_id", "looked_at"))
