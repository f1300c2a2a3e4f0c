"""Volumes, their grants and their files over HTTP. Views translate; services act."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from django.http import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.selectors import list_clusters
from kernel.actor import Actor, system_actor
from kernel.clock import database_now
from kernel.errors import FieldError, Forbidden, InvalidInput, NotFound
from kernel.limits import NAME_LENGTH
from kernel.words import Text
from storage.api import serializers as shapes
from storage.downloads import descriptor_response
from storage.models import PATH_LENGTH, Volume, VolumeGrant, VolumeKind
from storage.selectors import acting_tenant
from storage.services import files, volumes
from tenants.identity.access import demand
from tenants.selectors import TenantFacts, find_tenant, tenant_facts
from webapi import access
from webapi.etags import expected_version, with_etag
from webapi.idempotency import idempotent
from webapi.pagination import page
from webapi.schema import IF_MATCH, page_of
from webapi.views import ApiView, known_query

TENANT = OpenApiParameter(
    "tenant", str, description="Slug, id or name of a tenant: its own volumes and the volumes granted to it."
)
NAME = OpenApiParameter("name", str, description="Exact name.")
PART = OpenApiParameter("q", str, description="Part of the name, case-insensitive.")
PATH = OpenApiParameter("path", str, description="Relative to the volume's root, with `/` between names.")
RANGE = OpenApiParameter("Range", str, OpenApiParameter.HEADER, description="Such as `bytes=1048576-`.")
VOLUME_EXAMPLE = OpenApiExample(
    "A volume for data sets",
    value={"name": "digits", "description": "Handwritten digits", "size_quota_bytes": 10 * 1024**3},
    request_only=True,
)
CLAIM_EXAMPLE = OpenApiExample(
    "A volume on a claim that the cluster makes",
    value={"name": "scratch", "kind": "claim", "cluster": "research", "size_quota_bytes": 100 * 1024**3},
    request_only=True,
)
GRANT_EXAMPLE = OpenApiExample("Let another tenant read", value={"tenant": "k3v9x2m4qa", "read_only": True}, request_only=True)


class VolumesView(ApiView):
    """Data that jobs mount."""

    @extend_schema(parameters=[TENANT, NAME, PART], responses=page_of(shapes.VolumeOut))
    def get(self, request: Request) -> Response:
        """List volumes that you may use, newest first."""
        known_query(request, ("tenant", "name", "q"))
        rows = access.visible(self.actor, Volume)
        name = request.query_params.get("name")
        if name is not None:
            rows = rows.filter(name=name[:NAME_LENGTH])
        if part := request.query_params.get("q"):
            rows = rows.filter(name__icontains=part[:NAME_LENGTH])
        tenant = request.query_params.get("tenant")
        if tenant is not None:
            tenant_id = find_tenant(self.actor, tenant).id
            granted = VolumeGrant.objects.filter(tenant_id=tenant_id).values("volume_id")
            rows = rows.filter(tenant_id=tenant_id) | rows.filter(id__in=granted)
        return page(request, rows, order=("-id",), serialize=lambda found: shapes.show_volumes(found, actor=self.actor))

    @extend_schema(request=shapes.VolumeIn, responses={201: shapes.VolumeOut}, examples=[VOLUME_EXAMPLE, CLAIM_EXAMPLE])
    @idempotent
    def post(self, request: Request) -> Response:
        """Create an empty volume, or, as an operator, one of data that is on NFS or on an existing claim."""
        body = shapes.VolumeIn.validated(request.data)
        tenant = find_tenant(self.actor, body.pop("tenant"))
        cluster_id, kind = _cluster_id(body.pop("cluster")), VolumeKind(body.pop("kind"))
        new = volumes.NewVolume(**body, kind=kind, cluster_id=cluster_id)
        demand(self.actor, tenant.id, "volume.place" if new.is_placed else "volume.create")
        volume = volumes.create_volume(actor=self.actor, tenant_id=tenant.id, new=new, now=database_now())
        response = Response(_volume_body(volume, self.actor), status=201, headers={"Location": f"/api/v1/volumes/{volume.id}"})
        return with_etag(response, volume.version)


class VolumeView(ApiView):
    """One volume."""

    @extend_schema(responses=shapes.VolumeOut)
    def get(self, request: Request, volume_id: uuid.UUID) -> Response:
        """Get a volume with its grants."""
        volume = access.fetch(self.actor, Volume, volume_id, "volume.read")
        return with_etag(Response(_volume_body(volume, self.actor)), volume.version)

    @extend_schema(request=shapes.VolumeChange, parameters=[IF_MATCH], responses=shapes.VolumeOut)
    def patch(self, request: Request, volume_id: uuid.UUID) -> Response:
        """Rename, describe, limit or protect a volume."""
        volume = access.fetch(self.actor, Volume, volume_id, "volume.edit")
        changes = shapes.VolumeChange.validated(request.data, partial=True)
        changed = volumes.update_volume(
            actor=self.actor,
            volume=volume,
            changes=changes,
            expected_version=expected_version(request),
            now=database_now(),
        )
        return with_etag(Response(_volume_body(changed, self.actor)), changed.version)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, volume_id: uuid.UUID) -> Response:
        """Delete a volume. Files on the platform's host go a day later, when no job mounts it; others stay where they are."""
        volume = access.fetch(self.actor, Volume, volume_id, "volume.delete")
        volumes.delete_volume(actor=self.actor, volume=volume, now=database_now())
        return Response(status=204)


