"""Where a live platform keeps its rows: a file, or a database and a Redis number of its own on the servers of this run.

Each begins with tables that were migrated once a run, and is asked past all of the platform's code.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import redis
from psycopg.conninfo import conninfo_to_dict

from tests.builders.prepared import made_once
from tests.builders.release import server_copy, service_user
from tests.servers import postgresql_programs

REDIS_DATABASE_LAST = 255  # From the end: the first ones are the workers' own.
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_numbers = itertools.count(1 + _worker, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))  # No two workers have one.


def store_of(data_dir: Path) -> Sqlite | Servers:
    """On the servers of this run where it has any."""
    database_url, redis_url = os.environ.get("BERTH_DATABASE_URL"), os.environ.get("BERTH_REDIS_URL")
    if not (database_url and redis_url):
        return Sqlite(data_dir)
    return Servers(database_url, redis_url)


class Sqlite:
    """The file in the data directory."""

    environment: Mapping[str, str] = {}

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / "berth.sqlite3"

    def take_tables(self) -> None:
        """Begin as the first start would after it has migrated: every platform of a run need not."""
        made = tables_in_file()
        shutil.copy(made, self._path)
        self._path.chmod(0o600)
        if os.geteuid() == 0:
            user = service_user()
            os.chown(self._path, user.pw_uid, user.pw_gid)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, timeout=60)) as connection:
            return connection.execute(sql).fetchall()

    def execute(self, sql: str) -> None:
        with contextlib.closing(sqlite3.connect(self._path, timeout=60)) as connection, connection:
            connection.execute(sql)

    def tables(self) -> list[str]:
        return [row[0] for row in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]

    def holds(self, table: str, word: str) -> bool:
        return any(word in repr(row) for row in self.rows(f'SELECT * FROM "{table}"'))

    def drop(self) -> None:
        """It goes with the directory."""


class Servers:
    """A database and a Redis number of our own on the servers of this run."""

    def __init__(self, database_url: str, redis_url: str) -> None:
        number = next(_numbers)
        self._name = f"live_{os.getpid()}_{number}"
        self._server_url = database_url
        parts = urlsplit(database_url)
        self._url = parts._replace(path=f"/{self._name}").geturl()
        self._redis_url = urlsplit(redis_url)._replace(query=f"db={REDIS_DATABASE_LAST - number}").geturl()
        for directory in (parse_qs(parts.query).get("host", [""])[0], str(Path(urlsplit(redis_url).path).parent)):
            let_service_user_in(Path(directory))
        self._on_server(f'CREATE DATABASE "{self._name}"')
        self.environment: Mapping[str, str] = {"BERTH_DATABASE_URL": self._url, "BERTH_REDIS_URL": self._redis_url}

    def take_tables(self) -> None:
        """Begin as the first start would after it has migrated: every platform of a run need not."""
        made = tables_on_server(self._server_url)
        self._on_server(f'DROP DATABASE "{self._name}"')
        self._on_server(f'CREATE DATABASE "{self._name}" TEMPLATE "{made}"')

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._url) as connection:
            return connection.execute(sql).fetchall()  # type: ignore[arg-type]

    def execute(self, sql: str) -> None:
        with psycopg.connect(self._url) as connection:
            connection.execute(sql)  # type: ignore[arg-type]

    def tables(self) -> list[str]:
        return [row[0] for row in self.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]

    def holds(self, table: str, word: str) -> bool:
        return bool(self.rows(f"""SELECT 1 FROM "{table}" row WHERE row::text LIKE '%{word}%' LIMIT 1"""))

    def drop(self) -> None:
        self._on_server(f'DROP DATABASE "{self._name}" WITH (FORCE)')
        with redis.Redis.from_url(self._redis_url) as client:
            client.flushdb()

    def _on_server(self, sql: str) -> None:
        with psycopg.connect(self._server_url, autocommit=True) as connection:
            connection.execute(sql)  # type: ignore[arg-type]


@cache
def tables_in_file() -> Path:
    """An SQLite file with the tables of this checkout's server and no rows of anybody's."""
    with made_once("tables") as folder:
        made = folder / "berth.sqlite3"
        if not made.exists():
            with tempfile.TemporaryDirectory(prefix="berth-tables-", dir="/tmp") as data_dir:
                _migrate(Path(data_dir), {})
                shutil.copy(Path(data_dir) / made.name, made.with_suffix(".part"))
            made.with_suffix(".part").rename(made)
    return made


@cache
def tables_on_server(server_url: str) -> str:
    """The same as a database of this PostgreSQL; its name. Only the first server of a run migrates, the others read its dump."""
    name, part = "live_tables", "live_tables_part"
    with made_once("tables") as folder, psycopg.connect(server_url, autocommit=True) as connection:
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
            return name
        connection.execute(f'DROP DATABASE IF EXISTS "{part}"')  # type: ignore[arg-type]
        connection.execute(f'CREATE DATABASE "{part}"')  # type: ignore[arg-type]
        _make_tables(urlsplit(server_url)._replace(path=f"/{part}").geturl(), folder / "postgresql.sql")
        connection.execute(f'ALTER DATABASE "{part}" RENAME TO "{name}"')  # type: ignore[arg-type]
    return name


def _make_tables(database_url: str, dump: Path) -> None:
    if dump.exists():
        _run(database_url, "psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--file={dump}")
        return
    with tempfile.TemporaryDirectory(prefix="berth-tables-", dir="/tmp") as data_dir:
        _migrate(Path(data_dir), {"BERTH_DATABASE_URL": database_url})
    _run(database_url, "pg_dump", "--no-owner", f"--file={dump.with_suffix('.part')}")
    dump.with_suffix(".part").rename(dump)


def _run(database_url: str, program: str, *words: str) -> None:
    folder, parts = postgresql_programs(), conninfo_to_dict(database_url)
    assert folder is not None
    names = {"PGHOST": "host", "PGPORT": "port", "PGUSER": "user", "PGPASSWORD": "password", "PGDATABASE": "dbname"}
    environment = {**os.environ, **{name: str(parts[key]) for name, key in names.items() if key in parts}}
    done = subprocess.run([str(folder / program), *words], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _migrate(data_dir: Path, more: Mapping[str, str]) -> None:
    environment = {
        "PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1",
        "BERTH_DATA_DIR": str(data_dir), "BERTH_SECRET_KEY": secrets.token_hex(32), **more,
    }  # fmt: skip
    command = [sys.executable, str(server_copy() / "manage.py"), "migrate", "--verbosity=0"]
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def let_service_user_in(directory: Path) -> None:
    """The servers' sockets are closed to everybody but their own users; the platform's user may pass, jobs still may not."""
    if os.geteuid() != 0 or not directory.is_absolute() or not directory.is_dir():
        return
    group = service_user().pw_gid
    sockets = [path for path in directory.iterdir() if path.is_socket()]
    for path, mode in [(directory, 0o710), *((each, 0o770) for each in sockets)]:
        os.chown(path, -1, group)
        path.chmod(mode)
