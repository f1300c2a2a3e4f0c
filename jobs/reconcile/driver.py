"""Keeps what the scheduler looks at, runs the pure pass over it, and applies what it decided.

The waiting jobs are loaded once and then kept up to date from events by `seq`; a full load every sweep checks that nothing was
missed. What runs and what is reserved is small and read fresh for every pass. A pass runs only when something changed.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import structlog
from django.db.models import Count, Sum

from activity.selectors import changed_subjects
from activity.sequencer import last_seq
from clusters.services.quarantine import Holds, current_holds
from images.lifecycle import ImageState
from images.services import ResolvedImage, resolved_images
from jobs.lifecycle.states import ATTEMPT_LIFECYCLE, JOB_LIFECYCLE, JobState
from jobs.models import Job, Task
from jobs.reconcile import aside
from jobs.reconcile.admit import PendingRow, apply_decisions
from jobs.scheduling.plan import plan
from jobs.scheduling.snapshot import PendingJob, RoleAsk, Snapshot
from jobs.selectors.pools import pool_views
from jobs.services.specs import load_spec, role_asks
from jobs.services.unstartable import fail_unstartable
from kernel.config import current
from kernel.resources import Resources
from reconciling import poison
from tenants.selectors import queue_tree

log = structlog.get_logger("scheduler")

_COLUMNS = (
    "id", "tenant_id", "queue_id", "priority", "queued_at", "spec_id", "image_id", "image_kind", "parent_id", "hold",
    "not_before_at", "open_dependencies", "attempt_count", "reason_code", "reason_detail", "user_id", "pool_name",
    "submitted_at",
)  # fmt: skip
LOAD_ROWS = 2_000
AGAIN_SECONDS = 0.05  # After a pass that failed at one job: the others wait no longer for it.


class SchedulerDriver:
    """One per process; only the leader's is used."""

    pending: dict[uuid.UUID, PendingRow]
    _cursor: int | None
    _fingerprint: object

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop everything: a new leader starts from the database."""
        self.pending = {}
        self._cursor = None
        self._full_load_at = 0.0
        self._dirty = True
        self._fingerprint = None

    def run(self, *, now: datetime) -> float:
        """Take in changes, run a pass if anything could have changed; seconds until it is worth looking again."""
        self._take_in_changes()
        if not self.pending:
            return self._next_due(now)
        images = resolved_images({row.image_id for row in self.pending.values() if row.image_id is not None})
        self._fail_without_image(images, now)
        try:
            return self._pass(self._sound_rows(images, now), images, now)
        except Exception as error:  # One waiting job must not keep all others waiting: find it, and go on without it.
            if poison.is_infrastructure(error) or not self._sift(list(self.pending.values()), images, now):
                raise
            return AGAIN_SECONDS

    def _pass(self, rows: Sequence[PendingRow], images: Mapping[uuid.UUID, ResolvedImage], now: datetime) -> float:
        snapshot, fingerprint = self._snapshot(rows, images, now)
        if not self._dirty and fingerprint == self._fingerprint:
            return self._next_due(now)
        began = time.monotonic()
        decisions = plan(snapshot, now)
        applied = apply_decisions(decisions, self.pending, {pool.id: pool for pool in snapshot.pools}, now=now)
        for job_id in applied.admitted:
            self.pending.pop(job_id, None)
        self._dirty = bool(applied.lost)
        # What we admitted changes use and nodes: the fingerprint of the state before keeps the next look honest.
        self._fingerprint = fingerprint if not applied.admitted else None
        if applied.admitted or applied.lost:
            log.info(
                "pass", waiting=len(snapshot.pending), admitted=len(applied.admitted), lost=len(applied.lost),
                seconds=round(time.monotonic() - began, 4),
            )  # fmt: skip
        return 0.0 if applied.lost else self._next_due(now)

    def _sound_rows(self, images: Mapping[uuid.UUID, ResolvedImage], now: datetime) -> list[PendingRow]:
        """All waiting jobs but those at which a pass fails. Those of them whose time has come are tried, alone."""
        struck = poison.strikes(aside.SCHEDULE)
        due = [self.pending[job_id] for job_id, strike in struck.items() if job_id in self.pending and strike.due_at <= now]
        if due:
            self._sift(due, images, now)
            struck = poison.strikes(aside.SCHEDULE)
            self._dirty = True
        return [row for row in self.pending.values() if row.id not in struck]

    def _sift(self, rows: Sequence[PendingRow], images: Mapping[uuid.UUID, ResolvedImage], now: datetime) -> bool:
        """Plan without writing, to find the jobs at which planning fails; whether there are any."""
        struck = poison.work_through(
            aside.SCHEDULE, rows, lambda part: plan(self._snapshot(part, images, now)[0], now), now=now, key=lambda row: row.id
        )
        aside.say_why_it_waits(struck)
        return bool(struck)

    def _take_in_changes(self) -> None:
        if self._cursor is None or time.monotonic() >= self._full_load_at:
            self._load_everything()
            return
        changed, cursor = changed_subjects("job", after=self._cursor)
        if cursor == self._cursor:
            return
        self._cursor = cursor
        self._dirty = True
        for ids in _batches(sorted(changed)):
            fresh = {row.id: row for row in _load(id__in=ids)}
            for job_id in ids:
                if job_id in fresh:
                    self.pending[job_id] = fresh[job_id]
                else:
                    self.pending.pop(job_id, None)

    def _load_everything(self) -> None:
        self._cursor = last_seq()  # Read before the rows: a change in between is then seen twice, never missed.
        fresh = {row.id: row for row in _load()}
        if self._full_load_at and fresh.keys() != self.pending.keys():
            log.info("full_load_differs", kept=len(self.pending), found=len(fresh))
        self.pending = fresh
        self._full_load_at = time.monotonic() + current().sweep_seconds
        self._dirty = True

    def _fail_without_image(self, images: Mapping[uuid.UUID, ResolvedImage], now: datetime) -> None:
        """A job whose image could not be built will never start: say so now."""
        failed = {image_id: image for image_id, image in images.items() if image.state == ImageState.FAILED}
        rows = [row for row in self.pending.values() if row.image_id in failed] if failed else []
        if rows:
            fail_unstartable(
                [
                    (row.id, "image_build_failed", {"image": failed[row.image_id].name})
                    for row in rows
                    if row.image_id is not None
                ],
                now=now,
            )
            for row in rows:
                self.pending.pop(row.id, None)

    def _snapshot(
        self, rows: Sequence[PendingRow], images: Mapping[uuid.UUID, ResolvedImage], now: datetime
    ) -> tuple[Snapshot, object]:
        holds = current_holds()
        allocated, tenants = _allocations(holds)
        pools = pool_views(allocated, tenants)
        queues = queue_tree()
        pending = tuple(_pending_job(row, images, holds) for row in rows if row.queue_id in queues.nodes)
        room = _parent_room({row.parent_id for row in rows if row.parent_id is not None})
        due = tuple(sorted(job.id for job in pending if job.not_before_at is not None and job.not_before_at <= now))
        fingerprint = (pools, queues.nodes, images, room, due, holds)
        return Snapshot(pools, queues, pending, room), fingerprint

    def _next_due(self, now: datetime) -> float:
        waits = [
            (row.not_before_at - now).total_seconds()
            for row in self.pending.values()
            if row.not_before_at is not None and row.not_before_at > now
        ]
        return max(0.01, min(waits, default=1.0))


def _load(**condition: Any) -> Iterable[PendingRow]:
    rows = (
        Job.objects.filter(state=JobState.QUEUED, desired="run", array_size__isnull=True, **condition)
        .order_by("id")
        .values_list(*_COLUMNS)
    )
    return [PendingRow(*row) for row in rows.iterator(chunk_size=LOAD_ROWS)]


@lru_cache(maxsize=10_000)
def _roles(spec_id: uuid.UUID) -> tuple[tuple[RoleAsk, ...], str, str]:
    """What a stored spec asks for: roles, pool name, cluster name. Specs never change, so the cache never lies."""
    spec = load_spec(spec_id)
    return role_asks(spec), spec.pool or "", spec.cluster or ""


def _pending_job(row: PendingRow, images: Mapping[uuid.UUID, ResolvedImage], holds: Holds) -> PendingJob:
    roles, pool_name, cluster_name = _roles(row.spec_id)
    image = images.get(row.image_id) if row.image_id is not None else None
    return PendingJob(
        id=row.id,
        tenant_id=row.tenant_id,
        queue_id=row.queue_id,
        priority=row.priority,
        queued_at=row.queued_at,
        roles=roles,
        pool_name=pool_name,
        cluster_name=cluster_name,
        image_kind=row.image_kind,
        image_ready=image is None or image.state == ImageState.READY,
        parent_id=row.parent_id,
        hold=row.hold,
        not_before_at=row.not_before_at,
        open_dependencies=row.open_dependencies,
        withheld=holds.why(row.id, row.submitted_at, row.attempt_count + 1),
    )


def _allocations(holds: Holds) -> tuple[dict[tuple[uuid.UUID, str], Resources], dict[uuid.UUID, set[uuid.UUID]]]:
    """What live tasks hold, by (pool, node); and which tenants run on each cluster. Terminating still counts."""
    rows = (
        Task.objects.filter(attempt__state__in=ATTEMPT_LIFECYCLE.live_states)
        .values_list("attempt__pool_id", "attempt__cluster_id", "node_name", "tenant_id")
        .annotate(cpu=Sum("cpu_millis"), memory=Sum("memory_bytes"), gpu=Sum("gpu_millis"))
        .order_by()
    )
    allocated = dict(holds.allocated)
    tenants: dict[uuid.UUID, set[uuid.UUID]] = {}
    for pool_id, cluster_id, node, tenant_id, cpu, memory, gpu in rows:
        key = (pool_id, node)
        allocated[key] = allocated.get(key, Resources()) + Resources(cpu, memory, gpu)
        tenants.setdefault(cluster_id, set()).add(tenant_id)
    return allocated, tenants


def _parent_room(parents: set[uuid.UUID]) -> dict[uuid.UUID, int]:
    """How many more children of each array may run, where the array bounds it."""
    if not parents:
        return {}
    bounds = dict(Job.objects.filter(id__in=parents, array_parallelism__isnull=False).values_list("id", "array_parallelism"))
    if not bounds:
        return {}
    live = [state for state in JOB_LIFECYCLE.live_states if state != JobState.QUEUED]
    running = Counter(
        dict(
            Job.objects.filter(parent_id__in=bounds, state__in=live)
            .values_list("parent_id")
            .annotate(number=Count("id"))
            .order_by()
        )
    )
    return {parent_id: bound - running[parent_id] for parent_id, bound in bounds.items() if bound is not None}


def _batches(ids: list[uuid.UUID]) -> Iterable[list[uuid.UUID]]:
    return (ids[start : start + 500] for start in range(0, len(ids), 500))
