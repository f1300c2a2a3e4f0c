"""Valid rows and files of `storage`, with the least said."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clusters.engines.interface import LogChunk, LogChunks, LogCursor, OutputFile, Stream, TaskName
from kernel.actor import Actor
from kernel.ids import new_id
from storage.checkpoint_files import measure, prepare
from storage.logs import LogSource
from storage.models import Checkpoint, Upload, Volume
from storage.services.checkpoints import location_of
from storage.services.uploads import NewUpload, start_upload
from storage.services.volumes import NewVolume, create_volume
from tests.factories.tenants import SYSTEM, now

WORKER = TaskName("worker", 0)


def a_log_source(*, tasks: Sequence[TaskName] = (WORKER,), tenant_id: uuid.UUID | None = None) -> LogSource:
    """An attempt with tasks, known to nobody else."""
    return LogSource(tenant_id or new_id(), new_id(), new_id(), tuple(tasks))


@dataclass
class PrintingEngine:
    """Answers `logs` from byte strings, in chunks of any size, with gaps where a test cuts them out."""

    chunk_bytes: int = 64 * 1024
    output: dict[tuple[TaskName, Stream], bytes] = field(default_factory=dict)
    ended: bool = False
    gaps: list[tuple[int, int, str]] = field(default_factory=list)  # From, to, marker.
    calls: int = 0

    def prints(self, data: bytes, *, task: TaskName = WORKER, stream: Stream = Stream.OUT) -> PrintingEngine:
        self.output[(task, stream)] = self.output.get((task, stream), b"") + data
        return self

    def logs(self, attempt: uuid.UUID, task: TaskName, stream: Stream, cursor: LogCursor | None) -> LogChunks:
        self.calls += 1
        data, position = self.output.get((task, stream), b""), cursor or 0
        for start, end, marker in self.gaps:
            if start <= position < end:
                return LogChunks((LogChunk(position, b"", marker, end - position),), end, False)
        border = min([start for start, _, _ in self.gaps if start > position], default=len(data))
        piece = data[position : min(border, position + self.chunk_bytes)]
        reached = position + len(piece)
        chunks = (LogChunk(position, piece),) if piece else ()
        return LogChunks(chunks, reached, self.ended and reached >= len(data))


def an_archive(
    files: Mapping[str, bytes] | None = None, *, members: Sequence[tarfile.TarInfo] = (), compress: bool = True
) -> bytes:
    """A tar archive, gzipped, of these files and then these raw members."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in ({"train.py": b"print('hello')\n"} if files is None else files).items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        for member in members:
            archive.addfile(member, io.BytesIO(b"\0" * member.size) if member.size else None)
    return gzip.compress(packed.getvalue(), mtime=0) if compress else packed.getvalue()


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class OutputsEngine:
    """Has files of a finished attempt to give, as `SupportsOutputs`."""

    files: dict[str, bytes] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    grows: dict[str, bytes] = field(default_factory=dict)  # What a file holds when it is opened, if not what was listed.

    def list_outputs(self, attempt: uuid.UUID, paths: Sequence[str]) -> Sequence[OutputFile]:
        return [
            OutputFile(path, len(data), self.modes.get(path, 0o644))
            for path, data in sorted(self.files.items())
            if any(path == wanted or path.startswith(f"{wanted.rstrip('/')}/") for wanted in paths)
        ]

    def open_output(self, attempt: uuid.UUID, path: str) -> int:
        if path not in self.files:
            raise FileNotFoundError(path)
        with tempfile.TemporaryFile() as file:
            file.write(self.grows.get(path, self.files[path]))
            file.flush()
            descriptor = os.dup(file.fileno())
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor


def make_volume(tenant: Any, name: str = "data", **more: Any) -> Volume:
    """A volume of a tenant, with its directory, as the product makes it."""
    return create_volume(actor=SYSTEM, tenant_id=tenant.pk, new=NewVolume(name=name, **more), now=now())


def a_file_in(volume: Volume, path: str, data: bytes) -> Path:
    """Put a file straight into a volume's directory, owned by whoever runs the tests."""
    place = Path(volume.location) / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    place.chmod(0o664)
    for folder in place.relative_to(volume.location).parents:
        (Path(volume.location) / folder).chmod(0o2777)
    return place


def an_upload(tenant: Any, data: bytes, *, actor: Actor = SYSTEM, **more: Any) -> Upload:
    """An announced upload of code, or of a file when `volume` and `path` are given."""
    new = NewUpload(size_bytes=len(data), sha256=sha256_of(data), **more)
    started = start_upload(actor=actor, tenant_id=tenant.pk, new=new, now=now())
    assert started.upload is not None
    return started.upload


def a_checkpoint_of(job: Any, files: Mapping[str, bytes]) -> Path:
    """What an attempt of the job left in the directory that it keeps, owned by its tenant, measured a moment ago."""
    kept = Checkpoint(job_id=job.pk, tenant_id=job.tenant_id, location=location_of(job.tenant_id, job.pk))
    prepare(kept)
    place = Path(kept.location)
    owner = place.stat()
    for path, data in files.items():
        file = place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        for made in (file, *(place / folder for folder in file.relative_to(place).parents)):
            os.chown(made, owner.st_uid, owner.st_gid)
    found = measure(kept, depth=1)
    kept.saved_at, kept.size_bytes, kept.file_count, kept.checked_at = found.saved_at, found.size_bytes, found.file_count, now()
    kept.save(force_insert=True)
    return place
