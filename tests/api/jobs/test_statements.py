"""How many statements the busiest operations cost, beside the transaction's own: recorded, so that a review sees a change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.builders.quay import Quay

pytestmark = pytest.mark.database

BUDGET: dict[str, int] = json.loads((Path(__file__).parents[2] / "statements.json").read_text())
SPEC = {"name": "train", "command": "python train.py"}
TOGETHER = tuple(
    f'INSERT INTO "{table}"'
    for table in ("jobs_job", "jobs_dependency", "reconciling_transition", "activity_event", "activity_auditevent")
)
OF_TRANSACTIONS = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")


@pytest.fixture
def statements(quay: Quay, api: Callable[..., Any]) -> Callable[..., int]:
    """Statements of a POST by somebody who has submitted before: SQLite's, which has no single statement for several tables,
    are counted as PostgreSQL's."""
    client = api(quay.cast.bob)

    def send(path: str, body: Any, **headers: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            answer = client.post(f"/api/v1{path}", json.dumps(body), content_type="application/json", headers=headers)
        assert answer.status_code == 201, answer.content
        texts = [query["sql"] for query in queries if not query["sql"].startswith(OF_TRANSACTIONS)]
        if connection.vendor == "sqlite":
            written = [text for text in texts if text.startswith(TOGETHER)]
            numbered = [text for text in texts if text.startswith('UPDATE "activity_event" SET "seq"')]
            return len(texts) - len(numbered) - max(0, len(written) - 1)
        return len(texts)

    send("/jobs", {"spec": SPEC})
    return send


def test_a_submission_stays_within_its_budget(
    statements: Callable[..., int], django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        assert statements("/jobs", {"spec": {**SPEC, "name": "other"}}) <= BUDGET["jobs_create with a spec that is new"]
    assert statements("/jobs", {"spec": {**SPEC, "name": "other"}}) <= BUDGET["jobs_create"]
    again = statements("/jobs", {"spec": {**SPEC, "name": "other"}}, **{"Idempotency-Key": "one"})
    assert again <= BUDGET["jobs_create with an Idempotency-Key"]


def test_a_batch_costs_as_many_statements_as_its_thousands(statements: Callable[..., int]) -> None:
    items = [{"name": f"seed-{number}"} for number in range(100)]
    assert statements("/jobs:batch", {"spec": SPEC, "items": items}) <= BUDGET["jobs_batch of 100"]
