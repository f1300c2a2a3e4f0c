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
from clusters.registries import references
from images import builder, containerfile, hostaccess, requirements
from images.lifecycle import ImageState
from images.models import Image, ImageKind
from images.services import accounts, builds
from kernel.actor import Actor
from kernel.config import current
from kernel.errors import Conflict, FieldError, InvalidInput, NotFound, QuotaExceeded
from kernel.words import Saying, Text

HOST_IMAGE = "host"
IMAGES_MAX = 1_000  # Per tenant; names are chosen by people.
DELETED_KEPT = timedelta(hours=1)  # Jobs that were just admitted still find the environment.
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?")


class ImageExists(Conflict):
    """The tenant, or the operators for all tenants, already have an image of this name."""

    code = "image_exists"
    title = Text("There is an image of this name", "同名镜像已存在")


@dataclass(frozen=True, slots=True)
class NewImage:
    """What an image is made from: `requirements` for a Python environment, `reference` for a registry image.

    A registry image with a `containerfile`, or with a `base` and `requirements`, is built and pushed to `reference`.
    `context_sha256` is the digest of the code snapshot that the Containerfile copies from.
    """

    name: str
    kind: str
    requirements: str = ""
    reference: str = ""
    description: str = ""
    containerfile: str = ""
    base: str = ""
    context_sha256: str = ""


@dataclass(frozen=True, slots=True)
class ResolvedImage:
    """What a spec's `image` means. `id` None: a registry reference that is in no catalogue.

    `digest` is empty for a registry reference without one: the container runtime that pulls it resolves it. A job whose image
    is not READY waits with the reason `image_building`.
    """

    id: uuid.UUID | None
    name: str
    kind: EngineImageKind
    digest: str
    location: str
    state: str
    error: str = ""
    cuda: str = ""  # What it needs of the driver of GPUs (`images/cuda.py`); "" for nothing that is known.

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
    """Add an image. `tenant_id` None: for all tenants, by an operator. One that has to be built is READY once it is."""
    image = _draft(tenant_id, new)
    image.created_by_id, image.created_at = actor.user_id, now
    if Image.objects.filter(tenant=tenant_id, is_deleted=False).count() >= IMAGES_MAX:
        raise QuotaExceeded(
            Text(f"A tenant has at most {IMAGES_MAX:,} images.", f"每个租户最多 {IMAGES_MAX:,} 个镜像。"),
            hint=Text("Delete one that is no longer needed.", "请删除不再需要的。"),
        )
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
        raise Conflict(
            Text(
                "The host image cannot be deleted: jobs without an image run in it.",
                "宿主机镜像不能删除：没有指定镜像的作业使用它。",
            )
        )
    with transaction.atomic():
        deleted = Image.objects.filter(id=image.id, is_deleted=False).update(
            is_deleted=True, deleted_at=now, version=F("version") + 1
        )
        if not deleted:
            raise NotFound(Text(f"There is no image {image.name!r} any more.", f"镜像 {image.name!r} 已不存在。"))
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
    """Take all images of a tenant out of the catalogue; returns how many. Their files go an hour later, its accounts at
    registries at once. In the transaction of who deletes the tenant, whose audit row tells it."""
    accounts.delete_accounts_of(tenant_id=tenant_id)
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
        reference = registry_reference(text, path=path)
        full = str(reference)
        return ResolvedImage(None, full, EngineImageKind.REGISTRY, reference.digest, full, ImageState.READY)
    rows = usable_images(tenant_id).filter(Q(name=text) | Q(id=_as_id(text)))
    found = sorted(rows, key=lambda image: image.tenant_id is None)  # The tenant's own name hides a shared one.
    if not found:
        message = Text(f"There is no image {text[:80]!r} for this tenant.", f"此租户没有镜像 {text[:80]!r}。")
        raise _refused(path, "not_found", message, _suggestion(tenant_id, text))
    if found[0].state == ImageState.FAILED:
        message = Text(
            f"Image {found[0].name} could not be built: {found[0].error[:500]}",
            f"镜像 {found[0].name} 构建失败：{found[0].error[:500]}",
        )
        hint = Text(
            "Correct its requirements and add it again, or build it once more.", "请修正其 requirements 后重新添加，或重新构建。"
        )
        raise _refused(path, "image_failed", message, hint)
    return as_resolved(found[0])


