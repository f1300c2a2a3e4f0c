"""Where log bytes lie: one append-only file per stream of a task, behind an interface that an object store fits as well.

Bytes are durable before any row speaks of them. A write says its position, so that a repeated write changes nothing, and
readers never look beyond the length that the rows give: what a crash left behind is overwritten by the next pass.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from clusters.engines.interface import Stream, TaskName
from kernel.config import current

_ROLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class AttemptKey:
    """Whose log it is; the store keeps tenants and jobs in folders of their own."""

    tenant_id: uuid.UUID
    job_id: uuid.UUID
    attempt_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class StreamKey:
    """One stream of one task of one attempt."""

    attempt: AttemptKey
    task: TaskName
    stream: Stream


class LogStore(Protocol):
    """Keeps bytes by stream and position."""

    def write(self, key: StreamKey, position: int, data: bytes) -> None:
        """Keep `data` at `position`, durably before it returns. The same write again changes nothing."""
        ...

    def read(self, key: StreamKey, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end`, fewer where the store has no more."""
        ...

    def remove(self, attempt: AttemptKey) -> None:
        """Drop everything of an attempt; it may be gone already."""
        ...


class FileLogStore:
    """Files below one directory, readable for the service user only."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, key: StreamKey, position: int, data: bytes) -> None:
        path = self._path(key)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            descriptor = self._create(path)
        with _closing(descriptor):
            view = memoryview(data)
            while view:
                written = os.pwrite(descriptor, view, position)
                position, view = position + written, view[written:]
            os.fdatasync(descriptor)

    def read(self, key: StreamKey, start: int, end: int) -> bytes:
        try:
            descriptor = os.open(self._path(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        with _closing(descriptor):
            pieces: list[bytes] = []
            while start < end:
                piece = os.pread(descriptor, end - start, start)
                if not piece:
                    break
                pieces.append(piece)
                start += len(piece)
        return b"".join(pieces)

    def remove(self, attempt: AttemptKey) -> None:
        folder = self._folder(attempt)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)
        for parent in (folder.parent, folder.parent.parent):
            with contextlib.suppress(OSError):  # Other attempts are still in it.
                parent.rmdir()

    def _folder(self, attempt: AttemptKey) -> Path:
        return self._root / str(attempt.tenant_id) / str(attempt.job_id) / str(attempt.attempt_id)

    def _path(self, key: StreamKey) -> Path:
        if not _ROLE.fullmatch(key.task.role):
            raise AssertionError(f"{key.task.role!r} cannot be part of a file name")
        return self._folder(key.attempt) / f"{key.task.role}-{int(key.task.index)}.{Stream(key.stream).value}"

    def _create(self, path: Path) -> int:
        """Make the file and its folders, and make their names durable too."""
        missing = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        for folder in {path.parent, *(folder.parent for folder in missing)}:
            _sync_folder(folder)
        return descriptor


def default_store() -> LogStore:
    """The store of this installation: files in its data directory."""
    return FileLogStore(current().data_dir / "logs")


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    with _closing(descriptor):
        os.fsync(descriptor)
