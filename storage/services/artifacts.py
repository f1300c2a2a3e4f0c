"""Brings home what an attempt left in its declared outputs: copied, with size and digest, before the engine forgets it."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.db import transaction

from clusters.engines.interface import Engine, EngineUnreachable, OutputFile, OutputsLost, SupportsOutputs
from kernel.config import current
from kernel.crashpoints import crashpoint
from kernel.errors import StorageFull
from kernel.file_names import is_text
from kernel.ids import new_id
from reconciling import bulk
from storage import bounds, space
from storage.models import PATH_LENGTH, Artifact, ArtifactCollection

_ROWS_AT_ONCE = 200
_NO_OUTPUTS = "this cluster cannot give files back; write results into a volume"


@dataclass(frozen=True, slots=True)
class OutputSource:
    """A finished attempt whose outputs are wanted."""

    tenant_id: uuid.UUID
    job_id: uuid.UUID
    attempt_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class Collected:
    """`done` False: time is up, call again. `marker` says in words what was left behind, if anything."""

    done: bool
    file_count: int
    size_bytes: int
    skipped_count: int = 0
    skipped_bytes: int = 0
    marker: str = ""


def collect_outputs(
    engine: Engine,
    source: OutputSource,
    paths: Sequence[str],
    *,
    now: datetime,
    seconds_max: float = 30.0,
    accept_full_disk: bool = False,
) -> Collected:
    """Copy an attempt's outputs into the store. Called again it goes on where it was; a finished collection stays as it is.

    Not to be called inside a transaction. StorageFull, unless `accept_full_disk`: then what has no room is left behind.
    EngineUnreachable passes through; nothing is lost by calling again.
    """
    finished = ArtifactCollection.objects.filter(attempt_id=source.attempt_id).first()
    if finished is not None:
        return _as_collected(finished)
    if not paths:
        return _close(source, _Tally(), now=now)
    if not isinstance(engine, SupportsOutputs):
        return _close(source, _Tally(note=_NO_OUTPUTS), now=now)
    tally = _Tally()
    deadline = time.monotonic() + seconds_max
    have = dict(Artifact.objects.filter(attempt_id=source.attempt_id).values_list("path", "size_bytes"))
    rows: list[dict[str, Any]] = []
    tried = 0  # Every round brings at least one file home.
    try:
        try:
            listed = engine.list_outputs(source.attempt_id, paths)
        except OutputsLost as lost:
            listed, tally.notes = lost.files, [str(lost)]
        files = sorted(listed, key=lambda found: found.path)
        tally.notes = tally.notes or _missing(paths, files)
        for file in files:
            if file.path in have:
                tally.add(have[file.path])
                continue
            if tried and time.monotonic() > deadline:
                return Collected(False, tally.file_count, tally.size_bytes)
            tried += 1
            row = _collect(engine, source, file, tally, now=now, accept_full_disk=accept_full_disk)
            if row is not None:
                rows.append(row)
            if len(rows) >= _ROWS_AT_ONCE:
                _store(rows)
    finally:
        _store(rows)
    return _close(source, tally, now=now)


def close_without_outputs(sources: Sequence[OutputSource], *, now: datetime) -> None:
    """Write down, for all these attempts at once, that they left nothing because nothing was wanted; twice is harmless.

    One statement, whatever their number, in the caller's transaction.
    """
    _insert_closed([(source, _Tally()) for source in sources], now=now)


def _missing(paths: Sequence[str], files: Sequence[OutputFile]) -> list[str]:
    """Declared outputs at which nothing was found: said once the job has ended, because a typo there costs a whole run."""
    found = [path for path in paths if not any(_is_below(file.path, path) for file in files)]
    return [f"there was no file at {', '.join(path[:80] for path in found[:10])}"] if found else []


def _is_below(path: str, declared: str) -> bool:
    """Whether a file is at, below or matches a declared path; the engine decides, this only words what is missing."""
    wanted = "/".join(part for part in declared.split("/") if part not in ("", "."))
    return not wanted or path == wanted or path.startswith(f"{wanted}/") or fnmatch.fnmatchcase(path, f"{wanted}*")


def remove_old_artifacts(*, now: datetime, kept: timedelta = bounds.ARTIFACT_KEPT, limit: int = 100) -> int:
    """Remove artifacts of collections older than `kept`; gives how many attempts. Sweeps call it."""
    rows = ArtifactCollection.objects.filter(removed_at__isnull=True, collected_at__lt=now - kept).order_by("collected_at")
    old = list(rows[:limit])
    for collection in old:
        shutil.rmtree(_folder(collection.tenant_id, collection.attempt_id), ignore_errors=True)
        Artifact.objects.filter(attempt_id=collection.attempt_id).delete()
        ArtifactCollection.objects.filter(attempt_id=collection.attempt_id).update(removed_at=now)
    return len(old)


class _Tally:
    """What was kept and what was left behind, with the reasons."""

    def __init__(self, *, note: str = "") -> None:
        self.file_count = self.size_bytes = self.skipped_count = self.skipped_bytes = 0
        self.notes = [note] if note else []
        self.reasons: dict[str, int] = {}

    def add(self, size_bytes: int) -> None:
        self.file_count += 1
        self.size_bytes += size_bytes

    def skip(self, size_bytes: int, reason: str) -> None:
        self.skipped_count += 1
        self.skipped_bytes += size_bytes
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    @property
    def marker(self) -> str:
        words = [f"{count} because {reason}" for reason, count in self.reasons.items()]
        left = [f"{self.skipped_count:,} file(s) of {self.skipped_bytes:,} bytes were left behind: {', '.join(words)}"]
        return "; ".join([*(left if words else []), *self.notes])[:500]


def _collect(
    engine: SupportsOutputs, source: OutputSource, file: OutputFile, tally: _Tally, *, now: datetime, accept_full_disk: bool
) -> dict[str, Any] | None:
    """Copy one file and give its row; None if it is left behind, which the tally then says."""
    reason = _refusal(file, tally)
    if reason is None:
        artifact_id = new_id()
        place = _folder(source.tenant_id, source.attempt_id) / str(artifact_id)
        room = current().artifact_quota_bytes - tally.size_bytes
        try:
            if not accept_full_disk:
                space.require_room(file.size_bytes, what=f"The output {file.path[:200]}")
            descriptor = engine.open_output(source.attempt_id, file.path)
            size, digest = _copy(descriptor, place, room=room)
            if size < file.size_bytes:
                place.unlink(missing_ok=True)
                raise EngineUnreachable(f"Only {size:,} of {file.size_bytes:,} bytes of the output {file.path[:200]} came.")
            crashpoint("storage.outputs.after_copy")
            tally.add(size)
            return {
                "id": artifact_id,
                "tenant_id": source.tenant_id,
                "job_id": source.job_id,
                "attempt_id": source.attempt_id,
                "path": file.path,
                "size_bytes": size,
                "mode": file.mode & 0o777,
                "sha256": digest,
                "location": str(place),
                "created_at": now,
            }
        except (FileNotFoundError, PermissionError, _TooLong) as error:
            place.unlink(missing_ok=True)
            reason = "they do not fit into the quota" if isinstance(error, _TooLong) else "they could not be read"
        except StorageFull:
            place.unlink(missing_ok=True)
            if not accept_full_disk:
                raise
            reason = "the server's disk is full"
    tally.skip(file.size_bytes, reason)
    return None


def _refusal(file: OutputFile, tally: _Tally) -> str | None:
    quota = current().artifact_quota_bytes
    if tally.file_count >= bounds.ARTIFACT_FILES_MAX:
        return f"an attempt keeps at most {bounds.ARTIFACT_FILES_MAX:,} files"
    if tally.size_bytes + file.size_bytes > quota:
        return f"an attempt keeps at most {quota:,} bytes"
    is_whole = is_text(file.path) and 0 < len(file.path) <= PATH_LENGTH
    if not is_whole or ".." in file.path.split("/") or file.path[0] == "/":
        return "their names cannot be kept"
    return None


class _TooLong(Exception):
    """The file grew past the quota while it was copied."""


def _copy(descriptor: int, place: Path, *, room: int) -> tuple[int, str]:
    """Copy what an open file holds now; its size and digest are those of the copy."""
    digest, size = hashlib.sha256(), 0
    with os.fdopen(descriptor, "rb", buffering=0) as given, space.full_disk_is_told("an output"):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        target = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(target, "wb", buffering=0) as kept:
            while piece := given.read(bounds.COPY_BYTES):
                size += len(piece)
                if size > room:
                    raise _TooLong
                digest.update(piece)
                left = memoryview(piece)
                while left:  # A disk that becomes full takes a part first, and says so only when it is asked again.
                    left = left[kept.write(left) :]
            os.fdatasync(kept.fileno())
    return size, digest.hexdigest()


def _store(rows: list[dict[str, Any]]) -> None:
    """Write rows of copied files; where a second collector was faster with a path, its copy stays and ours goes."""
    if not rows:
        return
    with transaction.atomic():
        inserted = bulk.insert(Artifact, rows, ignore_conflicts=True)
    if inserted < len(rows):
        ids = [row["id"] for row in rows]
        kept = set(Artifact.objects.filter(id__in=ids).values_list("id", flat=True))
        for row in rows:
            if row["id"] not in kept:
                Path(row["location"]).unlink(missing_ok=True)
    rows.clear()


def _close(source: OutputSource, tally: _Tally, *, now: datetime) -> Collected:
    with transaction.atomic():
        _insert_closed([(source, tally)], now=now)
    _remove_strays(source)
    return _as_collected(ArtifactCollection.objects.get(attempt_id=source.attempt_id))


def _insert_closed(closed: Sequence[tuple[OutputSource, _Tally]], *, now: datetime) -> None:
    bulk.insert(
        ArtifactCollection,
        [
            {
                "attempt_id": source.attempt_id,
                "job_id": source.job_id,
                "tenant_id": source.tenant_id,
                "file_count": tally.file_count,
                "size_bytes": tally.size_bytes,
                "skipped_count": tally.skipped_count,
                "skipped_bytes": tally.skipped_bytes,
                "marker": tally.marker,
                "collected_at": now,
            }
            for source, tally in closed
        ],
        ignore_conflicts=True,
    )


def _remove_strays(source: OutputSource) -> None:
    """Drop copies that no row names: left by a crash between a copy and its row."""
    known = {str(found) for found in Artifact.objects.filter(attempt_id=source.attempt_id).values_list("id", flat=True)}
    for path in _files(_folder(source.tenant_id, source.attempt_id)):
        if path.name not in known:
            path.unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[Path]:
    return iter(list(folder.iterdir()) if folder.is_dir() else [])


def _folder(tenant_id: uuid.UUID, attempt_id: uuid.UUID) -> Path:
    return current().data_dir / "artifacts" / str(tenant_id) / str(attempt_id)


def _as_collected(row: ArtifactCollection) -> Collected:
    return Collected(True, row.file_count, row.size_bytes, row.skipped_count, row.skipped_bytes, row.marker)
