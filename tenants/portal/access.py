"""Who sees announcements and saved filters, and who may change them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from django.db.models import Q

from kernel.actor import Actor
from tenants.identity.access import own_rule, role_allows, tenants_with
from tenants.identity.models import TenantAncestor
from tenants.portal.models import Announcement, SavedFilter
from webapi.access import register


def register_rules() -> None:
    """The rules of the rows of this room."""
    own_rule(SavedFilter)
    register(Announcement, sees=_sees_announcement, allows=_allows_announcement)


def _sees_announcement(actor: Actor) -> Q | None:
    tenant_ids = tenants_with(actor, "announcement.read")
    if tenant_ids is None:
        return Q()
    if not actor.is_authenticated:
        return None
    return announced_in(tenant_ids)


def announced_in(tenant_ids: Iterable[uuid.UUID]) -> Q:
    """Announcements that reach these tenants: their own, those of all above them, and those to all. No query of its own."""
    reached = TenantAncestor.objects.filter(tenant_id__in=tenant_ids).values("ancestor_id")
    return Q(tenant_id__in=reached) | Q(tenant_id__isnull=True)


def _allows_announcement(actor: Actor, announcement: Any, verb: str) -> bool:
    return verb == "announcement.read" or role_allows(actor, announcement.tenant_id, verb)
