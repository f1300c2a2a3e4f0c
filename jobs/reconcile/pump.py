"""Moves what live attempts print from the engine into the store, so that pages never ask an engine."""

from __future__ import annotations

import uuid
from collections import defaultdict

from clusters.engines.interface import EngineUnreachable, TaskName
from clusters.services import engine_for
from jobs.lifecycle.states import AttemptState
from jobs.models import Attempt, Task
from jobs.reconcile.poll import log_source
from storage.logs import PumpCounts, pump

BATCH_ATTEMPTS = 500


def pump_live(cluster_id: uuid.UUID) -> PumpCounts:
    """One pass over the streams of all live attempts of a cluster."""
    attempts = list(
        Attempt.objects.filter(
            cluster_id=cluster_id, state__in=[AttemptState.STARTING, AttemptState.RUNNING, AttemptState.STOPPING]
        ).order_by("id")[:BATCH_ATTEMPTS]
    )
    if not attempts:
        return PumpCounts()
    tasks: dict[uuid.UUID, list[TaskName]] = defaultdict(list)
    ids = [attempt.id for attempt in attempts]
    for attempt_id, role, index in Task.objects.filter(attempt_id__in=ids).values_list("attempt_id", "role", "index"):
        tasks[attempt_id].append(TaskName(role, index))
    try:
        return pump(engine_for(cluster_id), [log_source(attempt, tasks[attempt.id]) for attempt in attempts])
    except EngineUnreachable:
        return PumpCounts()
