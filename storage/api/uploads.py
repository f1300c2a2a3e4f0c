"""Uploads over HTTP: announced, filled piece by piece, resumable after any break.

The protocol is the core of tus 1.0 (tus.io) with JSON bodies: `HEAD` or `GET` says how far an upload is, `PATCH` with
`Upload-Offset` adds a piece. A piece at another offset is refused with 409 and the offset at which to go on.
"""

from __future__ import annotations

import uuid

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.actor import Actor
from kernel.clock import database_now
from kernel.errors import BerthError, FieldError, Forbidden, InvalidInput, NotFound
from kernel.words import Text
from storage.api import serializers as shapes
from storage.models import Upload, Volume
from storage.selectors import acting_tenant
from storage.services import uploads
from tenants.identity.access import demand
from tenants.selectors import find_tenant, tenant_facts
from webapi import access
from webapi.idempotency import idempotent
from webapi.parsers import UploadChunk
from webapi.problems import handle_exception
from webapi.views import ApiView

OFFSET = OpenApiParameter(
    "Upload-Offset",
    int,
    OpenApiParameter.HEADER,
    required=True,
    description="Offset of the piece.",
)
_DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
EXAMPLES = [
    OpenApiExample(
        "A file of a volume",
        value={"target": {"volume": "digits", "path": "v2/train.npz"}, "size_bytes": 11490434, "sha256": _DIGEST},
        request_only=True,
    ),
    OpenApiExample(
        "A code snapshot", value={"target": {"code": True}, "size_bytes": 20480, "sha256": _DIGEST}, request_only=True
    ),
]


class UploadsView(ApiView):
    """Files on their way in."""

    @extend_schema(request=shapes.UploadIn, responses={200: shapes.UploadOut, 201: shapes.UploadOut}, examples=EXAMPLES)
    @idempotent
    def post(self, request: Request) -> Response:
        """Start an upload. Code that the tenant already has is answered with 200 and `complete`."""
        body = shapes.UploadIn.validated(request.data)
        tenant_id, volume = _target(self.actor, body)
        new = uploads.NewUpload(
            size_bytes=body["size_bytes"], sha256=body["sha256"], volume=volume, path=body["target"].get("path", "")
        )
        started = uploads.start_upload(actor=self.actor, tenant_id=tenant_id, new=new, now=database_now())
        if started.upload is None:
            return Response(shapes.show_known_code(tenant_id, size_bytes=body["size_bytes"], sha256=body["sha256"]))
        response = _answer(started.upload, status=201)
        response["Location"] = f"/api/v1/uploads/{started.upload.id}"
        return response


class UploadView(ApiView):
    """One upload."""

    parser_classes = [UploadChunk]

    @extend_schema(responses=shapes.UploadOut)
    def get(self, request: Request, upload_id: uuid.UUID) -> Response:
        """Get the progress of an upload; the header `Upload-Offset` has the same value."""
        return _answer(access.fetch(self.actor, Upload, upload_id, "upload.read"))

    @extend_schema(request={UploadChunk.media_type: OpenApiTypes.BINARY}, parameters=[OFFSET], responses=shapes.UploadOut)
    def patch(self, request: Request, upload_id: uuid.UUID) -> Response:
        """Append a piece at the offset of the upload. The last piece verifies the digest and stores the file."""
        upload = access.fetch(self.actor, Upload, upload_id, "upload.write")
        offset = _offset(request)
        data = request.data if isinstance(request.data, bytes) else b""
        try:
            return _answer(uploads.append_bytes(actor=self.actor, upload=upload, offset=offset, data=data, now=database_now()))
        except (uploads.OffsetMismatch, uploads.DigestMismatch) as failure:
            return self._refused(failure, upload)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, upload_id: uuid.UUID) -> Response:
        """Cancel an upload."""
        upload = access.fetch(self.actor, Upload, upload_id, "upload.delete")
        uploads.delete_upload(actor=self.actor, upload=upload, now=database_now())
        return Response(status=204)

    def _refused(self, failure: BerthError, upload: Upload) -> Response:
        """The failure with the offset at which to go on."""
        response = handle_exception(failure, {"request": self.request})
        upload.refresh_from_db()
        response["Upload-Offset"] = str(upload.offset_bytes)
        return response


def _answer(upload: Upload, status: int = 200) -> Response:
    response = Response(shapes.show_upload(upload), status=status)
    response["Upload-Offset"] = str(upload.offset_bytes)
    response["Upload-Length"] = str(upload.size_bytes)
    return response


def _offset(request: Request) -> int:
    text = request.headers.get("Upload-Offset", "")
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        message = Text(
            "The header Upload-Offset must say where the piece begins.", "请求头 Upload-Offset 须说明此分块从何处开始。"
        )
        raise InvalidInput(message, fields=[FieldError("/Upload-Offset", "invalid", message, Text("For example: 0", "例如：0"))])
    return int(text)


def _target(actor: Actor, body: dict[str, object]) -> tuple[uuid.UUID, Volume | None]:
    """The tenant in whose name is uploaded, and the volume if it goes to one; both as far as the actor may."""
    target = body["target"]
    assert isinstance(target, dict)
    tenant = body["tenant"]
    if target.get("code"):
        tenant_id = find_tenant(actor, tenant if isinstance(tenant, str) else None).id
        demand(actor, tenant_id, "upload.create")
        demand(actor, tenant_id, "code.create")
        return tenant_id, None
    if isinstance(tenant, str):
        find_tenant(actor, tenant)  # An id needs no tenant beside it; one that is named must exist for the actor all the same.
    volume = _volume(actor, str(target["volume"]), tenant if isinstance(tenant, str) else None)
    access.require(actor, volume, "volume.write")
    acting = acting_tenant(actor, volume, "volume.write")
    if acting is None:
        raise Forbidden(
            Text("Files are written under the rights of a tenant.", "写入文件须使用某个租户的权限。"),
            hint=Text("Use a token of a member of the tenant.", "请使用该租户成员的令牌。"),
        )
    demand(actor, acting, "upload.create")
    return acting, volume


def _volume(actor: Actor, text: str, tenant: str | None) -> Volume:
    """A visible volume by id, by name in the given tenant, or as `owner-tenant/name`."""
    rows = access.visible(actor, Volume)
    owner, separator, name = text.rpartition("/")
    try:
        found = list(rows.filter(id=uuid.UUID(text)))
    except ValueError:
        found = list(rows.filter(name=name)[:200])
        owners = tenant_facts({row.tenant_id for row in found})
        if separator:
            found = [row for row in found if owner in (owners[row.tenant_id].slug, owners[row.tenant_id].name)]
        else:
            tenant_id = find_tenant(actor, tenant).id
            found = [row for row in found if row.tenant_id == tenant_id]
    if len(found) != 1:
        message = Text(f"There is no volume {text[:80]!r} that you may use.", f"没有您可用的存储卷 {text[:80]!r}。")
        hint = Text("List your volumes, and use the id.", "请列出您的存储卷，并使用 ID。")
        raise NotFound(message, fields=[FieldError("/target/volume", "not_found", message, hint)], hint=hint)
    return found[0]
