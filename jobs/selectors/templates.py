"""Who sees which templates, and finding them: tenants their own, all users the public ones."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet

from jobs.models import Template
from kernel.actor import Actor
from tenants.identity.access import role_allows, tenants_with

SEPARATOR = "\n"  # Neither in a name, nor in a title or tag.


def sees_template(actor: Actor) -> Q | None:
    """A tenant's own, and the public ones for members of any tenant."""
    tenant_ids = tenants_with(actor, "template.read")
    if tenant_ids is None:
        return Q()
    return Q(tenant_id__in=tenant_ids) | Q(tenant_id__isnull=True) if tenant_ids else None


def allows_template(actor: Actor, template: Any, verb: str) -> bool:
    if verb == "template.read":
        return True
    if template.tenant_id is None or verb == "template.publish":
        return role_allows(actor, None, "template.publish")
    return role_allows(actor, template.tenant_id, verb, template.owner_id)


def found_by(name: str, titles: tuple[str, ...], tags: list[str]) -> str:
    """What `with_words` and `with_tag` look through."""
    return SEPARATOR.join([name.lower(), *(title.lower() for title in titles), *(f"#{tag.lower()}#" for tag in tags)])


def with_words(rows: QuerySet[Template], text: str) -> QuerySet[Template]:
    """Templates that have each of these words in their name, title or tags, in whatever case."""
    for word in text.lower().split()[:8]:
        rows = rows.filter(found_by__contains=word)
    return rows


def with_tag(rows: QuerySet[Template], tag: str) -> QuerySet[Template]:
    return rows.filter(found_by__contains=f"#{tag.lower()}#")
