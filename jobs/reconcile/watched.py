"""A live attempt beside what was seen of it: what observation and conclusion both work on."""

from __future__ import annotations

import uuid
from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta

from clusters.engines.interface import AttemptObservation, Observations
from jobs.lifecycle.states import TASK_LIFECYCLE, AttemptState, TaskState
from jobs.models import Attempt, Job, Task

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


def watch(cluster_id: uuid.UUID, observations: Observations) -> list[Watched]:
    """Pair the live attempts of a cluster with what was seen. Three queries, whatever their number.

    An attempt that the observation does not hold is paired with nothing if the observation is complete and began after the
    engine had the attempt; it is left out otherwise: what we did not see is not news.
    """
    seen = {item.attempt_id: item for item in observations.items}
    attempts = list(Attempt.objects.filter(cluster_id=cluster_id, state__in=LIVE).select_related("job"))
    tasks: dict[uuid.UUID, dict[tuple[str, int], Task]] = defaultdict(dict)
    for task in Task.objects.filter(attempt__cluster_id=cluster_id, attempt__state__in=LIVE):
        tasks[task.attempt_id][(task.role, task.index)] = task
    watched = []
    for attempt in attempts:
        observed = seen.get(attempt.id)
        is_gone = (
            observations.complete
            and attempt.launched_at is not None
            and attempt.launched_at < observations.read_at - timedelta(milliseconds=1)
        )
        if observed is not None or is_gone:
            watched.append(Watched(attempt, attempt.job, tasks[attempt.id], observed))
    return watched
