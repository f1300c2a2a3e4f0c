"""Jobs that wait for room and for nothing else."""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import Q

from jobs.lifecycle.states import JobState
from jobs.lifecycle.wait_reasons import WAITS
from jobs.models import Job
from kernel.wait_codes import stored_names

# As they are stored: what a job shows while machines, or those that hold them, are all that it waits for.
FOR_ROOM = stored_names(
    record.shown_as or record.code for record in WAITS.values() if record.machines_help or record.has_room_kept
)


def waiting_for_room(queue_paths: Collection[str]) -> set[tuple[str, str]]:
    """Of these queues and all below them: the path of the queue and the name of the pool, empty where its reason names none, of
    jobs that wait for GPUs. One statement."""
    below = Q()
    for path in queue_paths:
        below |= Q(queue__path__startswith=path)
    found = Job.objects.filter(below, state=JobState.QUEUED, gpu_millis__gt=0, reason_code__in=FOR_ROOM)
    rows = found if queue_paths else found.none()
    return {(path, pool or "") for path, pool in rows.order_by().values_list("queue__path", "reason_detail__pool").distinct()}
