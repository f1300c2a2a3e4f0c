"""How far jobs and their tasks are, as the tasks said it, and which tasks are far behind."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from jobs.lifecycle.progress import Progress, sum_of
from jobs.lifecycle.states import TaskState
from jobs.lifecycle.stragglers import Straggler, TaskMark, stragglers
from jobs.models import Job, Task


def stragglers_among(tasks: Sequence[Task]) -> dict[uuid.UUID, Straggler]:
    """Those of these tasks that are far behind all tasks of their role and attempt. One query, none where nothing was said."""
    speaking = [task for task in tasks if task.progress is not None and task.state == TaskState.RUNNING]
    if not speaking:
        return {}
    rows = Task.objects.filter(
        attempt_id__in={task.attempt_id for task in speaking},
        state__in=[TaskState.RUNNING, TaskState.SUCCEEDED],
        progress__isnull=False,
    )
    roles: dict[tuple[uuid.UUID, str], list[TaskMark[uuid.UUID]]] = defaultdict(list)
    for task_id, attempt_id, role, state, stored in rows.values_list("id", "attempt_id", "role", "state", "progress"):
        if stored is not None:
            progress = Progress(stored["done"], stored["total"])
            roles[attempt_id, role].append(TaskMark(task_id, progress, is_running=state == TaskState.RUNNING))
    behind: dict[uuid.UUID, Straggler] = {}
    for marks in roles.values():
        behind |= stragglers(marks)
    return behind


def progress_of(job: Job) -> dict[str, Any] | None:
    """What all tasks of the latest attempt have done together, of those that said it."""
    if job.attempt_id is None:
        return None
    rows = Task.objects.filter(attempt_id=job.attempt_id, progress__isnull=False)
    return sum_of(stored for stored in rows.values_list("progress", flat=True) if stored is not None)
