"""A live attempt beside what was seen of it: what observation and conclusion both work on."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from clusters.engines.interface import AttemptObservation, Observations
from jobs.lifecycle.states import TASK_LIFECYCLE, AttemptState, TaskState
from jobs.models import Attempt, Job, Task
from jobs.reconcile import poisoned_jobs

LIVE = (AttemptState.STARTING, AttemptState.RUNNING, AttemptState.STOPPING)


@dataclass(slots=True)
class Watched:
    """One live attempt with its tasks, as stored, and what was seen of it now."""

    attempt: Attempt
    job: Job
    tasks: dict[tuple[str, int], Task]
    seen: AttemptObservation | None

    @property
    def all_over(self) -> bool:
        return all(TASK_LIFECYCLE.is_terminal(task.state) for task in self.tasks.values())

    @property
    def all_started(self) -> bool:
        return all(task.state != TaskState.PENDING for task in self.tasks.values())


def watch(cluster_id: uuid.UUID, observations: Observations, *, only: Collection[uuid.UUID] | None = None) -> list[Watched]:
    """Pair the live attempts of a cluster, or `only` some of them, with what was seen. Three queries, whatever their number.

    An attempt that the observation does not hold is paired with nothing if the observation is complete and began after the
    engine had the attempt; it is left out otherwise: what we did not see is not news.
    """
    seen = {item.attempt_id: item for item in observations.items}
    rows = Attempt.objects.filter(cluster_id=cluster_id, state__in=LIVE)
    attempts = list((rows if only is None else rows.filter(id__in=only)).select_related("job"))
    tasks: dict[uuid.UUID, dict[tuple[str, int], Task]] = defaultdict(dict)
    task_rows = Task.objects.filter(attempt__cluster_id=cluster_id, attempt__state__in=LIVE)
    for task in task_rows if only is None else task_rows.filter(attempt_id__in=only):
        tasks[task.attempt_id][(task.role, task.index)] = task
    watched = []
    for attempt in attempts:
        observed = poisoned_jobs.plain(seen.get(attempt.id)) if poisoned_jobs.is_marked(attempt) else seen.get(attempt.id)
        is_gone = (
            observations.complete
            and attempt.launched_at is not None
            and attempt.launched_at < observations.read_at - timedelta(milliseconds=1)
        )
        if observed is not None or is_gone:
            watched.append(Watched(attempt, attempt.job, tasks[attempt.id], observed))
    return watched
