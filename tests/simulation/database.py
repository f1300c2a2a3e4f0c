"""A database of its own for every simulation: SQLite in memory, with the product's tables, in a millisecond.

The migrations run once for all processes of a run; what they made is a file, copied into memory from then on. The connection
replaces the process's default one while the block runs.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.db import connections
from django.db.backends.sqlite3.base import DatabaseWrapper

from tests.builders.prepared import made_once


@contextlib.contextmanager
def fresh_database() -> Iterator[None]:
    """An empty installation: tables and triggers as migrated, no rows but those that migrations write."""
    previous = connections["default"]
    connection = _connect()
    connections["default"] = connection
    try:
        connection.ensure_connection()
        connection.connection.deserialize(_migrated())
        yield
    finally:
        connections["default"] = previous
        connection.connection.close()


def _connect() -> DatabaseWrapper:
    settings: dict[str, Any] = {
        **connections.settings["default"],
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": ":memory:",
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
        "CONN_MAX_AGE": None,
        "USER": "",
        "PASSWORD": "",
        "HOST": "",
        "PORT": "",
    }
    return DatabaseWrapper(settings, "default")


_content: bytes | None = None


def _migrated() -> bytes:
    global _content
    if _content is None:
        with made_once("simulation") as folder:
            path = folder / "migrated.sqlite"
            if not path.exists():
                _make(path)
        _content = path.read_bytes()
    return _content


def _make(path: Path) -> None:
    outer = connections["default"]
    connection = _connect()
    connections["default"] = connection
    try:
        call_command("migrate", verbosity=0, interactive=False)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(connection.connection.serialize())
        Path(file.name).replace(path)
    finally:
        connections["default"] = outer
        connection.connection.close()
