"""A program beside a running task, at a user's request: who may, where, and what is told of it. Never what was typed or seen.

The audit has a row before anything starts and one when it has ended. A web process that is killed cannot write the second:
what it held ended with it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from activity.services import NewEvent, record_audit, record_events
from clusters.engines.interface import (
    Asker,
    EngineUnreachable,
    ExecRefused,
    Execution,
    NotRunning,
    SupportsExec,
    TaskName,
    TerminalSize,
)
from clusters.services.engines import engine_for, refresh_engines
from jobs.lifecycle.phrases import state_zh
from jobs.lifecycle.states import JOB_LIFECYCLE, TaskState
from jobs.models import Attempt, Job, Task
from jobs.spec.model import JobKind
from kernel.actor import Actor
from kernel.config import current
from kernel.errors import BerthError, Conflict, Forbidden, NotFound, Unavailable
from kernel.words import Text
from tenants.identity.standing import demand_enabled
from webapi.features import is_on_for

STARTED, ENDED = "job.exec_started", "job.exec_ended"


class ExecDisabled(Forbidden):
    """Terminals are disabled for this installation or this tenant."""

    code = "exec_disabled"
    title = Text("Terminals are switched off", "终端功能已关闭")


class ExecUnsupported(Conflict):
    """No program can be started beside the task: its cluster's engine cannot, or other jobs run with what the job leaves."""

    code = "exec_unsupported"
    title = Text("This task takes no terminals", "该任务不支持终端")


class ExecNotRunning(Conflict):
    """The task does not run, so there is nothing to open a terminal in."""

    code = "exec_not_running"
    title = Text("The task does not run", "任务未在运行")


class ExecNotStarted(Unavailable):
    """The host could not start the program now: too many are open, or it lacks what is needed."""

    code = "exec_refused"
    title = Text("The terminal could not be opened", "暂时无法打开终端")


@dataclass(frozen=True, slots=True)
class Opened:
    """A program that runs, and what its end is told with."""

    execution: Execution
    job_id: uuid.UUID
    job_name: str
    tenant_id: uuid.UUID
    attempt: int
    task: TaskName
    terminal: bool
    address: str
    began_at: datetime


def open_exec(
    *,
    actor: Actor,
    job: Job,
    role: str | None,
    index: int | None,
    argv: Sequence[str],
    terminal: TerminalSize | None,
    address: str,
    now: datetime,
) -> Opened:
    """Start it. The caller has checked `job.exec`; `address` is where the actor came from.

    Raises ExecDisabled, NotFound, ExecNotRunning, ExecUnsupported and ExecNotStarted. The caller that gets an answer ends it
    with `end_exec`.
    """
    demand_switched_on(actor, job.tenant_id)
    attempt, task = _find(job, role, index)
    try:
        refresh_engines()
        engine = engine_for(attempt.cluster_id)
    except EngineUnreachable as error:
        raise _failure(error, job, task) from error
    if not isinstance(engine, SupportsExec):
        raise ExecUnsupported(
            Text(
                f"Cluster {attempt.cluster_name} cannot open a terminal in a task.",
                f"集群 {attempt.cluster_name} 不能在任务中打开终端。",
            ),
            hint=Text(
                f"Read the log with `berth logs {job.name}`, or run the job in a pool of a local cluster.",
                f"请用 `berth logs {job.name}` 查看日志，或在本机集群的资源池中运行该作业。",
            ),
        )
    facts = {
        "task": str(task),
        "attempt": attempt.number,
        "terminal": terminal is not None,
        "from": address,
    }
    _tell(actor, job.id, job.name, job.tenant_id, STARTED, {"phase": "start", **facts}, now)
    try:
        asker = Asker(tenant=str(job.tenant_id), user=str(actor.user_id))
        execution = engine.execute(attempt.id, task, argv, terminal, asker)
    except (NotRunning, ExecRefused, EngineUnreachable) as error:
        failure = _failure(error, job, task)
        _tell(actor, job.id, job.name, job.tenant_id, ENDED, {"phase": "end", **facts, "error": failure.code}, now)
        raise failure from error
    return Opened(execution, job.id, job.name, job.tenant_id, attempt.number, task, terminal is not None, address, now)


def demand_switched_on(actor: Actor, tenant_id: uuid.UUID) -> None:
    """Raise ExecDisabled where there are no terminals, or none any more, and TenantDisabled. At most three statements."""
    hint = Text(
        "`berth logs` and `berth metrics` show what a job does.", "`berth logs` 与 `berth metrics` 可查看作业的运行情况。"
    )
    if not current().exec_enabled:
        raise ExecDisabled(Text("Terminals are switched off on this installation.", "本系统已关闭终端功能。"), hint=hint)
    if not is_on_for(actor, "terminal", tenant_id):
        raise ExecDisabled(Text("Terminals are switched off for this tenant.", "此租户已关闭终端功能。"), hint=hint)
    demand_enabled(tenant_id)


