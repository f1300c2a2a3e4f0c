"""What a user has in tenants, and would leave there: each app registers the kinds of its own things (`register_belongings`).

A user who leaves a tenant, or is disabled, can begin nothing more. What runs goes on; what waits is withheld by the scheduler for
as long as the user has no role there (`tenants.identity.standing.departed_from`), and can be handed to another member.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from kernel.actor import Actor
from kernel.registry import Registry
from tenants.identity.models import Membership, TenantAncestor, User

LISTED = 20
"""Objects of a kind that are named; of the others the number is told."""


@dataclass(frozen=True, slots=True)
class LeavingChange:
    """Things of `user` that go to `to` or, without it, are stopped. `tenant_ids`: in these tenants; None: in all."""

    actor: Actor
    user: User
    to: User | None
    tenant_ids: frozenset[uuid.UUID] | None
    now: datetime


@dataclass(frozen=True, slots=True)
class Belonging:
    """One kind of thing. `rows` are those of a user that are not over; `name` and `tenant` are their columns, and no `name`
    leaves them unnamed: they are the user's own business.

    What can be handed over says by which column its rows belong to a user, or has a function for it. `stop` ends what would go
    on by itself. Both answer how many things they changed.
    """

    rows: Callable[[uuid.UUID], QuerySet[Any]]
    name: str = "name"
    tenant: str = "tenant_id"
    owner: str = ""
    hand_over: Callable[[LeavingChange], int] | None = None
    stop: Callable[[LeavingChange], int] | None = None

    @property
    def can_be_handed_over(self) -> bool:
        return bool(self.owner) or self.hand_over is not None


def _missing(kind: str, belonging: Belonging) -> str:
    if belonging.owner and belonging.hand_over:
        return "it has a column of its owner and a function that hands it over"
    return "" if kind.isidentifier() and kind.islower() else "its name is no word in lower case"


BELONGINGS: Registry[Belonging] = Registry("belonging", missing=_missing)


def register_belongings(belongings: Mapping[str, Belonging]) -> None:
    """Called by each app at start. Those of higher apps come first: jobs are what matters most."""
    BELONGINGS.add(belongings.items(), first=True)


@dataclass(frozen=True, slots=True)
class Item:
    """One object of a user."""

    id: uuid.UUID
    name: str
    tenant_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class Left:
    """Things of one kind: how many, and the first of them."""

    kind: str
    count: int
    first: tuple[Item, ...]
    can_be_handed_over: bool


def left_by(user_id: uuid.UUID, tenant_ids: frozenset[uuid.UUID] | None) -> list[Left]:
    """What a user has in these tenants, None for all. A query for each kind, and another for a kind with many things."""
    return [_left(kind, belonging, rows_in(belonging, user_id, tenant_ids)) for kind, belonging in BELONGINGS.items()]


def rows_in(belonging: Belonging, user_id: uuid.UUID, tenant_ids: frozenset[uuid.UUID] | None) -> QuerySet[Any]:
    """The rows of one kind in these tenants; those of no tenant are in all of them."""
    rows = belonging.rows(user_id)
    return rows if tenant_ids is None or not belonging.tenant else rows.filter(**{f"{belonging.tenant}__in": tenant_ids})


def _left(kind: str, belonging: Belonging, rows: QuerySet[Any]) -> Left:
    if not belonging.name:
        return Left(kind, rows.count(), (), belonging.can_be_handed_over)
    found = list(rows.order_by("id").values_list("id", belonging.name, belonging.tenant)[: LISTED + 1])
    count = len(found) if len(found) <= LISTED else rows.count()
    items = tuple(Item(row_id, str(name), tenant_id) for row_id, name, tenant_id in found[:LISTED])
    return Left(kind, count, items, belonging.can_be_handed_over)


def tenants_lost(tenant_id: uuid.UUID, user_id: uuid.UUID) -> frozenset[uuid.UUID]:
    """The tenants, this one and those below it, in which a user has no role but by a membership in this one. A
    disabled user has none at all. Two queries."""
    below = TenantAncestor.objects.filter(ancestor_id=tenant_id).values_list("tenant_id", flat=True)
    others = Membership.objects.filter(user_id=user_id, user__is_active=True).exclude(tenant_id=tenant_id)
    return frozenset(below) - frozenset(others.values_list("tenant__descendant_links__tenant_id", flat=True))
