"""What of jobs stands against the deletion of a queue."""

from __future__ import annotations

import uuid

from jobs.lifecycle.states import JOB_LIFECYCLE
from jobs.models import Job
from kernel.words import Text, counted
from tenants.capacity.services.queue_removal import NAMED_MAX, named
from tenants.services import QueueObstacle


def unfinished_in(queue_id: uuid.UUID) -> list[QueueObstacle]:
    """Jobs of the queue that wait or run; an array is one. Two queries."""
    rows = Job.objects.filter(queue_id=queue_id, state__in=JOB_LIFECYCLE.live_states, parent__isnull=True)
    count = rows.count()
    if not count:
        return []
    names = named(rows.order_by("id").values_list("name", flat=True)[:NAMED_MAX], count)
    return [
        QueueObstacle(
            Text(
                f"{counted(count, 'job waits or runs', 'jobs wait or run')} in it ({names})",
                f"其中有 {count} 个等待或运行中的作业（{names}）",
            ),
            Text(
                "Wait for the jobs, stop them (`berth stop JOB`), or give waiting ones another queue.",
                "请等待作业结束、停止它们（`berth stop JOB`），或为等待中的作业更换队列。",
            ),
        )
    ]
