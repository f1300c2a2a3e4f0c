"""Bodies that this app reads, and rows as it shows them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from rest_framework import serializers

from images.containerfile import CONTAINERFILE_BYTES
from images.models import IMAGE_NAME_LENGTH, REFERENCE_LENGTH, BuildRequest, Image, ImageKind
from images.requirements import REQUIREMENTS_BYTES
from kernel.clock import utc_text
from tenants.identity.api.serializers import TenantRef, UserRef
from tenants.selectors import TenantFacts, tenant_facts, user_names
from webapi.fields import UtcTimeField
from webapi.serializers import StrictSerializer


class ImageIn(StrictSerializer):
    """A new image: `requirements` for kind python, `reference` for kind registry. `shared`: for all tenants, by operators.

    A registry image with a `containerfile`, or with a `base` and `requirements`, is built by a job and pushed to `reference`.
    """

    tenant = serializers.CharField(max_length=255, allow_null=True, default=None)
    shared = serializers.BooleanField(default=False)
    name = serializers.CharField(max_length=IMAGE_NAME_LENGTH, help_text="Small letters, digits and inner `.`, `_`, `-`.")
    kind = serializers.ChoiceField([str(kind) for kind in ImageKind])
    requirements = serializers.CharField(
        max_length=REQUIREMENTS_BYTES, allow_null=True, allow_blank=True, default=None, trim_whitespace=False
    )
    reference = serializers.CharField(max_length=REFERENCE_LENGTH, allow_null=True, allow_blank=True, default=None)
    containerfile = serializers.CharField(
        max_length=CONTAINERFILE_BYTES,
        allow_null=True,
        allow_blank=True,
        default=None,
        trim_whitespace=False,
        help_text="How a container image is built.",
    )
    context_sha256 = serializers.RegexField(
        r"^[0-9a-f]{64}\Z",
        allow_null=True,
        default=None,
        help_text="SHA-256 of an uploaded code archive that the Containerfile copies from.",
    )
    base = serializers.CharField(
        max_length=REFERENCE_LENGTH,
        allow_null=True,
        allow_blank=True,
        default=None,
        help_text="Reference of an image with Python and pip, into which `requirements` are installed.",
    )
    description = serializers.CharField(max_length=500, allow_blank=True, default="")


class PackageOut(serializers.Serializer[Any]):
    """An installed package."""

    name = serializers.CharField()
    version = serializers.CharField()


class ImageOut(serializers.Serializer[Any]):
    """An image. `tenant` null: shared with all tenants by operators. `pinned` false: the content of the reference may change."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    tenant = TenantRef(allow_null=True)
    kind = serializers.ChoiceField([str(kind) for kind in ImageKind])
    description = serializers.CharField()
    state = serializers.ChoiceField(["queued", "building", "ready", "failed"])
    error = serializers.CharField(allow_null=True, help_text="Why the last build failed.")
    digest = serializers.CharField(allow_null=True)
    pinned = serializers.BooleanField()
    requirements = serializers.CharField(allow_null=True)
    reference = serializers.CharField(allow_null=True)
    containerfile = serializers.CharField(allow_null=True, help_text="How it is built. Null: from `base`, or not built here.")
    context_sha256 = serializers.CharField(allow_null=True, help_text="SHA-256 of the code archive that it copies from.")
    base = serializers.CharField(allow_null=True, help_text="Image into which `requirements` are installed.")
    python = serializers.CharField(allow_null=True)
    size_bytes = serializers.IntegerField(allow_null=True)
    packages = PackageOut(many=True, required=False, help_text="Only in the answer for a single image.")
    build_job_id = serializers.UUIDField(allow_null=True)
    created_by = UserRef(allow_null=True)
    created_at = UtcTimeField()
    ready_at = UtcTimeField(allow_null=True)
    version = serializers.IntegerField()


class BuildOut(serializers.Serializer[Any]):
    """A build of an image. `job_id` is the job whose log shows its progress."""

    id = serializers.UUIDField()
    state = serializers.ChoiceField(["queued", "building", "succeeded", "failed"])
    job_id = serializers.UUIDField(allow_null=True)
    digest = serializers.CharField()
    error = serializers.CharField(allow_null=True)
    requested_by = UserRef(allow_null=True)
    created_at = UtcTimeField()
    started_at = UtcTimeField(allow_null=True)
    ended_at = UtcTimeField(allow_null=True)


def show_images(rows: Sequence[Image], *, with_packages: bool = False) -> list[dict[str, Any]]:
    """Images for the API. Two queries, whatever their number."""
    tenants = tenant_facts({row.tenant_id for row in rows if row.tenant_id is not None})
    users = user_names({row.created_by_id for row in rows if row.created_by_id is not None})
    return [{**_show_image(row, tenants, users), **({"packages": row.packages} if with_packages else {})} for row in rows]


def show_builds(rows: Sequence[BuildRequest]) -> list[dict[str, Any]]:
    """Builds for the API. One query, whatever their number."""
    users = user_names({row.requested_by_id for row in rows if row.requested_by_id is not None})
    return [
        {
            "id": str(row.id),
            "state": str(row.state),
            "job_id": str(row.job_id) if row.job_id else None,
            "digest": row.digest,
            "error": row.error or None,
            "requested_by": _show_user(row.requested_by_id, users),
            "created_at": utc_text(row.created_at),
            "started_at": utc_text(row.started_at),
            "ended_at": utc_text(row.ended_at),
        }
        for row in rows
    ]


def _show_image(image: Image, tenants: Mapping[uuid.UUID, TenantFacts], users: Mapping[uuid.UUID, str]) -> dict[str, Any]:
    tenant = tenants.get(image.tenant_id) if image.tenant_id is not None else None
    return {
        "id": str(image.id),
        "name": image.name,
        "tenant": {"id": str(tenant.id), "slug": tenant.slug, "name": tenant.name} if tenant is not None else None,
        "kind": str(image.kind),
        "description": image.description,
        "state": str(image.state),
        "error": image.error or None,
        "digest": image.digest or None,
        "pinned": bool(image.digest),
        "requirements": image.requirements or None,
        "reference": image.reference or None,
        "containerfile": image.containerfile or None,
        "context_sha256": image.context_digest or None,
        "base": image.base or None,
        "python": image.python or None,
        "size_bytes": image.size_bytes,
        "build_job_id": str(image.build_job_id) if image.build_job_id else None,
        "created_by": _show_user(image.created_by_id, users) if tenant is not None else None,
        "created_at": utc_text(image.created_at),
        "ready_at": utc_text(image.ready_at),
        "version": image.version,
    }


def _show_user(user_id: uuid.UUID | None, users: Mapping[uuid.UUID, str]) -> dict[str, str] | None:
    if user_id is None or user_id not in users:
        return None
    return {"id": str(user_id), "name": users[user_id]}
