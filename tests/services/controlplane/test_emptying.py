"""What tests that commit leave is gone before the next one, in the order that no key asks for."""

from __future__ import annotations

import pytest
from django.core.management.color import no_style
from django.db import connection

from tests.factories.tenants import make_cast

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]


def test_rows_are_deleted_where_there_are_any_and_no_table_is_truncated() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("about PostgreSQL; on SQLite Django deletes by itself")
    tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
    make_cast()

    statements = connection.ops.sql_flush(no_style(), tables)
    connection.ops.execute_sql_flush(statements)

    assert not [statement for statement in statements if "TRUNCATE" in statement]
    assert len(statements) < len(tables) / 2
    assert connection.ops.sql_flush(no_style(), tables) == []
