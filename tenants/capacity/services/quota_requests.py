"""Asking for other limits of one's own queues: a user who may edit them approves, and the edit is made, now or at its time.

A request is an edit proposed by a user who may not make it. It is approved by the approver's rights: nothing happens
that the approver could not do alone, and no user approves their own request.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from activity.notifications.notices import new_notice
from activity.services import NewEvent, record_audit, record_events
from clusters.notices import CAPACITY
from kernel.actor import Actor, system_actor
from kernel.errors import Conflict, Forbidden, InvalidInput, NotFound
from kernel.ids import new_id
from kernel.words import Text, decided_zh
from reconciling import transition
from reconciling.crashpoints import crashpoint
from reconciling.transition import Change as StateChange
from tenants.capacity.lifecycle import RequestState
from tenants.capacity.models import QuotaRequest
from tenants.capacity.quota.edits import Change
from tenants.capacity.reads import limits_tree
from tenants.capacity.services.edits import check_request, demand_all, edit_limits, lock_tree, owner_of, read_change, stored
from tenants.capacity.services.transition import REQUESTS
from tenants.identity.access import demand
from tenants.identity.models import Tenant

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
    """Ask for other limits of queues of the tenant. Refused to a caller who may make the edit alone."""
    demand(actor, tenant.pk, "quota_request.create")
    check_request(changes, effective_from, now)
    tree = limits_tree()
    if any(tree.tenants.get(change.queue_id) != tenant.pk for change in changes):
        raise NotFound(
            Text("There is no such queue in this tenant.", "此租户中没有这个队列。"),
            hint=Text("`berth queues` lists them.", "`berth queues` 可列出队列。"),
        )
    if _may_edit(actor, changes):
        raise InvalidInput(
            Text("You may make this edit yourself.", "您可以自己做此变更。"),
            hint=Text("POST /api/v1/quota/edits, or `berth queues edit`.", "POST /api/v1/quota/edits，或 `berth queues edit`。"),
        )
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
            raise Conflict(
                Text(
                    f"{PENDING_PER_TENANT} requests of this tenant wait already.",
                    f"该租户已有 {PENDING_PER_TENANT} 个待处理的申请。",
                ),
                hint=Text("Withdraw some.", "请撤回一些。"),
            )
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
        lock_tree()  # As the edit does: the second caller finds it decided.
        if request.expires_at <= now:
            raise Conflict(
                Text("This request is over: it was not decided in time.", "此申请已失效：未在期限内处理。"),
                hint=Text("Ask again if you still need it.", "如仍需要，请重新申请。"),
            )
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
    """End requests that were not decided in time. A part of the sweep; returns how many."""
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
        title = "The request for other limits is over: it was not decided in time"
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
        raise Forbidden(
            Text("You cannot decide a request of your own.", "不能处理自己的申请。"),
            hint=Text("Ask another manager, or an operator.", "请联系其他管理员或运维人员。"),
        )


def _decide(actor: Actor, request: QuotaRequest, state: RequestState, answer: str, now: datetime) -> None:
    """Move the request on from where it was read. A second caller learns what the first decided."""
    was = request.state
    also: dict[str, Any] = {"decided_at": now, "decided_by_id": actor.user_id, "answer": answer}
    change = StateChange(request.pk, was, state, also=also)
    if not REQUESTS.lifecycle.allows(was, state) or not transition.apply(REQUESTS, [change], actor=actor.name, at=now):
        found = QuotaRequest.objects.values_list("state", flat=True).get(id=request.pk)
        raise Conflict(
            Text(f"This request is {found} already.", f"此申请{decided_zh(found)}。"),
            hint=Text("`berth queues requests` shows who decided it, and when.", "`berth queues requests` 显示由谁、何时处理。"),
        )
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
        CAPACITY,
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
