"""Moves what live attempts print from the engine into the store, so that pages never ask an engine."""

from __future__ import annotations

import uuid
from collections import defaultdict

from clusters.engines.interface import EngineUnreachable, TaskName
from clusters.services import engine_for
from jobs.lifecycle.states import AttemptState
from jobs.models import Attempt, Task
from storage.logs import LogSource, PumpCounts, pump

BATCH_ATTEMPTS = 500


def pump_live(cluster_id: uuid.UUID) -> PumpCounts:
    """One pass over the streams of all live attempts of a cluster.

    Of one that was stopped while it was handed over nobody knows yet whether the engine has it: an engine that does not would
    say that it prints no more, and what it prints once it is there would be lost. Once it is seen it counts as launched.
    """
    live = [AttemptState.STARTING, AttemptState.RUNNING, AttemptState.STOPPING]
    attempts = list(
        Attempt.objects.filter(cluster_id=cluster_id, state__in=live, launched_at__isnull=False)
        .order_by("id")
        .values_list("id", "tenant_id", "job_id")[:BATCH_ATTEMPTS]
    )
    if not attempts:
        return PumpCounts()
    tasks: dict[uuid.UUID, list[TaskName]] = defaultdict(list)
    ids = [attempt_id for attempt_id, _, _ in attempts]
    for attempt_id, role, index in Task.objects.filter(attempt_id__in=ids).values_list("attempt_id", "role", "index"):
        tasks[attempt_id].append(TaskName(role, index))
    try:
        return pump(engine_for(cluster_id), [LogSource(tenant, job, one, tuple(tasks[one])) for one, tenant, job in attempts])
    except EngineUnreachable:
        return PumpCounts()
