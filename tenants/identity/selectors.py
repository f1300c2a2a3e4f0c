"""Reads of tenants and people: they never write, and their number of queries does not depend on the rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Q

from kernel.actor import Actor, TenantRole
from kernel.errors import NotFound
from kernel.words import Text
from tenants.identity.models import Membership, Secret, Tenant, TenantAncestor, User, UserKind
from webapi.access import fetch, visible


@dataclass(frozen=True, slots=True)
class TenantFacts:
    """What the rest of the platform needs to know of a tenant; `number` gives the local engine its uid."""

    id: uuid.UUID
    slug: str
    name: str
    number: int


@dataclass(frozen=True, slots=True)
class TenantOfActor:
    """A tenant as `whoami` shows it. `parent_id` is None where the actor does not see the parent."""

    id: uuid.UUID
    slug: str
    name: str
    role: TenantRole
    parent_id: uuid.UUID | None


def find_tenant(actor: Actor, text: str | uuid.UUID | None) -> TenantFacts:
    """The visible tenant with this id or slug, or with this name if only one has it. NotFound for anything else.

    None stands for the actor's own tenant, where there is only one that could be meant.
    """
    row = get_tenant(actor, text)
    return TenantFacts(row.pk, row.slug, row.name, row.number)


def get_tenant(actor: Actor, text: str | uuid.UUID | None) -> Tenant:
    """The same, as a row."""
    if text is None:
        return _sole_tenant(actor)
    rows = visible(actor, Tenant)
    try:
        found = list(rows.filter(id=uuid.UUID(str(text))))
    except ValueError:
        found = list(rows.filter(Q(slug=text) | Q(name=text))[:3])
        found = [row for row in found if row.slug == text] or found
    if len(found) != 1:
        raise NotFound(
            Text(
                f"There is no tenant {str(text)[:80]!r}, or several have that name.",
                f"没有租户 {str(text)[:80]!r}，或有多个同名租户。",
            ),
            hint=Text(
                "`berth whoami` lists your tenants; use the slug where a name is not unique.",
                "`berth whoami` 列出您的租户；名称不唯一时请使用 slug。",
            ),
        )
    return found[0]


def _sole_tenant(actor: Actor) -> Tenant:
    """The only tenant, or the only top one, in which the actor is at least a member; a viewer's only one, for want of it."""
    roles = frozenset(tenant_id for tenant_id, role in actor.roles.items() if role != TenantRole.VIEWER)
    roles = roles or frozenset(actor.roles)
    rows = list(Tenant.objects.filter(id__in=roles).exclude(parent_id__in=roles)[:2])
    if len(rows) != 1:
        belongs = "several tenants" if rows else "none"
        raise NotFound(
            Text(f"Say which tenant: you belong to {belongs}.", f"请指定租户：您属于 {belongs}。"),
            hint=Text("`berth whoami` lists them; `--tenant` names one.", "`berth whoami` 可列出；用 `--tenant` 指定一个。"),
        )
    return rows[0]


def tenants_of(actor: Actor) -> list[TenantOfActor]:
    """All tenants in which the actor has a role, parents before children. One query."""
    rows = Tenant.objects.filter(id__in=frozenset(actor.roles)).order_by("number")
    return [
        TenantOfActor(row.pk, row.slug, row.name, actor.roles[row.pk], row.parent_id if row.parent_id in actor.roles else None)
        for row in rows
    ]


def tenants_below(tenant_id: uuid.UUID) -> list[uuid.UUID]:
    """A tenant and all below it that are not deleted. One query."""
    rows = TenantAncestor.objects.filter(ancestor_id=tenant_id, tenant__deleted_at__isnull=True).order_by("depth", "tenant_id")
    return list(rows.values_list("tenant_id", flat=True))


def people_in(tenant_ids: Iterable[uuid.UUID]) -> int:
    """How many people have a role of their own in any of these tenants. One query."""
    rows = Membership.objects.filter(tenant_id__in=frozenset(tenant_ids), user__kind=UserKind.PERSON)
    return rows.values("user_id").distinct().count()


def tenant_facts(tenant_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, TenantFacts]:
    """Slug, name and number of many tenants. One query."""
    rows = Tenant.objects.filter(id__in=frozenset(tenant_ids)).values_list("id", "slug", "name", "number")
    return {row[0]: TenantFacts(*row) for row in rows}


def user_names(user_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Names of many users. One query."""
    return dict(User.objects.filter(id__in=frozenset(user_ids)).values_list("id", "name"))


def find_user(actor: Actor, text: str) -> User:
    """A visible user by id or name; NotFound for any other, whether there is such a user or not."""
    key = "name" if visible(actor, User).filter(name=text).exists() else "id"
    return fetch(actor, User, text, "user.read", key=key)


def find_user_id(name: str) -> uuid.UUID | None:
    """The user of this name; names are unique. One query."""
    return User.objects.filter(name=name).values_list("id", flat=True).first()


def find_visible_user(actor: Actor, text: str) -> uuid.UUID | None:
    """The user with this id or name, among those whom the actor sees. One query."""
    rows = visible(actor, User)
    try:
        rows = rows.filter(id=uuid.UUID(text))
    except ValueError:
        rows = rows.filter(name=text)
    return rows.values_list("id", flat=True).first()


def secret_names(tenant_id: uuid.UUID) -> frozenset[str]:
    """Names of a tenant's secrets, for checking a job's request. One query."""
    return frozenset(Secret.objects.filter(tenant_id=tenant_id).values_list("name", flat=True))


def tenant_paths() -> dict[uuid.UUID, tuple[uuid.UUID, ...]]:
    """Every tenant with itself and all above it, nearest first: where a person's caps are asked. One query."""
    paths: dict[uuid.UUID, list[uuid.UUID]] = {}
    for tenant_id, ancestor_id in TenantAncestor.objects.order_by("depth").values_list("tenant_id", "ancestor_id"):
        paths.setdefault(tenant_id, []).append(ancestor_id)
    return {tenant_id: tuple(path) for tenant_id, path in paths.items()}
