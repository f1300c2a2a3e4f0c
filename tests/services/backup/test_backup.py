"""One file that is whole or refused; a restore that checks everything first and keeps what was there."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controlplane import instance
from controlplane.backup import archive, databases, keys, make, stores, swap
from controlplane.backup import restore as restoring
from controlplane.backup.archive import BackupError, verify
from controlplane.backup.make import make_backup
from controlplane.backup.progress import Progress
from controlplane.backup.restore import restore
from kernel.config import Config
from kernel.version import VERSION
from tests.builders.stores import tables_in_file

ROOT = Path(__file__).resolve().parents[3]
KEY = "0123456789abcdefghijklmnopqrstuvwxyzABCDEF"


def manage(data_dir: Path, *words: object, **settings: str) -> subprocess.CompletedProcess[str]:
    """A command on an installation on SQLite, in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("BERTH_", "DJANGO_"))}
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *map(str, words)],
        env={**environment, "BERTH_DATA_DIR": str(data_dir), **settings},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation with the tables of this run and a key."""
    folder = tmp_path_factory.mktemp("template")
    shutil.copy(tables_in_file(), folder / "berth.sqlite3")
    (folder / "secret.key").touch(mode=0o600)
    (folder / "secret.key").write_text(secrets.token_urlsafe(64) + "\n")
    return folder


@pytest.fixture
def config(template: Path, tmp_path: Path, configure: Callable[..., Config], monkeypatch: pytest.MonkeyPatch) -> Config:
    """An installation of one test, which is stopped. Its key is its own file's, as without the setting."""
    from django.conf import settings

    data_dir = tmp_path / "data"
    shutil.copytree(template, data_dir)
    monkeypatch.delenv("BERTH_SECRET_KEY")
    monkeypatch.setattr(settings, "SECRET_KEY", (data_dir / "secret.key").read_text().strip())
    return configure(data_dir=data_dir, database_url="", redis_url="")


def back_up(config: Config, **options: Any) -> Path:
    path = config.data_dir.parent / "backup.tar"
    make_backup(config, path, progress=Progress(), **options)
    return path


def names(path: Path) -> list[str]:
    with tarfile.open(path) as tar:
        return tar.getnames()


def rewrite(path: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    """Change members of a backup as somebody with a tar would, and leave the checksums as they are."""
    with tarfile.open(path) as tar:
        held = {info.name: tar.extractfile(info).read() for info in tar if info.isreg()}  # type: ignore[union-attr]
    change(held)
    writer = archive.ArchiveWriter(path, lambda count: None)
    with writer:
        for name, data in held.items():
            if name != archive.CHECKSUMS:
                writer.add_bytes(name, data)
    writer.publish()


def test_a_backup_holds_database_keys_code_and_what_it_says_of_itself(config: Config) -> None:
    (config.data_dir / "code").mkdir()
    (config.data_dir / "code" / "abc").write_bytes(b"snapshot")
    path = back_up(config)
    assert path.stat().st_mode & 0o777 == 0o600
    assert names(path) == [
        "manifest.json", "keys/secret.key", "database/database.sqlite3", "stores/code/abc", "SHA256SUMS",
    ]  # fmt: skip
    manifest = verify(path, lambda count: None)
    assert manifest["version"] == VERSION
    assert manifest["database"]["vendor"] == "sqlite"
    assert "0001_initial" in manifest["database"]["migrations"]["jobs"]
    assert manifest["stores"] == {"code": {"files": 1, "bytes": 8}}
    assert KEY not in json.dumps(manifest)
    assert os.listdir(path.parent) == ["data", "backup.tar"] or sorted(os.listdir(path.parent)) == ["backup.tar", "data"]


def test_a_backup_under_writers_is_one_moment_of_the_database(config: Config) -> None:
    """A writer adds to two tables in each transaction; whatever moment the copy is of, they agree."""
    path = databases.sqlite_path(config)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE one (n INTEGER)")
        connection.execute("CREATE TABLE other (n INTEGER, filler BLOB)")
        connection.executemany("INSERT INTO other VALUES (0, ?)", [(os.urandom(4_000),) for _ in range(4_000)])
        connection.execute("DELETE FROM other")
    over = threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        with sqlite3.connect(path, timeout=60) as connection:
            while not over.is_set():
                connection.execute("INSERT INTO one VALUES (?)", [written])
                connection.execute("INSERT INTO other VALUES (?, '')", [written])
                connection.commit()
                written += 1

    writer = threading.Thread(target=write)
    writer.start()
    deadline = time.monotonic() + 60
    while written < 10 and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        taken = back_up(config)
    finally:
        over.set()
        writer.join()
    with tarfile.open(taken) as tar:
        file = tar.extractfile("database/database.sqlite3")
        assert file is not None
        (config.data_dir / "copied.sqlite3").write_bytes(file.read())
    with sqlite3.connect(config.data_dir / "copied.sqlite3") as copied:
        [(rows,)] = copied.execute("SELECT count(*) FROM one")
        [(others,)] = copied.execute("SELECT count(*) FROM other")
    assert rows == others
    assert 0 < rows <= written


@pytest.mark.capability("120", "A damaged, foreign or newer backup changes nothing")
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[: data.rindex(b"SHA256SUMS")],
        lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :],
        lambda data: b"no backup at all",
        lambda data: b"",
    ],
    ids=["half", "cut-off", "one-bit", "other", "empty"],
)
def test_a_damaged_file_is_refused_and_nothing_changes(config: Config, damage: Callable[[bytes], bytes]) -> None:
    path = back_up(config)
    path.write_bytes(damage(path.read_bytes()))
    before = _files(config.data_dir)
    with pytest.raises(BackupError, match=r"damaged|no backup|not complete"):
        restore(config, path, progress=Progress())
    assert _files(config.data_dir) == before


