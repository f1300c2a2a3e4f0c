"""Volumes and their grants: made, changed, shared, deleted. Files stay for a day after a volume is deleted."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import IntegrityError, transaction
from django.db.models import F, Q

from activity.services import record_audit
from kernel.actor import Actor
from kernel.config import current
from kernel.crashpoints import crashpoint
from kernel.errors import BerthError, Conflict, FieldError, InvalidInput, NotFound, PreconditionFailed, QuotaExceeded
from kernel.words import Text
from storage import bounds, hostaccess
from storage.models import Upload, Volume, VolumeGrant, VolumeKind, VolumeNumber

log = structlog.get_logger("volumes")

VOLUME_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?")
STUCK_PASSED = 10  # Times the limit: how many that cannot be removed are passed over in one call.
DELETED_KEPT = timedelta(days=1)  # Long enough to notice a mistake before the files go.
CHANGEABLE = ("name", "description", "size_quota_bytes", "read_only")


class VolumeExists(Conflict):
    """The tenant already has a volume of this name."""

    code = "volume_exists"
    title = Text("There is a volume of this name", "同名存储卷已存在")


class VolumeReadOnly(Conflict):
    """The volume may be read but not written: it is marked so, or granted so."""

    code = "volume_read_only"
    title = Text("The volume may only be read", "存储卷为只读")


@dataclass(frozen=True, slots=True)
class NewVolume:
    """What a volume is made from. `size_quota_bytes` None: as much as the disk holds."""

    name: str
    description: str = ""
    size_quota_bytes: int | None = None
    read_only: bool = False


def create_volume(*, actor: Actor, tenant_id: uuid.UUID, new: NewVolume, now: datetime) -> Volume:
    """Make a volume and its directory. VolumeExists if the name is taken."""
    _check_name(new.name)
    if Volume.objects.filter(tenant_id=tenant_id, is_deleted=False).count() >= bounds.VOLUMES_MAX:
        raise QuotaExceeded(
            Text(f"A tenant has at most {bounds.VOLUMES_MAX:,} volumes.", f"每个租户最多 {bounds.VOLUMES_MAX:,} 个存储卷。"),
            hint=Text("Delete one that is no longer needed.", "请删除不再需要的。"),
        )
    with transaction.atomic():
        volume = Volume(
            tenant_id=tenant_id,
            name=new.name,
            kind=VolumeKind.LOCAL,
            description=new.description,
            number=VolumeNumber.objects.create().pk,
            size_quota_bytes=new.size_quota_bytes,
            read_only=new.read_only,
            created_by_id=actor.user_id,
            created_at=now,
        )
        volume.location = str(current().data_dir / "volumes" / str(volume.id))
        _save_new(volume)
        hostaccess.prepare_volume(volume)
        record_audit(
            actor=actor,
            verb="volume.create",
            tenant_id=tenant_id,
            target_kind="volume",
            target_id=volume.id,
            target_name=volume.name,
            after=_facts(volume),
            at=now,
        )
        crashpoint("storage.volume.before_commit")
    return volume


def update_volume(
    *, actor: Actor, volume: Volume, changes: Mapping[str, Any], expected_version: int | None, now: datetime
) -> Volume:
    """Change what may be changed. PreconditionFailed if it has another version by now."""
    unknown = set(changes) - set(CHANGEABLE)
    if unknown:
        raise AssertionError(f"volumes have no changeable {sorted(unknown)}")
    if "name" in changes:
        _check_name(str(changes["name"]))
    before = _facts(volume)
    with transaction.atomic():
        rows = Volume.objects.filter(id=volume.id, is_deleted=False)
        if expected_version is not None:
            rows = rows.filter(version=expected_version)
        try:
            with transaction.atomic():
                changed = rows.update(**changes, version=F("version") + 1)
        except IntegrityError:
            raise _name_taken(str(changes.get("name"))) from None
        if not changed:
            raise PreconditionFailed(
                Text(f"Volume {volume.name} was changed by another user.", f"存储卷 {volume.name} 已被他人修改。"),
                hint=Text("Read it again.", "请重新读取。"),
            )
        volume.refresh_from_db()
        record_audit(
            actor=actor,
            verb="volume.edit",
            tenant_id=volume.tenant_id,
            target_kind="volume",
            target_id=volume.id,
            target_name=volume.name,
            before=before,
            after=_facts(volume),
            at=now,
        )
    return volume


def delete_volume(*, actor: Actor, volume: Volume, now: datetime) -> None:
    """Take a volume out of use at once; its files go a day later, when no job has it mounted any more."""
    with transaction.atomic():
        deleted = Volume.objects.filter(id=volume.id, is_deleted=False).update(
            is_deleted=True, deleted_at=now, version=F("version") + 1
        )
        if not deleted:
            raise NotFound(Text(f"There is no volume {volume.name!r} any more.", f"存储卷 {volume.name!r} 已不存在。"))
        VolumeGrant.objects.filter(volume=volume).delete()
        Upload.objects.filter(volume=volume, completed_at__isnull=True).update(updated_at=now - bounds.UPLOAD_KEPT)
        record_audit(
            actor=actor,
            verb="volume.delete",
            tenant_id=volume.tenant_id,
            target_kind="volume",
            target_id=volume.id,
            target_name=volume.name,
            before=_facts(volume),
            at=now,
        )


def delete_volumes_of(*, tenant_id: uuid.UUID, now: datetime) -> int:
    """Take all volumes of a tenant out of use, with what was granted to it and what is on its way in; returns how many volumes.
    Their files go a day later. In the transaction of who deletes the tenant, whose audit row tells it."""
    volumes = Volume.objects.filter(tenant_id=tenant_id, is_deleted=False)
    VolumeGrant.objects.filter(Q(tenant_id=tenant_id) | Q(volume__in=volumes.values("id"))).delete()
    Upload.objects.filter(tenant_id=tenant_id, completed_at__isnull=True).update(updated_at=now - bounds.UPLOAD_KEPT)
    return volumes.update(is_deleted=True, deleted_at=now, version=F("version") + 1)


def count_volumes_of(tenant_id: uuid.UUID) -> int:
    """How many volumes a tenant has. One query."""
    return Volume.objects.filter(tenant_id=tenant_id, is_deleted=False).count()


def grant_volume(*, actor: Actor, volume: Volume, tenant_id: uuid.UUID, read_only: bool, now: datetime) -> VolumeGrant:
    """Let another tenant mount a volume; granting again changes whether it may write."""
    if tenant_id == volume.tenant_id:
        message = Text("The volume belongs to this tenant already.", "存储卷已属于此租户。")
        raise InvalidInput(message, fields=[FieldError("/tenant", "own_tenant", message)])
    with transaction.atomic():
        if VolumeGrant.objects.filter(volume=volume).count() >= bounds.GRANTS_MAX:
            raise QuotaExceeded(
                Text(
                    f"A volume is granted to at most {bounds.GRANTS_MAX:,} tenants.",
                    f"存储卷最多授权给 {bounds.GRANTS_MAX:,} 个租户。",
                )
            )
        grant, _ = VolumeGrant.objects.update_or_create(
            volume=volume,
            tenant_id=tenant_id,
            defaults={"read_only": read_only},
            create_defaults={"read_only": read_only, "created_by_id": actor.user_id, "created_at": now},
        )
        record_audit(
            actor=actor,
            verb="volume.grant",
            tenant_id=volume.tenant_id,
            target_kind="volume",
            target_id=volume.id,
            target_name=volume.name,
            after={"tenant_id": tenant_id, "read_only": read_only},
            at=now,
        )
    return grant


def withdraw_grant(*, actor: Actor, volume: Volume, grant: VolumeGrant, now: datetime) -> None:
    """Stop another tenant from mounting a volume. Jobs that run keep it until they end."""
    with transaction.atomic():
        VolumeGrant.objects.filter(id=grant.id).delete()
        record_audit(
            actor=actor,
            verb="volume.grant",
            tenant_id=volume.tenant_id,
            target_kind="volume",
            target_id=volume.id,
            target_name=volume.name,
            before={"tenant_id": grant.tenant_id, "read_only": grant.read_only},
            at=now,
        )


def remove_deleted_volumes(
    *, now: datetime, in_use: Collection[uuid.UUID], kept: timedelta = DELETED_KEPT, limit: int = 20
) -> int:
    """Remove the files of volumes deleted `kept` ago that no live job mounts (`in_use`); gives how many. Sweeps call it."""
    rows = Volume.objects.filter(is_deleted=True, removed_at__isnull=True, deleted_at__lt=now - kept)
    removed = 0
    for volume in rows.exclude(id__in=in_use).order_by("deleted_at")[: limit * STUCK_PASSED]:
        if removed == limit:
            break
        try:
            hostaccess.remove_volume(volume)
        except (BerthError, OSError) as error:  # Told, and left to the next sweep: the volumes behind it have their turn.
            log.warning("volume_not_removed", volume_id=str(volume.id), error=repr(error))
            continue
        removed += Volume.objects.filter(id=volume.id, removed_at__isnull=True).update(removed_at=now)
    return removed


def _check_name(name: str) -> None:
    if not VOLUME_NAME.fullmatch(name):
        message = Text(
            "A volume's name has small letters, digits and inner `.`, `_` and `-`, at most 63.",
            "存储卷名由小写字母、数字和中间的 `.`、`_`、`-` 组成，最多 63 个字符。",
        )
        raise InvalidInput(
            message, fields=[FieldError("/name", "bad_name", message, Text("For example: digits-v2", "例如：digits-v2"))]
        )


def _save_new(volume: Volume) -> None:
    try:
        with transaction.atomic():
            volume.save(force_insert=True)
    except IntegrityError:
        raise _name_taken(volume.name) from None


def _name_taken(name: str) -> VolumeExists:
    field = FieldError("/name", "taken", Text("The name is taken.", "名称已被占用。"))
    return VolumeExists(
        Text(f"The tenant has a volume {name!r} already.", f"该租户已有存储卷 {name!r}。"),
        fields=[field],
        hint=Text("Choose another name.", "请换一个名称。"),
    )


def _facts(volume: Volume) -> dict[str, Any]:
    return {name: getattr(volume, name) for name in CHANGEABLE}
