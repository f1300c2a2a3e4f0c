"""Code snapshots: archives known by their digest inside one tenant, checked once and never changed."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO

from clusters.engines.interface import CodeRef
from kernel.config import current
from kernel.errors import FieldError, InvalidInput
from kernel.ids import new_id
from kernel.words import Text
from reconciling import bulk
from storage.archives import BadArchive, check_archive
from storage.git_trees import PROOF_BYTES_MAX, check_tree
from storage.models import Artifact, CodeSnapshot, GitCommit, Upload
from tenants.selectors import tenant_facts

COMMIT_LENGTH_MAX = 64  # SHA-256 repositories.
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def resolve_code(*, tenant_id: uuid.UUID, digest: str, path: str = "/code/sha256") -> CodeRef:
    """The snapshot with this digest as an engine takes it. InvalidInput if the tenant has none."""
    snapshot = CodeSnapshot.objects.filter(tenant_id=tenant_id, digest=digest).first()
    if snapshot is None:
        message = Text(f"The tenant has no code with the digest {digest[:64]!r}.", f"租户没有摘要为 {digest[:64]!r} 的代码。")
        hint = Text(
            "Upload the archive first (`POST /api/v1/uploads` with `code`); `berth submit` does it by itself.",
            "请先上传归档（`POST /api/v1/uploads`，带 `code`）；`berth submit` 会自动完成。",
        )
        raise InvalidInput(message, fields=[FieldError(path, "not_found", message, hint)], hint=hint)
    return CodeRef(digest=snapshot.digest, location=snapshot.location)


@dataclass(frozen=True, slots=True)
class FetchedCode:
    """A snapshot of one commit."""

    digest: str
    commit: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """Paths of the outputs of a fetch: the packed tree, the commit's name, its object, and the list of its files."""

    archive: str
    commit: str
    commit_object: str
    listing: str


def store_snapshot(upload: Upload, file: Path, *, now: datetime) -> None:
    """Check an uploaded archive whose digest is right, and keep it. Storing the same one twice is fine. BadArchive refuses it."""
    _keep(
        file, tenant_id=upload.tenant_id, digest=upload.sha256, size_bytes=upload.size_bytes, user_id=upload.created_by_id,
        snapshot_id=upload.id, now=now,
    )  # fmt: skip


def find_commit(tenant_id: uuid.UUID, *, url: str, commit: str) -> FetchedCode | None:
    """The snapshot of a commit that the tenant has fetched before and still has."""
    digests = GitCommit.objects.filter(tenant_id=tenant_id, url=url, commit=commit).values("digest")
    found = CodeSnapshot.objects.filter(tenant_id=tenant_id, digest__in=digests).values_list("digest", flat=True).first()
    return None if found is None else FetchedCode(found, commit)


def keep_fetched(
    *, tenant_id: uuid.UUID, user_id: uuid.UUID, attempt_id: uuid.UUID, fetched: Fetched, url: str, now: datetime
) -> FetchedCode:
    """Make a snapshot of what an attempt fetched, once it is the tree of the commit that it names. Twice is fine.

    Not to be called inside a transaction. InvalidInput where the outputs are not there, or not what they should be.
    """
    paths = (fetched.archive, fetched.commit, fetched.commit_object, fetched.listing)
    files = {row.path: row for row in Artifact.objects.filter(attempt_id=attempt_id, path__in=paths)}
    if len(files) < len(paths):
        raise BadArchive(
            Text("The fetch left no archive.", "获取代码后没有得到归档文件。"), hint=Text("Read its log.", "请查看其日志。")
        )
    packed = files[fetched.archive]
    name = _start_of(files[fetched.commit], COMMIT_LENGTH_MAX).decode("ascii", "replace").strip()
    if not _COMMIT.fullmatch(name):
        raise BadArchive(
            Text("The fetch did not say which commit it fetched.", "获取代码时没有说明是哪个提交。"),
            hint=Text("Read its log.", "请查看其日志。"),
        )
    _keep(
        Path(packed.location), tenant_id=tenant_id, digest=packed.sha256, size_bytes=packed.size_bytes, user_id=user_id,
        snapshot_id=packed.id, now=now, check=partial(
            check_tree,
            commit=name,
            commit_object=_start_of(files[fetched.commit_object], PROOF_BYTES_MAX),
            listing=_start_of(files[fetched.listing], PROOF_BYTES_MAX),
        ),
    )  # fmt: skip
    row = {"id": new_id(), "tenant_id": tenant_id, "url": url, "commit": name, "digest": packed.sha256, "created_at": now}
    bulk.insert(GitCommit, [row], ignore_conflicts=True)
    return FetchedCode(packed.sha256, name)


def _start_of(output: Artifact, size: int) -> bytes:
    with Path(output.location).open("rb") as file:
        return file.read(size)


def _keep(
    file: Path,
    *,
    tenant_id: uuid.UUID,
    digest: str,
    size_bytes: int,
    user_id: uuid.UUID | None,
    snapshot_id: uuid.UUID,
    now: datetime,
    check: Callable[[BinaryIO], None] | None = None,
) -> None:
    """Check an archive, by `check` too, and link it into the tenant's store, with its row."""
    with file.open("rb") as packed:
        facts = check_archive(packed, size_bytes=size_bytes)
        if check is not None:
            packed.seek(0)
            check(packed)
    number = tenant_facts([tenant_id])[tenant_id].number
    folder = current().data_dir / "code" / str(number)
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    place = folder / f"{digest}.tar.gz"
    # A link, not a move: after a crash the upload still finds its file and comes here again.
    with contextlib.suppress(FileExistsError):
        os.link(file, place)
    place.chmod(0o440)
    _sync(folder)
    bulk.insert(
        CodeSnapshot,
        [
            {
                "id": snapshot_id,
                "tenant_id": tenant_id,
                "digest": digest,
                "size_bytes": size_bytes,
                "unpacked_bytes": facts.unpacked_bytes,
                "file_count": facts.file_count,
                "location": str(place),
                "created_by_id": user_id,
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
