"""Jobs leave devices that are out of order, and are tried again elsewhere at the platform's expense.

`look` is called when evidence comes and as a duty; it may run late, twice or beside another. It goes by what is so now: a task
that is found on such a device later, since it was being started at that moment, leaves as well.
"""

from __future__ import annotations

import uuid
from datetime import datetime

import structlog
from django.db import transaction

from clusters.services.gpu_faults import ACTOR, FaultyNode, faulty_nodes
from jobs.lifecycle.states import ATTEMPT_LIFECYCLE, AttemptState
from jobs.models import Task
from jobs.services.stop import stop_attempts

log = structlog.get_logger("gpu_faults")


def look(now: datetime) -> int:
    """Stop the attempts with a task on a faulty device; returns how many were told to go."""
    return sum(_leave(node, now) for node in faulty_nodes())


def _leave(node: FaultyNode, now: datetime) -> int:
    staying = [state for state in ATTEMPT_LIFECYCLE.live_states if state != AttemptState.STOPPING]
    with transaction.atomic():
        tasks = Task.objects.filter(
            node_name=node.name, attempt__cluster_id=node.cluster_id, attempt__state__in=staying
        ).order_by("job_id", "role", "index")
        going: dict[uuid.UUID, tuple[uuid.UUID, str, str]] = {}
        for attempt_id, job_id, state, gpus in tasks.values_list("attempt_id", "job_id", "attempt__job__state", "gpus"):
            device = next((gpu for gpu in gpus if gpu in node.devices), None)
            if device is not None:
                going.setdefault(attempt_id, (job_id, state, device))
        for attempt_id, (job_id, state, device) in going.items():
            stop_attempts(
                [(job_id, state, attempt_id)],
                cause="gpu_fault",
                reason="gpu_fault_stop",
                detail={"node": node.name, "fault": node.devices[device]},
                grace_seconds=None,
                actor=ACTOR.name,
                now=now,
            )
            log.warning("left_faulty_gpu", job_id=str(job_id), attempt_id=str(attempt_id), node=node.name, gpu=device)
    return len(going)
