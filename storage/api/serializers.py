"""Bodies that this app reads, and rows as it shows them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.selectors import list_clusters
from kernel.actor import Actor
from kernel.clock import utc_text
from kernel.limits import NAME_LENGTH, UPLOAD_CHUNK_BYTES
from kernel.words import Text
from storage.bounds import FILES_PAGE, UPLOAD_KEPT
from storage.models import CLAIM_LENGTH, PATH_LENGTH, VOLUME_NAME_LENGTH, Upload, Volume, VolumeGrant, VolumeKind
from storage.places import claim_name
from storage.selectors import grants_of
from storage.services.files import FileFacts, FilePage
from tenants.identity.access import role_allows
from tenants.identity.api.serializers import TenantRef, UserRef
from tenants.selectors import TenantFacts, tenant_facts, user_names
from webapi.fields import QuantityField, UtcTimeField
from webapi.pagination import make_cursor, page_size, read_cursor
from webapi.refusals import detail, refusal
from webapi.serializers import StrictSerializer

TENANT_LENGTH = 255
DESCRIPTION_LENGTH = 500


class VolumeIn(StrictSerializer):
    """A new volume. `tenant` is optional for members of a single tenant."""

    tenant = serializers.CharField(max_length=TENANT_LENGTH, allow_null=True, default=None)
    name = serializers.CharField(max_length=VOLUME_NAME_LENGTH, help_text="Small letters, digits and inner `.`, `_`, `-`.")
    description = serializers.CharField(max_length=DESCRIPTION_LENGTH, allow_blank=True, default="")
    size_quota_bytes = QuantityField(
        allow_null=True, default=None, help_text="Null: the size of the disk, or of a claim by the cluster's default."
    )
    read_only = serializers.BooleanField(default=False)  # type: ignore[assignment]  # The metaclass takes it out.
    kind = serializers.ChoiceField(
        VolumeKind.values,
        default=VolumeKind.LOCAL,
        help_text="`local`: on the platform's host; `claim`: a PersistentVolumeClaim; `nfs`: a directory of a server.",
    )
    cluster = serializers.CharField(
        max_length=NAME_LENGTH, allow_blank=True, default="", help_text="Name or id of the cluster of a claim."
    )
    claim = serializers.CharField(
        max_length=CLAIM_LENGTH, allow_blank=True, default="", help_text="Existing claim, for operators; empty: one is made."
    )
    server = serializers.CharField(max_length=CLAIM_LENGTH, allow_blank=True, default="", help_text="NFS server, for operators.")
    export = serializers.CharField(max_length=500, allow_blank=True, default="", help_text="Directory that the server exports.")


class VolumeChange(StrictSerializer):
    """Fields of a volume that may change."""

    name = serializers.CharField(max_length=VOLUME_NAME_LENGTH, required=False)
    description = serializers.CharField(max_length=DESCRIPTION_LENGTH, allow_blank=True, required=False)
    size_quota_bytes = QuantityField(allow_null=True, required=False)
    read_only = serializers.BooleanField(required=False)  # type: ignore[assignment]  # The metaclass takes it out.


class GrantIn(StrictSerializer):
    """Another tenant that may mount the volume."""

    tenant = serializers.CharField(max_length=TENANT_LENGTH, help_text="Slug of the tenant; its name where you can see it.")
    read_only = serializers.BooleanField(default=True)  # type: ignore[assignment]  # The metaclass takes it out.


class UploadTargetIn(StrictSerializer):
    """Target of an upload: a path of a volume, or the tenant's code snapshots."""

    volume = serializers.CharField(max_length=TENANT_LENGTH, required=False, help_text="Id, name, or `owner-tenant/name`.")
    path = serializers.CharField(max_length=PATH_LENGTH, required=False, trim_whitespace=False)
    code = serializers.BooleanField(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        is_code = attrs.get("code") is True
        if is_code and ("volume" in attrs or "path" in attrs):
            raise refusal(
                Text("Code goes to no volume: send `code` alone.", "代码不存入存储卷：请只发送 `code`。"), code="ambiguous"
            )
        if not is_code:
            missing = [name for name in ("volume", "path") if not attrs.get(name)]
            if missing:
                needed = Text("Needed, unless `code` is true.", "除非 `code` 为 true，否则必须给出。")
                raise serializers.ValidationError({name: [detail(needed, code="required")] for name in missing})
        return attrs


class UploadIn(StrictSerializer):
    """A file that will be sent in pieces."""

    tenant = serializers.CharField(max_length=TENANT_LENGTH, allow_null=True, default=None)
    target = UploadTargetIn()
    size_bytes = QuantityField()
    sha256 = serializers.CharField(max_length=64, help_text="SHA-256 of the whole file, hexadecimal in lower case.")


class GrantOut(serializers.Serializer[Any]):
    """Another tenant that may mount a volume."""

    id = serializers.UUIDField()
    tenant = TenantRef()
    read_only = serializers.BooleanField()  # type: ignore[assignment]  # The metaclass takes it out.
    created_at = UtcTimeField()


class ClusterOfClaim(serializers.Serializer[Any]):
    """The cluster that a claim is in."""

    id = serializers.UUIDField()
    name = serializers.CharField()


class VolumeOut(serializers.Serializer[Any]):
    """A volume. `mount_as` is the name by which a job of your tenant mounts it; `grants` are shown to its owners."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    tenant = TenantRef()
    kind = serializers.ChoiceField(VolumeKind.values)
    cluster = ClusterOfClaim(allow_null=True)
    claim = serializers.CharField(help_text="Name of the PersistentVolumeClaim; empty for other kinds.")
    server = serializers.CharField()
    export = serializers.CharField()
    description = serializers.CharField()
    size_quota_bytes = serializers.IntegerField(allow_null=True)
    used_bytes = serializers.IntegerField(allow_null=True, help_text="As last measured, at `used_read_at`.")
    used_read_at = UtcTimeField(allow_null=True)
    read_only = serializers.BooleanField(help_text="You may only read it.")  # type: ignore[assignment]  # The metaclass takes it out.
    is_granted = serializers.BooleanField(help_text="The volume belongs to another tenant that lets yours mount it.")
    mount_as = serializers.CharField()
    grants = GrantOut(many=True)
    created_by = UserRef(allow_null=True)
    created_at = UtcTimeField()
    version = serializers.IntegerField()


class FileOut(serializers.Serializer[Any]):
    """An entry of a volume. Links are shown and never followed."""

    path = serializers.CharField()
    kind = serializers.ChoiceField(["file", "directory", "link", "other"])
    size_bytes = serializers.IntegerField()
    mode = serializers.CharField()
    modified_at = UtcTimeField()


FILES_QUERY = [
    OpenApiParameter("limit", int, description=f"Names per page, 1 to {FILES_PAGE}; default: {FILES_PAGE}."),
    OpenApiParameter("cursor", str, description="`next` of the previous page, unchanged."),
]


class FileListOut(serializers.Serializer[Any]):
    """Names of a folder in order. What does not print in a name is written `\\xHH`, a backslash twice."""

    items = FileOut(many=True)
    next = serializers.CharField(allow_null=True)
    truncated = serializers.BooleanField(help_text="The folder holds more names than the answer.")


class UploadOut(serializers.Serializer[Any]):
    """Progress of an upload. `id` null: the tenant already has this code; no upload is needed."""

    id = serializers.UUIDField(allow_null=True)
    tenant_id = serializers.UUIDField()
    offset_bytes = serializers.IntegerField()
    size_bytes = serializers.IntegerField()
    sha256 = serializers.CharField()
    chunk_bytes_max = serializers.IntegerField()
    complete = serializers.BooleanField()
    volume_id = serializers.UUIDField(allow_null=True)
    path = serializers.CharField(allow_null=True)
    expires_at = UtcTimeField(allow_null=True)


def show_volumes(rows: Sequence[Volume], *, actor: Actor) -> list[dict[str, Any]]:
    """Volumes as this actor sees them. Three queries, whatever their number; a fourth where one is a claim."""
    grants = grants_of(row.id for row in rows)
    tenants = tenant_facts({row.tenant_id for row in rows} | {grant.tenant_id for found in grants.values() for grant in found})
    users = user_names({row.created_by_id for row in rows if row.created_by_id is not None})
    clusters = {cluster.id: cluster.name for cluster in list_clusters()} if any(row.cluster_id for row in rows) else {}
    return [_show_volume(row, grants.get(row.id, []), tenants, users, clusters, actor) for row in rows]


def _show_volume(
    volume: Volume,
    grants: Sequence[VolumeGrant],
    tenants: Mapping[uuid.UUID, TenantFacts],
    users: Mapping[uuid.UUID, str],
    clusters: Mapping[uuid.UUID, str],
    actor: Actor,
) -> dict[str, Any]:
    owner = tenants[volume.tenant_id]
    is_ours = role_allows(actor, volume.tenant_id, "volume.read")
    mine = [grant for grant in grants if grant.tenant_id in actor.roles]
    return {
        "id": str(volume.id),
        "name": volume.name,
        "tenant": show_tenant(owner),
        "kind": str(volume.kind),
        "cluster": {"id": str(volume.cluster_id), "name": clusters.get(volume.cluster_id, "")} if volume.cluster_id else None,
        "claim": claim_name(volume),
        "server": volume.server,
        "export": volume.export,
        "description": volume.description,
        "size_quota_bytes": volume.size_quota_bytes,
        "used_bytes": volume.used_bytes,
        "used_read_at": utc_text(volume.used_read_at),
        "read_only": volume.read_only or (not is_ours and all(grant.read_only for grant in mine)),
        "is_granted": not is_ours,
        "mount_as": volume.name if is_ours else f"{owner.slug}/{volume.name}",
        "grants": [show_grant(grant, tenants[grant.tenant_id]) for grant in (grants if is_ours else mine)],
        "created_by": _show_user(volume.created_by_id, users) if is_ours else None,
        "created_at": utc_text(volume.created_at),
        "version": volume.version,
    }


def show_tenant(tenant: TenantFacts) -> dict[str, Any]:
    return {"id": str(tenant.id), "slug": tenant.slug, "name": tenant.name}


def show_grant(grant: VolumeGrant, tenant: TenantFacts) -> dict[str, Any]:
    return {
        "id": str(grant.id),
        "tenant": show_tenant(tenant),
        "read_only": grant.read_only,
        "created_at": utc_text(grant.created_at),
    }


def files_response(request: Request, folder: str, look: Callable[..., FilePage]) -> Response:
    """A page of a folder that `look(start=..., limit=...)` gives."""
    scope = f"{request.path}|{folder}"
    cursor = request.query_params.get("cursor", "")
    start = str(read_cursor(cursor, scope=scope, length=1)[0]) if cursor else ""
    found = look(start=start, limit=page_size(request, default=FILES_PAGE, most=FILES_PAGE))
    following = None if found.next is None else make_cursor([found.next], scope=scope)
    return Response({"items": _show_files(found.files), "next": following, "truncated": found.truncated})


def _show_files(files: Sequence[FileFacts]) -> list[dict[str, Any]]:
    return [
        {
            "path": file.path,
            "kind": file.kind,
            "size_bytes": file.size_bytes,
            "mode": f"{file.mode:04o}",
            "modified_at": utc_text(file.modified_at),
        }
        for file in files
    ]


def show_upload(upload: Upload) -> dict[str, Any]:
    is_complete = upload.completed_at is not None
    return {
        "id": str(upload.id),
        "tenant_id": str(upload.tenant_id),
        "offset_bytes": upload.offset_bytes,
        "size_bytes": upload.size_bytes,
        "sha256": upload.sha256,
        "chunk_bytes_max": UPLOAD_CHUNK_BYTES,
        "complete": is_complete,
        "volume_id": str(upload.volume_id) if upload.volume_id else None,
        "path": upload.path or None,
        "expires_at": None if is_complete else utc_text(upload.updated_at + UPLOAD_KEPT),
    }


def show_known_code(tenant_id: uuid.UUID, *, size_bytes: int, sha256: str) -> dict[str, Any]:
    """The answer for code that is there already: nothing is to be sent."""
    return {
        "id": None,
        "tenant_id": str(tenant_id),
        "offset_bytes": size_bytes,
        "size_bytes": size_bytes,
        "sha256": sha256,
        "chunk_bytes_max": UPLOAD_CHUNK_BYTES,
        "complete": True,
        "volume_id": None,
        "path": None,
        "expires_at": None,
    }


def _show_user(user_id: uuid.UUID | None, users: Mapping[uuid.UUID, str]) -> dict[str, str] | None:
    if user_id is None or user_id not in users:
        return None
    return {"id": str(user_id), "name": users[user_id]}
