"""Django's backend of PostgreSQL, with the patience of a service: bounded waits, and a server that is away is noticed at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from django.db import DatabaseError, OperationalError


@contextlib.contextmanager
def without_statement_timeout(connection: Any) -> Iterator[None]:
    """Let statements take as long as they take: an index of a large table is made in one. Of no effect on SQLite."""
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('statement_timeout')")
        (bound,) = cursor.fetchone()
        cursor.execute("SET statement_timeout = 0")
    try:
        yield
    finally:
        with contextlib.suppress(DatabaseError), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, false)", [bound])
        connection.close_pool()  # The caller's next connection is a fresh one, with its bounds.


@contextlib.contextmanager
def lock_timeout(connection: Any, text: str) -> Iterator[None]:
    """Let statements wait so long for a lock, as PostgreSQL writes it; `0` is without end. Of no effect on SQLite."""
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('lock_timeout')")
        (before,) = cursor.fetchone()
        cursor.execute("SELECT set_config('lock_timeout', %s, false)", [text])
    try:
        yield
    finally:
        with contextlib.suppress(OperationalError), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, false)", [before])


@contextlib.contextmanager
def alone(connection: Any, number: int) -> Iterator[None]:
    """Hold a lock of the whole database that others who ask for this number wait for. Of no effect on SQLite: one process."""
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [number])
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [number])
