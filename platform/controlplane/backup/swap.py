"""Putting a restored database in the place of the present one: prepared beside it, exchanged in one step, the old one kept.

SQLite: a file beside the database, renamed over it. PostgreSQL: a schema of its own, which becomes `public` in the transaction
that gives the old one another name. Until that moment nothing that is in use was touched.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

from django.db import connections
from psycopg import sql

from controlplane.backup import databases
from controlplane.backup.archive import BackupError, sync_directory
from controlplane.backup.databases import SCHEMA
from kernel.config import Config

SIDE_FILES = ("-wal", "-shm", "-journal")
CONNECTIONS_SHOWN = 5


class Swap(Protocol):
    """One restored database on its way. Methods are called in this order."""

    def check(self) -> None:
        """Raise BackupError if the present database cannot be replaced now; nothing is changed."""
        ...

    def load(self, member: IO[bytes]) -> None:
        """Make the restored database beside the present one."""
        ...

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Within the block Django's database is the restored one."""
        ...

    def exchange(self) -> str:
        """Put it in place; returns where the old one is kept, in words, "" if there was none."""
        ...

    def discard(self) -> None:
        """Remove what was loaded; harmless when nothing was, or after the exchange."""
        ...


def swap_for(config: Config, work: Path, kept: Path) -> Swap:
    if databases.is_postgresql(config):
        return _PostgresqlSwap(config, work, kept.name.replace("-", "_"))
    return _SqliteSwap(config, work / "berth.sqlite3", kept)


class _SqliteSwap:
    def __init__(self, config: Config, staged: Path, kept: Path) -> None:
        self._target = databases.sqlite_path(config)
        self._staged, self._kept = staged, kept

    def check(self) -> None:
        """Whoever holds the data directory's lock is the only one who uses the file."""

    def load(self, member: IO[bytes]) -> None:
        descriptor = os.open(self._staged, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            while block := member.read(1024**2):
                file.write(block)
        with contextlib.closing(databases.open_sqlite(self._staged)) as connection:
            databases.check_sqlite(connection, self._staged)

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        with _django_on("NAME", str(self._staged)):
            yield
        with contextlib.closing(databases.open_sqlite(self._staged)) as connection:  # One file, nothing beside it.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            connection.execute("PRAGMA journal_mode=DELETE").fetchall()

    def exchange(self) -> str:
        _sync_file(self._staged)
        had_one = self._target.exists()
        for suffix in SIDE_FILES:  # First: the restored file must never meet the old one's journal.
            side = self._target.with_name(self._target.name + suffix)
            if side.exists():
                side.rename(self._kept / side.name)
        if had_one:
            os.link(self._target, self._kept / self._target.name)
        os.replace(self._staged, self._target)
        sync_directory(self._kept)
        sync_directory(self._target.parent)
        return str(self._kept / self._target.name) if had_one else ""

    def discard(self) -> None:
        for suffix in ("", *SIDE_FILES):
            self._staged.with_name(self._staged.name + suffix).unlink(missing_ok=True)


class _PostgresqlSwap:
    def __init__(self, config: Config, work: Path, kept: str) -> None:
        self._config, self._work = config, work
        self._kept = kept
        self._staged = f"loading_{kept}"

    def check(self) -> None:
        """Nobody else may be connected: a platform on another host does not see our lock."""
        with databases.postgresql(self._config) as connection:
            others = connection.execute(
                "SELECT pid, application_name, coalesce(client_addr::text, 'this host') FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
            ).fetchall()
        if others:
            shown = ", ".join(
                f"{name or 'process'} (backend {pid}) from {host}" for pid, name, host in others[:CONNECTIONS_SHOWN]
            )
            raise BackupError(
                f"{len(others)} connections to the database are open: {shown}. Stop every process of the platform, on every host."
            )

    def load(self, member: IO[bytes]) -> None:
        with databases.postgresql(self._config) as connection:
            row = connection.execute("SHOW server_version_num").fetchone()
        major = int(row[0]) // 10_000 if row else 0
        before = [f"ALTER SCHEMA {SCHEMA} RENAME TO {self._kept}", f"CREATE SCHEMA {SCHEMA}"]
        after = [f"ALTER SCHEMA {SCHEMA} RENAME TO {self._staged}", f"ALTER SCHEMA {self._kept} RENAME TO {SCHEMA}"]
        dump = self._work / "database.dump"
        with dump.open("xb") as file:
            while block := member.read(1024**2):
                file.write(block)
        environment = databases.program_environment(self._config)
        read = [
            str(databases.program("pg_restore", major)), "--no-owner", "--no-privileges", f"--schema={SCHEMA}", "--file=-",
            str(dump),
        ]  # fmt: skip
        write = [
            str(databases.program("psql", major)), "-X", "-q", "-w", "-v", "ON_ERROR_STOP=1", "--single-transaction",
            *(f"--command={statement}" for statement in before), "--file=-", *(f"--command={statement}" for statement in after),
        ]  # fmt: skip
        with (self._work / "said").open("w+b") as said:
            with subprocess.Popen(read, stdout=subprocess.PIPE, stderr=said, env=environment) as restore:
                code = subprocess.run(
                    write, stdin=restore.stdout, stdout=subprocess.DEVNULL, stderr=said, env=environment, check=False
                ).returncode
            said.seek(0)
            words = said.read().decode(errors="replace").strip()[-2_000:]
        dump.unlink()
        if code or restore.returncode:
            raise BackupError(f"PostgreSQL could not load the backup: {words or 'it gave no reason'}")

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        with _django_on("OPTIONS", {"options": f"-c search_path={self._staged}"}):
            yield

    def exchange(self) -> str:
        with databases.postgresql(self._config) as connection, connection.transaction():
            for old, new in ((SCHEMA, self._kept), (self._staged, SCHEMA)):
                connection.execute(sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(sql.Identifier(old), sql.Identifier(new)))
            empty = connection.execute(
                "SELECT NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = %s::regnamespace)", [self._kept]
            ).fetchone()
            if empty and empty[0]:
                connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(self._kept)))
                return ""
        return f"schema {self._kept} of the database"

    def discard(self) -> None:
        if sys.exc_info()[0] is None:
            return
        with contextlib.suppress(BackupError), databases.postgresql(self._config) as connection:
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(self._staged)))


@contextlib.contextmanager
def _django_on(key: str, value: object) -> Iterator[None]:
    """Point Django's one connection somewhere else for a while; nothing else runs in this process."""
    connection = connections["default"]
    connection.close()
    before = connection.settings_dict[key]
    connection.settings_dict[key] = value
    try:
        yield
    finally:
        connections.close_all()
        connection.settings_dict[key] = before


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
