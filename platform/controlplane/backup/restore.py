"""Put an installation back from a backup: everything is checked first, then exchanged, and what was there is kept beside it.

The clusters ran on meanwhile. What the restored database does not know of them is not killed and not forgotten: it goes into
quarantine (`clusters/services/quarantine.py`), and no job starts again before its cluster was asked what still runs.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.migrations.loader import MigrationLoader

from activity.sequencer import lift
from activity.services import record_audit
from clusters.services.quarantine import begin_quarantine
from controlplane import bootstrap
from controlplane.backup import databases, keys
from controlplane.backup.archive import FORMAT, BackupError, members, read_manifest, sync_directory, verify
from controlplane.backup.progress import Progress, shown_bytes
from controlplane.backup.stores import StoreReader
from controlplane.backup.swap import Swap, swap_for
from controlplane.instance import UNFINISHED_RESTORE, CannotStart, check_data_directory, lock_data_directory
from kernel.actor import system_actor
from kernel.clock import database_now
from kernel.config import Config
from kernel.version import VERSION

SPARE_BYTES = 64 * 1024**2
# How far numbers of events are lifted: more than may have been given since the backup, so clients that remember one neither
# see an event of the same number nor miss a new one. 10,000 events a second is ten times what any installation writes.
SEQ_SPARE, SEQ_PER_SECOND = 1_000_000, 10_000


@dataclass(frozen=True, slots=True)
class Restored:
    """What came of a restore. `kept` says where what was there before lies, in words."""

    manifest: Mapping[str, Any]
    seconds: float
    lost_seconds: float
    kept: tuple[str, ...]
    added_files: int


def restore(config: Config, path: Path, *, passphrase: str = "", progress: Progress) -> Restored:
    """Restore the file onto a stopped installation, or an empty one. Raises BackupError, changing nothing, or all was done."""
    began, now = time.monotonic(), datetime.now(UTC)
    check_manifest(config, read_manifest(path))
    try:
        check_data_directory(config, may_be_unfinished=True)
        lock = lock_data_directory(config)
    except CannotStart as reason:
        raise BackupError(f"The platform must be stopped before it is restored. {reason}") from None
    work = config.data_dir / f".restore-{now:%Y%m%dT%H%M%S}"
    kept = config.data_dir / f"before-restore-{now:%Y%m%dT%H%M%SZ}".lower()
    swap = swap_for(config, work, kept)
    try:
        swap.check()
        with progress.step("check", path.stat().st_size) as words:
            manifest = verify(path, progress.moved)
            check_manifest(config, manifest)
            key_files = _read_keys(config, path, manifest, passphrase)
            _check_room(config, manifest)
            words.append(f"whole, of {manifest['version']}, taken {manifest['taken_at'][:19]}Z")
        work.mkdir(mode=0o700)
        _load(path, manifest, swap, progress)
        with progress.step("prepare"), swap.opened():
            _prepare(manifest, now)
        places = _exchange(config, swap, kept, key_files)
        added = _bring_stores(config, path, manifest, progress)
        (config.data_dir / UNFINISHED_RESTORE).unlink(missing_ok=True)
    finally:
        swap.discard()
        shutil.rmtree(work, ignore_errors=True)
        os.close(lock)
    taken_at = datetime.fromisoformat(manifest["taken_at"])
    return Restored(manifest, time.monotonic() - began, (now - taken_at).total_seconds(), places, added)


def check_manifest(config: Config, manifest: Mapping[str, Any]) -> None:
    """Refuse what this release cannot read or this installation cannot hold."""
    if manifest.get("product") != "berth" or manifest.get("format") != FORMAT:
        raise BackupError(f"The backup has format {manifest.get('format')!r}; this release reads format {FORMAT}.")
    loader = MigrationLoader(None)
    known = {(app, name) for app, name in loader.disk_migrations}
    newer = [
        f"{app} {name}" for app, names in manifest["database"]["migrations"].items() for name in names if (app, name) not in known
    ]
    if newer:
        raise BackupError(
            f"The backup was made by Berth {manifest['version']}, this is {VERSION} and does not know its tables ({newer[0]}). "
            f"Restore it with {manifest['version']} or newer."
        )
    ours = "postgresql" if databases.is_postgresql(config) else "sqlite"
    theirs = manifest["database"]["vendor"]
    if ours != theirs:
        hint = "Set BERTH_DATABASE_URL" if theirs == "postgresql" else "Leave BERTH_DATABASE_URL out"
        raise BackupError(f"The backup holds a {theirs} database and this installation uses {ours}. {hint}.")


def _read_keys(config: Config, path: Path, manifest: Mapping[str, Any], passphrase: str) -> dict[str, bytes]:
    """The key files to put in place; checks that the key the platform will start with opens what the backup holds."""
    held = manifest["keys"]
    files: dict[str, bytes] = {}
    if held["sealed"] and not passphrase:
        raise BackupError("The keys in this backup are sealed. Give the passphrase with --passphrase-file.")
    for info, file in members(path):
        if file is not None and info.name == keys.SEALED:
            files = keys.unseal(file.read(), passphrase)
        elif file is not None and info.name.startswith("keys/") and info.name.removeprefix("keys/") in keys.FILES:
            files[info.name.removeprefix("keys/")] = file.read()
    setting = "" if "BERTH_KEY_IS_LENT" in os.environ else os.environ.get("BERTH_SECRET_KEY", "")
    if setting:
        key, where = setting, "BERTH_SECRET_KEY"
    elif "secret.key" in files:
        key, where = files["secret.key"].decode().strip(), "the backup's own secret.key"
    else:
        place = config.data_dir / "secret.key"
        if "BERTH_KEY_IS_LENT" in os.environ or not place.exists():
            raise BackupError(f"The backup holds no key. Put the installation's key into {place}, or set BERTH_SECRET_KEY.")
        key, where = place.read_text().strip(), str(place)
    if keys.fingerprint(key) != held["fingerprint"]:
        raise BackupError(
            f"{where} is not the key that this backup was made under: no stored secret could be read. "
            "Give the installation the key of that time (or leave BERTH_SECRET_KEY out if the backup holds it)."
        )
    return files


def _check_room(config: Config, manifest: Mapping[str, Any]) -> None:
    need = 2 * manifest["database"]["bytes"] + sum(store["bytes"] for store in manifest["stores"].values()) + SPARE_BYTES
    free = shutil.disk_usage(config.data_dir).free
    if free < need:
        raise BackupError(f"The restore needs up to {shown_bytes(need)} in {config.data_dir}; {shown_bytes(free)} are free.")


def _load(path: Path, manifest: Mapping[str, Any], swap: Swap, progress: Progress) -> None:
    for info, file in members(path):
        if file is not None and info.name == manifest["database"]["member"]:
            with progress.step("database", info.size) as words:
                swap.load(file)
                words.append(f"{manifest['database']['vendor']}, {manifest['database']['rows']['jobs_job']} jobs")
            return
    raise BackupError(f"The backup holds no {manifest['database']['member']}.")


def _prepare(manifest: Mapping[str, Any], now: datetime) -> None:
    """Bring the restored tables to this release and let them go on where no number was given: numbers, quarantine, audit."""
    bootstrap.migrate()
    lost = (now - datetime.fromisoformat(manifest["taken_at"])).total_seconds()
    with transaction.atomic():
        lift(SEQ_SPARE + SEQ_PER_SECOND * max(0, int(lost)))
        begin_quarantine(database_now())
        record_audit(
            actor=system_actor("restore"),
            verb="installation.restore",
            tenant_id=None,
            target_kind="installation",
            target_id=None,
            after={
                "taken_at": manifest["taken_at"],
                "made_by": manifest["version"],
                "on": manifest["host"],
                "audit_head": manifest["database"]["audit_head"],
                "lost_seconds": int(lost),
            },
            at=database_now(),
        )


def _exchange(config: Config, swap: Swap, kept: Path, key_files: Mapping[str, bytes]) -> tuple[str, ...]:
    """The short moment in which the installation changes. Cut off in it, the platform does not start before a repeat."""
    kept.mkdir(mode=0o700)
    owner = databases.owner_of(config)
    marker = config.data_dir / UNFINISHED_RESTORE
    marker.write_text(f"{kept}\n")
    sync_directory(config.data_dir)
    places = [place for place in [swap.exchange()] if place]
    for name, data in sorted(key_files.items()):
        target = config.data_dir / name
        if target.exists() and target.read_bytes() != data:
            (kept / name).write_bytes(target.read_bytes())
            places.append(str(kept / name))
        part = target.with_name(f".{name}.part")
        part.write_bytes(data)
        part.chmod(0o600)
        os.replace(part, target)
    for path in (databases.sqlite_path(config), *(config.data_dir / name for name in keys.FILES)):
        if path.exists() and os.geteuid() == 0:
            os.chown(path, *owner)
            path.chmod(0o600)
    sync_directory(config.data_dir)
    if not any(kept.iterdir()):
        kept.rmdir()
    return tuple(places)


def _bring_stores(config: Config, path: Path, manifest: Mapping[str, Any], progress: Progress) -> int:
    if not manifest["stores"]:
        return 0
    reader = StoreReader(config.data_dir, progress.moved)
    with progress.step("stores", sum(store["bytes"] for store in manifest["stores"].values())) as words:
        for info, file in members(path):
            if info.name.startswith("stores/"):
                reader.take(info, file)
        words.append(f"{reader.added_files} files brought back, {reader.kept_files} were there")
    return reader.added_files
