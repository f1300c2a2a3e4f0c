"""Asking for other limits of one's own queues: whoever may edit them approves, and then the edit is made, now or at its time.

A request is an edit that somebody proposes who may not make it. It is approved by the rights of whoever approves: nothing happens
that they could not do themselves, and nobody approves what they asked for.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from activity.notifications.kinds import NoticeKind
from activity.notifications.notices import new_notice
from activity.services import NewEvent, record_audit, record_events
from kernel.actor import Actor, system_actor
from kernel.errors import Conflict, Forbidden, InvalidInput, NotFound
from kernel.ids import new_id
from reconciling import transition
from reconciling.crashpoints import crashpoint
from reconciling.transition import Change as StateChange
from tenants.access import demand
from tenants.capacity import limits_tree
from tenants.lifecycle import RequestState
from tenants.models import QuotaRequest, Tenant
from tenants.quota.edits import Change
from tenants.services.edits import check_request, demand_all, edit_limits, lock_tree, owner_of, read_change, stored
from tenants.services.transition import REQUESTS

OPEN_FOR = timedelta(days=30)
PENDING_PER_TENANT = 100
BATCH = 1_000


def request_limits(
    *,
    actor: Actor,
    tenant: Tenant,
    changes: Sequence[Change],
    effective_from: datetime | None = None,
    reason: str = "",
    now: datetime,
) -> QuotaRequest:
    """Ask for other limits of queues of the tenant. Refused for whoever may make the edit themselves."""
    demand(actor, tenant.pk, "quota_request.create")
    check_request(changes, effective_from, now)
    tree = limits_tree()
    if any(tree.tenants.get(change.queue_id) != tenant.pk for change in changes):
        raise NotFound("There is no such queue in this tenant.", hint="`berth queues` lists them.")
    if _may_edit(actor, changes):
        raise InvalidInput("You may make this edit yourself.", hint="POST /api/v1/quota/edits, or `berth queues edit`.")
    row = QuotaRequest(
        id=new_id(),
        tenant=tenant,
        changes=[stored(change) for change in changes],
        reason=reason,
        effective_from=effective_from,
        created_at=now,
        created_by_id=actor.user_id,
        expires_at=now + OPEN_FOR,
    )
    with _together():
        pending = QuotaRequest.objects.filter(tenant=tenant, state=RequestState.PENDING)
        if pending.count() >= PENDING_PER_TENANT:
            raise Conflict(f"{PENDING_PER_TENANT} requests of this tenant wait already.", hint="Withdraw some.")
        row.save(force_insert=True)
        made = NewEvent("quota_request.pending", tenant.pk, "quota_request", row.pk, now, data={"name": tenant.name})
        title = f"{tenant.name} asks for other limits"
        asked = _notice(row, title, reason, tenant_id=owner_of(changes, tree), for_managers=True, at=now)
        record_events([made, asked])
        _audit(row, actor, "quota_request.create", now)
    return row


def approve_request(
    *, actor: Actor, request: QuotaRequest, answer: str = "", effective_from: datetime | None = None, now: datetime
) -> QuotaRequest:
    """Make the edit that was asked for, by one's own right; from `effective_from` on, or from when it was asked for, or now."""
    changes = [read_change(entry) for entry in request.changes]
    _demand_decision(actor, request, changes)
    start = effective_from or request.effective_from
    with _together():
        lock_tree()  # As the edit does: whoever comes second finds it decided.
        if request.expires_at <= now:
            raise Conflict("This request is over: nobody decided it in time.", hint="Whoever needs it asks again.")
        _decide(actor, request, RequestState.APPROVED, answer, now)
        comment = f"Asked for by {request.created_by.name if request.created_by else 'nobody'}. {answer}"[:1000].rstrip()
        later = start if start is not None and start > now else None
        edit = edit_limits(actor=actor, changes=changes, effective_from=later, comment=comment, now=now)
        QuotaRequest.objects.filter(id=request.pk).update(edit=edit)
        request.edit = edit
    return request


def deny_request(*, actor: Actor, request: QuotaRequest, answer: str = "", now: datetime) -> QuotaRequest:
    """Refuse what was asked for; the limits stay as they are."""
    _demand_decision(actor, request, [read_change(entry) for entry in request.changes])
    with _together():
        _decide(actor, request, RequestState.DENIED, answer, now)
    return request


