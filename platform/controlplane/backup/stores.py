"""The folders of the data directory that a backup can hold beside the database, and how they come back.

A store only ever gains what is missing: what lies there may be newer than the backup, and jobs may be writing it right now.
Files of tenants are data: a link among them is stored as a link and never followed.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from controlplane.backup.archive import ArchiveWriter, BackupError, Progress

# Name -> depth of the folders that come back whole or not at all: a file deleted from a volume shall stay deleted.
STORES = {"code": 0, "logs": 0, "artifacts": 0, "volumes": 1, "images": 1, "checkpoints": 2}
DEFAULT = ("code",)
OF_TENANTS = frozenset({"volumes", "images", "checkpoints"})  # Only root reads what belongs to the users of tenants.


@dataclass(frozen=True, slots=True)
class StoreSize:
    """What a store holds now. `unreadable` counts folders that this user may not look into."""

    name: str
    files: int
    bytes: int
    unreadable: int


def measure(data_dir: Path, name: str) -> StoreSize:
    """Walk a store and count; nothing is opened."""
    files = size = unreadable = 0

    def failed(error: OSError) -> None:
        nonlocal unreadable
        unreadable += not isinstance(error, FileNotFoundError)

    for folder, _, names in os.walk(data_dir / name, onerror=failed):
        for each in names:
            with contextlib.suppress(FileNotFoundError):
                facts = os.lstat(os.path.join(folder, each))
                if stat.S_ISREG(facts.st_mode):
                    files += 1
                    size += facts.st_size
    return StoreSize(name, files, size, unreadable)


def add_store(archive: ArchiveWriter, data_dir: Path, name: str) -> StoreSize:
    """Put a store into the archive as it is now. What appears or goes meanwhile may or may not be in it."""
    files = size = unreadable = 0
    for path, facts in _entries(data_dir / name):
        member = f"stores/{path.relative_to(data_dir)}"
        try:
            if stat.S_ISDIR(facts.st_mode):
                archive.add_directory(member, facts)
            elif stat.S_ISLNK(facts.st_mode):
                archive.add_link(member, os.readlink(path), facts)
            elif stat.S_ISREG(facts.st_mode):
                size += archive.add_file(member, path)
                files += 1
        except FileNotFoundError:
            continue  # Removed while we looked.
        except PermissionError:
            unreadable += 1
    return StoreSize(name, files, size, unreadable)


def _entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Everything below a folder, parents first; folders that we may not read are passed over."""
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    for name in names:
        path = folder / name
        try:
            facts = os.lstat(path)
        except FileNotFoundError:
            continue
        yield path, facts
        if stat.S_ISDIR(facts.st_mode):
            yield from _entries(path)


class StoreReader:
    """Brings members of an archive back into the data directory, as far as they are missing there."""

    def __init__(self, data_dir: Path, progress: Progress) -> None:
        self._data_dir = data_dir
        self._progress = progress
        self._known: dict[str, bool] = {}  # A unit -> whether it was missing when we came to it.
        self.added_files = 0
        self.kept_files = 0

    def take(self, info: tarfile.TarInfo, file: IO[bytes] | None) -> None:
        """Bring back one member. Raises BackupError for one that would leave its store."""
        parts = info.name.split("/")[1:]
        if len(parts) < 2 or parts[0] not in STORES or any(part in ("", ".", "..") for part in parts):
            raise BackupError(f"The backup names {info.name!r}, which is no place in a store.")
        depth = STORES[parts[0]]
        if depth and not self._unit_was_missing("/".join(parts[: depth + 1])):
            self.kept_files += info.isreg()
            return
        path = self._data_dir.joinpath(*parts)
        self._check_parents(parts)
        if os.path.lexists(path):
            self.kept_files += info.isreg()
            return
        self._make(path, info, file)

    def _unit_was_missing(self, unit: str) -> bool:
        if unit not in self._known:
            self._known[unit] = not os.path.lexists(self._data_dir / unit)
        return self._known[unit]

    def _check_parents(self, parts: list[str]) -> None:
        """Every folder on the way is one: a link in a tenant's volume shall not lead us anywhere."""
        for count in range(1, len(parts)):
            folder = self._data_dir.joinpath(*parts[:count])
            try:
                facts = os.lstat(folder)
            except FileNotFoundError:
                folder.mkdir(mode=0o700)
                continue
            if not stat.S_ISDIR(facts.st_mode):
                raise BackupError(f"{folder} is in the way: it is no folder.")

    def _make(self, path: Path, info: tarfile.TarInfo, file: IO[bytes] | None) -> None:
        if info.isdir():
            path.mkdir(mode=0o700)
        elif info.issym():
            path.symlink_to(info.linkname)
        elif file is not None:
            self._write(path, info, file)
        if os.geteuid() == 0:
            os.chown(path, info.uid, info.gid, follow_symlinks=False)
        if not info.issym():
            path.chmod(stat.S_IMODE(info.mode))

    def _write(self, path: Path, info: tarfile.TarInfo, file: IO[bytes]) -> None:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as target:
            while block := file.read(1024**2):
                target.write(block)
                self._progress(len(block))
        os.utime(path, (info.mtime, info.mtime))
        self.added_files += 1
