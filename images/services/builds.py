"""Builds: asked for here, carried out as jobs, reported back here (design rule 11).

One environment is built once per tenant: images that ask for the same thing share one request while it is under way, and
take over what is built already. A request is a row; `jobs` turns pending ones into jobs of kind `build`, in the tenant's name
and under its quota, and tells how they started and ended.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db import IntegrityError, transaction

from activity.services import record_audit
from images import builder, hostaccess
from images.lifecycle import BuildState, ImageState
from images.models import BuildRequest, Image, ImageKind
from images.services.transition import BUILDS, IMAGES
from kernel.actor import Actor
from kernel.config import current
from kernel.crashpoints import crashpoint
from kernel.errors import Conflict
from kernel.limits import NOTE_LENGTH
from reconciling import transition
from reconciling.transition import Change
from tenants.selectors import tenant_facts

MANIFEST_BYTES_MAX = 4 * 1024 * 1024  # Names and versions of some ten thousand packages.
PACKAGES_MAX = 10_000
_SYSTEM = "system:images"


class NotBuilt(Conflict):
    """Only Python environments are built."""

    code = "not_built"
    title = "This image is not built"


@dataclass(frozen=True, slots=True)
class PendingBuild:
    """A build that needs a job. `requested_by_id` is in whose name the job runs; None: nobody's any more."""

    id: uuid.UUID
    tenant_id: uuid.UUID
    image_id: uuid.UUID
    image_name: str
    digest: str
    requested_by_id: uuid.UUID | None


@dataclass(frozen=True, slots=True)
class _Manifest:
    python: str
    size_bytes: int | None
    packages: list[dict[str, str]]


def request_build(*, actor: Actor, image: Image, now: datetime) -> BuildRequest:
    """Ask for the build of a QUEUED image; while one of the same digest is under way, that one. Needs a transaction."""
    assert image.tenant_id is not None
    under_way = _under_way(image)
    if under_way is None:
        try:
            with transaction.atomic():
                return BuildRequest.objects.create(
                    tenant_id=image.tenant_id,
                    image=image,
                    digest=image.digest,
                    requirements=image.requirements,
                    location=image.location,
                    requested_by_id=actor.user_id,
                    created_at=now,
                )
        except IntegrityError:  # Somebody asked for the same at the same moment.
            under_way = _under_way(image)
    assert under_way is not None
    if under_way.state == BuildState.BUILDING:
        change = Change(image.id, ImageState.QUEUED, ImageState.BUILDING, also={"build_job_id": under_way.job_id})
        transition.apply(IMAGES, [change], actor=actor.name, at=now)
        image.refresh_from_db()
    return under_way


def build_again(*, actor: Actor, image: Image, now: datetime) -> BuildRequest:
    """Build a failed environment once more, or get one anew that was lost. Conflict while it is being built or is there."""
    if image.kind != ImageKind.PYTHON:
        raise NotBuilt(f"Image {image.name} is of kind {image.kind}; there is nothing to build.")
    if image.state not in (ImageState.FAILED, ImageState.READY):
        raise Conflict(f"Image {image.name} is being built already.", hint="Follow its build's log.")
    if image.state == ImageState.READY and _is_there(image):
        raise Conflict(f"Image {image.name} is built.", hint="Add another image to build something else.")
    with transaction.atomic():
        also = {"error": "", "build_job_id": None, "ready_at": None, "version": image.version + 1}
        guard = {"is_deleted": False}
        change = Change(image.id, image.state, ImageState.QUEUED, reason="build_again", also=also, guard=guard)
        if not transition.apply(IMAGES, [change], actor=actor.name, at=now):
            raise Conflict(f"Image {image.name} changed meanwhile.", hint="Read it again.")
        image.refresh_from_db()
        request = request_build(actor=actor, image=image, now=now)
        record_audit(
            actor=actor,
            verb="image.edit",
            tenant_id=image.tenant_id,
            target_kind="image",
            target_id=image.id,
            target_name=image.name,
            after={"build": request.id},
            at=now,
        )
    return request


def pending_builds(limit: int, *, after: uuid.UUID | None = None) -> Sequence[PendingBuild]:
    """Requests that need a job, oldest first; `after`: only what was asked for after this one."""
    queued = BuildRequest.objects.filter(state=BuildState.QUEUED)
    if after is not None:
        queued = queued.filter(id__gt=after)
    rows = queued.select_related("image").order_by("id")[:limit]
    return [PendingBuild(row.id, row.tenant_id, row.image_id, row.image.name, row.digest, row.requested_by_id) for row in rows]


def build_plan(request_id: uuid.UUID) -> builder.BuildPlan:
    """Make the build's place, owned by its tenant, and say what its job does. Called when the job is launched, as often as
    it is launched: a place that was left half-built is emptied by the job itself."""
    request = BuildRequest.objects.get(id=request_id)
    offer = builder.host_offer(current().data_dir / "tools")
    hostaccess.give_environment(request.location, _number(request.tenant_id))
    return builder.plan_build(request.requirements, request_id=request.id, location=request.location, offer=offer)


def build_started(request_id: uuid.UUID, *, job_id: uuid.UUID, now: datetime) -> bool:
    """Note the job of a request, in the transaction that makes it. False: the request has a job already, make none."""
    with transaction.atomic():
        change = Change(request_id, BuildState.QUEUED, BuildState.BUILDING, also={"job_id": job_id, "started_at": now})
        if not transition.apply(BUILDS, [change], actor=_SYSTEM, at=now):
            return False
        images = _images_of(BuildRequest.objects.get(id=request_id), (ImageState.QUEUED,))
        changes = [Change(image.id, image.state, ImageState.BUILDING, also={"build_job_id": job_id}) for image in images]
        transition.apply(IMAGES, changes, actor=_SYSTEM, at=now)
    return True


