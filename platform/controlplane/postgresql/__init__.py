"""Django's backend of PostgreSQL, with the patience of a service: bounded waits, and a server that is away is noticed at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from django.db import DatabaseError


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
        connection.close_pool()  # The next connection of whoever asks is a fresh one, with its bounds.
