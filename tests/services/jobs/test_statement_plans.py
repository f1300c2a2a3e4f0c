"""How the database finds the rows of a batch: by their key, never by reading every row of a state for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, transaction

from jobs.loading.around import look_around
from jobs.loading.rows import load_pending
from jobs.models import Attempt, Job
from jobs.reconcile.admit import Admission, TaskPlacement, admit
from jobs.services.submit import prepare, submit
from kernel.ids import new_id
from kernel.resources import Resources
from reconciling import bulk
from tests.builders.quay import Quay

pytestmark = [pytest.mark.database, pytest.mark.django_db]

STARTED, FEW, MANY = 10, 30, 600


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


@contextmanager
def sqlite_steps() -> Iterator[list[int]]:
    """An item for each step that SQLite takes in the block, rows that it only passes by included."""
    steps: list[int] = []
    connection.ensure_connection()
    connection.connection.set_progress_handler(lambda: steps.append(1), 1)
    try:
        yield steps
    finally:
        connection.connection.set_progress_handler(None, 1)


def submit_many(quay: Quay, count: int) -> None:
    bob = quay.cast.bob.actor
    documents = [{"name": f"job-{number}", "command": "true"} for number in range(count)]
    submit([prepare(actor=bob, tenant=None, document=document) for document in documents], actor=bob, now=quay.now)


def steps_to_start(quay: Quay) -> int:
    """Admit the first jobs of those that wait; the steps that it took."""
    pending = {row.id: row for row in load_pending({})}
    (pool,) = look_around(quay.now, {}).pools
    ask = Resources(cpu_millis=1)
    admissions = [
        Admission(job_id, pool, ask, (TaskPlacement("main", 0, "node-1", ask),)) for job_id in sorted(pending)[:STARTED]
    ]
    with sqlite_steps() as steps:
        assert len(admit(admissions, pending, {}, now=quay.now)) == STARTED
    return len(steps)


def test_admitting_looks_at_no_job_but_those_that_are_admitted(quay: Quay) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("Only SQLite looks for rows that name one which was not there, and only it counts what it does.")
    submit_many(quay, FEW)
    steps_to_start(quay)  # The first ones make rows that count for the others.
    few = steps_to_start(quay)
    submit_many(quay, MANY)
    assert steps_to_start(quay) < few * 1.1
