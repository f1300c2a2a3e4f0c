"""Asking for a higher priority than one's own: request, approve, deny, withdraw, revoke, and what becomes of it by itself.

Who decides holds the right where the request was made, may use that priority by role, and is neither the one who asked nor
the one who gains. An approval for a job raises the job as long as it has not ended; an approval for a person is a window in
which they use that priority themselves. Every decision goes through the door of states: of two only one happens.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q

from activity.notifications.notices import new_notice
from activity.services import NewEvent, record_audit, record_events
from jobs.lifecycle.requests import RequestState
from jobs.lifecycle.states import JOB_LIFECYCLE, JobState
from jobs.models import Job, PriorityRequest
from jobs.notices import PRIORITY
from jobs.services.edit_events import tell_edited
from jobs.services.priority import granted_priority
from jobs.services.transition import REQUESTS, Change, apply
from kernel.actor import Actor, system_actor
from kernel.config import current
from kernel.errors import Conflict, FieldError, Forbidden, InvalidInput
from kernel.ids import new_id
from kernel.priorities import PRIORITY_MAX, format_priority
from kernel.words import Text, decided_zh, format_moment
from reconciling.crashpoints import crashpoint
from tenants.capacity.grants import granted_to, priority_grants
from tenants.identity.access import demand, is_system

AHEAD = timedelta(days=92)
PENDING_PER_PERSON = 100
BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Window:
    """From when to when a user may use a priority without approval. No start: from the approval on."""

    ends_at: datetime
    starts_at: datetime | None = None


def request_for_job(*, actor: Actor, job: Job, priority: int, reason: str = "", now: datetime) -> PriorityRequest:
    """Ask for a higher priority of a job that has not ended; an array's parent stands for its waiting children."""
    demand(actor, job.tenant_id, "priority_request.create", job.user_id)
    _check_priority(priority)
    if JOB_LIFECYCLE.is_terminal(job.state):
        raise Conflict(
            Text(f"Job {job.name} has ended.", f"作业 {job.name} 已结束。"), hint=Text("Submit it again.", "请重新提交。")
        )
    _check_worth(actor, job.tenant_id, priority, above=job.priority, now=now)
    row = new_request(
        actor=actor, tenant_id=job.tenant_id, job_id=job.pk, user_id=job.user_id, priority=priority, reason=reason, now=now
    )
    with _together():
        _check_room(actor)
        try:
            with transaction.atomic():
                row.save(force_insert=True)
        except IntegrityError:
            raise Conflict(
                Text(f"A request for job {job.name} waits already.", f"作业 {job.name} 已有待处理的申请。"),
                hint=Text("Withdraw it first: `berth priority withdraw`.", "请先撤回：`berth priority withdraw`。"),
            ) from None
        tell_requested([row], actor, now)
    return row


def request_window(
    *, actor: Actor, tenant_id: uuid.UUID, user_id: uuid.UUID, priority: int, window: Window, reason: str = "", now: datetime
) -> PriorityRequest:
    """Ask that a user may use a higher priority without approval for a while; members ask for themselves."""
    demand(actor, tenant_id, "priority_request.create", user_id)
    _check_priority(priority)
    _check_window(window, now)
    if user_id == actor.user_id:
        _check_worth(actor, tenant_id, priority, above=-1, now=now)
    row = new_request(
        actor=actor, tenant_id=tenant_id, job_id=None, user_id=user_id, priority=priority, reason=reason, now=now, window=window
    )
    with _together():
        _check_room(actor)
        row.save(force_insert=True)
        tell_requested([row], actor, now)
    return row


def new_request(
    *,
    actor: Actor,
    tenant_id: uuid.UUID,
    job_id: uuid.UUID | None,
    user_id: uuid.UUID,
    priority: int,
    reason: str,
    now: datetime,
    window: Window | None = None,
) -> PriorityRequest:
    """The row of a request, not stored."""
    assert actor.user_id is not None, "the platform itself asks nobody"
    over = now + timedelta(days=current().priority_request_days)
    return PriorityRequest(
        id=new_id(),
        tenant_id=tenant_id,
        job_id=job_id,
        user_id=user_id,
        priority=priority,
        reason=reason,
        starts_at=None if window is None else window.starts_at or now,
        ends_at=None if window is None else window.ends_at,
        created_at=now,
        created_by_id=actor.user_id,
        expires_at=over if window is None else min(over, window.ends_at),
    )


