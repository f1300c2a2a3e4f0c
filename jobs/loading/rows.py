"""Rows of jobs and attempts that the scheduler goes by, as the database has them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from jobs.lifecycle.states import ATTEMPT_LIFECYCLE, JobState
from jobs.models import Attempt, Job, Task
from kernel.resources import Resources
from tenants.identity.standing import Place

LOAD_ROWS = 2_000
MOVING = "moving_away"  # Why a job stops that goes on elsewhere at once.
Shared = dict[Any, Any]


class PendingRow(NamedTuple):
    """The columns of a waiting job, in the order of the query."""

    id: uuid.UUID
    tenant_id: uuid.UUID
    queue_id: uuid.UUID
    priority: int
    spec_id: uuid.UUID
    image_id: uuid.UUID | None
    image_kind: str
    image_digest: str
    parent_id: uuid.UUID | None
    hold: bool
    not_before_at: datetime | None
    open_dependencies: int
    attempt_count: int
    reason_code: str
    reason_detail: Mapping[str, Any]
    user_id: uuid.UUID
    max_runtime_seconds: int | None
    submitted_at: datetime
    placed_at: datetime | None
    checkpoint: str | None
    name: str = ""
    gpu_millis: int = 0
    predicted_seconds: int | None = None
    cautious_seconds: int | None = None

    @property
    def place(self) -> Place:
        """The tenant in which its owner has to have a role."""
        return self.tenant_id, self.user_id


_DETAIL = PendingRow._fields.index("reason_detail") - 1  # Behind the id.


class LiveRow(NamedTuple):
    """The columns of a live attempt, which holds what its tasks ask for until it has ended."""

    attempt_id: uuid.UUID
    job_id: uuid.UUID
    state: str
    pool_id: uuid.UUID
    cluster_id: uuid.UUID
    tenant_id: uuid.UUID
    queue_id: uuid.UUID
    priority: int
    parent_id: uuid.UUID | None
    user_id: uuid.UUID
    spec_id: uuid.UUID
    max_runtime_seconds: int | None
    submitted_at: datetime
    created_at: datetime
    started_at: datetime | None
    evicted_for: uuid.UUID | None
    reason_code: str  # Of the job: whether the room that it is leaving for another is all that it loses.
    checkpoint: str | None = None  # None: the platform keeps no directory for it.
    predicted_seconds: int | None = None
    cautious_seconds: int | None = None

    @property
    def id(self) -> uuid.UUID:
        """Of the job."""
        return self.job_id

    @property
    def placed_at(self) -> None:
        """What runs has no place in its queue."""
        return None

    @property
    def migrates(self) -> bool:
        """Whether it goes on elsewhere once it has left."""
        return self.evicted_for is not None and self.reason_code == MOVING


class LiveTask(NamedTuple):
    attempt_id: uuid.UUID
    role: str
    number: int
    node_name: str
    amount: Resources
    gpus: tuple[str, ...] = ()  # As the engine calls them; empty until it has said.


def load_pending(shared: Shared, **condition: Any) -> Iterable[PendingRow]:
    """Waiting jobs as rows. Values that many rows have in common are kept once: they are most of a row's memory."""
    rows = (
        Job.objects.filter(state=JobState.QUEUED, desired="run", array_size__isnull=True, **condition)
        .order_by("id")
        .values_list(*PendingRow._fields)
    )
    keep = shared.setdefault
    for job_id, *values in rows.iterator(chunk_size=LOAD_ROWS):
        detail = values[_DETAIL]
        values[_DETAIL] = None
        common = [keep(value, value) if isinstance(value, (uuid.UUID, str, datetime)) else value for value in values]
        common[_DETAIL] = keep(("detail", json.dumps(detail, sort_keys=True)), detail)
        yield PendingRow(job_id, *common)


LIVE_COLUMNS = (
    "id", "job_id", "state", "pool_id", "cluster_id", "tenant_id", "job__queue_id", "job__priority", "job__parent_id",
    "job__user_id", "job__spec_id", "job__max_runtime_seconds", "job__submitted_at", "created_at", "started_at", "evicted_for",
    "job__reason_code", "job__checkpoint", "job__predicted_seconds", "job__cautious_seconds",
)  # fmt: skip


def load_live(**condition: Any) -> list[LiveRow]:
    """The attempts that hold machines. What is being stopped does so until it has ended."""
    rows = Attempt.objects.filter(state__in=ATTEMPT_LIFECYCLE.live_states, **condition).order_by("job_id")
    return [LiveRow(*row) for row in rows.values_list(*LIVE_COLUMNS)]


def load_tasks(attempt_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, list[LiveTask]]:
    """The tasks of these attempts, in order. One query for 500."""
    found: dict[uuid.UUID, list[LiveTask]] = {}
    for start in range(0, len(attempt_ids), 500):
        rows = Task.objects.filter(attempt_id__in=attempt_ids[start : start + 500]).order_by("attempt_id", "role", "index")
        columns = ("attempt_id", "role", "index", "node_name", "gpus", "cpu_millis", "memory_bytes", "gpu_millis")
        for attempt_id, role, index, node, gpus, *amounts in rows.values_list(*columns):
            found.setdefault(attempt_id, []).append(LiveTask(attempt_id, role, index, node, Resources(*amounts), tuple(gpus)))
    return found


def load_parallelism(rows: Iterable[PendingRow], live: Iterable[LiveRow]) -> dict[uuid.UUID, int]:
    """How many children of each array may run, where it says. One query for 500 arrays."""
    waiting, running = {row.parent_id for row in rows}, {row.parent_id for row in live}
    parents = sorted(parent for parent in waiting | running if parent is not None)
    found: dict[uuid.UUID, int] = {}
    for start in range(0, len(parents), 500):
        bounded = Job.objects.filter(id__in=parents[start : start + 500], array_parallelism__isnull=False)
        found.update((parent, bound) for parent, bound in bounded.values_list("id", "array_parallelism") if bound is not None)
    return found


def tenants_of(live: Iterable[LiveRow]) -> dict[uuid.UUID, set[uuid.UUID]]:
    """Who runs on each cluster."""
    found: dict[uuid.UUID, set[uuid.UUID]] = {}
    for row in live:
        found.setdefault(row.cluster_id, set()).add(row.tenant_id)
    return found
