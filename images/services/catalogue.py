"""The catalogue: images added, deleted, found by what a job's spec says."""

from __future__ import annotations

import difflib
import re
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q

from activity.services import record_audit
from clusters.engines.interface import ImageKind as EngineImageKind
from clusters.engines.interface import ImageRef
from images import builder, hostaccess, references, requirements
from images.lifecycle import ImageState
from images.models import Image, ImageKind
from images.services import builds
from kernel.actor import Actor
from kernel.config import current
from kernel.errors import Conflict, FieldError, InvalidInput, NotFound, QuotaExceeded

HOST_IMAGE = "host"
IMAGES_MAX = 1_000  # Per tenant; names are chosen by people.
DELETED_KEPT = timedelta(hours=1)  # Jobs that were just admitted still find the environment.
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?")


class ImageExists(Conflict):
    """The tenant, or the operators for all tenants, already have an image of this name."""

    code = "image_exists"
    title = "There is an image of this name"


@dataclass(frozen=True, slots=True)
class NewImage:
    """What an image is made from: `requirements` for a Python environment, `reference` for a registry image."""

    name: str
    kind: str
    requirements: str = ""
    reference: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class ResolvedImage:
    """What a spec's `image` means. `id` None: a registry reference that is in no catalogue.

    `digest` is empty for a registry reference without one: whoever pulls it resolves it. A job whose image is not READY
    waits with the reason `image_building`.
    """

    id: uuid.UUID | None
    name: str
    kind: EngineImageKind
    digest: str
    location: str
    state: str
    error: str = ""

    @property
    def is_ready(self) -> bool:
        return self.state == ImageState.READY

    @property
    def is_pinned(self) -> bool:
        return bool(self.digest)

    @property
    def ref(self) -> ImageRef:
        """The image as an engine takes it."""
        return ImageRef(kind=self.kind, digest=self.digest, location=self.location)


def create_image(*, actor: Actor, tenant_id: uuid.UUID | None, new: NewImage, now: datetime) -> Image:
    """Add an image. `tenant_id` None: for all tenants, by an operator. A Python environment is READY once it is built."""
    image = _draft(tenant_id, new)
    image.created_by_id, image.created_at = actor.user_id, now
    if Image.objects.filter(tenant=tenant_id, is_deleted=False).count() >= IMAGES_MAX:
        raise QuotaExceeded(f"A tenant has at most {IMAGES_MAX:,} images.", hint="Delete one that is no longer needed.")
    with transaction.atomic():
        if image.kind == ImageKind.PYTHON:
            builds.take_over_built(image, now=now)
        try:
            with transaction.atomic():
                image.save(force_insert=True)
        except IntegrityError:
            raise _name_taken(new.name) from None
        if image.state == ImageState.QUEUED:
            builds.request_build(actor=actor, image=image, now=now)
        record_audit(
            actor=actor,
            verb="image.create",
            tenant_id=tenant_id,
            target_kind="image",
            target_id=image.id,
            target_name=image.name,
            after={"kind": image.kind, "digest": image.digest, "reference": image.reference, "state": str(image.state)},
            at=now,
        )
    return image


def delete_image(*, actor: Actor, image: Image, now: datetime) -> None:
    """Take an image out of the catalogue. Jobs that run in it go on; its files go when no job uses them any more."""
    if image.tenant_id is None and image.kind == ImageKind.HOST:
        raise Conflict("The host image cannot be deleted: jobs without an image run in it.")
    with transaction.atomic():
        deleted = Image.objects.filter(id=image.id, is_deleted=False).update(
            is_deleted=True, deleted_at=now, version=F("version") + 1
        )
        if not deleted:
            raise NotFound(f"There is no image {image.name!r} any more.")
        record_audit(
            actor=actor,
            verb="image.delete",
            tenant_id=image.tenant_id,
            target_kind="image",
            target_id=image.id,
            target_name=image.name,
            before={"kind": image.kind, "digest": image.digest},
            at=now,
        )


def delete_images_of(*, tenant_id: uuid.UUID, now: datetime) -> int:
    """Take all images of a tenant out of the catalogue; returns how many. Their files go an hour later. In the transaction of who
    deletes the tenant, whose audit row tells it."""
    rows = Image.objects.filter(tenant_id=tenant_id, is_deleted=False)
    return rows.update(is_deleted=True, deleted_at=now, version=F("version") + 1)


def count_images_of(tenant_id: uuid.UUID) -> int:
    """How many images a tenant has. One query."""
    return Image.objects.filter(tenant_id=tenant_id, is_deleted=False).count()


def resolve_image(*, tenant_id: uuid.UUID, text: str, path: str = "/image") -> ResolvedImage:
    """What a spec's `image` means for a tenant: a name of its catalogue, one shared with all, or a registry reference.

    InvalidInput if it means nothing, or an image that could not be built. One query.
    """
    text = text or HOST_IMAGE
    if references.looks_like_reference(text):
        reference = references.parse(text)
        if reference is None:
            message = f"{text[:120]!r} is no image reference."
            raise _refused(path, "bad_reference", message, "For example: registry.example.org/team/train:1.2@sha256:...")
        full = str(reference)
        return ResolvedImage(None, full, EngineImageKind.REGISTRY, reference.digest, full, ImageState.READY)
    rows = usable_images(tenant_id).filter(Q(name=text) | Q(id=_as_id(text)))
    found = sorted(rows, key=lambda image: image.tenant_id is None)  # The tenant's own name hides a shared one.
    if not found:
        raise _refused(path, "not_found", f"There is no image {text[:80]!r} for this tenant.", _suggestion(tenant_id, text))
    if found[0].state == ImageState.FAILED:
        message = f"Image {found[0].name} could not be built: {found[0].error[:500]}"
        raise _refused(path, "image_failed", message, "Correct its requirements and add it again, or build it once more.")
    return as_resolved(found[0])