def approve(*, actor: Actor, request: PriorityRequest, answer: str = "", now: datetime) -> PriorityRequest:
    """Give what was asked for. A job that waits takes its new place at once."""
    _demand_decision(actor, request)
    if granted_to(actor, request.tenant_id, priority_grants()) < request.priority:
        raise Forbidden(
            Text(
                f"{actor.name} may not use priority {format_priority(request.priority)}, and so not give it to another user.",
                f"{actor.name} 不能使用优先级 {format_priority(request.priority)}，因此也不能授予他人。",
            ),
            hint=Text("Ask a manager of the tenant above, or an operator.", "请联系上级租户的管理员或运维人员。"),
        )
    with _together():
        job = None if request.job_id is None else Job.objects.select_for_update(no_key=True).get(id=request.job_id)
        if job is not None and JOB_LIFECYCLE.is_terminal(job.state):
            raise Conflict(
                Text(f"Job {job.name} has ended meanwhile.", f"作业 {job.name} 已结束。"),
                hint=Text("There is nothing left to approve.", "没有可批准的内容。"),
            )
        if request.expires_at <= now:
            raise Conflict(
                Text("This request is over: it was not decided in time.", "此申请已失效：未在期限内处理。"),
                hint=Text("Ask again if you still need it.", "如仍需要，请重新申请。"),
            )
        _decide(actor, request, RequestState.APPROVED, answer, now)
        if job is not None:
            _raise(job, request, actor, now)
    return request


def deny(*, actor: Actor, request: PriorityRequest, answer: str = "", now: datetime) -> PriorityRequest:
    """Refuse what was asked for; the job goes on waiting with the priority that it has."""
    _demand_decision(actor, request)
    with _together():
        _decide(actor, request, RequestState.DENIED, answer, now)
    return request


def withdraw(*, actor: Actor, request: PriorityRequest, now: datetime) -> PriorityRequest:
    """Take back a request that waits, or end a window that was approved. A job that was raised stays raised."""
    demand(actor, request.tenant_id, "priority_request.delete", request.created_by_id)
    with _together():
        if request.state == RequestState.APPROVED and request.job_id is None:
            _decide(actor, request, RequestState.REVOKED, "", now)
        else:
            _decide(actor, request, RequestState.WITHDRAWN, "", now)
    return request


def sweep_requests(now: datetime) -> int:
    """End requests that were not decided in time or whose job has ended, and windows that are over. A part of the sweep;
    returns how many."""
    pending = PriorityRequest.objects.filter(state=RequestState.PENDING)
    late = pending.filter(expires_at__lte=now).values_list("id", flat=True)[:BATCH]
    changes = {row: _expiry(row, "not_decided", now) for row in late}
    ended = pending.filter(job__state__in=JOB_LIFECYCLE.terminal_states).values_list("id", flat=True)[:BATCH]
    changes |= {row: _expiry(row, "job_ended", now) for row in ended}
    over = PriorityRequest.objects.filter(state=RequestState.APPROVED, job__isnull=True, ends_at__lte=now)
    closed = [
        Change(row, RequestState.APPROVED, RequestState.EXPIRED, "window_over")
        for row in over.values_list("id", flat=True)[:BATCH]
    ]
    if not changes and not closed:
        return 0
    actor = system_actor("priority")
    with _together():
        done = apply(REQUESTS, [*changes.values(), *closed], actor=actor.name, at=now)
        rows = PriorityRequest.objects.select_related("job").in_bulk([change.id for change in done])
        for change in done:
            _audit(rows[change.id], actor, "priority_request.expire", now, reason=change.reason)
        record_events([_over(rows[change.id], change.reason, now) for change in done])
    return len(done)


def _over(row: PriorityRequest, reason: str, now: datetime) -> NewEvent:
    why = {"not_decided": "Nobody decided it in time.", "job_ended": "Its job has ended.", "window_over": "The window is over."}
    title = f"The request for priority {format_priority(row.priority)} is over"
    return _notice(row, title, why[reason], users=[row.created_by_id, row.user_id], at=now)


