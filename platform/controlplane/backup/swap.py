"""Putting a restored database in the place of the present one: prepared beside it, exchanged in one step, the old one kept.

SQLite: a file beside the database, renamed over it. PostgreSQL: a database beside it, which gets its name in the transaction
that gives the old one another. Until that moment nothing that is in use was touched.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Protocol

import psycopg
from django.db import connections
from psycopg import sql

from controlplane.backup import databases
from controlplane.backup.archive import BackupError, sync_directory
from kernel.config import Config

SIDE_FILES = ("-wal", "-shm", "-journal")
CONNECTIONS_SHOWN = 5
NAME_MAX = 63  # Of PostgreSQL, for any name.
ELSEWHERE = ("postgres", "template1")  # Databases that every server has.


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
        """The holder of the data directory's lock is the only user of the file."""

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
        self._name = databases.database_name()
        self._kept = f"{self._name}_{kept}"[:NAME_MAX]
        self._staged = f"{self._name}_{kept.replace('before', 'loading', 1)}"[:NAME_MAX]

    def check(self) -> None:
        """No other client may be connected: a platform on another host does not see our lock. And we must be allowed to."""
        with databases.postgresql(self._config) as connection:
            others = connection.execute(
                "SELECT pid, application_name, coalesce(client_addr::text, 'this host') FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
            ).fetchall()
            allowed = connection.execute("SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
        if others:
            shown = ", ".join(f"{name or 'process'} (backend {pid}) of {host}" for pid, name, host in others[:CONNECTIONS_SHOWN])
            raise BackupError(
                f"{len(others)} connections to the database are open: {shown}. Stop every process of the platform, on every host."
            )
        if not allowed or not allowed[0]:
            raise BackupError(
                "A restore makes a database beside the present one, and this database user may not. "
                "Let an administrator run: ALTER ROLE <user> CREATEDB;"
            )

    def load(self, member: IO[bytes]) -> None:
        with databases.postgresql(self._config) as connection:
            row = connection.execute(
                "SELECT current_setting('server_version_num')::int / 10000, pg_encoding_to_char(encoding), datcollate, datctype "
                "FROM pg_database WHERE datname = current_database()"
            ).fetchone()
            assert row is not None
            major, encoding, collate, ctype = row
            self._drop_leftovers(connection)
            made = "CREATE DATABASE {} TEMPLATE template0 ENCODING {} LC_COLLATE {} LC_CTYPE {}"
            words = (sql.Literal(encoding), sql.Literal(collate), sql.Literal(ctype))
            connection.execute(sql.SQL(made).format(sql.Identifier(self._staged), *words))
            self._copy_settings(connection)
        dump = self._work / "database.dump"
        with dump.open("xb") as file:
            while block := member.read(1024**2):
                file.write(block)
        databases.run_program(
            [
                str(databases.program("pg_restore", major)), "--no-owner", "--no-privileges", "--no-comments",
                "--no-password", "--exit-on-error",
                "--single-transaction", f"--dbname={self._staged}", str(dump),
            ],
            self._config,
        )  # fmt: skip
        dump.unlink()

    def _drop_leftovers(self, connection: psycopg.Connection[Any]) -> None:
        """What a restore that was killed had begun to load; only one restores at a time."""
        begins = f"{self._name}_loading_restore_"
        rows = connection.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [begins]).fetchall()
        for (name,) in rows:
            connection.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))

    def _copy_settings(self, connection: psycopg.Connection[Any]) -> None:
        """What an administrator set for the present database holds for its successor."""
        rows = connection.execute(
            "SELECT split_part(line, '=', 1), substr(line, strpos(line, '=') + 1) "
            "FROM pg_db_role_setting, unnest(setconfig) line "
            "WHERE setrole = 0 AND setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())"
        ).fetchall()
        for name, value in rows:
            words = (sql.Identifier(self._staged), sql.Identifier(name), sql.Literal(value))
            connection.execute(sql.SQL("ALTER DATABASE {} SET {} TO {}").format(*words))

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        before = connections["default"].settings_dict["OPTIONS"]
        options = {name: value for name, value in before.items() if name != "pool"}
        with _django_on("OPTIONS", options), _django_on("NAME", self._staged):
            yield

    def exchange(self) -> str:
        with self._elsewhere() as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [self._name]).fetchone()
            with connection.transaction():
                for old, new in ((self._name, self._kept), (self._staged, self._name)):
                    if old != self._name or found:
                        words = (sql.Identifier(old), sql.Identifier(new))
                        connection.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(*words))
        return f"database {self._kept} on the same server"

    def discard(self) -> None:
        with contextlib.suppress(BackupError, psycopg.Error), self._elsewhere() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(self._staged)))

    @contextlib.contextmanager
    def _elsewhere(self) -> Iterator[psycopg.Connection[Any]]:
        """A database cannot be renamed by a client that is connected to it."""
        last: BackupError | None = None
        for name in ELSEWHERE:
            try:
                with databases.postgresql(self._config, dbname=name) as connection:
                    yield connection
                    return
            except databases.NoAnswer as error:
                last = error
        assert last is not None
        raise last


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
