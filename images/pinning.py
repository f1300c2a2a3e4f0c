"""From a reference to one content: at submission, where the user waits for it, and at the start, where it is not known yet.

What the registry refuses is refused. A registry that does not answer refuses nothing: the job is accepted, and its image is
looked up when it starts; where even then nothing answers, the engine pulls by the tag, and says what it finds.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from clusters.engines.interface import ImageKind
from clusters.registries import references
from images import containerfile
from images.builder import missing_packages
from images.errors import BuilderMissing, RegistryFailure
from images.registry import look_up
from images.services.builds import check_allowed
from images.services.catalogue import NewImage, ResolvedImage, problems_with
from kernel.config import current
from kernel.errors import FieldError, InvalidInput
from kernel.words import Text


def pin(*, tenant_id: uuid.UUID, image: ResolvedImage, path: str = "/image") -> tuple[ResolvedImage, Text[str] | None]:
    """The image at the content that its registry has now, and a warning where that could not be asked; None if it could.

    InvalidInput with the registry's refusal. Other kinds of images are what they are; one that is still being built is looked up
    when the job starts.
    """
    if image.kind != ImageKind.REGISTRY or not image.is_ready or not current().registry_seconds:
        return image, None
    reference = references.parse(image.location)
    assert reference is not None, "the catalogue holds references that were parsed"
    try:
        found = look_up(tenant_id=tenant_id, reference=reference)
    except RegistryFailure as failure:
        if not failure.retryable:
            raise InvalidInput(
                failure.detail_text,
                hint=failure.hint_text,
                fields=[FieldError(path, failure.code, failure.detail_text, failure.hint_text)],
            ) from None
        warning = Text(
            f"{failure.detail} The image is checked when the job starts.", f"{failure.detail_text.zh}作业启动时会检查该镜像。"
        )
        return image, None if image.is_pinned else warning
    return replace(image, digest=found.digest, cuda=found.cuda), None


def pin_at_start(*, tenant_id: uuid.UUID, location: str, digest: str) -> tuple[str, bool]:
    """The digest to run, "" if none is known, and whether the registry has confirmed it for this tenant.

    `digest` is what was found at submission. RegistryFailure where the registry refuses the image.
    """
    reference = references.parse(location)
    assert reference is not None, "jobs hold references that were parsed"
    if not current().registry_seconds or (digest and not reference.is_pinned):
        return digest, True
    try:
        return look_up(tenant_id=tenant_id, reference=reference).digest, True
    except RegistryFailure as failure:
        if not failure.retryable:
            raise
        return digest, False


def check_container_build(*, tenant_id: uuid.UUID, new: NewImage) -> None:
    """Refuse what registries refuse of the images that a build would start from, and a registry that nothing may be pushed to.

    InvalidInput with all of it, and with what is wrong with the image by itself. A registry that does not answer is asked again
    by the build. BuilderMissing where builds run on this host, and it lacks a program. Not for transactions: a registry
    may be slow.
    """
    if not (new.containerfile or new.base):
        return
    if not current().is_production and (missing := missing_packages()):
        names = ", ".join(missing)
        raise BuilderMissing(
            Text(
                f"The machine of this platform cannot build container images. Debian packages that it lacks: {names}.",
                f"本平台所在的机器无法构建容器镜像，缺少 Debian 软件包：{names}。",
            ),
            hint=Text(
                f"Ask an operator to run `apt-get install {' '.join(missing)}` there.",
                f"请运维人员在该机器上运行 `apt-get install {' '.join(missing)}`。",
            ),
        )
    target, base = references.parse(new.reference), references.parse(new.base) if new.base else None
    parsed = containerfile.parse(new.containerfile)[0] if new.containerfile else None
    errors = problems_with(tenant_id, new)
    if target is not None:
        errors += _refusals("/reference", "", partial(check_allowed, target.host.lower()))
    if current().registry_seconds:
        if base is not None:
            errors += _refusals("/base", "", partial(look_up, tenant_id=tenant_id, reference=base))
        for found in parsed.bases if parsed is not None else ():
            errors += _refusals("/containerfile", f"{found}: ", partial(look_up, tenant_id=tenant_id, reference=found))
    if errors:
        raise InvalidInput(errors[0].message, fields=errors, hint=errors[0].hint)


def _refusals(path: str, prefix: str, ask: Callable[[], object]) -> list[FieldError]:
    try:
        ask()
    except RegistryFailure as failure:
        words = failure.detail_text
        message = Text(prefix + words.en, prefix + words.zh)
        return [] if failure.retryable else [FieldError(path, failure.code, message, failure.hint_text)]
    return []


def host_of(location: str) -> str:
    """The registry of a reference, as accounts name it; "" for what is no reference."""
    reference = references.parse(location)
    return "" if reference is None else reference.host.lower()


def pinned_location(location: str, digest: str) -> str:
    """A reference with the digest that it is to have; as it stands without one."""
    reference = references.parse(location)
    return location if reference is None or not digest else str(reference.pinned(digest))
