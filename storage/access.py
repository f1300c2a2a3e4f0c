"""Who sees which data: tenants their own, and volumes that others granted to them."""

from __future__ import annotations

from typing import Any

from django.db.models import Q

from kernel.actor import Actor
from kernel.words import Text
from storage.models import Artifact, Checkpoint, CodeSnapshot, Upload, Volume, VolumeGrant
from storage.places import is_placed
from storage.selectors import acting_tenant
from tenants.identity.access import is_system, role_allows, tenant_rule, tenants_with
from webapi.access import register

ASK_FOR_A_CHANGE = Text(
    "Ask a manager of the tenant, or, where the volume is on NFS or on an existing claim, an operator.",
    "请联系租户管理员；如存储卷位于 NFS 或既有的存储声明上，请联系运维人员。",
)
PLACED_VERBS = frozenset({"volume.edit", "volume.delete"})
FILE_VERBS = frozenset({"volume.files", "volume.write"})


def register_rules() -> None:
    """Register the rules of this app's models. Called once, from `AppConfig.ready`."""
    hints = dict.fromkeys(PLACED_VERBS, ASK_FOR_A_CHANGE)
    register(Volume, sees=_sees_volume, allows=_allows_volume, hints=hints)
    register(VolumeGrant, sees=_sees_grant, allows=_allows_grant)
    tenant_rule(Upload, owner="created_by_id")
    tenant_rule(CodeSnapshot, noun="code")
    tenant_rule(Artifact)
    tenant_rule(Checkpoint, noun="job")


def _sees_volume(actor: Actor) -> Q | None:
    tenant_ids = tenants_with(actor, "volume.read")
    if tenant_ids is None:
        return Q(is_deleted=False)
    if not tenant_ids:
        return None
    granted = VolumeGrant.objects.filter(tenant_id__in=tenant_ids).values("volume_id")
    return Q(is_deleted=False) & (Q(tenant_id__in=tenant_ids) | Q(id__in=granted))


def _allows_volume(actor: Actor, volume: Any, verb: str) -> bool:
    if verb == "volume.read":
        return True
    if verb in FILE_VERBS:  # A granted volume may be browsed as far as a job could read it.
        return is_system(actor) or acting_tenant(actor, volume, verb) is not None
    if verb in PLACED_VERBS and is_placed(volume):
        return role_allows(actor, volume.tenant_id, "volume.place")
    return role_allows(actor, volume.tenant_id, verb, volume.created_by_id)


def _sees_grant(actor: Actor) -> Q | None:
    """Grants are seen by the volume's owners; a tenant that was granted to sees its own."""
    tenant_ids = tenants_with(actor, "volume.read")
    if tenant_ids is None:
        return Q()
    return Q(volume__tenant_id__in=tenant_ids) | Q(tenant_id__in=tenant_ids) if tenant_ids else None


def _allows_grant(actor: Actor, grant: Any, verb: str) -> bool:
    return verb == "volume.read" or role_allows(actor, grant.volume.tenant_id, verb)
