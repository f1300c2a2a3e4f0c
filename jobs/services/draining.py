"""Emptying a machine: nothing new starts on it, and what runs there makes way and waits again, on no one's account.

First it is told who would have to go (`plan_drain`); then it is done (`drain_node`), to just those. A gang goes as a whole, with
its tasks on other machines. A start that was decided at the same moment comes before, and goes too, or not at all
(`clusters.services.cordoned_of`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from activity.services import record_audit
from clusters.services import NodeRef, cordon_node, node_ref
from jobs.lifecycle.states import ATTEMPT_LIFECYCLE, AttemptState
from jobs.loading.specs import load_spec, preload_specs
from jobs.models import Attempt, Job, Task
from jobs.services.stop import stop_attempts
from kernel.actor import Actor
from kernel.clock import utc_text
from kernel.errors import Conflict
from kernel.words import Text

JOBS_MAX = 10_000  # On one machine; more would take seconds in one transaction.


@dataclass(frozen=True, slots=True)
class Leaving:
    """A job that has a task on the machine. `is_leaving`: it was told to go before."""

    job_id: uuid.UUID
    attempt_id: uuid.UUID
    state: str
    name: str
    tenant: str
    user: str
    tasks: int
    started_at: datetime | None
    is_leaving: bool
    is_saved: bool  # It has a checkpoint, and is told to write it.

    def as_dict(self) -> dict[str, Any]:
        return {
            "job": {"id": str(self.job_id), "name": self.name},
            "tenant": self.tenant,
            "user": self.user,
            "tasks": self.tasks,
            "started_at": utc_text(self.started_at) if self.started_at is not None else None,
            "is_leaving": self.is_leaving,
            "checkpoint": self.is_saved,
        }


@dataclass(frozen=True, slots=True)
class Drain:
    """A machine and who has to go."""

    node: NodeRef
    jobs: tuple[Leaving, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "node": {"id": str(self.node.id), "name": self.node.name, "pool": self.node.pool_name},
            "jobs": [job.as_dict() for job in self.jobs],
        }


def plan_drain(node_id: uuid.UUID) -> Drain:
    """Who would have to go. Changes nothing. Five queries."""
    node = node_ref(node_id)
    tasks: dict[uuid.UUID, int] = {}
    for attempt_id in _tasks_on(node).values_list("attempt_id", flat=True)[: JOBS_MAX + 1]:
        tasks[attempt_id] = tasks.get(attempt_id, 0) + 1
    rows = Attempt.objects.filter(id__in=tasks).select_related("job", "job__tenant", "job__user").order_by("job_id")
    preload_specs({attempt.job.spec_id for attempt in rows})
    saved = {attempt.job.spec_id: load_spec(attempt.job.spec_id).checkpoint is not None for attempt in rows}
    return Drain(node, tuple(_leaving(attempt, tasks[attempt.id], saved) for attempt in rows))


def drain_node(
    *, actor: Actor, node_id: uuid.UUID, reason: str = "", confirm: Callable[[Drain], None] | None = None, now: datetime
) -> Drain:
    """Take a machine out of service and have all that runs there make way; which jobs that were. For actors who may edit nodes.

    `confirm` sees who would have to go in the transaction in which they are told, and raises where that is not what was meant.
    """
    with transaction.atomic():
        cordon_node(actor=actor, node_id=node_id, reason=reason, audited=False, now=now)  # Locks it: one drain at a time.
        _hold_still(node_ref(node_id))
        found = plan_drain(node_id)
        if confirm is not None:
            confirm(found)
        if len(found.jobs) > JOBS_MAX:
            raise Conflict(
                Text(
                    f"More than {JOBS_MAX} jobs run on {found.node.name}.", f"{found.node.name} 上运行的作业超过 {JOBS_MAX} 个。"
                ),
                hint=Text("Stop some of them first.", "请先停止其中一些。"),
            )
        going = [job for job in found.jobs if not job.is_leaving]
        stop_attempts(
            [(job.job_id, job.state, job.attempt_id) for job in going],
            cause="preempted",
            reason="draining",
            detail={"node": found.node.name},
            grace_seconds=None,
            actor=actor.name,
            now=now,
        )
        record_audit(
            actor=actor,
            verb="node.drain",
            tenant_id=None,
            target_kind="node",
            target_id=node_id,
            target_name=found.node.name,
            after={"reason": reason, "jobs": [str(job.job_id) for job in going[:100]]},
            count=max(1, len(going)),
            at=now,
        )
    return found


def _tasks_on(node: NodeRef) -> QuerySet[Task]:
    live = ATTEMPT_LIFECYCLE.live_states
    return Task.objects.filter(node_name=node.name, attempt__cluster_id=node.cluster_id, attempt__state__in=live).order_by()


def _hold_still(node: NodeRef) -> None:
    """Lock the attempts on the machine: one that came to run between the plan and the word to go would stay."""
    ids = _tasks_on(node).values("attempt_id")
    list(Attempt.objects.filter(id__in=ids).order_by("id").select_for_update().values_list("id", flat=True))


def _leaving(attempt: Attempt, tasks: int, saved: Mapping[uuid.UUID, bool]) -> Leaving:
    job: Job = attempt.job
    return Leaving(
        job.id, attempt.id, job.state, job.name, job.tenant.name, job.user.name, tasks, attempt.started_at,
        attempt.state == AttemptState.STOPPING, saved[job.spec_id],
    )  # fmt: skip
