"""Valid rows of `images`, environments and packages for them, with the least said."""

from __future__ import annotations

import json
import shutil
import uuid
import zipfile
from pathlib import Path
from typing import Any

from images.builder import MANIFEST
from images.models import Image
from images.services import NewImage, build_finished, build_started, create_image, pending_builds
from kernel.ids import new_id
from tests.factories.tenants import SYSTEM, now


def make_image(tenant: Any, name: str = "env", *, requirements: str = "numpy\n") -> Image:
    """A Python environment that waits for its build."""
    new = NewImage(name=name, kind="python", requirements=requirements)
    return create_image(actor=SYSTEM, tenant_id=tenant.pk, new=new, now=now())


def make_registry_image(tenant: Any, name: str = "train", reference: str = "registry.example.org/vision/train:1.2") -> Image:
    return create_image(
        actor=SYSTEM,
        tenant_id=None if tenant is None else tenant.pk,
        new=NewImage(name=name, kind="registry", reference=reference),
        now=now(),
    )


def request_of(image: Image) -> uuid.UUID:
    """The pending build of an image."""
    return next(
        build.id for build in pending_builds(1_000) if build.digest == image.digest and build.tenant_id == image.tenant_id
    )


def fill_environment(image: Image, manifest: Any = None) -> Path:
    """Put at the image's place what a build leaves there."""
    place = Path(image.location)
    shutil.rmtree(place, ignore_errors=True)  # A real one holds links to the system's own interpreter.
    (place / "bin").mkdir(parents=True)
    (place / "bin/python").write_text("#!/bin/sh\n")
    (place / "bin/python").chmod(0o755)
    content = manifest if manifest is not None else a_manifest()
    (place / MANIFEST).write_text(content if isinstance(content, str) else json.dumps(content))
    return place


def a_manifest(**more: Any) -> dict[str, Any]:
    return {"format": 1, "python": "3.11.2", "size_bytes": 1234, "packages": [{"name": "numpy", "version": "2.4.6"}], **more}


def make_ready_image(tenant: Any, name: str = "env", **more: Any) -> Image:
    """A Python environment that is built and sealed."""
    image = make_image(tenant, name, **more)
    if image.state != "ready":
        request_id = request_of(image)
        build_started(request_id, job_id=new_id(), now=now())
        fill_environment(image)
        build_finished(request_id, succeeded=True, reason="", now=now())
        image.refresh_from_db()
    return image


def a_wheel(folder: Path, name: str, version: str = "1.0", *, requires: tuple[str, ...] = ()) -> Path:
    """A package that pip can install without any network."""
    info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *(f"Requires-Dist: {other}" for other in requires)]
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        wheel.writestr(f"{info}/METADATA", "\n".join(metadata) + "\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return path
