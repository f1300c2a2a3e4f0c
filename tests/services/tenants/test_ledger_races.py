"""Many write, count and read the ledger at once: nothing is counted twice, nothing is missed, and no sum goes back."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from tenants.billing.services.ledger import check_days, close_months, fold_days
from tenants.billing.usage import usage_report
from tenants.models import LedgerEntry, LedgerPending, Price, Statement, UsageDay
from tenants.services import LedgerLine, append_ledger
from tests.builders.threads import together
from tests.factories.tenants import make_tenant, make_user, now, top_queue

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]

START = datetime(2026, 3, 30, 12, tzinfo=UTC)
POOL = uuid.UUID(int=1)
WRITERS, TURNS, LINES = 3, 8, 20


def test_writers_counters_and_readers_at_once_agree_at_every_moment() -> None:
    tenant, user = make_tenant(), make_user()
    queue = top_queue(tenant)
    Price.objects.create(
        pool_id=POOL, resource="gpu_millis", micros_per_hour=3_600_000, currency="EUR", effective_at=START, created_at=START
    )

    def write() -> None:
        for turn in range(TURNS):
            lines = [
                LedgerLine(
                    attempt_id=uuid.uuid4(), number=1, job_id=uuid.uuid4(), tenant_id=tenant.pk, queue_id=queue.pk,
                    user_id=user.pk, pool_id=POOL, cluster_id=POOL, cpu_millis=0, memory_bytes=2**33 + 1, gpu_millis=1000,
                    started_at=START + timedelta(hours=turn), ended_at=START + timedelta(hours=turn, seconds=10),
                    outcome="succeeded",
                )
                for _ in range(LINES)
            ]  # fmt: skip
            append_ledger(lines, now=now())

    seen: list[tuple[int, int | None]] = []

    def read() -> None:
        for _ in range(2 * TURNS):
            rows = usage_report(tenant_ids=[tenant.pk], since=None, until=None, group_by="user")
            seen.append((rows[0].used.gpu_milli_seconds, rows[0].micros) if rows else (0, 0))

    def count() -> None:
        for _ in range(2 * TURNS):
            fold_days(now())

    together(*[write] * WRITERS, count, count, read)
    fold_days(now())

    attempts = WRITERS * TURNS * LINES
    assert LedgerEntry.objects.count() == attempts
    assert not LedgerPending.objects.exists()
    assert check_days() == []
    (row,) = usage_report(tenant_ids=[tenant.pk], since=None, until=None)
    assert (row.attempts, row.used.gpu_milli_seconds, row.micros) == (attempts, attempts * 10_000, attempts * 10_000)
    assert seen == sorted(seen)  # A sum only grows: nothing was missed between two readings.
    assert all(used == micros for used, micros in seen)
    assert all(used % (LINES * 10_000) == 0 for used, _micros in seen)  # Never half of what one transaction wrote.


def test_two_sweeps_at_once_close_a_month_once() -> None:
    user = make_user()
    for tenant in [make_tenant() for _ in range(4)]:
        line = LedgerLine(
            attempt_id=uuid.uuid4(), number=1, job_id=uuid.uuid4(), tenant_id=tenant.pk, queue_id=top_queue(tenant).pk,
            user_id=user.pk, pool_id=POOL, cluster_id=POOL, cpu_millis=1000, memory_bytes=0, gpu_millis=0, started_at=START,
            ended_at=START + timedelta(hours=1), outcome="succeeded",
        )  # fmt: skip
        append_ledger([line], now=now())
    fold_days(now())
    later = START + timedelta(days=40)

    together(*[lambda: close_months(later)] * 3)

    assert Statement.objects.count() == 4
    assert UsageDay.objects.count() == 4
    assert close_months(later) == 0
