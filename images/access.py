"""Who sees which images: tenants their own, all users those of the operators."""

from __future__ import annotations

from typing import Any

from django.db.models import Q

from images.models import BuildRequest, Image, RegistryAccount
from kernel.actor import Actor
from tenants.identity.access import role_allows, tenant_rule, tenants_with
from webapi.access import register


def register_rules() -> None:
    """Register the rules of this app's models. Called once, from `AppConfig.ready`."""
    register(Image, sees=_sees, allows=_allows)
    tenant_rule(BuildRequest, noun="image")
    tenant_rule(RegistryAccount, noun="registry")


def _sees(actor: Actor) -> Q | None:
    tenant_ids = tenants_with(actor, "image.read")
    if tenant_ids is None:
        return Q(is_deleted=False)
    if not tenant_ids:
        return None
    return Q(is_deleted=False) & (Q(tenant_id__in=tenant_ids) | Q(tenant_id__isnull=True))


def _allows(actor: Actor, image: Any, verb: str) -> bool:
    if verb == "image.read":
        return True
    if image.tenant_id is None:
        return role_allows(actor, None, "image.share")
    return role_allows(actor, image.tenant_id, verb, image.created_by_id)
