"""Keeps what the scheduler looks at, runs the pure pass over it, and applies what it decided.

The waiting jobs are loaded once and then kept up to date from events by `seq`; a full load every sweep checks that nothing was
missed. What runs and what is reserved is small and read fresh at every look. A pass runs only when something changed, and a look
that finds no change does not go through the waiting jobs: a hundred thousand of them cost memory, not time.
"""

from __future__ import annotations

import json
import time
import uuid
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
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
from jobs.scheduling.snapshot import PendingJob, PoolView, Snapshot
from jobs.selectors.pools import pool_views
from jobs.services.specs import SpecAsk, ask_of, load_spec, spec_asks
from jobs.services.unstartable import fail_unstartable
from kernel.config import current
from kernel.resources import Resources
from reconciling import poison
from tenants.budgets import Spent, budget_refusal, spent_budgets
from tenants.quota.tree import QueueTree
from tenants.selectors import queue_tree

log = structlog.get_logger("scheduler")

_COLUMNS = (
    "id", "tenant_id", "queue_id", "priority", "queued_at", "spec_id", "image_id", "image_kind", "parent_id", "hold",
    "not_before_at", "open_dependencies", "attempt_count", "reason_code", "reason_detail", "user_id", "pool_name",
    "submitted_at",
)  # fmt: skip
LOAD_ROWS = 2_000
FULL_LOAD_REST = 40  # A full load takes at most one part in so many of our time, however many wait.
FULL_LOAD_ROWS = 20_000  # From so many changed jobs on, reading all that wait is no dearer than picking out these.
Shared = dict[Any, Any]
Withheld = tuple[str, Mapping[str, object]]
_DETAIL = _COLUMNS.index("reason_detail") - 1  # Behind the id.
AGAIN_SECONDS = 0.05  # After a pass that failed at one job: the others wait no longer for it.


@dataclass(frozen=True, slots=True)
class _Waiting:
    """What the waiting jobs together refer to. Made anew after they changed, so that a look without news costs nothing."""

    images: frozenset[uuid.UUID]
    parents: frozenset[uuid.UUID]
    not_before: tuple[tuple[datetime, uuid.UUID], ...]  # By time.

    def next_due(self, now: datetime) -> tuple[datetime, uuid.UUID] | None:
        """Who of those that wait for a time reaches it next, and when. While that is the same one, nobody has reached theirs."""
        place = bisect_right(self.not_before, now, key=lambda item: item[0])
        return self.not_before[place] if place < len(self.not_before) else None