def tell_requested(rows: Sequence[PriorityRequest], actor: Actor, now: datetime) -> None:
    """Event and audit row of new requests, in the caller's transaction."""
    record_events(
        [
            _notice(
                row,
                f"{actor.name} asks for priority {format_priority(row.priority)}",
                row.reason,
                users=(),
                for_managers=True,
                at=now,
            )
            for row in rows
        ]
        + [
            NewEvent(
                kind="priority_request.pending",
                tenant_id=row.tenant_id,
                subject_kind="priority_request",
                subject_id=row.pk,
                job_id=row.job_id,
                data={
                    "priority": row.priority,
                    "user": actor.name,
                    "reason": row.reason,
                    "expires_at": row.expires_at.isoformat(),
                },
                at=now,
            )
            for row in rows
        ]
    )
    for row in rows:
        _audit(row, actor, "priority_request.create", now)


@contextmanager
def _together() -> Iterator[None]:
    """All of a step or nothing of it."""
    with transaction.atomic():
        yield
        crashpoint("jobs.priority.before_commit")


def _expiry(request_id: uuid.UUID, reason: str, now: datetime) -> Change:
    return Change(request_id, RequestState.PENDING, RequestState.EXPIRED, reason, also={"decided_at": now})


def _decide(actor: Actor, request: PriorityRequest, state: RequestState, answer: str, now: datetime) -> None:
    """Move the request on from where it was read. A second caller learns what the first decided."""
    was = request.state
    also: dict[str, Any] = {"decided_at": now, "decided_by_id": actor.user_id, "answer": answer}
    detail = {"priority": request.priority, **({"answer": answer} if answer else {})}
    change = Change(request.pk, was, state, detail=detail, also=also)
    if not REQUESTS.lifecycle.allows(was, state) or not apply(REQUESTS, [change], actor=actor.name, at=now):
        found = PriorityRequest.objects.values_list("state", flat=True).get(id=request.pk)
        raise Conflict(
            Text(f"This request is {found} already.", f"此申请{decided_zh(found)}。"),
            hint=Text("`berth priority list` shows who decided it, and when.", "`berth priority list` 显示由谁、何时处理。"),
        )
    request.refresh_from_db(fields=["state", "decided_at", "decided_by", "answer"])
    by = actor.name if actor.user_id is not None else "The platform"
    title = f"{by}: the request for priority {format_priority(request.priority)} is {state}"
    if actor.user_id != request.created_by_id:
        record_events([_notice(request, title, answer, users=[request.created_by_id, request.user_id], at=now)])
    verbs = {RequestState.APPROVED: "approve", RequestState.DENIED: "deny", RequestState.REVOKED: "revoke"}
    _audit(request, actor, f"priority_request.{verbs.get(state, 'withdraw')}", now, before=was)


def _notice(
    row: PriorityRequest, title: str, text: str, *, users: Sequence[uuid.UUID], for_managers: bool = False, at: datetime
) -> NewEvent:
    return new_notice(
        PRIORITY,
        tenant_id=row.tenant_id,
        subject_kind="priority_request",
        subject_id=row.pk,
        title=title,
        text=text,
        command="berth priority list",
        users=users,
        for_managers=for_managers,
        job_id=row.job_id,
        at=at,
    )


def _raise(job: Job, request: PriorityRequest, actor: Actor, now: datetime) -> None:
    """The job and, of an array, its children that wait."""
    lower = Q(id=job.pk) | Q(parent_id=job.pk, state=JobState.QUEUED)
    raised = list(Job.objects.filter(lower, priority__lt=request.priority).values_list("id", flat=True))
    for start in range(0, len(raised), BATCH):
        ids = raised[start : start + BATCH]
        Job.objects.filter(id__in=ids).update(priority=request.priority, placed_at=None, version=F("version") + 1)
        tell_edited(ids, reason="priority_approved", now=now, data={"changed": ["priority"], "by": actor.name})


def _demand_decision(actor: Actor, request: PriorityRequest) -> None:
    demand(actor, request.tenant_id, "priority_request.decide")
    if actor.user_id is not None and actor.user_id in (request.created_by_id, request.user_id):
        raise Forbidden(
            Text("You cannot decide a request of your own.", "不能处理自己的申请。"),
            hint=Text("Ask another manager, or an operator.", "请联系其他管理员或运维人员。"),
        )


