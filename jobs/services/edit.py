"""What may change after submission: priority, tags, hold, the queue while it waits, and max_runtime downwards."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F

from activity import hints
from activity.services import record_audit
from jobs.bounds import TAGS
from jobs.lifecycle.phrases import state_zh
from jobs.lifecycle.states import JOB_LIFECYCLE, CheckpointGate, JobState
from jobs.models import Attempt, Job
from jobs.services.edit_events import tell_edited
from jobs.services.priority import granted_priority, too_high
from jobs.spec.values import BadValue, parse_tag
from kernel.actor import Actor
from kernel.errors import Conflict, FieldError, Forbidden, InvalidInput, PreconditionFailed, QuotaExceeded
from kernel.wait_codes import WaitCode
from kernel.words import Text, format_duration
from storage.services.checkpoints import look_through
from tenants.capacity.reads import default_runtime_of, runtime_limit_of
from tenants.identity.access import role_allows
from tenants.selectors import resolve_queue


def edit_job(*, actor: Actor, job: Job, changes: Mapping[str, Any], expected_version: int | None, now: datetime) -> Job:
    """Apply changes to one job, all or none. Raises Conflict where its state does not allow one of them."""
    wanted = {name: value for name, value in changes.items() if _is_change(job, name, value)}
    columns = _columns(actor, job, wanted, now)
    with transaction.atomic():
        rows = Job.objects.filter(id=job.id, state=job.state)
        if expected_version is not None:
            rows = rows.filter(version=expected_version)
        if not rows.update(**columns, version=F("version") + 1):
            raise PreconditionFailed(
                Text(f"Job {job.name} changed meanwhile.", f"作业 {job.name} 已变化。"),
                hint=Text("Read it again, then repeat the change.", "请重新读取，再做修改。"),
            )
        _follow(job, columns, now)
        tell_edited([job.id], reason="edited", now=now, data={"changed": sorted(wanted)})
        record_audit(
            actor=actor,
            verb="job.edit",
            tenant_id=job.tenant_id,
            target_kind="job",
            target_id=job.id,
            target_name=job.name,
            before={name: str(getattr(job, _column(name))) for name in wanted},
            after={name: str(value) for name, value in wanted.items()},
            at=now,
        )
    return Job.objects.select_related("tenant", "queue", "user").get(id=job.id)


def change_tag(*, actor: Actor, job: Job, tag: str, present: bool, now: datetime) -> Job:
    """Add or remove one tag; doing it twice changes nothing."""
    tags = [each for each in job.tags if each != tag]
    if present:
        tags = sorted([*tags, tag])
    if tags == job.tags:
        return job
    return edit_job(actor=actor, job=job, changes={"tags": tags}, expected_version=None, now=now)


def _is_change(job: Job, name: str, value: object) -> bool:
    return bool(value) if name == "retry_now" else bool(getattr(job, _column(name)) != value)


def _column(name: str) -> str:
    return {"queue": "queue_id", "retry_now": "not_before_at"}.get(name, name)


def _columns(actor: Actor, job: Job, wanted: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, value in wanted.items():
        if name == "tags":
            columns["tags"] = _checked_tags(value)
        elif name == "queue":
            if job.state != JobState.QUEUED:
                raise Conflict(
                    Text(
                        f"Job {job.name} is {job.state}; only a queued job can change its queue.",
                        f"作业 {job.name} 的状态为{state_zh(job.state)}；只有排队中的作业可以更换队列。",
                    )
                )
            columns["queue_id"] = resolve_queue(actor, job.tenant_id, value).id
        elif name == "max_runtime_seconds":
            columns["max_runtime_seconds"] = _checked_runtime(actor, job, value)
        elif name == "hold":
            columns |= _checked_hold(job, value)
        elif name == "retry_now":
            columns |= _checked_retry(job, now)
        elif name == "priority":
            columns["priority"] = _checked_priority(actor, job, value, now)
        else:
            columns[name] = value
    if {"queue_id", "priority"} & set(columns):
        columns["placed_at"] = None  # A place is worth something among jobs of one queue and priority alone.
    if {"queue_id", "max_runtime_seconds"} & set(columns):
        _check_runtime_limit(job, columns)
        if job.state == JobState.QUEUED:  # It is of another kind now, and predicted anew.
            is_endless = columns.get("max_runtime_seconds", job.max_runtime_seconds) is None
            default = default_runtime_of(columns.get("queue_id", job.queue_id)) if is_endless else None
            columns |= {"predicted_seconds": None, "cautious_seconds": default}
    if job.array_size is not None and set(wanted) - {"tags", "priority", "hold"}:
        raise Conflict(
            Text("The parent of an array has no limits of its own.", "数组作业的父作业没有自己的限制。"),
            hint=Text("Change its children.", "请修改其子作业。"),
        )
    return columns


def _checked_tags(tags: list[str]) -> list[str]:
    errors = []
    if len(tags) > TAGS:
        errors.append(
            FieldError(
                "/tags",
                "too_many",
                Text(f"{len(tags)} tags; at most {TAGS} are allowed.", f"有 {len(tags)} 个标签；最多 {TAGS} 个。"),
            )
        )
    for position, tag in enumerate(tags):
        try:
            parse_tag(tag)
        except BadValue as bad:
            errors.append(FieldError(f"/tags/{position}", bad.code, bad.message, bad.hint))
    if errors:
        raise InvalidInput(Text("These tags cannot be used.", "这些标签不可用。"), fields=errors)
    return sorted(set(tags))


def _checked_priority(actor: Actor, job: Job, priority: int, now: datetime) -> int:
    """No user raises a job above what they may use themselves; lowering is for all who may change it."""
    if priority > job.priority:
        most = granted_priority(actor, job.tenant_id, now=now)
        if priority > most:
            refusal = too_high(priority, most)
            raise Forbidden(refusal.message, hint=refusal.hint, fields=[refusal])
    return priority


def _checked_runtime(actor: Actor, job: Job, seconds: int | None) -> int | None:
    if JOB_LIFECYCLE.is_terminal(job.state):
        raise Conflict(Text(f"Job {job.name} has ended.", f"作业 {job.name} 已结束。"))
    shorter = seconds is not None and (job.max_runtime_seconds is None or seconds < job.max_runtime_seconds)
    if not shorter and not role_allows(actor, job.tenant_id, "job.prolong"):
        raise Forbidden(
            Text("Only a manager may give a job more time.", "只有管理员可以延长作业的时间。"),
            hint=Text("Ask a manager of the tenant.", "请联系租户管理员。"),
        )
    return seconds


def _check_runtime_limit(job: Job, columns: Mapping[str, Any]) -> None:
    """No user gives a job more time than its queue, or the one that it moves to, allows."""
    limit = runtime_limit_of(columns.get("queue_id", job.queue_id))
    asked = columns.get("max_runtime_seconds", job.max_runtime_seconds)
    if limit is not None and (asked is None or asked > limit):
        asks = "any time" if asked is None else format_duration(asked)
        message = Text(
            f"Job {job.name} may run for {asks}; jobs of this queue may run for {format_duration(limit)}.",
            f"作业 {job.name} 可运行 {asks}；此队列的作业最多运行 {format_duration(limit)}。",
        )
        hint = Text(
            f"Set max_runtime_seconds to {limit} or less, at once with the queue.",
            f"请同时将 max_runtime_seconds 设为 {limit} 或更小。",
        )
        raise QuotaExceeded(message, hint=hint, fields=[FieldError("/max_runtime_seconds", "runtime_too_long", message, hint)])


def _checked_retry(job: Job, now: datetime) -> dict[str, Any]:
    """The wait between two attempts ends now; before the first attempt the job itself asked to wait."""
    waits = job.state == JobState.QUEUED and job.not_before_at is not None and job.not_before_at > now
    if not waits or not job.attempt_count:
        raise Conflict(
            Text(f"Job {job.name} does not wait between two attempts.", f"作业 {job.name} 并未处于两次尝试之间的等待。"),
            hint=Text("`berth explain JOB` says what it waits for.", "`berth explain JOB` 会说明它在等待什么。"),
        )
    return {"not_before_at": now, "reason_code": WaitCode.SCHEDULING, "reason_detail": {}}


def _checked_hold(job: Job, hold: bool) -> dict[str, Any]:
    if job.state != JobState.QUEUED:
        hint = (
            Text("It has ended; `berth rerun` runs it again.", "作业已结束；`berth rerun` 可重新运行。")
            if JOB_LIFECYCLE.is_terminal(JobState(job.state))
            else Text("Stop it instead.", "请改为停止作业。")
        )
        raise Conflict(
            Text(
                f"Job {job.name} is {job.state}; only a queued job can be held or released.",
                f"作业 {job.name} 的状态为{state_zh(job.state)}；只能挂起或释放排队中的作业。",
            ),
            hint=hint,
        )
    columns: dict[str, Any] = {"hold": hold, "reason_code": WaitCode.HELD if hold else WaitCode.SCHEDULING, "reason_detail": {}}
    if not hold and job.checkpoint == CheckpointGate.REFUSED:
        columns["checkpoint"] = CheckpointGate.CHECKING
    return columns


def _follow(job: Job, columns: Mapping[str, Any], now: datetime) -> None:
    """Children of an array share what is changed on the parent; a running attempt has its deadline moved."""
    shared = {name: value for name, value in columns.items() if name in {"priority", "placed_at", "hold"}}
    if columns.get("hold") is False:
        _look_again(job, columns, now)
    if job.array_size is not None and shared:
        Job.objects.filter(parent_id=job.id, state=JobState.QUEUED).update(**shared, version=F("version") + 1)
        tell_edited(_queued_children(job.id), reason="edited", now=now)
    if "max_runtime_seconds" in columns and job.attempt_id is not None:
        attempt = Attempt.objects.filter(id=job.attempt_id, started_at__isnull=False).first()
        if attempt is not None and attempt.started_at is not None:
            seconds = columns["max_runtime_seconds"]
            deadline = None if seconds is None else attempt.started_at + timedelta(seconds=seconds)
            Attempt.objects.filter(id=attempt.id).update(deadline_at=deadline)


def _look_again(job: Job, columns: Mapping[str, Any], now: datetime) -> None:
    """Released jobs whose checkpoint could not be gone on from: it is looked through once more."""
    refused = {job.id: job.tenant_id} if "checkpoint" in columns else {}
    if job.array_size is not None:
        children = Job.objects.filter(parent_id=job.id, state=JobState.QUEUED, checkpoint=CheckpointGate.REFUSED)
        ids = list(children.values_list("id", flat=True))
        Job.objects.filter(id__in=ids).update(
            checkpoint=CheckpointGate.CHECKING, reason_code=WaitCode.SCHEDULING, reason_detail={}
        )
        refused |= dict.fromkeys(ids, job.tenant_id)
    if refused:
        look_through(refused, now=now)
        hints.wake("checkpoints")


def _queued_children(parent_id: uuid.UUID) -> list[uuid.UUID]:
    return list(Job.objects.filter(parent_id=parent_id, state=JobState.QUEUED).values_list("id", flat=True))
