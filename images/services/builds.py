"""Builds: asked for here, carried out as jobs, reported back here (design rule 11).

One environment is built once per tenant: images that ask for the same thing share one request while it is under way, and
take over what is built already. A request is a row; `jobs` turns pending ones into jobs of kind `build`, in the tenant's name
and under its quota, and tells how they started and ended.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.db import IntegrityError, transaction
from django.db.models import Q

from activity.services import record_audit
from clusters.registries import references
from clusters.registries.errors import RegistryError
from clusters.registries.rules import rules_of
from images import builder, containerfile, hostaccess, requirements
from images.errors import failure_of
from images.lifecycle import BuildState, ImageState
from images.models import BuildRequest, Image, ImageKind
from images.services.accounts import account_at
from images.services.transition import BUILDS, IMAGES
from kernel.actor import Actor
from kernel.config import current
from kernel.crashpoints import crashpoint
from kernel.errors import Conflict
from kernel.ids import new_id
from kernel.limits import NOTE_LENGTH
from kernel.words import Text
from reconciling import transition
from reconciling.transition import Change
from tenants.selectors import tenant_facts

MANIFEST_BYTES_MAX = 4 * 1024 * 1024  # Names and versions of some ten thousand packages.
PACKAGES_MAX = 10_000
REASON_BYTES_MAX = 3_000  # The last lines of a build; with its sentence they fit on a row.
_SYSTEM = "system:images"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class NotBuilt(Conflict):
    """Only Python environments and container images with a Containerfile or a base are built."""

    code = "not_built"
    title = Text("This image is not built", "此镜像无需构建")


@dataclass(frozen=True, slots=True)
class PendingBuild:
    """A build that needs a job. `requested_by_id` is the user in whose name the job runs; None: no user any more."""

    id: uuid.UUID
    tenant_id: uuid.UUID
    image_id: uuid.UUID
    image_name: str
    digest: str
    requested_by_id: uuid.UUID | None
    roles: tuple[str, ...] = ()  # Of the build of a container image; empty: one role of any name.
    context_digest: str = ""  # The code snapshot that it is built from.


@dataclass(frozen=True, slots=True)
class _Manifest:
    python: str
    size_bytes: int | None
    packages: list[dict[str, str]]
    digest: str = ""  # Of a container image, at its registry.


def request_build(*, actor: Actor, image: Image, now: datetime) -> BuildRequest:
    """Ask for the build of a QUEUED image; while one of the same digest is under way, that one. Needs a transaction."""
    assert image.tenant_id is not None
    under_way = _under_way(image)
    if under_way is None:
        try:
            with transaction.atomic():
                request_id = new_id()
                own_place = str(place_of(image.tenant_id, str(request_id), data_dir=current().data_dir))
                return BuildRequest.objects.create(
                    id=request_id,
                    tenant_id=image.tenant_id,
                    image=image,
                    digest=identity_of(image),
                    requirements=image.requirements,
                    location=own_place if image.is_built_container else image.location,
                    requested_by_id=actor.user_id,
                    created_at=now,
                )
        except IntegrityError:  # Another caller asked for the same at the same moment.
            under_way = _under_way(image)
    assert under_way is not None
    if under_way.state == BuildState.BUILDING:
        change = Change(image.id, ImageState.QUEUED, ImageState.BUILDING, also={"build_job_id": under_way.job_id})
        transition.apply(IMAGES, [change], actor=actor.name, at=now)
        image.refresh_from_db()
    return under_way


def build_again(*, actor: Actor, image: Image, now: datetime) -> BuildRequest:
    """Build a failed image once more, or get one anew that was lost. Conflict while it is being built or is there.

    A container image is built again also while it is there, because what it starts from changes under its names.
    """
    if image.kind != ImageKind.PYTHON and not image.is_built_container:
        raise NotBuilt(
            Text(
                f"Image {image.name} is of kind {image.kind}; there is nothing to build.",
                f"镜像 {image.name} 的类型为 {image.kind}，无需构建。",
            )
        )
    if image.state not in (ImageState.FAILED, ImageState.READY):
        raise Conflict(
            Text(f"Image {image.name} is being built already.", f"镜像 {image.name} 正在构建。"),
            hint=Text("Follow its build's log.", "请查看其构建日志。"),
        )
    if image.state == ImageState.READY and not image.is_built_container and _is_there(image):
        raise Conflict(
            Text(f"Image {image.name} is built.", f"镜像 {image.name} 已构建。"),
            hint=Text("Add another image to build something else.", "如需构建其他内容，请添加另一个镜像。"),
        )
    with transaction.atomic():
        also = {"error": "", "build_job_id": None, "ready_at": None, "version": image.version + 1}
        guard = {"is_deleted": False}
        change = Change(image.id, image.state, ImageState.QUEUED, reason="build_again", also=also, guard=guard)
        if not transition.apply(IMAGES, [change], actor=actor.name, at=now):
            raise Conflict(
                Text(f"Image {image.name} changed meanwhile.", f"镜像 {image.name} 已变化。"),
                hint=Text("Read it again.", "请重新读取。"),
            )
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
    return [_pending(row) for row in rows]


def build_plan(request_id: uuid.UUID) -> builder.BuildPlan:
    """Make the build's place, owned by its tenant, and say what its job does. Called when the job is launched, as often as
    it is launched: a place that was left half-built is emptied by the job itself."""
    request = BuildRequest.objects.select_related("image").get(id=request_id)
    if request.image.is_built_container:
        return _container_plan(request)
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
    request = BuildRequest.objects.filter(id=request_id).select_related("image").first()
    if request is None or request.state not in (BuildState.QUEUED, BuildState.BUILDING):
        if request is not None and request.image.is_built_container:
            hostaccess.remove_environment(request.location)  # Left by a report that was cut off.
        return False
    if request.image.is_built_container:
        return _container_finished(request, succeeded=succeeded, reason=reason, now=now)
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
    """Where an environment of this digest lies, or what a build of a container image leaves: chosen by us, per tenant, and never
    moved."""
    return data_dir / "images" / str(_number(tenant_id)) / digest.removeprefix("sha256:")


def is_under_way(image: Image) -> bool:
    """Whether a job may be writing to the image's place."""
    return image.tenant_id is not None and _under_way(image) is not None


