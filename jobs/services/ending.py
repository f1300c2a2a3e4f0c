"""The end of attempts: state, reservation and ledger in one transaction, for a batch, however they ended."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Sum

from activity import hints
from clusters.selectors import pools_and_nodes
from jobs.lifecycle.states import JOB_LIFECYCLE, AttemptState, CheckpointGate, JobState
from jobs.models import Attempt, Task
from jobs.selectors.ran import Ran, last_looks, ran_between
from jobs.services.arrays import derive_parents
from jobs.services.dependencies import settle
from jobs.services.transition import ATTEMPT, JOB, Change, apply
from kernel.resources import Resources
from storage.services import checkpoints
from tenants.billing.services.ledger import LedgerLine, append_ledger
from tenants.capacity.quota.accounting import seconds_between
from tenants.capacity.services.reservations import release


@dataclass(frozen=True, slots=True)
class Ending:
    """How one attempt ends and what becomes of its job.

    `job_target` QUEUED means another attempt after `retry_after_seconds`; `paid_by` names the budget that it costs.
    """

    attempt_id: uuid.UUID
    attempt_state: str
    job_state: str
    job_target: JobState
    outcome: str
    exit: Mapping[str, Any] | None
    reason: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    retry_after_seconds: float = 0.0
    paid_by: str = ""
    lease_token: uuid.UUID | None = None  # Given, it ends only while this token still holds the attempt.


@dataclass(frozen=True, slots=True)
class _Facts:
    job_id: uuid.UUID
    tenant_id: uuid.UUID
    number: int
    cluster_id: uuid.UUID
    pool_id: uuid.UUID
    created_at: datetime
    launched_at: datetime | None
    queue_id: uuid.UUID
    user_id: uuid.UUID
    paid: Mapping[str, int]
    checkpoint: str | None


def end_attempts(endings: Sequence[Ending], *, actor: str, now: datetime) -> list[uuid.UUID]:
    """End attempts that are still in the state given; returns the ids of those that really ended. Caller's transaction."""
    if not endings:
        return []
    endings = _as_desired_now(endings)
    ended = apply(
        ATTEMPT,
        [
            Change(
                ending.attempt_id,
                ending.attempt_state,
                AttemptState.ENDED,
                reason=ending.reason,
                detail=ending.detail,
                also={
                    "outcome": ending.outcome,
                    "exit": ending.exit,
                    "ended_at": now,
                    "due_at": now,
                    "lease_token": None,
                    "lease_expires_at": None,
                },
                guard={"lease_token": ending.lease_token} if ending.lease_token is not None else {},
            )
            for ending in endings
        ],
        actor=actor,
        at=now,
    )
    done = {change.id for change in ended}
    real = [ending for ending in endings if ending.attempt_id in done]
    facts = _facts([ending.attempt_id for ending in real])
    _move_jobs(real, facts, actor=actor, now=now)
    release([ending.attempt_id for ending in real], now=now)
    _look_at_checkpoints(real, facts, now=now)
    _close_ledger(real, facts, now=now)
    over = [facts[ending.attempt_id].job_id for ending in real if JOB_LIFECYCLE.is_terminal(ending.job_target)]
    settle([*over, *derive_parents(over, now=now)], now=now)
    hints.wake("capacity")
    for cluster_id in {facts[ending.attempt_id].cluster_id for ending in real}:
        hints.wake(f"finish.{cluster_id}")
    return list(done)


def _as_desired_now(endings: Sequence[Ending]) -> Sequence[Ending]:
    """Jobs that were to be tried again and whose stop was stored since that was decided are stopped. A stop that comes later
    waits for these locks, and finds its job in the queue. Two queries where something is to be tried again."""
    again = [ending.attempt_id for ending in endings if ending.job_target == JobState.QUEUED]
    if not again:
        return endings
    list(Attempt.objects.filter(id__in=again).order_by("id").select_for_update().values_list("id", flat=True))
    asked = set(Attempt.objects.filter(id__in=again, job__desired="stop").values_list("id", flat=True))
    return [_stopped(ending) if ending.attempt_id in asked else ending for ending in endings]


def _stopped(ending: Ending) -> Ending:
    """The end of an attempt as it is told where no other follows."""
    code = str(ending.detail["class"])
    return replace(
        ending, job_target=JobState.STOPPED, reason=code, detail={"class": code}, retry_after_seconds=0.0, paid_by=""
    )  # fmt: skip


def _facts(attempt_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, _Facts]:
    rows = Attempt.objects.filter(id__in=attempt_ids).values_list(
        "id", "job_id", "tenant_id", "number", "cluster_id", "pool_id", "created_at", "launched_at", "job__queue_id",
        "job__user_id", "job__paid", "job__checkpoint",
    )  # fmt: skip
    return {row[0]: _Facts(*row[1:]) for row in rows}


