"""Giving a quarantined attempt to the job that it was started for: from then on it is an attempt like any other.

Nothing on the cluster changes. The job takes the way that it took before the backup was restored - admitted, started - under
the attempt's own id and number, with a reservation, so that quota and use are right. What it did since is observed as ever.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from activity import hints
from clusters.selectors import PoolFacts, list_clusters, pools_and_nodes
from clusters.services import quarantine
from clusters.services.quarantine import QuarantinedRow
from jobs.lifecycle.phrases import state_zh
from jobs.lifecycle.states import AttemptState, JobState, TaskState
from jobs.loading.specs import load_spec
from jobs.models import Attempt, Job, Task
from jobs.selectors.pools import isolation_label
from jobs.services.arrays import derive_parents
from jobs.services.transition import ATTEMPT, JOB, Change, apply
from kernel.actor import Actor
from kernel.errors import BerthError, Conflict
from kernel.ids import new_id
from kernel.resources import Resources
from kernel.words import Text
from reconciling import bulk
from tenants.capacity.services.reservations import ReserveRequest, reserve


class NotAdoptable(BerthError):
    """The attempt does not fit a job as the restored database knows it."""

    code = "not_adoptable"
    status = 409
    title = Text("The attempt cannot be given to its job", "该尝试无法归还其作业")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an attempt runs, and what each of its tasks holds there."""

    pool: PoolFacts
    nodes: Mapping[tuple[str, int], str]
    each: Mapping[tuple[str, int], Resources]
    whole: Resources


def why_not(job: Job | None, number: int | None, job_id: uuid.UUID | None) -> Text[str] | None:
    """Why an attempt of this number cannot become one of the job, in words; None when it can."""
    if job_id is None or number is None:
        return Text(
            "The cluster's object does not say which job it belongs to: it was started by an older release.",
            "集群中的对象没有说明所属的作业：它由旧版本启动。",
        )
    if job is None:
        return Text(
            f"The restored database has no job {job_id}: it was submitted after the backup was taken.",
            f"恢复的数据库中没有作业 {job_id}：它在备份之后提交。",
        )
    if job.attempt_count >= number:
        return Text(
            f"Job {job.name} has had an attempt {number} already, as the restored database tells it.",
            f"按恢复的数据库，作业 {job.name} 已有第 {number} 次尝试。",
        )
    if job.state != JobState.QUEUED:
        return Text(
            f"Job {job.name} is {job.state}; it waits for no attempt.",
            f"作业 {job.name} 的状态为{state_zh(job.state)}，不在等待任何尝试。",
        )
    if job.attempt_count != number - 1:
        return Text(
            f"Job {job.name} waits for attempt {job.attempt_count + 1}, this is attempt {number}.",
            f"作业 {job.name} 等待第 {job.attempt_count + 1} 次尝试，而这是第 {number} 次。",
        )
    return None


def list_fitting() -> list[uuid.UUID]:
    """Attempts in quarantine that their jobs wait for, oldest first."""
    rows = [row for row in quarantine.list_open() if row.stop_asked_at is None]
    problems = problems_of(rows)
    return [row.attempt_id for row in rows if not problems[row.attempt_id]]


def problems_of(rows: Sequence[QuarantinedRow]) -> dict[uuid.UUID, Text[str] | None]:
    """By attempt: why no job waits for it, None where one does. One query."""
    jobs = Job.objects.in_bulk([row.job_id for row in rows if row.job_id is not None])
    return {
        row.attempt_id: why_not(jobs.get(row.job_id) if row.job_id is not None else None, row.number, row.job_id) for row in rows
    }


def adopt(*, actor: Actor, attempt_id: uuid.UUID, now: datetime) -> uuid.UUID:
    """Give one attempt to its job; returns the job's id.

    Raises NotAdoptable when it fits none, QuotaExceeded when the job's queue has no room for it: raise the ceiling, or wait.
    """
    with transaction.atomic():
        row = quarantine.open_row(attempt_id)
        if row.stop_asked_at is not None:
            raise Conflict(
                Text(f"Attempt {attempt_id} is being stopped.", f"尝试 {attempt_id} 正在停止。"),
                hint=Text("It leaves quarantine when the cluster confirms it.", "集群确认后，它会离开隔离区。"),
            )
        job = Job.objects.select_for_update(of=("self",)).filter(id=row.job_id).first() if row.job_id is not None else None
        problem = why_not(job, row.number, row.job_id)
        if problem:
            raise NotAdoptable(
                problem,
                hint=Text(
                    "Let it end, or stop it: then its job is free to start again.", "请等它结束，或停止它：之后其作业可重新启动。"
                ),
            )
        assert job is not None
        assert row.number is not None
        place = _place(job, row.cluster_id, row.tasks)
        _reserve(job, attempt_id, place, now)
        _admit(job, attempt_id, row.number, actor=actor, now=now)
        _insert(job, attempt_id, row.number, row.cluster_id, place, now)
        _start(job, attempt_id, row.started_at or now, row.number, actor=actor, now=now)
        quarantine.mark_adopted(row, now=now)
        quarantine.record_decision("quarantine.adopt", row, actor=actor, now=now, tenant_id=job.tenant_id)
        derive_parents([job.id], now=now)
        hints.wake(f"poll.{row.cluster_id}")
    return job.id