def builds_of(image: Image) -> Q:
    """Which builds are of what the image is made of, for its page."""
    return Q(image=image) if image.is_built_container else Q(tenant=image.tenant_id, digest=image.digest)


def identity_of(image: Image) -> str:
    """By what a build is known: an environment's digest, and for a container image what is asked for, under which name of it.

    Two images that ask for the same are built apart: each is pushed.
    """
    if not image.is_built_container:
        return image.digest
    parts = (str(image.id), image.reference, image.base, image.requirements, image.context_digest, image.containerfile)
    return "sha256:" + hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()


def containerfile_of(image: Image) -> containerfile.Containerfile:
    """What its build runs; the image was checked when it was added."""
    text = image.containerfile
    if image.base:
        base, parsed = references.parse(image.base), requirements.parse(image.requirements)[0]
        assert base is not None, "the catalogue holds references that were parsed"
        assert parsed is not None, "the catalogue holds requirements that were parsed"
        text = containerfile.of_requirements(base, hashed=parsed.hashed)
    found, problems = containerfile.parse(text)
    assert found is not None, problems
    return found


def _pending(row: BuildRequest) -> PendingBuild:
    roles = (builder.BUILD_ROLE, builder.TRANSFER_ROLE) if row.image.is_built_container else ()
    return PendingBuild(
        row.id,
        row.tenant_id,
        row.image_id,
        row.image.name,
        row.digest,
        row.requested_by_id,
        roles,
        row.image.context_digest,
    )


def _container_plan(request: BuildRequest) -> builder.BuildPlan:
    """With the tenant's accounts at the registries that the build names, as they are now."""
    image, rules = request.image, rules_of(current())
    target = references.parse(image.reference)
    assert target is not None, "the catalogue holds references that were parsed"
    file = containerfile_of(image)
    hosts = {reference.host.lower() for reference in (*file.bases, target)}
    for host in sorted(hosts):
        check_allowed(host)
    accounts = {host: account for host in sorted(hosts) if (account := account_at(request.tenant_id, host)) is not None}
    hostaccess.give_environment(request.location, _number(request.tenant_id))
    return builder.plan_container(
        builder.ContainerBuild(
            containerfile=file,
            target=target,
            requirements=image.requirements if image.base else "",
            accounts=accounts,
            plain_hosts=rules.plain_hosts & hosts,
            authority=Path(rules.ca_file).read_text() if rules.ca_file else "",
        ),
        request_id=request.id,
        location=request.location,
        settings=builder.pip_settings(os.environ),
    )


def check_allowed(host: str) -> None:
    """RegistryFailure where operators have taken a registry from the list since the image was added."""
    try:
        rules_of(current()).check_registry(host)
    except RegistryError as error:
        raise failure_of(error) from None


def _container_finished(request: BuildRequest, *, succeeded: bool, reason: str, now: datetime) -> bool:
    """The image is at its registry: what the build has left on this host goes once its end is noted."""
    number = _number(request.tenant_id)
    manifest = _read_manifest(request.location, number) if succeeded else None
    if manifest is None or not _DIGEST.fullmatch(manifest.digest):
        said = hostaccess.read_reason(request.location, number, bytes_max=REASON_BYTES_MAX)
        text = _lines(said) or reason or "the build failed; see its log"
        with transaction.atomic():
            done = _fail(request, text[:NOTE_LENGTH], now=now)
    else:
        with transaction.atomic():
            done = _succeed(request, manifest, now=now)
    crashpoint("images.build.after_push")
    hostaccess.remove_environment(request.location)
    return done


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
                **({"digest": manifest.digest} if image.is_built_container else {}),
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
    rows = Image.objects.filter(tenant_id=request.tenant_id, state__in=states)
    same = Q(id=request.image_id) if request.image.is_built_container else Q(digest=request.digest)
    return list(rows.filter(same).order_by("id"))


def _under_way(image: Image) -> BuildRequest | None:
    states = (BuildState.QUEUED, BuildState.BUILDING)
    return BuildRequest.objects.filter(tenant=image.tenant_id, digest=identity_of(image), state__in=states).first()


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
        return _Manifest(_plain(given.get("python", ""), 40), size_bytes, packages, _plain(given.get("digest", ""), 80))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _lines(text: bytes) -> str:
    """Lines of a tenant's text, as a database and a screen take them."""
    lines = text.decode(errors="replace").splitlines()
    return "\n".join(line for line in (_plain(line, 500) for line in lines) if line.strip())


def _plain(value: object, length: int) -> str:
    """Text that a database and a screen take as it is."""
    return "".join(character for character in str(value)[:length] if character.isprintable())