class GrantsView(ApiView):
    """Other tenants that may mount a volume."""

    @extend_schema(request=shapes.GrantIn, responses={201: shapes.GrantOut}, examples=[GRANT_EXAMPLE])
    @idempotent
    def post(self, request: Request, volume_id: uuid.UUID) -> Response:
        """Let another tenant mount a volume. Another grant changes whether it may write."""
        volume = access.fetch(self.actor, Volume, volume_id, "volume.grant")
        body = shapes.GrantIn.validated(request.data)
        tenant = _tenant_to_grant(self.actor, body["tenant"])
        grant = volumes.grant_volume(
            actor=self.actor, volume=volume, tenant_id=tenant.id, read_only=body["read_only"], now=database_now()
        )
        return Response(shapes.show_grant(grant, tenant), status=201)


class GrantView(ApiView):
    """One grant of a volume."""

    @extend_schema(responses={204: None})
    def delete(self, request: Request, volume_id: uuid.UUID, grant_id: uuid.UUID) -> Response:
        """Revoke the grant of a tenant. Its running jobs keep the volume until they end."""
        volume = access.fetch(self.actor, Volume, volume_id, "volume.grant")
        grant = VolumeGrant.objects.filter(volume=volume, id=grant_id).first()
        if grant is None:
            raise NotFound(
                Text(f"Volume {volume.name} has no such grant.", f"存储卷 {volume.name} 没有这项授权。"),
                hint=Text("Read the volume to see its grants.", "请读取该存储卷以查看其授权。"),
            )
        volumes.withdraw_grant(actor=self.actor, volume=volume, grant=grant, now=database_now())
        return Response(status=204)


class FilesView(ApiView):
    """What lies in a volume."""

    @extend_schema(parameters=[PATH, *shapes.FILES_QUERY], responses=shapes.FileListOut)
    def get(self, request: Request, volume_id: uuid.UUID) -> Response:
        """List a folder of a volume; without `path`, its root."""
        known_query(request, ("path",))
        volume, tenant_id = _for_files(self.actor, volume_id, "volume.files")
        folder = request.query_params.get("path", "")
        return shapes.files_response(request, folder, partial(files.list_files, volume, tenant_id, folder))


class ContentView(ApiView):
    """One file of a volume."""

    @extend_schema(
        parameters=[PATH, RANGE],
        responses={
            (200, "application/octet-stream"): OpenApiTypes.BINARY,
            (206, "application/octet-stream"): OpenApiTypes.BINARY,
        },
    )
    def get(self, request: Request, volume_id: uuid.UUID) -> HttpResponseBase:
        """Download a file, whole or a range of it."""
        known_query(request, ("path",))
        volume, tenant_id = _for_files(self.actor, volume_id, "volume.files")
        path = _path(request)
        opened = files.open_file(volume, tenant_id, path)
        return descriptor_response(request, opened.descriptor, size_bytes=opened.size_bytes, name=path, etag=opened.etag)

    @extend_schema(parameters=[PATH], responses={204: None})
    def delete(self, request: Request, volume_id: uuid.UUID) -> Response:
        """Delete a file, or a folder with its contents."""
        known_query(request, ("path",))
        volume, tenant_id = _for_files(self.actor, volume_id, "volume.write")
        files.delete_file(actor=self.actor, volume=volume, tenant_id=tenant_id, path=_path(request), now=database_now())
        return Response(status=204)


def _cluster_id(text: str) -> uuid.UUID | None:
    """A cluster by name or id; None where none is named."""
    if not text:
        return None
    found = next((cluster.id for cluster in list_clusters() if text in (cluster.name, str(cluster.id))), None)
    if found is None:
        message = Text(f"There is no cluster {text[:80]!r}.", f"没有集群 {text[:80]!r}。")
        hint = Text("`berth clusters` lists them.", "`berth clusters` 列出所有集群。")
        raise InvalidInput(message, fields=[FieldError("/cluster", "not_found", message, hint)], hint=hint)
    return found


def _volume_body(volume: Volume, actor: Actor) -> dict[str, Any]:
    return shapes.show_volumes([volume], actor=actor)[0]


def _for_files(actor: Actor, volume_id: uuid.UUID, verb: str) -> tuple[Volume, uuid.UUID]:
    """A volume with the tenant under whose rights its files are touched."""
    volume = access.fetch(actor, Volume, volume_id, verb)
    tenant_id = acting_tenant(actor, volume, verb)
    if tenant_id is None:
        raise Forbidden(
            Text("Files are touched under the rights of a tenant.", "访问文件须使用某个租户的权限。"),
            hint=Text("Use a token of a member of the tenant.", "请使用该租户成员的令牌。"),
        )
    return volume, tenant_id


def _path(request: Request) -> str:
    path: str = request.query_params.get("path", "")
    if not path or len(path) > PATH_LENGTH:
        message = Text(
            f"path must name a file, with at most {PATH_LENGTH:,} characters.", f"path 须为文件名，最多 {PATH_LENGTH:,} 个字符。"
        )
        raise InvalidInput(message, fields=[FieldError("/path", "required", message)])
    return path


def _tenant_to_grant(actor: Actor, text: str) -> TenantFacts:
    """A tenant that the actor sees, or any tenant by its slug: slugs are random, and a caller who has one was told it."""
    try:
        return find_tenant(actor, text)
    except NotFound:
        found = _by_slug(text)
        if found is None:
            raise
        return found


def _by_slug(text: str) -> TenantFacts | None:
    try:
        found = find_tenant(system_actor("storage"), text)
    except NotFound:
        return None
    return tenant_facts([found.id])[found.id] if found.slug == text else None