def registry_reference(text: str, *, host: str = "", path: str = "/image") -> references.Reference:
    """A text as a reference, of one registry where a host is given. InvalidInput if it is none."""
    reference = references.parse(text)
    if reference is None:
        message = Text(f"{text[:120]!r} is no image reference.", f"{text[:120]!r} 不是镜像引用。")
        hint = Text(
            "For example: registry.example.org/team/train:1.2@sha256:...", "例如：registry.example.org/team/train:1.2@sha256:..."
        )
        raise _refused(path, "bad_reference", message, hint)
    if host and reference.host.lower() != host:
        raise _refused(
            path,
            "other_registry",
            Text(f"{reference.host} is another registry than {host}.", f"{reference.host} 不是镜像仓库 {host}。"),
            Text("Name an image of this one.", "请指定该镜像仓库中的镜像。"),
        )
    return reference


def resolved_images(image_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, ResolvedImage]:
    """The present state of many images, deleted ones included: for jobs that wait or start. One query."""
    return {image.id: as_resolved(image) for image in Image.objects.filter(id__in=frozenset(image_ids))}


def usable_images(tenant_id: uuid.UUID) -> Any:
    """Images that a tenant's jobs may use: its own, and those of the operators."""
    return Image.objects.filter(Q(tenant_id=tenant_id) | Q(tenant_id__isnull=True), is_deleted=False)


def ensure_host_image(*, now: datetime) -> None:
    """Put the host's own programs into the catalogue, for all users. Called after every migration; twice is fine."""
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
    location = image.location
    if kind == EngineImageKind.REGISTRY:  # Of a built one the content that its build has pushed, whatever its tag means now.
        reference = references.parse(image.reference)
        location = str(reference.pinned(image.digest)) if reference is not None and image.digest else image.reference
    return ResolvedImage(image.id, image.name, kind, image.digest, location, image.state, image.error)


def problems_with(tenant_id: uuid.UUID | None, new: NewImage) -> list[FieldError]:
    """Everything that is wrong with a new image by itself, without a look at its registry."""
    return _read(tenant_id, new)[1]


def _draft(tenant_id: uuid.UUID | None, new: NewImage) -> Image:
    """The row of a new image. InvalidInput with everything that is wrong with what was asked for."""
    image, errors = _read(tenant_id, new)
    if errors:
        raise InvalidInput(errors[0].message, fields=errors, hint=errors[0].hint)
    return image


def _read(tenant_id: uuid.UUID | None, new: NewImage) -> tuple[Image, list[FieldError]]:
    errors: list[FieldError] = []
    if not _NAME.fullmatch(new.name):
        message = Text(
            "An image's name has small letters, digits and inner `.`, `_` and `-`, at most 63.",
            "镜像名由小写字母、数字和中间的 `.`、`_`、`-` 组成，最多 63 个字符。",
        )
        errors.append(FieldError("/name", "bad_name", message, Text("For example: jax-cpu", "例如：jax-cpu")))
    elif new.name == HOST_IMAGE:
        errors.append(
            FieldError(
                "/name", "reserved", Text("`host` is the name of the machine's own programs.", "`host` 是机器自身程序的名称。")
            )
        )
    image = Image(tenant_id=tenant_id, name=new.name, kind=new.kind, description=new.description, state=ImageState.READY)
    errors += _unwanted(new)
    if new.kind == ImageKind.PYTHON:
        errors += _set_requirements(image, new.requirements)
    elif new.kind == ImageKind.REGISTRY:
        errors += _set_reference(image, new.reference)
        if new.containerfile or new.base or new.requirements or new.context_sha256:
            errors += _set_build(image, new)
    else:
        errors.append(
            FieldError(
                "/kind",
                "reserved",
                Text("There is one host image, named `host`.", "宿主机镜像只有一个，名为 `host`。"),
                Text("Use kind python or registry.", "请使用 python 或 registry 类型。"),
            )
        )
    return image, errors


def _unwanted(new: NewImage) -> list[FieldError]:
    """Fields of the other kinds: said, not dropped."""
    wanted = {
        ImageKind.PYTHON: ("requirements",),
        ImageKind.REGISTRY: ("reference", "containerfile", "context_sha256", "base", "requirements"),
    }.get(ImageKind(new.kind), ())
    return [
        FieldError(
            f"/{name}", "not_for_kind", Text(f"An image of kind {new.kind} has no {name}.", f"{new.kind} 类镜像没有 {name}。")
        )
        for name in ("requirements", "reference", "containerfile", "context_sha256", "base")
        if getattr(new, name) and name not in wanted
    ]