@pytest.mark.capability("120", "A damaged, foreign or newer backup changes nothing")
def test_a_backup_of_a_newer_release_is_refused(config: Config) -> None:
    path = back_up(config)

    def change(held: dict[str, bytes]) -> None:
        manifest = json.loads(held["manifest.json"])
        manifest["version"] = "9.9.9"
        manifest["database"]["migrations"]["jobs"].append("0999_of_the_future")
        held["manifest.json"] = json.dumps(manifest).encode()

    rewrite(path, change)
    with pytest.raises(BackupError, match=r"made by Berth 9\.9\.9.*jobs 0999_of_the_future.*Restore it with 9\.9\.9"):
        restore(config, path, progress=Progress())


def test_a_backup_of_another_kind_of_database_is_refused(config: Config, configure: Callable[..., Config]) -> None:
    path = back_up(config)
    other = configure(database_url="postgresql://nobody@localhost/none")
    with pytest.raises(BackupError, match="holds a sqlite database and this installation uses postgresql"):
        restore(other, path, progress=Progress())


@pytest.mark.capability("120", "A damaged, foreign or newer backup changes nothing")
def test_keys_that_would_open_nothing_are_refused(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    path = back_up(config, with_keys=False)
    assert "keys/secret.key" not in names(path)
    (config.data_dir / "secret.key").write_text("another-key-of-the-same-length-0123456789\n")
    with pytest.raises(BackupError, match="is not the key that this backup was made under"):
        restore(config, path, progress=Progress())
    (config.data_dir / "secret.key").unlink()
    with pytest.raises(BackupError, match="The backup holds no key"):
        restore(config, path, progress=Progress())
    monkeypatch.setenv("BERTH_SECRET_KEY", KEY)
    with pytest.raises(BackupError, match="BERTH_SECRET_KEY is not the key"):
        restore(config, path, progress=Progress())


def test_sealed_keys_need_their_passphrase(config: Config) -> None:
    path = back_up(config, passphrase="correct horse battery staple")
    key = (config.data_dir / "secret.key").read_bytes()
    assert keys.SEALED in names(path)
    assert key.strip() not in path.read_bytes()
    with pytest.raises(BackupError, match=r"sealed\. Give the passphrase"):
        restore(config, path, progress=Progress())
    with pytest.raises(BackupError, match="does not open the keys"):
        restore(config, path, passphrase="another passphrase, wrong", progress=Progress())
    with tarfile.open(path) as tar:
        file = tar.extractfile(keys.SEALED)
        assert file is not None
        assert keys.unseal(file.read(), "correct horse battery staple") == {"secret.key": key}


def test_a_short_passphrase_is_refused(tmp_path: Path) -> None:
    (tmp_path / "passphrase").write_text("short\n")
    with pytest.raises(BackupError, match="shorter than 16"):
        keys.read_passphrase(tmp_path / "passphrase")
    with pytest.raises(BackupError, match="cannot be read"):
        keys.read_passphrase(tmp_path / "none")


def test_a_full_disk_is_refused_before_anything_is_written(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(config.data_dir)
    path = back_up(config)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=1024**2))
    other = config.data_dir.parent / "other.tar"
    with pytest.raises(BackupError, match=r"needs up to .* MiB .*1\.0 MiB are free"):
        make_backup(config, other, progress=Progress())
    with pytest.raises(BackupError, match="The restore needs up to"):
        restore(config, path, progress=Progress())
    assert sorted(os.listdir(other.parent)) == ["backup.tar", "data"]


