"""How the database finds the rows of a batch: by their key, never by reading every row of a state for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, transaction

from jobs.models import Attempt, Job
from kernel.ids import new_id
from reconciling import bulk

pytestmark = [pytest.mark.database, pytest.mark.django_db]


@contextmanager
def updates_explained() -> Iterator[list[str]]:
    """What the database plans for each UPDATE of the block."""
    plans: list[str] = []

    def explain(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("UPDATE"):
            prefix = "EXPLAIN QUERY PLAN " if connection.vendor == "sqlite" else "EXPLAIN "
            execute(prefix + sql, params, many, context)
            plans.append("\n".join(str(row[-1]) for row in context["cursor"].fetchall()))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explain):
        yield plans


@pytest.mark.parametrize(
    ("model", "state", "guard"),
    [(Job, "queued", {"desired": "run", "hold": False}), (Attempt, "admitted", {"lease_token": new_id()})],
)
def test_a_guarded_batch_finds_its_rows_by_their_key(model: Any, state: str, guard: dict[str, Any]) -> None:
    rows = [{"id": new_id(), "state": "starting", **guard} for _ in range(50)]
    with transaction.atomic(), updates_explained() as plans:
        bulk.update(model, rows, guard=tuple(guard), equals={"state": state})
    assert len(plans) == 1
    if connection.vendor == "sqlite":
        table = next(line for line in plans[0].splitlines() if model._meta.db_table in line)
        assert "(id=?)" in table, plans[0]
        assert "state=?" not in table, plans[0]
    else:
        assert "Index Cond: (state" not in plans[0], plans[0]