def withdraw_request(*, actor: Actor, request: QuotaRequest, now: datetime) -> QuotaRequest:
    """Take back a request that waits."""
    demand(actor, request.tenant_id, "quota_request.delete")
    with _together():
        _decide(actor, request, RequestState.WITHDRAWN, "", now)
    return request


def sweep_quota_requests(now: datetime) -> int:
    """End requests that nobody decided in time. A part of the sweep; returns how many."""
    late = QuotaRequest.objects.filter(state=RequestState.PENDING, expires_at__lte=now).values_list("id", flat=True)[:BATCH]
    changes = [
        StateChange(row, RequestState.PENDING, RequestState.EXPIRED, "not_decided", also={"decided_at": now}) for row in late
    ]
    if not changes:
        return 0
    actor = system_actor("quota")
    with _together():
        done = [change.id for change in transition.apply(REQUESTS, changes, actor=actor.name, at=now)]
        rows = list(QuotaRequest.objects.filter(id__in=done))
        for row in rows:
            _audit(row, actor, "quota_request.expire", now)
        title = "The request for other limits is over: nobody decided it in time"
        record_events([_notice(row, title, "", tenant_id=row.tenant_id, users=[row.created_by_id], at=now) for row in rows])
    return len(done)


@contextmanager
def _together() -> Iterator[None]:
    """All of a step or nothing of it."""
    with transaction.atomic():
        yield
        crashpoint("tenants.quota_request.before_commit")


def _may_edit(actor: Actor, changes: Sequence[Change]) -> bool:
    try:
        demand_all(actor, changes, limits_tree())
    except (Forbidden, NotFound):
        return False
    return True


def _demand_decision(actor: Actor, request: QuotaRequest, changes: Sequence[Change]) -> None:
    demand_all(actor, changes, limits_tree())
    if actor.user_id is not None and actor.user_id == request.created_by_id:
        raise Forbidden("Nobody decides a request of their own.", hint="Ask another manager, or an operator.")


def _decide(actor: Actor, request: QuotaRequest, state: RequestState, answer: str, now: datetime) -> None:
    """Move the request on from where it was read. Whoever comes second learns what the first decided."""
    was = request.state
    also: dict[str, Any] = {"decided_at": now, "decided_by_id": actor.user_id, "answer": answer}
    change = StateChange(request.pk, was, state, also=also)
    if not REQUESTS.lifecycle.allows(was, state) or not transition.apply(REQUESTS, [change], actor=actor.name, at=now):
        found = QuotaRequest.objects.values_list("state", flat=True).get(id=request.pk)
        raise Conflict(f"This request is {found} already.", hint="`berth queues requests` shows who decided it, and when.")
    request.refresh_from_db(fields=["state", "decided_at", "decided_by", "answer"])
    if state != RequestState.APPROVED:  # Of an approval the edit's row tells, with who asked.
        _audit(request, actor, f"quota_request.{'deny' if state == RequestState.DENIED else 'withdraw'}", now)
    if actor.user_id != request.created_by_id:
        title = f"{actor.name}: the request for other limits is {state}"
        record_events([_notice(request, title, answer, tenant_id=request.tenant_id, users=[request.created_by_id], at=now)])


def _notice(
    row: QuotaRequest,
    title: str,
    text: str,
    *,
    tenant_id: uuid.UUID | None,
    users: Sequence[uuid.UUID | None] = (),
    for_managers: bool = False,
    at: datetime,
) -> NewEvent:
    return new_notice(
        NoticeKind.CAPACITY,
        tenant_id=tenant_id,
        subject_kind="quota_request",
        subject_id=row.pk,
        title=title,
        text=text,
        command="berth queues requests",
        users=users,
        for_managers=for_managers,
        at=at,
    )


def _audit(request: QuotaRequest, actor: Actor, verb: str, now: datetime) -> None:
    record_audit(
        actor=actor,
        verb=verb,
        tenant_id=request.tenant_id,
        target_kind="quota_request",
        target_id=request.pk,
        after={"state": str(request.state), "changes": request.changes[:100], "answer": request.answer},
        at=now,
    )
