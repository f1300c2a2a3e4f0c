"""Volumes and their grants: made, changed, shared, deleted. Files stay for a day after a volume is deleted."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import IntegrityError, transaction
from django.db.models import F, Q

from activity.services import record_audit
from clusters.selectors import find_cluster, list_clusters
from kernel.actor import Actor
from kernel.config import current
from kernel.crashpoints import crashpoint
from kernel.errors import BerthError, Conflict, FieldError, InvalidInput, NotFound, PreconditionFailed, QuotaExceeded
from kernel.words import Text
from storage import bounds, hostaccess
from storage.models import CLAIM_LENGTH, Upload, Volume, VolumeGrant, VolumeKind, VolumeNumber
from storage.places import MADE_BY_ENGINES

log = structlog.get_logger("volumes")

VOLUME_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?")
STUCK_PASSED = 10  # Times the limit: how many that cannot be removed are passed over in one call.
_CLAIM_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_EXPORT = re.compile(r"/[^\0\n]{0,499}")
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


class VolumeOfOneTenant(Conflict):
    """The volume cannot be mounted by another tenant."""

    code = "volume_of_one_tenant"
    title = Text("The volume can be mounted by its own tenant alone", "存储卷只能由所属租户挂载")


@dataclass(frozen=True, slots=True)
class NewVolume:
    """What a volume is made from. `size_quota_bytes` None: as much as the disk, or the cluster's default claim, holds.

    `cluster_id` is that of a claim; with an empty `claim` its engine makes one. `server` and `export` are those of NFS.
    """

    name: str
    description: str = ""
    size_quota_bytes: int | None = None
    read_only: bool = False
    kind: VolumeKind = VolumeKind.LOCAL
    cluster_id: uuid.UUID | None = None
    claim: str = ""
    server: str = ""
    export: str = ""

    @property
    def is_placed(self) -> bool:
        """Whether it says where data is that is there already: only operators may."""
        return bool(self.claim) or self.kind == VolumeKind.NFS


def create_volume(*, actor: Actor, tenant_id: uuid.UUID, new: NewVolume, now: datetime) -> Volume:
    """Make a volume, and the directory of a local one. VolumeExists if the name is taken."""
    _check_name(new.name)
    check_place(new)
    if Volume.objects.filter(tenant_id=tenant_id, is_deleted=False).count() >= bounds.VOLUMES_MAX:
        raise QuotaExceeded(
            Text(f"A tenant has at most {bounds.VOLUMES_MAX:,} volumes.", f"每个租户最多 {bounds.VOLUMES_MAX:,} 个存储卷。"),
            hint=Text("Delete one that is no longer needed.", "请删除不再需要的。"),
        )
    with transaction.atomic():
        volume = Volume(
            tenant_id=tenant_id,
            name=new.name,
            kind=new.kind,
            cluster_id=new.cluster_id,
            claim=new.claim,
            server=new.server,
            export=new.export,
            description=new.description,
            number=VolumeNumber.objects.create().pk,
            size_quota_bytes=new.size_quota_bytes,
            read_only=new.read_only,
            created_by_id=actor.user_id,
            created_at=now,
        )
        if new.kind == VolumeKind.LOCAL:
            volume.location = str(current().data_dir / "volumes" / str(volume.id))
        _save_new(volume)
        if new.kind == VolumeKind.LOCAL:
            hostaccess.prepare_volume(volume)
        record_audit(
            actor=actor,
            verb="volume.create",
            tenant_id=tenant_id,
            target_kind="volume",
            target_id=volume.id,
            target_name=volume.name,
            after=_facts(volume) | _place_facts(volume),
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
    if "size_quota_bytes" in changes and volume.kind != VolumeKind.LOCAL:
        message = Text(
            f"Volume {volume.name} is of kind {volume.kind}: its size is the storage's own.",
            f"存储卷 {volume.name} 的类型为 {volume.kind}：其大小由存储自身决定。",
        )
        hint = Text("Leave size_quota_bytes out.", "请去掉 size_quota_bytes。")
        raise InvalidInput(message, fields=[FieldError("/size_quota_bytes", "fixed_size", message, hint)], hint=hint)
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
    if volume.kind == VolumeKind.CLAIM:
        raise VolumeOfOneTenant(
            Text(
                f"Volume {volume.name} is a claim: it is in the namespace of its tenant, and no other can mount it.",
                f"存储卷 {volume.name} 是存储声明：位于所属租户的命名空间中，其他租户无法挂载。",
            ),
            hint=Text(
                "Make a volume in the other tenant, or put the data on NFS.", "请在另一租户中创建存储卷，或将数据放到 NFS 上。"
            ),
        )
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
            if volume.kind == VolumeKind.LOCAL:  # What is elsewhere stays: it is whose storage it is to remove it.
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


def check_place(new: NewVolume) -> None:
    """InvalidInput with all that is wrong with where a new volume is to be."""
    fields = {"cluster": new.cluster_id, "claim": new.claim, "server": new.server, "export": new.export}
    errors = [
        FieldError(
            f"/{name}",
            "not_of_kind",
            Text(f"A volume of kind {new.kind} has no {name}.", f"类型为 {new.kind} 的存储卷没有 {name}。"),
            Text("Leave it out, or choose another kind.", "请去掉，或选择其他类型。"),
        )
        for name, value in fields.items()
        if value and name not in _FIELDS[new.kind]
    ]
    if new.size_quota_bytes is not None and new.is_placed:
        errors.append(
            FieldError(
                "/size_quota_bytes",
                "fixed_size",
                Text("What is there already has its own size.", "既有的存储大小已定。"),
                Text("Leave it out.", "请去掉。"),
            )
        )
    if new.kind == VolumeKind.CLAIM:
        errors += _wrong_claim(new)
    elif new.kind == VolumeKind.NFS:
        errors += _wrong_share(new)
    if errors:
        raise InvalidInput(errors[0].message, fields=errors, hint=errors[0].hint)


_FIELDS: Mapping[VolumeKind, Collection[str]] = {
    VolumeKind.LOCAL: (),
    VolumeKind.CLAIM: ("cluster", "claim"),
    VolumeKind.NFS: ("server", "export"),
}


def _wrong_claim(new: NewVolume) -> Iterator[FieldError]:
    cluster = find_cluster(new.cluster_id) if new.cluster_id is not None else None
    if cluster is None:
        message = Text("A claim is in a cluster, which must be named.", "存储声明属于某个集群，须指明集群。")
        yield FieldError("/cluster", "required", message, Text("`berth clusters` lists them.", "`berth clusters` 列出所有集群。"))
        return
    places = cluster.abilities.places
    if not places.claims:
        yield FieldError(
            "/cluster",
            "no_claims",
            Text(f"Cluster {cluster.name} has no claims: it is of kind {cluster.kind}.",
                f"集群 {cluster.name} 没有存储声明：其类型为 {cluster.kind}。"),
            Text("Choose a Kubernetes cluster that has been reached.", "请选择一个已连通的 Kubernetes 集群。"),
        )  # fmt: skip
    elif not new.claim and not places.makes_claims:
        yield FieldError(
            "/cluster",
            "no_storage_class",
            Text(f"Cluster {cluster.name} makes no claims: it has no storage class.",
                f"集群 {cluster.name} 不能创建存储声明：没有存储类。"),
            Text("Ask an operator to set its storage_class, or to make a volume of a claim that exists.",
                "请运维人员设置其 storage_class，或用既有的存储声明创建存储卷。"),
        )  # fmt: skip
    if new.claim and (len(new.claim) > CLAIM_LENGTH or not _CLAIM_NAME.fullmatch(new.claim)):
        message = Text(
            "The name of a claim has small letters, digits, hyphens and inner dots.",
            "存储声明的名称由小写字母、数字、连字符和中间的点组成。",
        )
        yield FieldError("/claim", "bad_name", message)
    elif new.claim.startswith(MADE_BY_ENGINES):
        message = Text(
            f"Claims whose names begin with {', '.join(MADE_BY_ENGINES)} are Berth's own.",
            f"名称以 {'、'.join(MADE_BY_ENGINES)} 开头的存储声明属于 Berth。",
        )
        yield FieldError("/claim", "reserved", message, Text("Name another claim.", "请使用其他存储声明。"))


def _wrong_share(new: NewVolume) -> Iterator[FieldError]:
    if not any(new.server in cluster.abilities.places.shares for cluster in list_clusters()):
        message = Text(
            f"No cluster mounts from the NFS server {new.server[:80]!r}.", f"没有集群挂载 NFS 服务器 {new.server[:80]!r}。"
        )
        hint = Text("Add it to nfs_servers of the clusters that can.", "请将其加入能够挂载的集群的 nfs_servers。")
        yield FieldError("/server", "not_mounted", message, hint)
    if not _EXPORT.fullmatch(new.export) or ".." in new.export.split("/"):
        message = Text("export must be an absolute path, such as /exports/digits.", "export 须为绝对路径，例如 /exports/digits。")
        yield FieldError("/export", "bad_path", message)


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


def _place_facts(volume: Volume) -> dict[str, Any]:
    """What never changes: told once, when it is made."""
    return {name: value for name in ("kind", "cluster_id", "claim", "server", "export") if (value := getattr(volume, name))}


def _facts(volume: Volume) -> dict[str, Any]:
    return {name: getattr(volume, name) for name in CHANGEABLE}
