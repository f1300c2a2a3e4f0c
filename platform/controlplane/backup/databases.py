"""Copies of the two kinds of database, each one consistent moment of it, taken while others write.

SQLite: the online backup API under one read transaction. PostgreSQL: pg_dump on an exported snapshot, so that what the
manifest says of the database is of the same moment as the dump. No password is ever an argument of a program.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings

from controlplane.backup.archive import BackupError, Progress
from kernel.config import Config

PAGES = 2_048  # Of SQLite per step: 8 MiB, then progress is told.
PROGRAMS = Path("/usr/lib/postgresql")

Query = Callable[[str], list[tuple[Any, ...]]]

TABLES = ("jobs_job", "jobs_attempt", "tenants_tenant", "tenants_user", "activity_auditevent")


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy holds: of the same moment as the copy itself."""

    facts: dict[str, Any]
    path: Path


def is_postgresql(config: Config) -> bool:
    return bool(config.database_url)


def size_bytes(config: Config) -> int:
    """How large the database is now, as it lies on the disk."""
    if not is_postgresql(config):
        return sqlite_path(config).stat().st_size
    with postgresql(config) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    return int(row[0]) if row else 0


def sqlite_path(config: Config) -> Path:
    return config.data_dir / "berth.sqlite3"


def owner_of(config: Config) -> tuple[int, int]:
    """Whose the platform's files are: of its database, else of the folder that only the platform uses."""
    for path in (sqlite_path(config), config.data_dir / "run", config.data_dir):
        if path.exists():
            facts = path.stat()
            return facts.st_uid, facts.st_gid
    raise BackupError(f"There is no directory {config.data_dir}.")


def copy_database(config: Config, folder: Path, progress: Progress) -> Copied:
    """Copy the whole database of one moment into the folder."""
    if is_postgresql(config):
        return _dump(config, folder / "database.dump")
    return _copy_sqlite(sqlite_path(config), folder / "database.sqlite3", progress)


# --- SQLite ----------------------------------------------------------------------------------------------------------


def _copy_sqlite(source_path: Path, target_path: Path, progress: Progress) -> Copied:
    if not source_path.exists():
        raise BackupError(f"There is no database {source_path}. Set BERTH_DATA_DIR to the directory of the installation.")
    target_path.touch(mode=0o600)
    with contextlib.closing(open_sqlite(source_path)) as source, contextlib.closing(sqlite3.connect(target_path)) as target:
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM django_migrations").fetchall()  # From here on the copy's moment is fixed.
        page_bytes = int(source.execute("PRAGMA page_size").fetchone()[0])
        done = 0

        def told(status: int, remaining: int, total: int) -> None:
            nonlocal done
            progress(max(0, total - remaining - done) * page_bytes)
            done = max(done, total - remaining)

        source.backup(target, pages=PAGES, progress=told, sleep=0.0)
        source.rollback()
        target.execute("PRAGMA journal_mode=DELETE").fetchall()
        check_sqlite(target, target_path)
        facts = database_facts(lambda sql: target.execute(sql).fetchall())
    return Copied({"vendor": "sqlite", "server": sqlite3.sqlite_version, **facts}, target_path)


def open_sqlite(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=20.0, isolation_level=None)


def check_sqlite(connection: sqlite3.Connection, path: Path) -> None:
    """Raise BackupError unless SQLite itself finds every page and every reference in order."""
    [first, *_] = connection.execute("PRAGMA quick_check(1)").fetchall()
    if first[0] != "ok":
        raise BackupError(f"{path} is damaged: {first[0]}.")
    broken = connection.execute("PRAGMA foreign_key_check").fetchone()
    if broken is not None:
        raise BackupError(f"{path}: a row of {broken[0]} refers to a row of {broken[2]} that is not there.")


# --- PostgreSQL ------------------------------------------------------------------------------------------------------


