"""Emptying PostgreSQL after a test that commits: rows are deleted where there are any.

Django truncates every table, and with each its indexes: for our 95 tables PostgreSQL makes some hundreds of files anew. That is
0.3 s of a core and up to two seconds of a busy disk after each such test, which leaves rows in a dozen tables.
"""

from __future__ import annotations

from typing import Any

from django.db.backends.postgresql.operations import DatabaseOperations

_truncate = DatabaseOperations.sql_flush


def empty_by_deleting() -> None:
    """From now on this process does. Needs the superuser that `tests/servers.py` makes."""
    DatabaseOperations.sql_flush = _delete  # type: ignore[method-assign, assignment]


def _delete(
    self: DatabaseOperations, style: Any, tables: list[str], *, reset_sequences: bool = False, allow_cascade: bool = False
) -> list[str]:
    """Statements for one transaction. A replica fires no triggers: rows go in any order, and what counts or refuses changes
    is not asked."""
    if reset_sequences:
        return _truncate(self, style, tables, reset_sequences=True, allow_cascade=allow_cascade)
    quoted = {table: self.quote_name(table) for table in tables}
    with self.connection.cursor() as cursor:
        cursor.execute(
            " UNION ALL ".join(f"SELECT %s WHERE EXISTS (SELECT 1 FROM {name})" for name in quoted.values()), list(quoted)
        )
        full = [row[0] for row in cursor.fetchall()]
    return ["SET LOCAL session_replication_role = replica", *(f"DELETE FROM {quoted[table]}" for table in full)] if full else []
