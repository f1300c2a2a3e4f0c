"""Code snapshots: archives known by their digest inside one tenant, checked once and never changed."""

from __future__ import annotations

import contextlib
import os
import uuid
from datetime import datetime
from pathlib import Path

from clusters.engines.interface import CodeRef
from kernel.config import current
from kernel.errors import FieldError, InvalidInput
from reconciling import bulk
from storage.archives import check_archive
from storage.models import CodeSnapshot, Upload
from tenants.selectors import tenant_facts


def resolve_code(*, tenant_id: uuid.UUID, digest: str, path: str = "/code/sha256") -> CodeRef:
    """The snapshot with this digest as an engine takes it. InvalidInput if the tenant has none."""
    snapshot = CodeSnapshot.objects.filter(tenant_id=tenant_id, digest=digest).first()
    if snapshot is None:
        message = f"The tenant has no code with the digest {digest[:64]!r}."
        hint = "Upload the archive first (`POST /api/v1/uploads` with `code`); `berth submit` does it by itself."
        raise InvalidInput(message, fields=[FieldError(path, "not_found", message, hint)], hint=hint)
    return CodeRef(digest=snapshot.digest, location=snapshot.location)


def store_snapshot(upload: Upload, file: Path, *, now: datetime) -> None:
    """Check an uploaded archive whose digest is right, and keep it. Storing the same one twice is fine. BadArchive refuses it."""
    with file.open("rb") as packed:
        facts = check_archive(packed, size_bytes=upload.size_bytes)
    number = tenant_facts([upload.tenant_id])[upload.tenant_id].number
    folder = current().data_dir / "code" / str(number)
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    place = folder / f"{upload.sha256}.tar.gz"
    # A link, not a move: after a crash the upload still finds its file and comes here again.
    with contextlib.suppress(FileExistsError):
        os.link(file, place)
    place.chmod(0o440)
    _sync(folder)
    bulk.insert(
        CodeSnapshot,
        [
            {
                "id": upload.id,
                "tenant_id": upload.tenant_id,
                "digest": upload.sha256,
                "size_bytes": upload.size_bytes,
                "unpacked_bytes": facts.unpacked_bytes,
                "file_count": facts.file_count,
                "location": str(place),
                "created_by_id": upload.created_by_id,
                "created_at": now,
            }
        ],
        ignore_conflicts=True,
    )


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
