"""Applies the decisions of a pass: one transaction for all admissions of a batch, one for evictions, one for a thousand reasons.

Attempt, tasks, reservation and the job's change of state are written together. A job that a user stopped or changed
meanwhile, one whose quota or cap was used up by another, and one whose machine was cordoned is a lost race: counted, dropped,
and looked at in the next pass.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from activity import hints
from clusters.services import cordoned_of
from jobs.lifecycle.states import AttemptState, JobState, TaskState
from jobs.lifecycle.wait_reasons import WAITS
from jobs.lifecycle.wait_record import FOUND_AT
from jobs.loading.rows import PendingRow
from jobs.loading.state import SCHEDULE
from jobs.models import Attempt, Job, Task
from jobs.reconcile import poisoned_jobs
from jobs.reconcile.capped import refused_by_caps
from jobs.scheduling.core.eligibility import PoolView, Refusal
from jobs.services.decision_records import DecisionRow, record_decisions
from jobs.services.stop import stop_attempts
from jobs.services.transition import JOB, Change, apply
from kernel.clock import utc_text
from kernel.ids import new_id
from kernel.resources import Resources
from kernel.wait_codes import WaitCode
from reconciling import bulk, poison
from reconciling.crashpoints import crashpoint
from tenants.capacity.quota.caps import Held
from tenants.capacity.services.reservations import ReserveRequest, release, reserve
from tenants.identity.standing import departed_from, disabled_tenants

TELLING = frozenset({"preempted", *(code for code, record in WAITS.items() if record.says_more_than_its_time)})
"""Why it waits for its time says more than that it does."""
REFRESH_ROWS = 200  # Waiting jobs whose amounts are kept fresh; behind them a reason changes only with its code.


@dataclass(frozen=True, slots=True)
class TaskPlacement:
    role: str
    index: int
    node: str
    each: Resources


@dataclass(frozen=True, slots=True)
class Admission:
    """Start a whole gang in one pool, each task on the node named. `ask` is what all of them hold."""

    job_id: uuid.UUID
    pool: PoolView
    ask: Resources
    placements: tuple[TaskPlacement, ...]


Records = Mapping[uuid.UUID, DecisionRow]
"""By job, what is kept of the decision about it."""


def admit(
    admissions: Sequence[Admission], pending: Mapping[uuid.UUID, PendingRow], records: Records, *, now: datetime
) -> dict[uuid.UUID, uuid.UUID]:
    """Start these; the attempts, by job, of those that got in. Who is missing lost a race, or is poison."""
    admitted: dict[uuid.UUID, uuid.UUID] = {}
    for start in range(0, len(admissions), bulk.BATCH_ROWS):
        struck = poison.work_through(
            SCHEDULE,
            admissions[start : start + bulk.BATCH_ROWS],
            lambda part: admitted.update(_admit(part, pending, records, now=now)),
            now=now,
            key=lambda admission: admission.job_id,
        )
        poisoned_jobs.say_why_it_waits(struck)
    return admitted


@dataclass(frozen=True, slots=True)
class Eviction:
    """End the attempt of a job. `claimant`: the waiting job that gets its room, None for a booking that is about to begin.
    `reason`: what its people are told."""

    job_id: uuid.UUID
    claimant: uuid.UUID | None
    reason: str


def evict(evictions: Sequence[Eviction], records: Records, *, now: datetime) -> None:
    """End these attempts, and write down for which waiting job and why: a new leader has to know whose their room is."""
    if not evictions:
        return
    victims = {eviction.job_id: eviction for eviction in evictions}
    with transaction.atomic():
        rows = [
            (job_id, state, attempt_id)
            for job_id, state, attempt_id in Job.objects.filter(id__in=victims).values_list("id", "state", "attempt_id")
            if attempt_id is not None
        ]
        for reason in sorted({eviction.reason for eviction in evictions}):
            stop_attempts(
                [row for row in rows if victims[row[0]].reason == reason],
                cause="preempted", reason=reason, grace_seconds=None, actor="system:scheduler", now=now,
            )  # fmt: skip
        bulk.update(
            Attempt,
            [{"id": attempt_id, "evicted_for": victims[job_id].claimant} for job_id, _, attempt_id in rows],
            equals={"state": AttemptState.STOPPING, "stop_cause": "preempted"},
        )
        record_decisions([records[job_id] for job_id, _, _ in rows if job_id in records], now=now)
        crashpoint("jobs.evict.before_commit")
    crashpoint("jobs.evict.after_commit")


def _admit(
    admits: Sequence[Admission], pending: Mapping[uuid.UUID, PendingRow], records: Records, *, now: datetime
) -> dict[uuid.UUID, uuid.UUID]:
    attempts = {admit.job_id: new_id() for admit in admits}
    with transaction.atomic():
        admits = _without_cordoned(admits)
        disabled = disabled_tenants()  # Once more: an operator's word holds from the moment that it is given.
        departed = departed_from({pending[admit.job_id].place for admit in admits})  # Likewise.
        admits = [
            admit
            for admit in admits
            if pending[admit.job_id].tenant_id not in disabled and pending[admit.job_id].place not in departed
        ]
        over = _over_caps(admits, pending, now=now)
        admits = [admit for admit in admits if admit.job_id not in over]
        granted = reserve(
            [
                ReserveRequest(
                    attempt_id=attempts[admit.job_id],
                    job_id=admit.job_id,
                    tenant_id=pending[admit.job_id].tenant_id,
                    queue_id=pending[admit.job_id].queue_id,
                    pool_id=admit.pool.id,
                    amount=admit.ask,
                )
                for admit in admits
            ],
            now=now,
        )
        winners = [admit for admit in admits if attempts[admit.job_id] in granted]
        done = apply(
            JOB,
            [
                Change(
                    admit.job_id,
                    JobState.QUEUED,
                    JobState.ADMITTED,
                    reason="admitted",
                    detail={"pool": admit.pool.name, "attempt": pending[admit.job_id].attempt_count + 1},
                    also={
                        "attempt_count": pending[admit.job_id].attempt_count + 1,
                        "reason_code": "",
                        "reason_detail": {},
                        "not_before_at": None,
                    },
                    guard={"desired": "run", "hold": False, "checkpoint": pending[admit.job_id].checkpoint},
                )
                for admit in winners
            ],
            actor="system:scheduler",
            at=now,
        )
        moved = {change.id for change in done}
        release([attempts[admit.job_id] for admit in winners if admit.job_id not in moved], now=now)
        _insert_attempts([admit for admit in winners if admit.job_id in moved], attempts, pending, now=now)
        # After the attempts: while one is named that is not there yet, SQLite looks through all jobs for each that is inserted.
        bulk.update(Job, [{"id": job_id, "attempt_id": attempts[job_id]} for job_id in sorted(moved)])
        record_decisions(
            [records[admit.job_id] for admit in winners if admit.job_id in moved and admit.job_id in records], now=now
        )
        crashpoint("jobs.admit.before_commit")
        for cluster_id in {admit.pool.cluster_id for admit in winners}:
            hints.wake(f"launch.{cluster_id}")
    crashpoint("jobs.admit.after_commit")
    return {job_id: attempts[job_id] for job_id in moved}


def _without_cordoned(admits: Sequence[Admission]) -> Sequence[Admission]:
    """Those whose machines may still be used. A drain sees the others only if they come before its cordon: what comes after it
    would not be told to go."""
    places = {(admission.pool.cluster_id, placement.node) for admission in admits for placement in admission.placements}
    cordoned = cordoned_of(places)
    if not cordoned:
        return admits
    return [
        admission
        for admission in admits
        if not any((admission.pool.cluster_id, each.node) in cordoned for each in admission.placements)
    ]


def _over_caps(admits: Sequence[Admission], pending: Mapping[uuid.UUID, PendingRow], *, now: datetime) -> Collection[uuid.UUID]:
    """Those that would pass a cap by what runs now; that is then why they wait."""
    asks = [
        (
            admission.job_id,
            pending[admission.job_id].tenant_id,
            pending[admission.job_id].user_id,
            Held(admission.ask.gpu_millis, 1, len(admission.placements)),
        )
        for admission in admits
    ]
    over = refused_by_caps(asks)
    store_reasons(
        [
            (
                pending[job_id],
                (
                    WaitCode.TENANT_CAP if found.together else WaitCode.USER_CAP,
                    {"what": found.what, "need": found.need, "used": found.used, "limit": found.limit},
                ),
            )
            for job_id, found in over.items()
        ],
        now=now,
    )
    return over.keys()


def _insert_attempts(
    admits: Sequence[Admission],
    attempts: Mapping[uuid.UUID, uuid.UUID],
    pending: Mapping[uuid.UUID, PendingRow],
    *,
    now: datetime,
) -> None:
    bulk.insert(
        Attempt,
        [
            {
                "id": attempts[admit.job_id],
                "job_id": admit.job_id,
                "tenant_id": pending[admit.job_id].tenant_id,
                "number": pending[admit.job_id].attempt_count + 1,
                "state": AttemptState.ADMITTED,
                "outcome": "",
                "cluster_id": admit.pool.cluster_id,
                "pool_id": admit.pool.id,
                "cluster_name": admit.pool.cluster_name,
                "pool_name": admit.pool.name,
                "gpus_simulated": admit.pool.gpus_simulated and admit.ask.gpu_millis > 0,
                "isolation": admit.pool.isolation,
                "created_at": now,
                "due_at": now,
                "stop_cause": "",
                "condition": "",
                "tries": 0,
                "last_error": "",
                "logs_stored": False,
                "outputs_stored": False,
                "forgotten": False,
            }
            for admit in admits
        ],
    )
    bulk.insert(
        Task,
        [
            {
                "id": new_id(),
                "attempt_id": attempts[admit.job_id],
                "job_id": admit.job_id,
                "tenant_id": pending[admit.job_id].tenant_id,
                "role": placement.role,
                "index": placement.index,
                "state": TaskState.PENDING,
                "node_name": placement.node,
                "address": "",
                "ports": {},
                "gpus": [],
                "gpus_simulated": False,
                **placement.each.as_dict(),
            }
            for admit in admits
            for placement in admit.placements
        ],
    )


def store_reasons(reasons: Sequence[tuple[PendingRow, Refusal]], *, now: datetime) -> list[PendingRow]:
    """Write why these jobs wait, where it is not written already, and that it was found now; the rows as they are then.

    A transaction for each thousand: a reason stands for itself, and submissions shall not wait for a hundred thousand of them.
    """
    rows, changed = [], []
    details: dict[int, dict[str, Any]] = {}  # The same thing is said of many jobs; it is kept once.
    for position, (row, (code, amounts)) in enumerate(reasons):
        if id(amounts) not in details:
            details[id(amounts)] = {**amounts, FOUND_AT: utc_text(now)}
        detail = details[id(amounts)]
        if code == WaitCode.NOT_BEFORE and row.reason_code in TELLING:
            continue
        if row.reason_code == code and (position >= REFRESH_ROWS or {**row.reason_detail, FOUND_AT: detail[FOUND_AT]} == detail):
            continue
        rows.append({"id": row.id, "reason_code": code, "reason_detail": detail})
        changed.append(row._replace(reason_code=code, reason_detail=detail))
    for start in range(0, len(rows), bulk.BATCH_ROWS):
        with transaction.atomic():
            bulk.update(Job, rows[start : start + bulk.BATCH_ROWS], equals={"state": JobState.QUEUED})
    return changed
