"""What every request looks up - whose token this is, queues and ceilings, images, pools - remembered for as long as it holds.

Each transaction that changes such a row leaves a mark, written by a trigger of the database (`FactTriggers`): it is there
whoever writes, also a process of an older release, and it commits together with the change. A request first reads the sum of
all marks, one small statement. What this process learned under the same sum still holds; under another sum all of it is
forgotten. So a revoked token is refused by the very next request, and a lowered ceiling counts for it.

Two rules keep it so. Facts are read from the database only through `Facts.find`, after the sum was read: what is remembered may
be newer than its label, never older. And they are asked for before the request writes: what a transaction has not committed
must not be remembered under a sum that others share.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import Any, TypeVar

import structlog
from django.apps import apps
from django.db import connection, transaction

from kernel import clock

T = TypeVar("T")

ENTRIES_MAX = 20_000  # A few megabytes; guessing at tokens must not fill the memory.
MARKS_MAX = 50  # More are folded into one by the sweep: each request adds them up.

log = structlog.get_logger("webapi")


class Facts:
    """What holds under one sum of marks. `at` is the database's own time when it was read, whatever a simulation says."""

    __slots__ = ("_known", "at", "mark")

    def __init__(self, mark: object, at: datetime, known: dict[Hashable, Any]) -> None:
        self.mark = mark
        self.at = at
        self._known = known

    @property
    def now(self) -> datetime:
        """`at` as a service takes it: the time of the simulation where there is one."""
        return clock.virtual_now() or self.at

    def find(self, key: Hashable, load: Callable[[], T]) -> T:
        """What `load` gave under this sum. It must depend on the key and on marked tables alone, and nobody may change it."""
        try:
            found: T = self._known[key]
        except KeyError:
            found = load()
            if len(self._known) >= ENTRIES_MAX:
                self._known.clear()
            self._known[key] = found
        return found


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

# Tables and those of their columns that requests rely on; a change of others, such as a token's last use, leaves no mark.
TABLES: dict[str, tuple[str, ...]] = {
    "tenants_token": ("user_id", "prefix", "digest", "scopes", "expires_at", "revoked_at"),
    "tenants_user": ("name", "email", "kind", "tenant_id", "is_operator", "is_active"),
    "tenants_membership": ("tenant_id", "user_id", "role"),
    "tenants_tenant": ("slug", "name", "number", "parent_id", "disabled_at", "disabled_reason", "deleted_at"),
    "tenants_tenantancestor": ("tenant_id", "ancestor_id"),
    "tenants_queue": ("tenant_id", "parent_id", "name", "path", "is_top"),
    "tenants_queuelimit": ("queue_id", "pool_id", "resource", "ceiling"),
    "tenants_queuerule": ("queue_id", "max_runtime_seconds", "max_jobs", "max_containers"),
    "tenants_usercap": ("tenant_id", "user_id", "gpu_millis", "jobs", "containers"),
    "tenants_featuresetting": ("tenant_id", "name", "enabled"),
    "tenants_prioritygrant": ("tenant_id", "role", "priority"),
    "clusters_cluster": ("name", "is_enabled"),
    "clusters_pool": ("cluster_id", "name", "gpu_model"),
    "images_image": ("tenant_id", "name", "kind", "state", "digest", "reference", "location", "error", "is_deleted"),
}


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
    """Tables whose changes leave no mark: none, unless somebody took a trigger away. Their facts must not be remembered."""
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


def marked_columns() -> dict[str, frozenset[str]]:
    """Columns of the marked tables as the models have them; a test compares them with `TABLES`."""
    by_table = {model._meta.db_table: model for model in apps.get_models()}
    return {table: frozenset(str(field.column) for field in by_table[table]._meta.concrete_fields) for table in TABLES}
