"""The file that a backup is: a plain tar that any tool opens, a manifest first, the checksums of everything last.

A file that was cut off has no checksums and is refused; so is one in which a single byte changed. The file appears under its
name only when it is whole and on the disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

MANIFEST, CHECKSUMS = "manifest.json", "SHA256SUMS"
FORMAT = 1
BLOCK_BYTES = 1024**2

Progress = Callable[[int], None]  # Told how many bytes were moved.


class BackupError(Exception):
    """A backup or restore cannot go on; the message says why and what to do."""


class ArchiveWriter:
    """Writes one backup; leaving the block without an error gives the file its name, with one removes what was written."""

    def __init__(self, path: Path, progress: Progress) -> None:
        self._path = path
        self._part = path.with_name(f".{path.name}.part")
        self._progress = progress
        self._sums: list[str] = []
        self.changed: list[str] = []  # Files that shrank or went while they were read.

    def __enter__(self) -> ArchiveWriter:
        with contextlib.suppress(FileNotFoundError):
            self._part.unlink()
        self._file = os.fdopen(os.open(self._part, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600), "w+b")
        self._tar = tarfile.open(fileobj=self._file, mode="w", format=tarfile.PAX_FORMAT)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None:
            self._file.close()
            self._part.unlink(missing_ok=True)
            return
        self._add(tarfile.TarInfo(CHECKSUMS), "\n".join([*self._sums, ""]).encode())
        self._tar.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def publish(self) -> None:
        """Give the finished file its name, in one step; an older one of that name is replaced."""
        os.replace(self._part, self._path)
        sync_directory(self._path.parent)

    def discard(self) -> None:
        self._part.unlink(missing_ok=True)

    @property
    def part(self) -> Path:
        return self._part

    def add_json(self, name: str, document: Mapping[str, Any]) -> None:
        data = json.dumps(document, indent=1, sort_keys=True).encode()
        self._sums.append(f"{hashlib.sha256(data).hexdigest()}  {name}")
        self._add(tarfile.TarInfo(name), data)

    def add_bytes(self, name: str, data: bytes) -> None:
        self._sums.append(f"{hashlib.sha256(data).hexdigest()}  {name}")
        self._add(tarfile.TarInfo(name), data)

    def add_file(self, name: str, source: Path) -> int:
        """Add one regular file as it is now; returns its size. One that grows meanwhile is taken up to the size it had."""
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise BackupError(f"{source} is no regular file.")
            info = tarfile.TarInfo(name)
            info.size, info.mtime = facts.st_size, facts.st_mtime
            info.mode, info.uid, info.gid = stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid
            reader = _Reader(file, facts.st_size, self._progress)
            self._tar.addfile(info, reader)
        if reader.missing:
            self.changed.append(name)
        self._sums.append(f"{reader.digest.hexdigest()}  {name}")
        return facts.st_size

    def add_link(self, name: str, target: str, facts: os.stat_result) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = tarfile.SYMTYPE, target
        info.uid, info.gid, info.mtime = facts.st_uid, facts.st_gid, facts.st_mtime
        self._tar.addfile(info)

    def add_directory(self, name: str, facts: os.stat_result) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.mode = tarfile.DIRTYPE, stat.S_IMODE(facts.st_mode)
        info.uid, info.gid, info.mtime = facts.st_uid, facts.st_gid, facts.st_mtime
        self._tar.addfile(info)

    def _add(self, info: tarfile.TarInfo, data: bytes) -> None:
        info.size, info.mode = len(data), 0o600
        self._tar.addfile(info, io.BytesIO(data))


class _Reader:
    """Gives exactly `size` bytes of a file and their digest, whatever happens to the file meanwhile."""

    def __init__(self, file: IO[bytes], size: int, progress: Progress) -> None:
        self._file, self._left, self._progress = file, size, progress
        self.digest = hashlib.sha256()
        self.missing = 0

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._file.read(wanted)
        if len(data) < wanted:
            self.missing += wanted - len(data)
            data += bytes(wanted - len(data))
        self._left -= len(data)
        self.digest.update(data)
        self._progress(len(data))
        return data


def verify(path: Path, progress: Progress) -> dict[str, Any]:
    """Read the whole file and compare every byte with its checksum; returns the manifest. Raises BackupError."""
    found: dict[str, str] = {}
    manifest: dict[str, Any] | None = None
    listed: str | None = None
    try:
        with _opened(path) as tar:
            for info in tar:
                if listed is not None:
                    raise BackupError(f"{path} goes on after its checksums: it is no backup of Berth.")
                if not info.isreg():
                    continue
                file = tar.extractfile(info)
                assert file is not None
                if info.name == CHECKSUMS:
                    listed = file.read().decode()
                elif info.name == MANIFEST:
                    data = file.read()
                    manifest, found[info.name] = json.loads(data), hashlib.sha256(data).hexdigest()
                else:
                    found[info.name] = _digest(file, progress)
    except (tarfile.TarError, UnicodeDecodeError, ValueError, EOFError) as error:
        raise BackupError(f"{path} is damaged or no backup of Berth: {error}. Use another backup.") from None
    if manifest is None or listed is None:
        raise BackupError(f"{path} is not complete: it was cut off, or is no backup of Berth. Use another backup.")
    wrong = sorted(_listed(listed) ^ set(found.items()))
    if wrong:
        raise BackupError(f"{path} is damaged: {wrong[0][0]} is not what was backed up. Use another backup.")
    return manifest


def read_manifest(path: Path) -> dict[str, Any]:
    """What the file says of itself, unchecked: enough to decide whether it is worth reading all of it."""
    try:
        with _opened(path) as tar:
            info = tar.next()
            file = tar.extractfile(info) if info is not None and info.name == MANIFEST else None
            if file is not None:
                found: dict[str, Any] = json.loads(file.read(BLOCK_BYTES))
                return found
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise BackupError(f"{path} is damaged or no backup of Berth: {error}.") from None
    raise BackupError(f"{path} is no backup of Berth: it does not begin with {MANIFEST}.")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        tar = tarfile.open(path, mode="r:")  # noqa: SIM115 - closed below.
    except OSError as error:
        raise BackupError(f"{path} cannot be read: {error.strerror or error}.") from None
    with tar:
        yield tar


def members(path: Path) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """All members in order, regular ones with their content. Only for files that `verify` has passed."""
    with _opened(path) as tar:
        for info in tar:
            yield info, tar.extractfile(info) if info.isreg() else None


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _listed(text: str) -> set[tuple[str, str]]:
    return {(name, digest) for digest, _, name in (line.partition("  ") for line in text.splitlines() if line)}


def _digest(file: IO[bytes], progress: Progress) -> str:
    digest = hashlib.sha256()
    while block := file.read(BLOCK_BYTES):
        digest.update(block)
        progress(len(block))
    return digest.hexdigest()