def resolved_images(image_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, ResolvedImage]:
    """The present state of many images, deleted ones included: for jobs that wait or start. One query."""
    return {image.id: as_resolved(image) for image in Image.objects.filter(id__in=frozenset(image_ids))}


def usable_images(tenant_id: uuid.UUID) -> Any:
    """Images that a tenant's jobs may use: its own, and those of the operators."""
    return Image.objects.filter(Q(tenant_id=tenant_id) | Q(tenant_id__isnull=True), is_deleted=False)


def ensure_host_image(*, now: datetime) -> None:
    """Put the host's own programs into the catalogue, for everybody. Called after every migration; twice is fine."""
    if not Image.objects.filter(tenant_id__isnull=True, name=HOST_IMAGE, is_deleted=False).exists():
        Image.objects.bulk_create(
            [
                Image(
                    name=HOST_IMAGE,
                    kind=ImageKind.HOST,
                    description="The programs that are installed on the machine itself.",
                    state=ImageState.READY,
                    digest=HOST_IMAGE,
                    created_at=now,
                    ready_at=now,
                )
            ],
            ignore_conflicts=True,
        )


def remove_unused_images(*, now: datetime, in_use: Collection[str], kept: timedelta = DELETED_KEPT, limit: int = 20) -> int:
    """Remove environments that no image of the catalogue and no live job (`in_use`, locations) needs; gives how many."""
    rows = Image.objects.filter(is_deleted=True, removed_at__isnull=True, deleted_at__lt=now - kept).exclude(location="")
    removed = 0
    for image in rows.order_by("deleted_at")[:limit]:
        if not Image.objects.filter(location=image.location, is_deleted=False).exists():
            if image.location in in_use or builds.is_under_way(image):
                continue
            hostaccess.remove_environment(image.location)
            removed += 1
        Image.objects.filter(id=image.id).update(removed_at=now)
    return removed


def as_resolved(image: Image) -> ResolvedImage:
    """An image of the catalogue as jobs see it."""
    kind = EngineImageKind(image.kind)
    location = image.reference if kind == EngineImageKind.REGISTRY else image.location
    return ResolvedImage(image.id, image.name, kind, image.digest, location, image.state, image.error)


def _draft(tenant_id: uuid.UUID | None, new: NewImage) -> Image:
    """The row of a new image, or everything that is wrong with what was asked for."""
    errors: list[FieldError] = []
    if not _NAME.fullmatch(new.name):
        message = "An image's name has small letters, digits and inner `.`, `_` and `-`, at most 63."
        errors.append(FieldError("/name", "bad_name", message, "For example: jax-cpu"))
    elif new.name == HOST_IMAGE:
        errors.append(FieldError("/name", "reserved", "`host` is the name of the machine's own programs."))
    image = Image(tenant_id=tenant_id, name=new.name, kind=new.kind, description=new.description, state=ImageState.READY)
    errors += _unwanted(new)
    if new.kind == ImageKind.PYTHON:
        errors += _set_requirements(image, new.requirements)
    elif new.kind == ImageKind.REGISTRY:
        errors += _set_reference(image, new.reference)
    else:
        errors.append(FieldError("/kind", "reserved", "There is one host image, named `host`.", "Use kind python or registry."))
    if errors:
        raise InvalidInput(errors[0].message, fields=errors, hint=errors[0].hint)
    return image


def _unwanted(new: NewImage) -> list[FieldError]:
    """Fields of the other kinds: said, not dropped."""
    wanted = {ImageKind.PYTHON: "requirements", ImageKind.REGISTRY: "reference"}.get(ImageKind(new.kind))
    return [
        FieldError(f"/{name}", "not_for_kind", f"An image of kind {new.kind} has no {name}.")
        for name in ("requirements", "reference")
        if getattr(new, name) and name != wanted
    ]


def _set_requirements(image: Image, text: str) -> list[FieldError]:
    if image.tenant_id is None:
        message = "Python environments are built by a tenant, under its own user; only registry images are shared with all."
        return [FieldError("/kind", "not_shared", message, "Name a tenant.")]
    parsed, problems = requirements.parse(text)
    if parsed is None:
        return list(problems)
    python = builder.find_python()
    image.requirements, image.python = parsed.text, python.version
    image.digest = parsed.digest(python=python.version, platform=python.platform)
    image.location = str(builds.place_of(image.tenant_id, image.digest, data_dir=current().data_dir))
    image.state = ImageState.QUEUED
    return []


def _set_reference(image: Image, text: str) -> list[FieldError]:
    reference = references.parse(text)
    if reference is None:
        message = f"{text[:120]!r} is no image reference." if text else "A registry image needs a reference."
        return [FieldError("/reference", "bad_reference", message, "For example: registry.example.org/team/train:1.2@sha256:...")]
    image.reference, image.digest = str(reference), reference.digest
    return []


def _suggestion(tenant_id: uuid.UUID, text: str) -> str:
    names = list(usable_images(tenant_id).values_list("name", flat=True)[:IMAGES_MAX])
    close = difflib.get_close_matches(text, names, n=1)
    return f"Did you mean {close[0]!r}?" if close else "`berth images` lists what this tenant may use."


def _refused(path: str, code: str, message: str, hint: str) -> InvalidInput:
    return InvalidInput(message, fields=[FieldError(path, code, message, hint)], hint=hint)


def _name_taken(name: str) -> ImageExists:
    field = FieldError("/name", "taken", "The name is taken.")
    return ImageExists(
        f"There is an image {name!r} already.", fields=[field], hint="Choose another name, or delete the other one."
    )


def _as_id(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