def test_a_disk_that_fills_meanwhile_leaves_no_file(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    older = back_up(config).read_bytes()
    monkeypatch.setattr(archive.ArchiveWriter, "add_file", full)
    with pytest.raises(BackupError, match="No space left on device"):
        back_up(config)
    assert sorted(os.listdir(config.data_dir.parent)) == ["backup.tar", "data"]
    assert (config.data_dir.parent / "backup.tar").read_bytes() == older


def test_a_running_platform_is_not_restored(config: Config) -> None:
    path = back_up(config)
    lock = instance.lock_data_directory(config)
    try:
        with pytest.raises(BackupError, match="must be stopped before it is restored"):
            restore(config, path, progress=Progress())
    finally:
        os.close(lock)


def test_a_restore_brings_the_database_back_and_keeps_what_was_there(config: Config) -> None:
    (config.data_dir / "code").mkdir()
    (config.data_dir / "code" / "old").write_bytes(b"old")
    path = back_up(config)
    (config.data_dir / "code" / "old").unlink()
    (config.data_dir / "code" / "new").write_bytes(b"new")
    with sqlite3.connect(databases.sqlite_path(config)) as connection:
        connection.execute("CREATE TABLE later (n INTEGER)")
    old_key = (config.data_dir / "secret.key").read_bytes()
    (config.data_dir / "secret.key").write_text("a-key-that-was-made-after-the-backup-0123456789\n")
    done = manage(config.data_dir, "restore", path)
    assert done.returncode == 0, done.stderr
    with sqlite3.connect(databases.sqlite_path(config)) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        [(audit,)] = connection.execute("SELECT after FROM activity_auditevent WHERE verb = 'installation.restore'")
    assert "later" not in tables
    assert json.loads(audit)["made_by"] == VERSION
    assert (config.data_dir / "secret.key").read_bytes() == old_key
    assert (config.data_dir / "secret.key").stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(config.data_dir / "code")) == ["new", "old"]
    [kept] = config.data_dir.glob("before-restore-*")
    assert {"berth.sqlite3", "secret.key"} <= set(os.listdir(kept))
    assert f"Kept: {kept / 'berth.sqlite3'}" in done.stderr
    with sqlite3.connect(kept / "berth.sqlite3") as connection:
        assert connection.execute("SELECT count(*) FROM later").fetchone() == (0,)
    assert not list(config.data_dir.glob(".restore-*"))


def test_an_empty_directory_becomes_the_installation_of_the_backup(config: Config, tmp_path: Path) -> None:
    path = back_up(config)
    key = (config.data_dir / "secret.key").read_bytes()
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    done = manage(fresh, "restore", path)
    assert done.returncode == 0, done.stderr
    assert (fresh / "secret.key").read_bytes() == key
    assert [os.listdir(kept) for kept in fresh.glob("before-restore-*")] == []
    assert manage(fresh, "verify_audit").returncode == 0


