"""Decisions are kept in bulk, in their order, and go when their time is over."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.models import DecisionRecord
from jobs.services.decision_records import DecisionRow, forget_old_decisions, record_decisions
from kernel.clock import database_now
from kernel.config import current

pytestmark = pytest.mark.database
TENANT = uuid.UUID(int=7)


def rows(count: int) -> list[DecisionRow]:
    return [DecisionRow(uuid.UUID(int=number), TENANT, "start", "pool", {"nodes": [f"n{number}"]}) for number in range(count)]


@pytest.mark.parametrize("count", [1, 1000])
def test_however_many_they_are_one_statement_keeps_them(db: None, count: int) -> None:
    with CaptureQueriesContext(
        connection,
    ) as found:
        assert record_decisions(rows(count), now=database_now()) == count
    assert len([query for query in found.captured_queries if "INSERT" in query["sql"]]) == 1
    kept = DecisionRecord.objects.order_by("id").values_list("job_id", flat=True)
    assert list(kept) == [uuid.UUID(int=number) for number in range(count)]


def test_none_is_none(db: None) -> None:
    assert record_decisions([], now=database_now()) == 0


def test_what_is_older_than_the_setting_goes_and_the_rest_stays(db: None) -> None:
    now = database_now()
    record_decisions(rows(3), now=now - timedelta(days=current().decision_days, seconds=1))
    record_decisions(rows(2), now=now - timedelta(days=1))
    assert forget_old_decisions(now) == 3
    assert forget_old_decisions(now) == 0
    assert DecisionRecord.objects.count() == 2
