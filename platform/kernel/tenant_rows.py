"""Tables with rows of a tenant or of its accounts, which go when a tenant is removed whole.

Each app registers its own, so that the removal of a tenant knows every table and deletes from no other. Left out are the tables
that keep what happened (events, the audit), and numbers kept by triggers: they come to 0 with the rows that they count, and taken
away before those would end below it. The tenant itself goes last.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernel.registry import Registry

TENANT, USER, ACTOR = "tenant_id", "user_id", "actor_id"
COLUMNS = (TENANT, USER, ACTOR)


def _missing(name: str, columns: tuple[str, ...]) -> str:
    if name.count(".") != 1:
        return "a table is named by its model, as <app>.<Model>"
    return (
        "" if columns and set(columns) <= set(COLUMNS) else f"name the columns that say whose a row is, of {', '.join(COLUMNS)}"
    )


TABLES: Registry[tuple[str, ...]] = Registry("table of tenants", missing=_missing)


def register_tenant_rows(rows: Mapping[str, tuple[str, ...]]) -> None:
    """Called by each app at start, with its own models by label: the columns that say whose a row is."""
    TABLES.add(rows.items())