def _move_jobs(endings: Sequence[Ending], facts: Mapping[uuid.UUID, _Facts], *, actor: str, now: datetime) -> None:
    changes = []
    for ending in endings:
        job = facts[ending.attempt_id]
        if ending.job_target == JobState.QUEUED:
            paid = {**job.paid, ending.paid_by: job.paid.get(ending.paid_by, 0) + 1} if ending.paid_by else dict(job.paid)
            also: dict[str, Any] = {
                "paid": paid,
                "not_before_at": now + timedelta(seconds=ending.retry_after_seconds),
                "reason_code": ending.reason,
                "reason_detail": dict(ending.detail),
                "queued_at": now,
                "condition": "",
                "condition_since_at": None,
                "checkpoint": CheckpointGate.CHECKING if job.checkpoint is not None else None,
            }
        else:
            also = {
                "ended_at": now,
                "exit": ending.exit,
                "reason_code": ending.reason,
                "reason_detail": dict(ending.detail),
                "condition": "",
                "condition_since_at": None,
            }
        changes.append(
            Change(job.job_id, ending.job_state, ending.job_target, reason=ending.reason, detail=ending.detail, also=also)
        )
    moved = apply(JOB, changes, actor=actor, at=now)
    if len(moved) != len(changes):
        lost = {change.id for change in changes} - {change.id for change in moved}
        raise AssertionError(f"jobs {sorted(map(str, lost))} are not where their live attempts are")


def _look_at_checkpoints(endings: Sequence[Ending], facts: Mapping[uuid.UUID, _Facts], *, now: datetime) -> None:
    """The engine has confirmed that nothing writes there any more: what a next attempt goes on from is looked through."""
    kept = {facts[ending.attempt_id].job_id: ending for ending in endings if facts[ending.attempt_id].checkpoint is not None}
    if not kept:
        return
    tenants = {facts[ending.attempt_id].job_id: facts[ending.attempt_id].tenant_id for ending in kept.values()}
    again = {job_id for job_id, ending in kept.items() if ending.job_target == JobState.QUEUED}
    checkpoints.look_through({job_id: tenants[job_id] for job_id in again}, now=now)
    checkpoints.measure_once(kept.keys() - again, now=now)
    hints.wake("checkpoints")


def _close_ledger(endings: Sequence[Ending], facts: Mapping[uuid.UUID, _Facts], *, now: datetime) -> None:
    """An attempt is charged from the start of its first task to the end of its last, by their engine. What the platform held
    before and after stands beside it and is not charged; an attempt that never got to its engine is left out."""
    models = {pool.id: pool.gpu_model for pool in pools_and_nodes()[0]}
    held = _held([ending.attempt_id for ending in endings])
    ran = ran_between([ending.attempt_id for ending in endings])
    unsure = {facts[ending.attempt_id].cluster_id for ending in endings if _end_is_unknown(ran.get(ending.attempt_id))}
    looks = last_looks(unsure) if unsure else {}
    lines = []
    for ending in endings:
        attempt = facts[ending.attempt_id]
        began, ended = ran.get(ending.attempt_id, (None, None))
        if attempt.launched_at is None and began is None:
            continue
        if began is None:
            began = ended = now
        elif ended is None:
            ended = max(began, looks.get(attempt.cluster_id, now))
        lines.append(
            LedgerLine(
                attempt_id=ending.attempt_id,
                number=attempt.number,
                job_id=attempt.job_id,
                tenant_id=attempt.tenant_id,
                queue_id=attempt.queue_id,
                user_id=attempt.user_id,
                pool_id=attempt.pool_id,
                cluster_id=attempt.cluster_id,
                **held.get(ending.attempt_id, Resources()).as_dict(),
                gpu_model=models.get(attempt.pool_id, ""),
                started_at=min(began, now),
                ended_at=ended or now,
                held_seconds=seconds_between(attempt.created_at, now),
                outcome=ending.outcome,
                goes_on=ending.job_target == JobState.QUEUED,
            )
        )
    append_ledger(lines, now=now)


def _end_is_unknown(ran: Ran | None) -> bool:
    return ran is not None and ran[1] is None


def _held(attempt_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Resources]:
    """What these attempts held: an elastic job runs with as many tasks as there was room for."""
    rows = Task.objects.filter(attempt_id__in=attempt_ids).order_by().values_list("attempt_id")
    sums = rows.annotate(cpu=Sum("cpu_millis"), memory=Sum("memory_bytes"), gpu=Sum("gpu_millis"))
    return {attempt_id: Resources(cpu, memory, gpu) for attempt_id, cpu, memory, gpu in sums}
