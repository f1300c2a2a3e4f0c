"""Migration operations that a working platform does not notice. Use `AddIndexOnline` for every index of a table that exists.

A migration with one of these says `atomic = False` and does nothing else: PostgreSQL builds an index beside the work on a table
only outside a transaction, and cut off it leaves an invalid one, which the next try removes.
"""

from __future__ import annotations

from typing import Any

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations import AddIndex
from django.db.migrations.state import ProjectState

from upstream.postgresql import lock_timeout


class AddIndexOnline(AddIndex):
    """Add an index while others go on writing; on SQLite, which has one writer, as ever."""

    atomic = False

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """Build it; one that is there and valid is left alone, an invalid one is what a cut-off try left."""
        if schema_editor.connection.vendor != "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)
            return
        model: Any = to_state.apps.get_model(app_label, self.model_name)
        if not self.allow_migrate_model(schema_editor.connection.alias, model):
            return
        with lock_timeout(schema_editor.connection, "0"):  # It waits for others and blocks none.
            self._build(model, schema_editor)

    def _build(self, model: Any, editor: Any) -> None:
        with editor.connection.cursor() as cursor:
            cursor.execute(
                "SELECT indisvalid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
                "WHERE relname = %s AND pg_table_is_visible(indrelid)",
                [self.index.name],
            )
            found = cursor.fetchone()
        if found is not None and found[0]:
            return
        if found is not None:
            editor.remove_index(model, self.index, concurrently=True)
        editor.add_index(model, self.index, concurrently=True)

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """Remove it, as quietly."""
        if schema_editor.connection.vendor != "postgresql":
            super().database_backwards(app_label, schema_editor, from_state, to_state)
            return
        editor: Any = schema_editor
        editor.remove_index(from_state.apps.get_model(app_label, self.model_name), self.index, concurrently=True)