@dataclass(frozen=True, slots=True)
class _Around:
    """Everything but the waiting jobs that a pass looks at."""

    pools: tuple[PoolView, ...]
    queues: QueueTree
    images: Mapping[uuid.UUID, ResolvedImage]
    room: Mapping[uuid.UUID, int]
    holds: Holds
    spent: Mapping[uuid.UUID, Spent]  # Budgets that keep new jobs waiting, by queue.
    next_due: tuple[datetime, uuid.UUID] | None

    @property
    def fingerprint(self) -> object:
        """Equal while a pass would decide as the last one did, given the same waiting jobs."""
        return (self.pools, self.queues.nodes, self.images, self.room, self.next_due, self.holds, self.spent)

    def over_budget(self, queue_id: uuid.UUID) -> Withheld | None:
        """Why no job of a queue may start this month."""
        if not self.spent:
            return None
        refusal = budget_refusal([queue.id for queue in self.queues.path(queue_id)], self.spent)
        return None if refusal is None else ("budget", refusal.as_dict())


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
        self.has_admitted = False  # In its last run.
        self._asks: dict[uuid.UUID, SpecAsk] = {}  # By stored spec.
        self._new: set[uuid.UUID] | None = None  # Who has to be looked at if nothing else changed; None: everybody.
        self._shared: Shared = {}
        self._summary: _Waiting | None = None
        self._cursor = None
        self._full_load_at = 0.0
        self._fingerprint = None

    def run(self, *, now: datetime) -> float:
        """Take in changes, run a pass if anything could have changed; seconds until it is worth looking again."""
        self.has_admitted = False
        self._take_in_changes()
        if not self.pending:
            return self._next_due(now)
        images = resolved_images(set(self._waiting().images))
        self._fail_without_image(images, now)
        try:
            return self._pass(self._look_around(images, now), now)
        except Exception as error:  # One waiting job must not keep all others waiting: find it, and go on without it.
            if poison.is_infrastructure(error) or not self._sift(list(self.pending.values()), images, now):
                raise
            return AGAIN_SECONDS

    def _pass(self, around: _Around, now: datetime) -> float:
        struck = self._struck(around.images, now)
        fingerprint = around.fingerprint
        rows = self._worth_a_look(fingerprint)
        if not rows:
            return self._next_due(now)
        snapshot = self._snapshot([row for row in rows if row.id not in struck], around)
        began = time.monotonic()
        decisions = plan(snapshot, now)
        applied = apply_decisions(decisions, self.pending, {pool.id: pool for pool in snapshot.pools}, now=now)
        self._drop(applied.admitted)
        self.has_admitted = bool(applied.admitted)
        self._new = None if applied.lost else set()
        # What we admitted changes use and nodes: the fingerprint of the state before keeps the next look honest.
        self._fingerprint = fingerprint if not applied.admitted else None
        if applied.admitted or applied.lost:
            log.info(
                "pass", waiting=len(snapshot.pending), admitted=len(applied.admitted), lost=len(applied.lost),
                seconds=round(time.monotonic() - began, 4),
            )  # fmt: skip
        return 0.0 if applied.lost else self._next_due(now)

    def _worth_a_look(self, fingerprint: object) -> Sequence[PendingRow]:
        """The waiting jobs about which a pass could decide otherwise than the last one did.

        All of them where what is around them changed. Where it is as it was, whoever was refused is refused again, and only
        those that came or changed since have to be looked at: a thousand more behind a hundred thousand cost a thousand.
        """
        if self._new is None or fingerprint != self._fingerprint:
            return list(self.pending.values())
        return [self.pending[job_id] for job_id in self._new if job_id in self.pending]

    def _struck(self, images: Mapping[uuid.UUID, ResolvedImage], now: datetime) -> Collection[uuid.UUID]:
        """The waiting jobs at which a pass fails. Those of them whose time has come are tried, alone."""
        struck = poison.strikes(aside.SCHEDULE)
        due = [self.pending[job_id] for job_id, strike in struck.items() if job_id in self.pending and strike.due_at <= now]
        if due:
            self._sift(due, images, now)
            struck = poison.strikes(aside.SCHEDULE)
            self._new = None
        return struck.keys()

    def _sift(self, rows: Sequence[PendingRow], images: Mapping[uuid.UUID, ResolvedImage], now: datetime) -> bool:
        """Plan without writing, to find the jobs at which planning fails; whether there are any."""
        struck = poison.work_through(
            aside.SCHEDULE,
            rows,
            lambda part: plan(self._snapshot(part, self._look_around(images, now)), now),
            now=now,
            key=lambda row: row.id,
        )
        aside.say_why_it_waits(struck)
        return bool(struck)

    def _take_in_changes(self) -> None:
        if self._cursor is None or time.monotonic() >= self._full_load_at:
            self._load_everything()
            return
        changed: set[uuid.UUID] = set()
        cursor = self._cursor
        while True:
            more, cursor_after = changed_subjects("job", after=cursor)
            if cursor_after == cursor:
                break
            changed |= more
            cursor = cursor_after
            if len(changed) > FULL_LOAD_ROWS:
                self._load_everything()
                return
        if cursor == self._cursor:
            return
        self._cursor = cursor
        if self._new is not None:
            self._new |= changed
        self._summary = None
        for ids in _batches(sorted(changed)):
            fresh = {row.id: row for row in _load(self._shared, id__in=ids)}
            for job_id in ids:
                if job_id in fresh:
                    self.pending[job_id] = fresh[job_id]
                else:
                    self.pending.pop(job_id, None)

    def _load_everything(self) -> None:
        began = time.monotonic()
        self._cursor = last_seq()  # Read before the rows: a change in between is then seen twice, never missed.
        self._shared = {}
        fresh = {row.id: row for row in _load(self._shared)}
        if self._full_load_at and fresh.keys() != self.pending.keys():
            log.info("full_load_differs", kept=len(self.pending), found=len(fresh))
        self.pending = fresh
        self._summary = None
        seconds = time.monotonic() - began
        self._full_load_at = time.monotonic() + max(current().sweep_seconds, seconds * FULL_LOAD_REST)
        used = {row.spec_id for row in fresh.values()}
        self._asks = {spec_id: ask for spec_id, ask in self._asks.items() if spec_id in used}
        self._new = None

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
            self._drop(row.id for row in rows)

    def _look_around(self, images: Mapping[uuid.UUID, ResolvedImage], now: datetime) -> _Around:
        waiting = self._waiting()
        holds = current_holds()
        allocated, tenants = _allocations(holds)
        pools = pool_views(allocated, tenants)
        return _Around(
            pools, queue_tree(), images, _parent_room(waiting.parents), holds, spent_budgets(now), waiting.next_due(now)
        )

    def _snapshot(self, rows: Sequence[PendingRow], around: _Around) -> Snapshot:
        known = [row for row in rows if row.queue_id in around.queues.nodes]
        missing = {row.spec_id for row in known if row.spec_id not in self._asks}
        if missing:
            self._asks.update(spec_asks(missing))
        # A spec that could not be read is read again here, alone, and fails at the job that has it.
        asks = ((row, self._asks.get(row.spec_id) or ask_of(load_spec(row.spec_id))) for row in known)
        over = {queue_id: around.over_budget(queue_id) for queue_id in {row.queue_id for row in known}}
        why = around.holds.why
        pending = tuple(
            _pending_job(row, ask, around.images, why(row.id, row.submitted_at, row.attempt_count + 1) or over[row.queue_id])
            for row, ask in asks
        )
        return Snapshot(around.pools, around.queues, pending, around.room)

    def _waiting(self) -> _Waiting:
        if self._summary is None:
            rows = self.pending.values()
            self._summary = _Waiting(
                images=frozenset(row.image_id for row in rows if row.image_id is not None),
                parents=frozenset(row.parent_id for row in rows if row.parent_id is not None),
                not_before=tuple(sorted((row.not_before_at, row.id) for row in rows if row.not_before_at is not None)),
            )
        return self._summary

    def _drop(self, job_ids: Iterable[uuid.UUID]) -> None:
        for job_id in job_ids:
            self.pending.pop(job_id, None)
        self._summary = None

    def _next_due(self, now: datetime) -> float:
        """Seconds until the next of those that wait for a time; a second without any."""
        later = self._waiting().next_due(now)
        return max(0.01, (later[0] - now).total_seconds() if later is not None else 1.0)