def test_a_restore_that_was_cut_off_keeps_the_platform_from_starting(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    (config.data_dir / instance.UNFINISHED_RESTORE).write_text("somewhere\n")
    with pytest.raises(instance.CannotStart, match=r"was cut off\. Run the same"):
        instance.check_data_directory(config)
    instance.check_data_directory(config, may_be_unfinished=True)
    monkeypatch.undo()


def test_a_restore_cut_off_between_database_and_key_is_finished_by_a_repeat(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = back_up(config)
    key = (config.data_dir / "secret.key").read_bytes()
    (config.data_dir / "secret.key").write_text("a-key-that-was-made-after-the-backup-0123456789\n")
    staged = config.data_dir / "staged.sqlite3"
    shutil.copy(databases.sqlite_path(config), staged)
    kept = config.data_dir / "before-restore-first"
    replace = os.replace

    def die_at_the_key(source: str | Path, target: str | Path) -> None:
        if Path(target).name == "secret.key":
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", die_at_the_key)
    with pytest.raises(KeyboardInterrupt):
        restoring._exchange(config, swap._SqliteSwap(config, staged, kept), kept, {"secret.key": key})
    monkeypatch.undo()
    refused = manage(config.data_dir, "serve")
    assert refused.returncode == 1
    assert "was cut off. Run the same `manage.py restore` once more" in refused.stderr
    done = manage(config.data_dir, "restore", path)
    assert done.returncode == 0, done.stderr
    assert (config.data_dir / "secret.key").read_bytes() == key
    assert not (config.data_dir / instance.UNFINISHED_RESTORE).exists()


def test_stores_gain_only_what_is_missing(config: Config, tmp_path: Path) -> None:
    volumes, logs = config.data_dir / "volumes", config.data_dir / "logs"
    for folder in (volumes / "kept", volumes / "lost" / "deep", logs / "a"):
        folder.mkdir(parents=True)
    (volumes / "kept" / "removed.txt").write_text("removed since")
    (volumes / "lost" / "deep" / "data.txt").write_text("data")
    (volumes / "lost" / "way-out").symlink_to("/etc")
    (volumes / "lost" / "deep").chmod(0o2770)
    (logs / "a" / "w.stdout").write_text("one")
    path = back_up(config, with_stores=("logs", "volumes"))
    (volumes / "kept" / "removed.txt").unlink()
    shutil.rmtree(volumes / "lost")
    (logs / "a" / "w.stdout").write_text("one two")
    reader = stores.StoreReader(config.data_dir, lambda count: None)
    for info, file in archive.members(path):
        if info.name.startswith("stores/"):
            reader.take(info, file)
    assert os.listdir(volumes / "kept") == []  # What was deleted from a volume that is there stays deleted.
    assert (volumes / "lost" / "deep" / "data.txt").read_text() == "data"
    assert (volumes / "lost" / "deep").stat().st_mode & 0o7777 == 0o2770
    assert os.readlink(volumes / "lost" / "way-out") == "/etc"
    assert (logs / "a" / "w.stdout").read_text() == "one two"
    assert (reader.added_files, reader.kept_files) == (1, 2)


def test_checkpoints_come_back_job_by_job_whole_or_not_at_all(config: Config) -> None:
    tenant = config.data_dir / "checkpoints" / "tenant"
    for job in ("kept", "lost"):
        (tenant / job / "step-1").mkdir(parents=True)
        (tenant / job / "step-1" / "weights").write_text("weights")
    path = back_up(config, with_stores=("checkpoints",))
    shutil.rmtree(tenant / "lost")
    shutil.rmtree(tenant / "kept" / "step-1")
    (tenant / "kept" / "step-2").write_text("newer")
    reader = stores.StoreReader(config.data_dir, lambda count: None)
    for info, file in archive.members(path):
        if info.name.startswith("stores/"):
            reader.take(info, file)
    assert (tenant / "lost" / "step-1" / "weights").read_text() == "weights"
    # Nothing is mixed into a directory that is there: files of two times are no checkpoint.
    assert os.listdir(tenant / "kept") == ["step-2"]


@pytest.mark.parametrize("name", ["stores/volumes/../../etc/x", "stores/other/x", "stores/code", "stores/volumes//x", "stores/"])
def test_a_member_that_would_leave_its_store_is_refused(config: Config, name: str) -> None:
    info = tarfile.TarInfo(name)
    with pytest.raises(BackupError, match="no place in a store"):
        stores.StoreReader(config.data_dir, lambda count: None).take(info, None)


def test_a_link_in_a_store_leads_nobody_out_of_it(config: Config, tmp_path: Path) -> None:
    reader = stores.StoreReader(config.data_dir, lambda count: None)
    link = tarfile.TarInfo("stores/code/link")
    link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
    reader.take(link, None)
    with pytest.raises(BackupError, match="is in the way"):
        reader.take(tarfile.TarInfo("stores/code/link/x"), None)
    assert list(tmp_path.glob("x")) == []


def test_a_damaged_database_is_not_backed_up(config: Config) -> None:
    path = databases.sqlite_path(config)
    data = bytearray(path.read_bytes())
    data[8_192:40_960] = os.urandom(32_768)
    path.write_bytes(bytes(data))
    with pytest.raises((BackupError, sqlite3.DatabaseError)):
        back_up(config)
    assert sorted(os.listdir(path.parent.parent)) == ["data"]


def test_sizes_are_told_without_a_backup(config: Config) -> None:
    done = manage(config.data_dir, "backup", "--sizes")
    assert done.returncode == 0, done.stderr
    assert "database" in done.stderr
    assert "--with volumes" in done.stderr
    assert not (config.data_dir / "backups").exists()


def test_old_backups_go_only_when_asked_and_only_ours(config: Config) -> None:
    folder = config.data_dir / "backups"
    folder.mkdir()
    for name in ("berth-20261119T000000Z.tar", "berth-20261120T000000Z.tar", "mine.tar"):
        (folder / name).touch()
    done = manage(config.data_dir, "backup", "--keep", "2")
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(folder)) == ["berth-20261120T000000Z.tar", Path(done.stdout.strip()).name, "mine.tar"]


def test_a_place_that_cannot_be_written_is_named(config: Config) -> None:
    with pytest.raises(BackupError, match="is no directory"):
        make_backup(config, config.data_dir / "none" / "x.tar", progress=Progress())
    assert make.default_path(config, restoring.datetime.fromisoformat("2026-11-21T04:05:06+00:00")) == (
        config.data_dir / "backups" / "berth-20261121T040506Z.tar"
    )


def _files(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "platform.lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
