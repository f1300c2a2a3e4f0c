"""Make a backup while the platform runs: one file, verified after it was written, there only when it is whole."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings

from controlplane.backup import databases, keys, stores
from controlplane.backup.archive import FORMAT, MANIFEST, ArchiveWriter, BackupError, verify
from controlplane.backup.progress import Progress, shown_bytes
from kernel.config import Config
from kernel.version import VERSION

SPARE_BYTES = 64 * 1024**2  # Left free beside what the backup needs, so that taking it never fills the platform's disk.


@dataclass(frozen=True, slots=True)
class Made:
    path: Path
    manifest: dict[str, Any]
    bytes: int


def default_path(config: Config, now: datetime) -> Path:
    return config.data_dir / "backups" / f"berth-{now:%Y%m%dT%H%M%SZ}.tar"


def remove_old(config: Config, keep: int) -> list[Path]:
    """Remove all but the newest `keep` backups that have a name of ours and lie where they lie by default."""
    found = sorted((config.data_dir / "backups").glob("berth-????????T??????Z.tar"))
    old = found[:-keep]
    for path in old:
        path.unlink(missing_ok=True)
    return old


def make_backup(
    config: Config,
    path: Path,
    *,
    with_stores: Sequence[str] = stores.DEFAULT,
    with_keys: bool = True,
    passphrase: str = "",
    progress: Progress,
) -> Made:
    """Copy one moment of the database, the keys and the stores named into `path`. Raises BackupError, leaving no file."""
    taken_at = datetime.now(UTC)
    _prepare_folder(config, path)
    sizes = [stores.measure(config.data_dir, name) for name in with_stores]
    database_bytes = databases.size_bytes(config)
    _check_room(config, path, database_bytes, sum(size.bytes for size in sizes), progress)
    work = Path(tempfile.mkdtemp(prefix=f".{path.name}.work-", dir=path.parent))
    writer = ArchiveWriter(path, progress.moved)
    try:
        with progress.step("database", database_bytes) as words:
            copied = databases.copy_database(config, work, progress.moved)
            words.append(f"{copied.facts['vendor']}, {shown_bytes(copied.path.stat().st_size)}")
        key_files = keys.read_key_files(config.data_dir) if with_keys else {}
        sealed = keys.seal(key_files, passphrase) if key_files and passphrase else b""
        manifest = _manifest(taken_at, copied, key_files, with_keys, bool(sealed), sizes)
        with writer:
            writer.add_json(MANIFEST, manifest)
            _add_keys(writer, key_files, sealed)
            writer.add_file(f"database/{copied.path.name}", copied.path)
            copied.path.unlink()
            for size in sizes:
                _add_store(writer, config, size, progress)
        with progress.step("verify", writer.part.stat().st_size) as words:
            verify(writer.part, progress.moved)
            words.append("every byte read again")
        _give_to_owner(writer.part, path.parent)
        writer.publish()
    except OSError as error:
        writer.discard()
        raise BackupError(f"The backup could not be written: {error.strerror or error} ({error.filename or path}).") from error
    except BaseException:
        writer.discard()
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return Made(path, manifest, path.stat().st_size)


def _prepare_folder(config: Config, path: Path) -> None:
    if path.parent == config.data_dir / "backups":
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() == 0:
            os.chown(path.parent, *databases.owner_of(config))
    if not path.parent.is_dir():
        raise BackupError(f"{path.parent} is no directory. Make it, or name another file.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise BackupError(f"This user may not write to {path.parent}. Name a file in a directory of yours.")
    if path.exists() and not path.is_file():
        raise BackupError(f"{path} is there and no file. Name another one.")


def _check_room(config: Config, path: Path, database_bytes: int, store_bytes: int, progress: Progress) -> None:
    """The copy of the database lies beside the file for a while; say no before anything is written."""
    need = 2 * database_bytes + store_bytes + SPARE_BYTES
    free = shutil.disk_usage(path.parent).free
    if free < need:
        raise BackupError(
            f"The backup needs up to {shown_bytes(need)} in {path.parent}; {shown_bytes(free)} are free. "
            "Name a file on another disk, or leave out stores."
        )


def _manifest(
    taken_at: datetime,
    copied: databases.Copied,
    key_files: dict[str, bytes],
    with_keys: bool,
    is_sealed: bool,
    sizes: Sequence[stores.StoreSize],
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "product": "berth",
        "version": VERSION,
        "taken_at": taken_at.isoformat(),
        "host": socket.gethostname(),
        "database": {**copied.facts, "member": f"database/{copied.path.name}", "bytes": copied.path.stat().st_size},
        "keys": keys.manifest_of(settings.SECRET_KEY, key_files, included=with_keys, sealed=is_sealed),
        "stores": {size.name: {"files": size.files, "bytes": size.bytes} for size in sizes},
    }


def _add_keys(writer: ArchiveWriter, key_files: dict[str, bytes], sealed: bytes) -> None:
    if sealed:
        writer.add_bytes(keys.SEALED, sealed)
        return
    for name, data in sorted(key_files.items()):
        writer.add_bytes(f"keys/{name}", data)


def _add_store(writer: ArchiveWriter, config: Config, size: stores.StoreSize, progress: Progress) -> None:
    with progress.step(size.name, size.bytes) as words:
        added = stores.add_store(writer, config.data_dir, size.name)
        if added.unreadable or size.unreadable:
            raise BackupError(
                f"Not all of {config.data_dir / size.name} can be read by this user: it belongs to the users of tenants. "
                f"Run the backup as root, or leave out {size.name}."
            )
        words.append(f"{added.files} files, {shown_bytes(added.bytes)}")


def _give_to_owner(path: Path, folder: Path) -> None:
    """What root makes in a folder of the platform's own user is that user's, who may read its own keys anyway."""
    if os.geteuid() == 0:
        owner = folder.stat()
        with contextlib.suppress(OSError):
            os.chown(path, owner.st_uid, owner.st_gid)
