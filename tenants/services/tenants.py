"""Tenants: boundaries of isolation, in a tree. Slug and number are allotted once and never change."""

from __future__ import annotations

import secrets
import uuid
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import F

from activity.services import record_audit
from kernel.actor import Actor, TenantRole
from kernel.errors import Conflict, PreconditionFailed, QuotaExceeded
from kernel.words import Text
from reconciling import bulk
from tenants.bounds import TENANT_DEPTH
from tenants.capacity.models import Queue
from tenants.capacity.services.queues import create_top_queue
from tenants.identity.access import demand
from tenants.identity.models import Counter, Membership, Tenant, TenantAncestor
from tenants.identity.services.names import DESCRIPTION_LENGTH, Problems, display_name
from tenants.identity.services.standing import tell

SLUG_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"  # Base32 of RFC 4648, in lower case: safe in any name of any engine.
SLUG_LENGTH = 10


def create_tenant(*, actor: Actor, name: str, parent_id: uuid.UUID | None = None, description: str = "", now: datetime) -> Tenant:
    """Create a tenant with its top queue. Below a tenant: its managers may; at the top: operators, who become its manager.

    The creator of a top tenant becomes its manager because an empty tenant has nothing to be kept from them; into a tenant
    that others run, operators get only when its managers let them.
    """
    demand(actor, parent_id, "tenant.create")
    problems = Problems()
    name = display_name(name, problems)
    _check_description(description, problems)
    problems.raise_if_any()
    with transaction.atomic():
        tenant = _insert(name, parent_id, description, now)
        create_top_queue(tenant, now=now)
        if parent_id is None and actor.user_id is not None:
            Membership.objects.create(tenant=tenant, user_id=actor.user_id, role=TenantRole.MANAGER, created_at=now)
        tell(tenant, "created", now)
        record_audit(
            actor=actor,
            verb="tenant.create",
            tenant_id=tenant.pk,
            target_kind="tenant",
            target_id=tenant.pk,
            target_name=name,
            after={"name": name, "slug": tenant.slug, "parent": parent_id, "description": description},
            at=now,
        )
    return tenant


def update_tenant(
    *,
    actor: Actor,
    tenant: Tenant,
    name: str | None = None,
    description: str | None = None,
    expected_version: int | None = None,
    now: datetime,
) -> Tenant:
    """Rename or describe a tenant. Its top queue follows the name as long as it still bears the old one."""
    demand(actor, tenant.pk, "tenant.edit")
    problems = Problems()
    changes: dict[str, str] = {}
    if name is not None:
        changes["name"] = display_name(name, problems)
    if description is not None:
        _check_description(description, problems)
        changes["description"] = description
    problems.raise_if_any()
    with transaction.atomic():
        before = {key: getattr(tenant, key) for key in changes}
        rows = Tenant.objects.filter(id=tenant.pk)
        if expected_version is not None:
            rows = rows.filter(version=expected_version)
        try:
            with transaction.atomic():
                changed = rows.update(version=F("version") + 1, **changes)
        except IntegrityError:
            raise _name_taken(changes["name"]) from None
        if not changed:
            raise PreconditionFailed(
                Text("The tenant was changed meanwhile.", "该租户已被他人修改。"),
                hint=Text("Read it again and repeat your change.", "请重新读取，再做修改。"),
            )
        if name is not None and name != tenant.name:
            rename_top_queue(tenant, changes["name"])
        tenant.refresh_from_db()
        tell(tenant, "changed", now)
        record_audit(
            actor=actor,
            verb="tenant.edit",
            tenant_id=tenant.pk,
            target_kind="tenant",
            target_id=tenant.pk,
            target_name=tenant.name,
            before=before,
            after=changes,
            at=now,
        )
    return tenant


def _insert(name: str, parent_id: uuid.UUID | None, description: str, now: datetime) -> Tenant:
    above = list(
        TenantAncestor.objects.filter(tenant_id=parent_id).order_by("depth").values_list("ancestor_id", flat=True)
        if parent_id
        else []
    )
    if len(above) >= TENANT_DEPTH:
        raise QuotaExceeded(
            Text(f"Tenants nest at most {TENANT_DEPTH} deep.", f"租户最多嵌套 {TENANT_DEPTH} 层。"),
            hint=Text("Create it further up.", "请建立在更上层。"),
        )
    if Tenant.objects.filter(parent_id=parent_id, name=name).exists():
        raise _name_taken(name)
    try:
        with transaction.atomic():
            tenant = Tenant.objects.create(
                slug="".join(secrets.choice(SLUG_ALPHABET) for _ in range(SLUG_LENGTH)),
                name=name,
                number=_next_number(),
                parent_id=parent_id,
                description=description,
                created_at=now,
            )
    except IntegrityError:  # Another caller just took the name; a slug taken by chance is once in 10^15.
        raise _name_taken(name) from None
    TenantAncestor.objects.bulk_create(
        TenantAncestor(tenant=tenant, ancestor_id=ancestor_id, depth=depth)
        for depth, ancestor_id in enumerate([tenant.pk, *above])
    )
    return tenant


def _next_number() -> int:
    """The next number, never given out before, not even to a tenant that no longer exists."""
    bulk.insert(Counter, [{"name": "tenant_number", "value": 0}], ignore_conflicts=True)
    rows = bulk.update(Counter, [{"name": "tenant_number", "value": 1}], key="name", increment=("value",), returning=("value",))
    return int(rows[0]["value"])


def rename_top_queue(tenant: Tenant, name: str) -> None:
    """Let the top queue follow the tenant's name, as long as it bears the old one."""
    if not Queue.objects.filter(tenant_id=tenant.pk, name=name).exists():
        Queue.objects.filter(tenant_id=tenant.pk, is_top=True, name=tenant.name).update(name=name, version=F("version") + 1)


def _check_description(text: str, problems: Problems) -> None:
    if len(text) > DESCRIPTION_LENGTH:
        problems.add(
            "/description",
            "bad_length",
            Text(f"A description has at most {DESCRIPTION_LENGTH} characters.", f"说明最多 {DESCRIPTION_LENGTH} 个字符。"),
        )


def _name_taken(name: str) -> Conflict:
    return Conflict(
        Text(f"There is already a tenant {name!r} in this place.", f"此处已有租户 {name!r}。"),
        hint=Text("Choose another name.", "请换一个名称。"),
    )