def build_finished(request_id: uuid.UUID, *, succeeded: bool, reason: str, now: datetime) -> bool:
    """Note how a request's job ended, and seal what it built. False: that is noted already. Call it outside a transaction.

    A job that succeeded without a complete environment is a failed build. `reason` is shown to the user.
    """
    request = BuildRequest.objects.filter(id=request_id, state__in=(BuildState.QUEUED, BuildState.BUILDING)).first()
    if request is None:
        return False
    manifest = None
    if succeeded:
        number = _number(request.tenant_id)
        hostaccess.seal_environment(request.location, number)
        crashpoint("images.build.after_seal")
        manifest = _read_manifest(request.location, number)
        reason = reason if manifest else "the build ended without a complete environment; see its log"
    if manifest is None:  # Sealed or half-built, what is left would be in the way of the next build.
        hostaccess.remove_environment(request.location)
    with transaction.atomic():
        if manifest is None:
            return _fail(request, reason[:NOTE_LENGTH] or "the build failed; see its log", now=now)
        return _succeed(request, manifest, now=now)


def take_over_built(image: Image, *, now: datetime) -> None:
    """Make a new image READY at once if the tenant has the very same environment already."""
    same = Image.objects.filter(
        tenant=image.tenant_id, digest=image.digest, state=ImageState.READY, removed_at__isnull=True
    ).first()
    if same is not None and _is_there(same):
        image.state, image.ready_at, image.location = ImageState.READY, now, same.location
        image.size_bytes, image.packages, image.python = same.size_bytes, same.packages, same.python


def _is_there(image: Image) -> bool:
    return image.tenant_id is not None and hostaccess.has_environment(image.location, _number(image.tenant_id))


def place_of(tenant_id: uuid.UUID, digest: str, *, data_dir: Path) -> Path:
    """Where an environment of this digest lies: chosen by us, per tenant, and never moved."""
    return data_dir / "images" / str(_number(tenant_id)) / digest.removeprefix("sha256:")


def is_under_way(image: Image) -> bool:
    """Whether a job may be writing to the image's place."""
    return image.tenant_id is not None and _under_way(image) is not None


def builds_of(image: Image) -> Any:
    """Every build of what the image is made of, for its page; newest last by id."""
    return BuildRequest.objects.filter(tenant=image.tenant_id, digest=image.digest)


def _succeed(request: BuildRequest, manifest: _Manifest, *, now: datetime) -> bool:
    if not _move(request, BuildState.SUCCEEDED, "", now=now):
        return False
    changes = [
        Change(
            image.id,
            image.state,
            ImageState.READY,
            also={
                "ready_at": now,
                "error": "",
                "size_bytes": manifest.size_bytes,
                "packages": manifest.packages,
                "python": manifest.python,
                "version": image.version + 1,
            },
        )
        for image in _images_of(request, (ImageState.QUEUED, ImageState.BUILDING))
    ]
    transition.apply(IMAGES, changes, actor=_SYSTEM, at=now)
    return True


def _fail(request: BuildRequest, reason: str, *, now: datetime) -> bool:
    if not _move(request, BuildState.FAILED, reason, now=now):
        return False
    changes = [
        Change(
            image.id,
            image.state,
            ImageState.FAILED,
            reason="build_failed",
            detail={"text": reason},
            also={"error": reason, "version": image.version + 1},
        )
        for image in _images_of(request, (ImageState.QUEUED, ImageState.BUILDING))
    ]
    transition.apply(IMAGES, changes, actor=_SYSTEM, at=now)
    return True


def _move(request: BuildRequest, state: BuildState, error: str, *, now: datetime) -> bool:
    """End a request. One that never had a job and is reported as succeeded passes through BUILDING."""
    if request.state == BuildState.QUEUED and state == BuildState.SUCCEEDED:
        transition.apply(BUILDS, [Change(request.id, BuildState.QUEUED, BuildState.BUILDING)], actor=_SYSTEM, at=now)
        request.state = BuildState.BUILDING
    change = Change(request.id, request.state, state, also={"ended_at": now, "error": error})
    return bool(transition.apply(BUILDS, [change], actor=_SYSTEM, at=now))


def _images_of(request: BuildRequest, states: Sequence[ImageState]) -> list[Image]:
    return list(Image.objects.filter(tenant_id=request.tenant_id, digest=request.digest, state__in=states).order_by("id"))


def _under_way(image: Image) -> BuildRequest | None:
    states = (BuildState.QUEUED, BuildState.BUILDING)
    return BuildRequest.objects.filter(tenant=image.tenant_id, digest=image.digest, state__in=states).first()


def _number(tenant_id: uuid.UUID) -> int:
    return tenant_facts([tenant_id])[tenant_id].number


def _read_manifest(location: str, tenant_number: int) -> _Manifest | None:
    """What the build wrote last. The text is a tenant's: read as data, with bounds."""
    text = hostaccess.read_manifest(location, tenant_number, bytes_max=MANIFEST_BYTES_MAX)
    if text is None:
        return None
    try:
        given = json.loads(text)
        packages = [
            {"name": _plain(item["name"], 200), "version": _plain(item["version"], 100)}
            for item in given["packages"][:PACKAGES_MAX]
        ]
        size = given.get("size_bytes")
        size_bytes = size if isinstance(size, int) and 0 <= size < 2**62 else None
        return _Manifest(_plain(given.get("python", ""), 40), size_bytes, packages)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _plain(value: object, length: int) -> str:
    """Text that a database and a screen take as it is."""
    return "".join(character for character in str(value)[:length] if character.isprintable())