def _check_priority(priority: int) -> None:
    if not 0 <= priority <= PRIORITY_MAX:
        message = Text(f"{priority} is not between 0 and {PRIORITY_MAX}.", f"{priority} 不在 0 到 {PRIORITY_MAX} 之间。")
        hint = Text("Give a number of that range, or a class by name.", "请给出此范围内的数字，或优先级类别名称。")
        raise InvalidInput(message, hint=hint, fields=[FieldError("/priority", "out_of_range", message, hint)])


def _check_worth(actor: Actor, tenant_id: uuid.UUID, priority: int, *, above: int, now: datetime) -> None:
    """There must be something to ask for."""
    if priority <= above:
        message = Text(f"The job has priority {format_priority(above)} already.", f"作业的优先级已是 {format_priority(above)}。")
        raise InvalidInput(
            message, fields=[FieldError("/priority", "not_higher", message, Text("Ask for more.", "请申请更高的值。"))]
        )
    most = granted_priority(actor, tenant_id, now=now)
    if priority <= most and not is_system(actor):
        message = Text(
            f"You may use up to priority {format_priority(most)} without asking.",
            f"您无需申请即可使用至优先级 {format_priority(most)}。",
        )
        hint = Text(
            "Set it: `berth priority set JOB CLASS`, or PATCH /api/v1/jobs/{job}.",
            "请直接设置：`berth priority set JOB CLASS`，或 PATCH /api/v1/jobs/{job}。",
        )
        raise InvalidInput(message, hint=hint, fields=[FieldError("/priority", "within_grant", message, hint)])


def _check_window(window: Window, now: datetime) -> None:
    fields = []
    starts_at = window.starts_at or now
    if window.starts_at is not None and window.starts_at < now - timedelta(minutes=1):
        message = Text(f"{format_moment(window.starts_at)} is over.", f"{format_moment(window.starts_at)} 已过。")
        fields.append(
            FieldError(
                "/starts_at", "in_the_past", message, Text("Leave it away, or give a later time.", "请省略，或给出更晚的时间。")
            )
        )
    if window.ends_at <= max(starts_at, now):
        fields.append(
            FieldError(
                "/ends_at",
                "out_of_range",
                Text("The window ends before it begins.", "时段的结束早于开始。"),
                Text("Give an end after the start.", "请给出晚于开始的结束时间。"),
            )
        )
    elif window.ends_at > now + AHEAD:
        message = Text(f"A window ends within {AHEAD.days} days.", f"时段须在 {AHEAD.days} 天内结束。")
        fields.append(
            FieldError(
                "/ends_at",
                "out_of_range",
                message,
                Text(f"Give a time before {now + AHEAD:%Y-%m-%d}.", f"请给出早于 {now + AHEAD:%Y-%m-%d} 的时间。"),
            )
        )
    if fields:
        raise InvalidInput(fields[0].message, fields=fields, hint=fields[0].hint)


def _check_room(actor: Actor) -> None:
    pending = PriorityRequest.objects.filter(created_by_id=actor.user_id, state=RequestState.PENDING)
    if pending.count() >= PENDING_PER_PERSON:
        raise Conflict(
            Text(f"{PENDING_PER_PERSON} requests of yours wait already.", f"您已有 {PENDING_PER_PERSON} 个待处理的申请。"),
            hint=Text("Withdraw some, or ask for a window.", "请撤回一些，或申请一个时段。"),
        )


def _audit(request: PriorityRequest, actor: Actor, verb: str, now: datetime, *, before: str = "", reason: str = "") -> None:
    record_audit(
        actor=actor,
        verb=verb,
        tenant_id=request.tenant_id,
        target_kind="priority_request",
        target_id=request.pk,
        before={"state": before} if before else None,
        after={
            "state": str(request.state),
            "priority": request.priority,
            "job": None if request.job_id is None else str(request.job_id),
            "user": str(request.user_id),
            "ends_at": None if request.ends_at is None else request.ends_at.isoformat(),
            **({"answer": request.answer} if request.answer else {}),
            **({"reason": reason} if reason else {}),
        },
        at=now,
    )
