"""Settling what a user leaves: it is handed to another member, or its jobs are stopped; otherwise what waits is withheld."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from activity.services import record_audit
from kernel.actor import Actor, TenantRole
from kernel.errors import FieldError, InvalidInput
from kernel.words import Text
from tenants.identity.access import demand, roles_of
from tenants.identity.leaving import BELONGINGS, Belonging, LeavingChange, rows_in, tenants_lost
from tenants.identity.models import Tenant, User
from tenants.identity.permissions import ROLE_RANK

TENANTS_NAMED = 5
Done = dict[str, int]
"""How many things of each kind were changed."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """What becomes of the jobs and things of a user who leaves. Neither: what runs goes on, and what waits is withheld."""

    stops_jobs: bool = False
    hand_to: User | None = None

    def __post_init__(self) -> None:
        if self.stops_jobs and self.hand_to is not None:
            message = Text("Jobs are stopped or handed over, not both.", "作业只能停止或移交，不能同时进行。")
            hint = Text("Leave out `stop_jobs` or `hand_to`.", "请去掉 `stop_jobs` 或 `hand_to`。")
            raise InvalidInput(message, hint=hint, fields=[FieldError("/hand_to", "conflict", message, hint)])


HOLD = Settlement()


def settle(*, actor: Actor, user: User, tenant_ids: frozenset[uuid.UUID] | None, settlement: Settlement, now: datetime) -> Done:
    """Do with a user's things in these tenants, None for all, what was chosen. In the caller's transaction, whose audit row tells
    of it (`told`)."""
    to = settlement.hand_to
    if to is None and not settlement.stops_jobs:
        return {}
    if to is not None:
        _check_heir(user, to, tenant_ids)
    change = LeavingChange(actor, user, to, tenant_ids, now)
    counts = {kind: _settled(belonging, change) for kind, belonging in BELONGINGS.items()}
    return {kind: count for kind, count in counts.items() if count}


def told(settlement: Settlement, done: Done) -> dict[str, object]:
    """What was done, for an audit row."""
    if settlement.hand_to is not None:
        return {"handed_to": settlement.hand_to.name, "handed_over": done}
    return {"stopped": done} if settlement.stops_jobs else {}


def hand_over(*, actor: Actor, tenant: Tenant, user: User, to: User, now: datetime) -> Done:
    """Give another member what a user has in a tenant and below it, as far as the user has no role of its own there. For
    managers, also after the user has left. May be called again."""
    demand(actor, tenant.pk, "member.edit")
    settlement = Settlement(hand_to=to)
    with transaction.atomic():
        done = settle(actor=actor, user=user, tenant_ids=tenants_lost(tenant.pk, user.pk), settlement=settlement, now=now)
        record_audit(
            actor=actor,
            verb="member.edit",
            tenant_id=tenant.pk,
            target_kind="user",
            target_id=user.pk,
            target_name=user.name,
            after=told(settlement, done),
            at=now,
        )
    return done


def _settled(belonging: Belonging, change: LeavingChange) -> int:
    if change.to is None:
        return belonging.stop(change) if belonging.stop is not None else 0
    if belonging.hand_over is not None:
        return belonging.hand_over(change)
    if belonging.owner:
        return rows_in(belonging, change.user.pk, change.tenant_ids).update(**{belonging.owner: change.to.pk})
    return 0


def _check_heir(user: User, to: User, tenant_ids: frozenset[uuid.UUID] | None) -> None:
    """Raise unless `to` may begin jobs in every tenant where something is handed over."""
    hint = Text("Name an active member of the tenant.", "请指定该租户的有效成员。")
    if to.pk == user.pk or not to.is_active:
        message = (
            Text(f"{to.name} is disabled and can take over nothing.", f"{to.name} 已停用，不能接手。")
            if to.pk != user.pk
            else Text(f"{to.name} already owns this.", f"这些本就属于 {to.name}。")
        )
        raise InvalidInput(message, hint=hint, fields=[FieldError("/hand_to", "not_possible", message, hint)])
    roles = roles_of(to.pk)
    enough = {tenant_id for tenant_id, role in roles.items() if ROLE_RANK[role] >= ROLE_RANK[TenantRole.MEMBER]}
    lacking = _tenants_with_things(user, tenant_ids) - enough
    if lacking:
        names = Tenant.objects.filter(id__in=lacking).order_by("name").values_list("name", flat=True)[:TENANTS_NAMED]
        shown = ", ".join(names) + (" ..." if len(lacking) > TENANTS_NAMED else "")
        message = Text(
            f"{to.name} is no member of {shown}, where {user.name} leaves things.",
            f"{to.name} 不是 {shown} 的成员，而 {user.name} 在其中留有内容。",
        )
        more = Text(
            "Name a user with the role member or manager there, or hand over tenant by tenant: `berth members hand-over`.",
            "请指定在其中具有成员或管理员角色的用户，或逐个租户移交：`berth members hand-over`。",
        )
        raise InvalidInput(message, hint=more, fields=[FieldError("/hand_to", "no_member", message, more)])


def _tenants_with_things(user: User, tenant_ids: frozenset[uuid.UUID] | None) -> set[uuid.UUID]:
    """The tenants in which something would be handed over. A query for each kind."""
    found: set[uuid.UUID] = set()
    for belonging in BELONGINGS.values():
        if belonging.can_be_handed_over:
            rows = rows_in(belonging, user.pk, tenant_ids).order_by()
            found.update(rows.values_list(belonging.tenant, flat=True).distinct())
    return found