def _load(shared: Shared, **condition: Any) -> Iterable[PendingRow]:
    """Waiting jobs as rows. Values that many rows have in common are kept once: they are most of a row's memory."""
    rows = (
        Job.objects.filter(state=JobState.QUEUED, desired="run", array_size__isnull=True, **condition)
        .order_by("id")
        .values_list(*_COLUMNS)
    )
    keep = shared.setdefault
    found = []
    for job_id, *values in rows.iterator(chunk_size=LOAD_ROWS):
        detail = values[_DETAIL]
        values[_DETAIL] = None
        common = [keep(value, value) if isinstance(value, (uuid.UUID, str, datetime)) else value for value in values]
        common[_DETAIL] = keep(("detail", json.dumps(detail, sort_keys=True)), detail)
        found.append(PendingRow(job_id, *common))
    return found


def _pending_job(
    row: PendingRow, ask: SpecAsk, images: Mapping[uuid.UUID, ResolvedImage], withheld: Withheld | None
) -> PendingJob:
    image = images.get(row.image_id) if row.image_id is not None else None
    return PendingJob(
        id=row.id,
        tenant_id=row.tenant_id,
        queue_id=row.queue_id,
        priority=row.priority,
        queued_at=row.queued_at,
        roles=ask.roles,
        pool_name=ask.pool_name,
        cluster_name=ask.cluster_name,
        image_kind=row.image_kind,
        image_ready=image is None or image.state == ImageState.READY,
        parent_id=row.parent_id,
        hold=row.hold,
        not_before_at=row.not_before_at,
        open_dependencies=row.open_dependencies,
        withheld=withheld,
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


def _parent_room(parents: Collection[uuid.UUID]) -> dict[uuid.UUID, int]:
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