def end_exec(opened: Opened, *, actor: Actor, exit_code: int | None, why: str, now: datetime) -> None:
    """Write down how it ended. `why` is a code: `exit`, `disconnected`, `idle`, `signed_out`,
    `forbidden`, `switched_off`, `slow`."""
    facts: dict[str, Any] = {
        "phase": "end",
        "task": str(opened.task),
        "attempt": opened.attempt,
        "terminal": opened.terminal,
        "from": opened.address,
        "seconds": round(max(0.0, (now - opened.began_at).total_seconds()), 1),
        "exit_code": exit_code,
        "why": why,
    }
    _tell(actor, opened.job_id, opened.job_name, opened.tenant_id, ENDED, facts, now)


def _find(job: Job, role: str | None, index: int | None) -> tuple[Attempt, TaskName]:
    """The task that is meant: of those that fit, the first of the present attempt."""
    if job.array_size is not None:
        raise ExecNotRunning(
            Text(f"Job {job.name} is an array, whose children run.", f"作业 {job.name} 是数组作业，运行的是其子作业。"),
            hint=Text(
                f"`berth ps --parent {job.id}` lists them; name one by its id.",
                f"`berth ps --parent {job.id}` 可列出；请用 ID 指定其中一个。",
            ),
        )
    attempt = Attempt.objects.filter(id=job.attempt_id).first() if job.attempt_id else None
    if attempt is None or JOB_LIFECYCLE.is_terminal(job.state):
        raise ExecNotRunning(
            Text(f"Job {job.name} is {job.state}.", f"作业 {job.name} 的状态为{state_zh(job.state)}。"),
            hint=Text("A terminal needs a task that runs.", "终端需要正在运行的任务。"),
        )
    rows = Task.objects.filter(attempt_id=attempt.id)
    # What these leave is to come of their own programs alone: other jobs run with it.
    if job.kind != JobKind.BATCH or job.build_request_id is not None:
        raise ExecUnsupported(
            Text(
                f"Job {job.name} fetches or builds what other jobs run with, and takes no programs beside its tasks.",
                f"作业 {job.name} 负责获取或构建其他作业使用的内容，不能在其任务中打开终端。",
            ),
            hint=Text(f"Read the log with `berth logs {job.name}`.", f"请用 `berth logs {job.name}` 查看日志。"),
        )
    rows = rows.filter(role=role) if role is not None else rows
    rows = rows.filter(index=index) if index is not None else rows
    row = rows.order_by("id").values_list("role", "index", "state").first()
    if row is None:
        wanted = "-".join(str(part) for part in (role, index) if part is not None) or "task"
        raise NotFound(
            Text(
                f"Attempt {attempt.number} of {job.name} has no {wanted[:100]!r}.",
                f"{job.name} 的第 {attempt.number} 次尝试没有 {wanted[:100]!r}。",
            ),
            hint=Text("`berth get` lists roles and tasks.", "`berth get` 列出角色与任务。"),
        )
    task = TaskName(row[0], row[1])
    if row[2] != TaskState.RUNNING:
        raise ExecNotRunning(
            Text(f"Task {task} of {job.name} is {row[2]}.", f"{job.name} 的任务 {task} 状态为{_task_state_zh(row[2])}。"),
            hint=Text("A terminal needs a task that runs.", "终端需要正在运行的任务。"),
        )
    return attempt, task


def _task_state_zh(state: str) -> str:
    return "等待中" if state == TaskState.PENDING else state_zh(state)


def _failure(error: NotRunning | ExecRefused | EngineUnreachable, job: Job, task: TaskName) -> BerthError:
    if isinstance(error, NotRunning):
        return ExecNotRunning(
            Text(f"Task {task} of {job.name} does not run any more.", f"{job.name} 的任务 {task} 已不再运行。"),
            hint=Text("A terminal needs a task that runs.", "终端需要正在运行的任务。"),
        )
    return ExecNotStarted(
        Text(f"No terminal in {task} of {job.name}: {error}.", f"无法在 {job.name} 的 {task} 中打开终端：{error}。"),
        hint=Text("Try again in a moment.", "请稍后重试。"),
        retry_after_seconds=5,
    )


def _tell(
    actor: Actor, job_id: uuid.UUID, job_name: str, tenant_id: uuid.UUID, kind: str, facts: Mapping[str, Any], now: datetime
) -> None:
    data = {"by": actor.name, **{name: value for name, value in facts.items() if name not in ("phase", "from")}}
    event = NewEvent(
        kind=kind, tenant_id=tenant_id, subject_kind="job", subject_id=job_id, at=now, job_id=job_id, data=data
    )  # fmt: skip
    with transaction.atomic():
        record_events([event])
        record_audit(
            actor=actor, verb="job.exec", tenant_id=tenant_id, target_kind="job", target_id=job_id, target_name=job_name,
            after=facts, at=now,
        )  # fmt: skip