def _set_requirements(image: Image, text: str) -> list[FieldError]:
    if image.tenant_id is None:
        message = Text(
            "Python environments are built by a tenant, under its own user; only registry images are shared with all.",
            "Python 环境由租户以其自身用户构建；只有镜像仓库的镜像可与所有租户共享。",
        )
        return [FieldError("/kind", "not_shared", message, Text("Name a tenant.", "请指定租户。"))]
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
        message = (
            Text(f"{text[:120]!r} is no image reference.", f"{text[:120]!r} 不是镜像引用。")
            if text
            else Text("A registry image needs a reference.", "镜像仓库中的镜像需要引用。")
        )
        return [
            FieldError(
                "/reference",
                "bad_reference",
                message,
                Text(
                    "For example: registry.example.org/team/train:1.2@sha256:...",
                    "例如：registry.example.org/team/train:1.2@sha256:...",
                ),
            )
        ]
    image.reference, image.digest = str(reference), reference.digest
    return []


def _set_build(image: Image, new: NewImage) -> list[FieldError]:
    """What a container image is built from, or everything that is wrong with it."""
    errors = []
    image.state = ImageState.QUEUED
    image.containerfile, image.context_digest = new.containerfile, new.context_sha256
    if image.tenant_id is None:
        message = Text("Images are built by a tenant, under its own user.", "镜像由租户以其自身用户构建。")
        errors.append(FieldError("/kind", "not_shared", message, Text("Name a tenant.", "请指定租户。")))
    if bool(new.containerfile) == bool(new.base):
        message = Text(
            "A container image is built from a Containerfile, or from a base image and requirements.",
            "容器镜像由 Containerfile 构建，或由基础镜像加依赖（requirements）构建。",
        )
        errors.append(FieldError("/containerfile", "one_of", message, Text("Give one of them.", "请给出其中一种。")))
    if image.digest:
        message = Text("An image is pushed under a tag, not under a digest.", "镜像按标签推送，而不是按摘要。")
        errors.append(FieldError("/reference", "pinned", message, Text("Leave `@sha256:...` out.", "请去掉 `@sha256:...`。")))
    if new.containerfile:
        errors += containerfile.parse(new.containerfile)[1]
    if new.base:
        errors += _set_base(image, new)
    elif new.requirements:
        message = Text("Requirements are installed into a base image.", "依赖（requirements）会安装到基础镜像中。")
        errors.append(FieldError("/requirements", "not_for_kind", message, Text("Name it as `base`.", "请用 `base` 指定。")))
    return errors


def _set_base(image: Image, new: NewImage) -> list[FieldError]:
    reference, (parsed, errors) = references.parse(new.base), requirements.parse(new.requirements)
    found = list(errors)
    if reference is None:
        message = Text(f"{new.base[:120]!r} is no image reference.", f"{new.base[:120]!r} 不是镜像引用。")
        found.append(FieldError("/base", "bad_reference", message, Text("For example: python:3.12", "例如：python:3.12")))
    if new.context_sha256:
        message = Text("Only a Containerfile copies from a context.", "只有 Containerfile 会从上下文复制。")
        found.append(FieldError("/context_sha256", "not_for_kind", message))
    if parsed is not None and reference is not None:
        image.base, image.requirements = str(reference), parsed.text
    return found


def _suggestion(tenant_id: uuid.UUID, text: str) -> Text[str]:
    names = list(usable_images(tenant_id).values_list("name", flat=True)[:IMAGES_MAX])
    close = difflib.get_close_matches(text, names, n=1)
    if close:
        return Text(f"Did you mean {close[0]!r}?", f"是否想写 {close[0]!r}？")
    return Text("`berth images` lists what this tenant may use.", "`berth images` 列出此租户可用的镜像。")


def _refused(path: str, code: str, message: Saying, hint: Saying) -> InvalidInput:
    return InvalidInput(message, fields=[FieldError(path, code, message, hint)], hint=hint)


def _name_taken(name: str) -> ImageExists:
    field = FieldError("/name", "taken", Text("The name is taken.", "名称已被占用。"))
    return ImageExists(
        Text(f"There is an image {name!r} already.", f"已有镜像 {name!r}。"),
        fields=[field],
        hint=Text("Choose another name, or delete the other one.", "请换一个名称，或删除已有的。"),
    )


def _as_id(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
