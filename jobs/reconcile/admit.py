"""Applies the decisions of a pass: one transaction for all admissions, one for the reasons of those who wait.

Attempt, tasks, reservation and the job's change of state are written together. A job that somebody stopped or changed
meanwhile, and one whose quota was used up by another, is a lost race: counted and dropped, looked at again in the next pass.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction

from activity import hints
from jobs.lifecycle.states import AttemptState, JobState, TaskState
from jobs.models import Attempt, Job, Task
from jobs.reconcile import aside
from jobs.scheduling.plan import Admit, Decision, Wait
from jobs.scheduling.snapshot import PoolView
from jobs.services.transition import JOB, Change, apply
from kernel.ids import new_id
from reconciling import bulk, poison
from reconciling.crashpoints import crashpoint
from tenants.services.reservations import ReserveRequest, release, reserve

TELLING = frozenset({"retrying", "preempted", "preempted_often"})  # Why it waits for its time says more than that it does.
REFRESH_ROWS = 200  # Waiting jobs whose amounts are kept fresh; behind them a reason changes only with its code.


class PendingRow(NamedTuple):
    """The columns of a waiting job, in the order of the driver's query."""

    id: uuid.UUID
    tenant_id: uuid.UUID
    queue_id: uuid.UUID
    priority: int
    queued_at: datetime
    spec_id: uuid.UUID
    image_id: uuid.UUID | None
    image_kind: str
    parent_id: uuid.UUID | None
    hold: bool
    not_before_at: datetime | None
    open_dependencies: int
    attempt_count: int
    reason_code: str
    reason_detail: Mapping[str, Any]
    user_id: uuid.UUID
    pool_name: str
    submitted_at: datetime


@dataclass(frozen=True, slots=True)
class Applied:
    admitted: frozenset[uuid.UUID]
    lost: frozenset[uuid.UUID]


def apply_decisions(
    decisions: Sequence[Decision],
    pending: dict[uuid.UUID, PendingRow],
    pools: Mapping[uuid.UUID, PoolView],
    *,
    now: datetime,
) -> Applied:
    """Write what the pass decided; returns who got in and who lost a race."""
    admits = [decision for decision in decisions if isinstance(decision, Admit)]
    admitted: set[uuid.UUID] = set()
    for start in range(0, len(admits), bulk.BATCH_ROWS):
        struck = poison.work_through(
            aside.SCHEDULE,
            admits[start : start + bulk.BATCH_ROWS],
            lambda part: admitted.update(_admit(part, pending, pools, now=now)),
            now=now,
            key=lambda admit: admit.job_id,
        )
        aside.say_why_it_waits(struck)
    _store_reasons([decision for decision in decisions if isinstance(decision, Wait)], pending)
    return Applied(frozenset(admitted), frozenset(admit.job_id for admit in admits) - admitted)


def _admit(
    admits: Sequence[Admit], pending: Mapping[uuid.UUID, PendingRow], pools: Mapping[uuid.UUID, PoolView], *, now: datetime
) -> set[uuid.UUID]:
    attempts = {admit.job_id: new_id() for admit in admits}
    with transaction.atomic():
        granted = reserve(
            [
                ReserveRequest(
                    attempt_id=attempts[admit.job_id],
                    job_id=admit.job_id,
                    tenant_id=pending[admit.job_id].tenant_id,
                    queue_id=pending[admit.job_id].queue_id,
                    pool_id=admit.pool_id,
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
                    detail={"pool": pools[admit.pool_id].name, "attempt": pending[admit.job_id].attempt_count + 1},
                    also={
                        "attempt_count": pending[admit.job_id].attempt_count + 1,
                        "attempt_id": attempts[admit.job_id],
                        "reason_code": "",
                        "reason_detail": {},
                        "not_before_at": None,
                    },
                    guard={"desired": "run", "hold": False},
                )
                for admit in winners
            ],
            actor="system:scheduler",
            at=now,
        )
        moved = {change.id for change in done}
        release([attempts[admit.job_id] for admit in winners if admit.job_id not in moved], now=now)
        _insert_attempts([admit for admit in winners if admit.job_id in moved], attempts, pending, pools, now=now)
        crashpoint("jobs.admit.before_commit")
        for cluster_id in {admit.cluster_id for admit in winners}:
            hints.wake(f"launch.{cluster_id}")
    crashpoint("jobs.admit.after_commit")
    return moved


def _insert_attempts(
    admits: Sequence[Admit],
    attempts: Mapping[uuid.UUID, uuid.UUID],
    pending: Mapping[uuid.UUID, PendingRow],
    pools: Mapping[uuid.UUID, PoolView],
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
                "cluster_id": admit.cluster_id,
                "pool_id": admit.pool_id,
                "cluster_name": pools[admit.pool_id].cluster_name,
                "pool_name": pools[admit.pool_id].name,
                "gpus_simulated": pools[admit.pool_id].gpus_simulated and admit.ask.gpu_millis > 0,
                "isolation": pools[admit.pool_id].isolation,
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


def _store_reasons(waits: Sequence[Wait], pending: dict[uuid.UUID, PendingRow]) -> None:
    """Only what changed is written: thousands wait for the same thing, and it is said once.

    A transaction for each thousand: a reason stands for itself, and submissions shall not wait for a hundred thousand of them.
    """
    rows = []
    details: dict[int, dict[str, Any]] = {}  # The plan says the same thing of many jobs; it is kept once.
    for position, wait in enumerate(waits):
        row = pending[wait.job_id]
        detail = details.setdefault(id(wait.detail), dict(wait.detail))
        if wait.code == "not_before" and row.reason_code in TELLING:
            continue
        if row.reason_code == wait.code and (position >= REFRESH_ROWS or row.reason_detail == detail):
            continue
        rows.append({"id": wait.job_id, "reason_code": wait.code, "reason_detail": detail})
        pending[wait.job_id] = row._replace(reason_code=wait.code, reason_detail=detail)
    for start in range(0, len(rows), bulk.BATCH_ROWS):
        with transaction.atomic():
            bulk.update(Job, rows[start : start + bulk.BATCH_ROWS], equals={"state": JobState.QUEUED})
