"""A program beside a running task, on somebody's word: who may, where, and what is told of it. Never what was typed or seen.

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
from clusters.services.engines import engine_for
from jobs.lifecycle.states import JOB_LIFECYCLE, TaskState
from jobs.models import Attempt, Job, Task
from kernel.actor import Actor
from kernel.config import current
from kernel.errors import BerthError, Conflict, Forbidden, NotFound, Unavailable
from tenants.standing import demand_enabled
from webapi.features import is_on_for

STARTED, ENDED = "job.exec_started", "job.exec_ended"


class ExecDisabled(Forbidden):
    """Nobody opens terminals on this installation, or in this tenant."""

    code = "exec_disabled"
    title = "Terminals are switched off"


class ExecUnsupported(Conflict):
    """The engine of the task's cluster cannot start a program beside it."""

    code = "exec_unsupported"
    title = "This cluster has no terminals"


class ExecNotRunning(Conflict):
    """The task does not run, so there is nothing to open a terminal in."""

    code = "exec_not_running"
    title = "The task does not run"


class ExecNotStarted(Unavailable):
    """The host could not start the program now: too many are open, or it lacks what is needed."""

    code = "exec_refused"
    title = "The terminal could not be opened"


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

    Raises ExecDisabled, NotFound, ExecNotRunning, ExecUnsupported and ExecNotStarted. Whoever gets an answer ends it with
    `end_exec`.
    """
    demand_switched_on(actor, job.tenant_id)
    attempt, task = _find(job, role, index)
    engine = engine_for(attempt.cluster_id)
    if not isinstance(engine, SupportsExec):
        raise ExecUnsupported(
            f"Cluster {attempt.cluster_name} cannot open a terminal in a task.",
            hint=f"Read the log with `berth logs {job.name}`, or run the job in a pool of a local cluster.",
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
    hint = "`berth logs` and `berth metrics` show what a job does."
    if not current().exec_enabled:
        raise ExecDisabled("Terminals are switched off on this installation.", hint=hint)
    if not is_on_for(actor, "terminal", tenant_id):
        raise ExecDisabled("Terminals are switched off for this tenant.", hint=hint)
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
            f"Job {job.name} is an array, whose children run.",
            hint=f"`berth ps --parent {job.id}` lists them; name one by its id.",
        )
    attempt = Attempt.objects.filter(id=job.attempt_id).first() if job.attempt_id else None
    if attempt is None or JOB_LIFECYCLE.is_terminal(job.state):
        raise ExecNotRunning(f"Job {job.name} is {job.state}.", hint="A terminal needs a task that runs.")
    rows = Task.objects.filter(attempt_id=attempt.id)
    rows = rows.filter(role=role) if role is not None else rows
    rows = rows.filter(index=index) if index is not None else rows
    row = rows.order_by("id").values_list("role", "index", "state").first()
    if row is None:
        wanted = "-".join(str(part) for part in (role, index) if part is not None) or "task"
        raise NotFound(
            f"Attempt {attempt.number} of {job.name} has no {wanted[:100]!r}.", hint="`berth get` lists roles and tasks."
        )
    task = TaskName(row[0], row[1])
    if row[2] != TaskState.RUNNING:
        raise ExecNotRunning(f"Task {task} of {job.name} is {row[2]}.", hint="A terminal needs a task that runs.")
    return attempt, task


def _failure(error: NotRunning | ExecRefused | EngineUnreachable, job: Job, task: TaskName) -> BerthError:
    if isinstance(error, NotRunning):
        return ExecNotRunning(f"Task {task} of {job.name} does not run any more.", hint="A terminal needs a task that runs.")
    return ExecNotStarted(f"No terminal in {task} of {job.name}: {error}.", hint="Try again in a moment.", retry_after_seconds=5)


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