def _dump(config: Config, path: Path) -> Copied:
    with postgresql(config) as connection:
        connection.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        snapshot = _single_value(connection, "SELECT pg_export_snapshot()")
        server = int(_single_value(connection, "SHOW server_version_num"))
        facts = database_facts(lambda sql: connection.execute(sql).fetchall())
        run_program(
            [
                str(program("pg_dump", server // 10_000)), "--format=custom", "--no-owner", "--no-privileges", "--no-password",
                f"--snapshot={snapshot}", "--lock-wait-timeout=60s", f"--file={path}",
            ],
            config,
        )  # fmt: skip
        connection.execute("ROLLBACK")
    path.chmod(0o600)
    run_program([str(program("pg_restore", server // 10_000)), "--list", str(path)], config)  # It can be read again.
    return Copied({"vendor": "postgresql", "server": server, **facts}, path)


class NoAnswer(BackupError):
    """The server refuses a connection, or there is none."""


@contextlib.contextmanager
def postgresql(config: Config, *, dbname: str = "") -> Iterator[psycopg.Connection[Any]]:
    """A connection of our own, to the platform's database unless another one is named. Raises NoAnswer."""
    try:
        url = psycopg.conninfo.make_conninfo(config.database_url, **({"dbname": dbname} if dbname else {}))
        connection = psycopg.connect(url, autocommit=True, connect_timeout=10, application_name="berth-backup")
    except psycopg.OperationalError as error:
        raise NoAnswer(f"The database does not answer: {first_line(error)} Check BERTH_DATABASE_URL.") from None
    with connection:
        yield connection


def database_name() -> str:
    return str(settings.DATABASES["default"]["NAME"])


def program(name: str, major: int) -> Path:
    """The client program of at least the server's version: an older one refuses, a newer one reads it."""
    found = sorted(
        (int(path.parts[-3]), path)
        for path in PROGRAMS.glob(f"*/bin/{name}")
        if path.parts[-3].isdigit() and int(path.parts[-3]) >= major
    )
    if found:
        return found[0][1]
    on_path = shutil.which(name)
    if on_path is not None:
        version = subprocess.run([on_path, "--version"], capture_output=True, text=True, check=False).stdout
        number = re.search(r"(\d+)", version)
        if number and int(number[1]) >= major:
            return Path(on_path)
    raise BackupError(f"{name} {major} or newer is needed for this server. On Debian: apt-get install postgresql-client-{major}")


def program_environment(config: Config) -> Mapping[str, str]:
    """How the client programs reach the server: in the environment, which other users cannot read."""
    database: dict[str, Any] = settings.DATABASES["default"]
    names = {"PGHOST": "HOST", "PGPORT": "PORT", "PGUSER": "USER", "PGPASSWORD": "PASSWORD", "PGDATABASE": "NAME"}
    given = {name: str(database[key]) for name, key in names.items() if database.get(key)}
    return {**{name: value for name, value in os.environ.items() if not name.startswith("PG")}, **given, "LC_ALL": "C.UTF-8"}


def run_program(command: list[str], config: Config) -> None:
    done = subprocess.run(command, env=program_environment(config), capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise BackupError(f"{Path(command[0]).name} failed: {done.stderr.strip()[-2_000:] or done.returncode}")


def first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _single_value(connection: psycopg.Connection[Any], sql: str) -> Any:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return row[0]


# --- What a database holds -------------------------------------------------------------------------------------------


def database_facts(query: Query) -> dict[str, Any]:
    """Migrations, positions and numbers of rows; the same questions to both kinds."""
    migrations: dict[str, list[str]] = {}
    for app, name in query("SELECT app, name FROM django_migrations ORDER BY app, name"):
        migrations.setdefault(app, []).append(name)
    last = query("SELECT max(seq) FROM activity_event")[0][0] or 0
    numbered = query("SELECT max(seq) FROM activity_cursor WHERE name = 'events'")[0][0] or 0
    head = query("SELECT seq, hash FROM activity_auditevent WHERE seq IS NOT NULL ORDER BY seq DESC LIMIT 1")
    return {
        "migrations": migrations,
        "seq": int(max(last, numbered)),
        "audit_head": {"seq": int(head[0][0]), "hash": head[0][1]} if head else None,
        "rows": {table: int(query(f"SELECT count(*) FROM {table}")[0][0]) for table in TABLES},  # noqa: S608 - our names.
    }
