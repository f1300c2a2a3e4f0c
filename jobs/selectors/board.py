"""A queue and those below it at a glance: who runs, on what they borrowed, and who waits in which order. Reads only."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, QuerySet, Window
from django.db.models.functions import Coalesce, RowNumber

from jobs.models import Job
from jobs.selectors.expected import ExpectedStart, expected_starts_of
from jobs.selectors.places import turns_of
from kernel.resources import RESOURCE_NAMES
from tenants.capacity.quota.limits import Limit
from tenants.capacity.quota.tree import QueueFacts

RUNNING = ("admitted", "starting", "running", "stopping")
RUNNING_MAX = 10_000  # Of the first so many it is told who borrows; a queue with more is not read at a glance.


@dataclass(frozen=True, slots=True)
class Board:
    """Rows come with tenant, queue, user and attempt. `positions`: from 1 in each queue; none for a job that is held."""

    running: tuple[Job, ...]
    running_count: int
    borrowed: frozenset[uuid.UUID]
    waiting: tuple[Job, ...]
    waiting_count: int
    positions: Mapping[uuid.UUID, int]
    expected: Mapping[uuid.UUID, ExpectedStart]


def read_board(queues: Sequence[QueueFacts], *, limit: int, now: datetime) -> Board:
    """The board of these queues: one queue and all below it, parents first. Five queries, and one more where more run than it is
    told of who borrows."""
    rows = Job.objects.filter(queue_id__in=[queue.id for queue in queues], array_size__isnull=True)
    related = rows.select_related("tenant", "queue", "user", "attempt")
    runs = rows.filter(state__in=RUNNING)
    live = list(
        runs.annotate(began=Coalesce("attempt__created_at", "started_at", "queued_at"), pool_id=F("attempt__pool_id"))
        .order_by("began", "id")
        .values_list("id", "queue_id", "pool_id", *RESOURCE_NAMES)[: RUNNING_MAX + 1]
    )
    shown = [row[0] for row in live[:limit]]
    running = {job.id: job for job in related.filter(id__in=shown)}
    waits = rows.filter(state="queued")
    waiting = list(_in_order(waits.select_related("tenant", "queue", "user"))[:limit])
    return Board(
        running=tuple(running[job_id] for job_id in shown if job_id in running),
        running_count=len(live) if len(live) <= RUNNING_MAX else runs.count(),
        borrowed=_borrowed(live[:RUNNING_MAX], queues),
        waiting=tuple(waiting),
        waiting_count=waits.count(),
        positions={job.id: int(getattr(job, "position")) for job in waiting if not job.hold},  # noqa: B009 - annotated.
        expected=expected_starts_of(waiting, now),
    )


def _in_order(rows: QuerySet[Job]) -> QuerySet[Job]:
    """As the scheduler looks at each queue: those that are held stand aside, behind the others."""
    order = [F("hold").asc(), F("turn").asc(), F("priority").asc(), F("id").asc()]
    position = Window(RowNumber(), partition_by=[F("queue_id")], order_by=order)
    return rows.annotate(turn=turns_of(rows)).annotate(position=position).order_by(*order)


def _borrowed(live: Sequence[tuple[Any, ...]], queues: Sequence[QueueFacts]) -> frozenset[uuid.UUID]:
    """Jobs that run on more than their queue, or one above it on the board, was promised: counted in the order of their starts,
    those that came when the promise was used up. A queue that was promised nothing borrows nothing that could be asked back."""
    above = {queue.id: queue.parent_id for queue in queues}
    promised = {
        (queue.id, pool_id, name): amount
        for queue in queues
        for pool_id, limits in queue.limits.items()
        for name in RESOURCE_NAMES
        if (amount := _promise(limits, name)) is not None
    }
    used: dict[tuple[uuid.UUID, uuid.UUID, str], int] = {}
    found = set()
    for job_id, queue_id, pool_id, *amounts in live:
        place: uuid.UUID | None = queue_id
        while place is not None and place in above:
            for name, amount in zip(RESOURCE_NAMES, amounts, strict=True):
                key = (place, pool_id, name)
                if not amount or key not in promised:
                    continue
                used[key] = used.get(key, 0) + amount
                if used[key] > promised[key]:
                    found.add(job_id)
            place = above[place]
    return frozenset(found)


def _promise(limits: Mapping[str, Limit], name: str) -> int | None:
    limit = limits.get(name)
    return limit.owed if limit is not None and limit.is_promise else None