def _place(job: Job, cluster_id: uuid.UUID, tasks: Sequence[Mapping[str, Any]]) -> _Place:
    """The pool of the nodes on which the tasks were seen, and the job's own amounts. The tasks must be those of its spec."""
    roles = load_spec(job.spec_id).roles
    nodes = {(task["role"], task["index"]): task["node"] for task in tasks}
    counts = {name: sum(1 for role, _ in nodes if role == name) for name in roles}
    each = {(name, index): roles[name].resources.amounts for name, count in counts.items() for index in range(count)}
    if nodes.keys() != each.keys() or any(
        not role.replicas.min <= counts[name] <= role.replicas.max for name, role in roles.items()
    ):
        raise NotAdoptable(
            Text(f"The tasks of the attempt are not those of job {job.name}.", f"该尝试的任务与作业 {job.name} 的不符。"),
            hint=Text("Let it end, or stop it.", "请等它结束，或停止它。"),
        )
    pools, known = pools_and_nodes()
    of_node = {(node.cluster_id, node.name): node.pool_id for node in known}
    found = {of_node.get((cluster_id, name)) for name in nodes.values()}
    pool = next((pool for pool in pools if found == {pool.id}), None)
    if pool is None:
        raise NotAdoptable(
            Text("The nodes of the attempt are in no pool, or in several.", "该尝试的节点不属于任何资源池，或属于多个资源池。"),
            hint=Text("Wait until the cluster has told of its nodes.", "请等待集群报告其节点。"),
        )
    whole = Resources()
    for amount in each.values():
        whole += amount
    return _Place(pool, nodes, each, whole)


def _reserve(job: Job, attempt_id: uuid.UUID, place: _Place, now: datetime) -> None:
    request = ReserveRequest(
        attempt_id=attempt_id, job_id=job.id, tenant_id=job.tenant_id, queue_id=job.queue_id, pool_id=place.pool.id,
        amount=place.whole,
    )  # fmt: skip
    if attempt_id not in reserve([request], now=now):
        raise NotAdoptable(
            Text(
                f"The queue of job {job.name} has no room for it in pool {place.pool.name}.",
                f"作业 {job.name} 的队列在资源池 {place.pool.name} 中没有足够的额度。",
            ),
            hint=Text(
                "Raise the queue's ceiling, or wait until something of it has ended; then adopt it again.",
                "请提高队列的上限，或等待其中一些结束；然后重新接管。",
            ),
        )


def _admit(job: Job, attempt_id: uuid.UUID, number: int, *, actor: Actor, now: datetime) -> None:
    also = {
        "attempt_count": number,
        "attempt_id": attempt_id,
        "reason_code": "",
        "reason_detail": {},
        "not_before_at": None,
    }
    change = Change(
        job.id, JobState.QUEUED, JobState.ADMITTED, reason="adopted", detail={"attempt": number}, also=also,
        guard={"desired": "run"},
    )  # fmt: skip
    if not apply(JOB, [change], actor=actor.name, at=now):
        raise Conflict(
            Text(f"Job {job.name} was changed just now.", f"作业 {job.name} 刚刚被修改。"),
            hint=Text("Look at it again.", "请重新查看。"),
        )


def _insert(job: Job, attempt_id: uuid.UUID, number: int, cluster_id: uuid.UUID, place: _Place, now: datetime) -> None:
    cluster = next(facts for facts in list_clusters() if facts.id == cluster_id)
    simulated = place.pool.gpus_simulated
    bulk.insert(
        Attempt,
        [
            {
                "id": attempt_id,
                "job_id": job.id,
                "tenant_id": job.tenant_id,
                "number": number,
                "state": AttemptState.ADMITTED,
                "outcome": "",
                "cluster_id": cluster_id,
                "pool_id": place.pool.id,
                "cluster_name": place.pool.cluster_name,
                "pool_name": place.pool.name,
                "gpus_simulated": simulated and place.whole.gpu_millis > 0,
                "isolation": isolation_label(cluster.isolation),
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
        ],
    )
    bulk.insert(
        Task,
        [
            {
                "id": new_id(),
                "attempt_id": attempt_id,
                "job_id": job.id,
                "tenant_id": job.tenant_id,
                "role": role,
                "index": index,
                "state": TaskState.PENDING,
                "node_name": place.nodes[role, index],
                "address": "",
                "ports": {},
                "gpus": [],
                "gpus_simulated": False,
                **amount.as_dict(),
            }
            for (role, index), amount in place.each.items()
        ],
    )


def _start(job: Job, attempt_id: uuid.UUID, started_at: datetime, number: int, *, actor: Actor, now: datetime) -> None:
    also = {"launched_at": min(started_at, now), "due_at": now}
    apply(
        ATTEMPT,
        [Change(attempt_id, AttemptState.ADMITTED, AttemptState.STARTING, reason="adopted", also=also)],
        actor=actor.name,
        at=now,
    )
    apply(
        JOB,
        [Change(job.id, JobState.ADMITTED, JobState.STARTING, reason="adopted", detail={"attempt": number})],
        actor=actor.name,
        at=now,
    )
