"""What every request looks up - whose token this is, queues and ceilings, images, pools - remembered for as long as it holds.

Each transaction that changes such a row leaves a mark, written by a trigger of the database (`add_triggers`): it is there
whichever process writes, also one of an older release, and it commits together with the change. A request first reads the sum
of all marks, one small statement. What this process learned under the same sum still holds; under another sum all of it is
forgotten. So a revoked token is refused by the very next request, and a lowered ceiling counts for it.

Two rules keep it so. Facts are read from the database only through `Facts.find` (`kernel/facts.py`), after the sum was read:
what is remembered may be newer than its label, never older. And they are asked for before the request writes: what a
transaction has not committed must not be remembered under a sum that others share.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping
from datetime import UTC, datetime
from typing import Any

import structlog
from django.apps import apps
from django.db import connection, transaction
from django.db.models import Model

from kernel.facts import Facts
from kernel.registry import Registry

MARKS_MAX = 50  # More are folded into one by the sweep: each request adds them up.

log = structlog.get_logger("webapi")

_latest: tuple[object, dict[Hashable, Any]] = (None, {})


def look() -> Facts:
    """The facts as they are now. One statement."""
    global _latest
    mark, at = _read()
    known_mark, known = _latest
    if mark != known_mark or mark is None:
        known = {}
        _latest = (mark, known)
    return Facts(mark, at, known)


def fold(now: datetime) -> int:
    """Replace many marks by one new one; returns how many went. A part of the sweep."""
    marks = apps.get_model("webapi.FactMark").objects.all()  # By name: the framework's settings import this module.
    if marks.count() <= MARKS_MAX:
        return 0
    with transaction.atomic():
        gone: int = marks.delete()[0]
        with connection.cursor() as cursor:
            cursor.execute(MARK[connection.vendor])
    return gone


def _read() -> tuple[object, datetime]:
    """The sum of all marks, None where it cannot be trusted; and the time."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT count(*), sum(salt)::text, clock_timestamp() FROM webapi_factmark")
            number, salt, at = cursor.fetchone()
            at = at.astimezone(UTC)
        else:
            cursor.execute("SELECT count(*), sum(salt) FROM webapi_factmark")
            number, salt = cursor.fetchone()
            at = datetime.now(UTC)  # SQLite has no clock of its own, but this host's.
    return ((number, salt) if _is_complete(connection.vendor) else None), at


# --- Triggers ---------------------------------------------------------------------------------------------------------

# By the transaction's number, so that no two transactions wait for one row; the salt makes every sum a new one, also after a
# rollback to a savepoint.
MARK = {
    "postgresql": (
        "INSERT INTO webapi_factmark (id, salt) VALUES (txid_current(), (random() * 1000000000000)::bigint) "
        "ON CONFLICT (id) DO UPDATE SET salt = webapi_factmark.salt + EXCLUDED.salt"
    ),
    "sqlite": "INSERT OR REPLACE INTO webapi_factmark (id, salt) VALUES (1, random() / 16777216)",
}


def _missing(table: str, columns: tuple[str, ...]) -> str:
    model = next((model for model in apps.get_models() if model._meta.db_table == table), None)
    if model is None or not columns:
        return "it is no table of a model, or names no column"
    unknown = set(columns) - {str(field.column) for field in model._meta.concrete_fields}
    return f"it has no columns {sorted(unknown)}" if unknown else ""


# Tables and those of their columns that requests rely on; a change of others, such as a token's last use, leaves no mark.
TABLES: Registry[tuple[str, ...]] = Registry("fact table", missing=_missing)


def register_fact_tables(tables: Mapping[type[Model], tuple[str, ...]]) -> None:
    """Called by each app at start, with its own. The triggers themselves are made by its migrations (`add_triggers`)."""
    TABLES.add((model._meta.db_table, columns) for model, columns in tables.items())


def add_triggers(schema_editor: Any, table: str, columns: tuple[str, ...]) -> None:
    """Let changes of a table leave their mark. For migrations, which name the columns themselves: what they did stays done."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(
            f"CREATE TRIGGER {table}_facts AFTER INSERT OR DELETE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION webapi_mark_facts()"
        )
        changed = f"({_each('OLD', columns)}) IS DISTINCT FROM ({_each('NEW', columns)})"
        schema_editor.execute(
            f"CREATE TRIGGER {table}_facts_changed AFTER UPDATE ON {table} FOR EACH ROW WHEN ({changed}) "
            "EXECUTE FUNCTION webapi_mark_facts()"
        )
        return
    changed = " OR ".join(f'OLD."{name}" IS NOT NEW."{name}"' for name in columns)
    for event, condition in (("INSERT", ""), ("DELETE", ""), ("UPDATE", f"WHEN {changed}")):
        schema_editor.execute(
            f"CREATE TRIGGER {table}_facts_{event.lower()} AFTER {event} ON {table} {condition} BEGIN {MARK['sqlite']}; END"
        )


def drop_triggers(schema_editor: Any, table: str) -> None:
    """Undo `add_triggers`."""
    if schema_editor.connection.vendor == "postgresql":
        for name in (f"{table}_facts", f"{table}_facts_changed"):
            schema_editor.execute(f"DROP TRIGGER IF EXISTS {name} ON {table}")
        return
    for event in ("insert", "delete", "update"):
        schema_editor.execute(f"DROP TRIGGER IF EXISTS {table}_facts_{event}")


def missing_triggers() -> frozenset[str]:
    """Tables whose changes leave no mark: none, unless a trigger was removed. Their facts must not be remembered."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D'")
        else:
            cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        present = {name for (name,) in cursor.fetchall()}
    suffixes = ("_facts", "_facts_changed") if connection.vendor == "postgresql" else (
        "_facts_insert", "_facts_delete", "_facts_update",
    )  # fmt: skip
    return frozenset(table for table in TABLES if not all(table + suffix in present for suffix in suffixes))


@functools.cache
def _is_complete(vendor: str) -> bool:
    """Asked once a process."""
    missing = missing_triggers()
    if missing:
        log.error("facts_not_remembered", tables=sorted(missing))
    return not missing


def _each(row: str, columns: tuple[str, ...]) -> str:
    return ", ".join(f'{row}."{name}"' for name in columns)
