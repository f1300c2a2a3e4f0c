from __future__ import annotations

import itertools
import random
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from tenants.models import LedgerEntry, Tenant, User
from tenants.quota.accounting import ResourceSeconds
from tenants.selectors import usage_report
from tenants.services import LedgerLine, append_ledger
from tests.factories.tenants import make_tenant, make_user, now, top_queue

pytestmark = pytest.mark.database
START = datetime(2026, 1, 1, tzinfo=UTC)
POOLS = [uuid.UUID(int=1), uuid.UUID(int=2)]


def a_line(
    tenant: Tenant, user: User, start: timedelta, length: timedelta, pool: uuid.UUID = POOLS[0], **changes: object
) -> LedgerLine:
    values: dict[str, object] = {
        "attempt_id": uuid.uuid4(),
        "number": 1,
        "job_id": uuid.uuid4(),
        "tenant_id": tenant.pk,
        "queue_id": top_queue(tenant).pk,
        "user_id": user.pk,
        "pool_id": pool,
        "cluster_id": uuid.UUID(int=9),
        "cpu_millis": 1500,
        "memory_bytes": 2**40 + 7,
        "gpu_millis": 2000,
        "started_at": START + start,
        "ended_at": START + start + length,
        "outcome": "succeeded",
    }
    return LedgerLine(**{**values, **changes})  # type: ignore[arg-type]


def total(report: list) -> ResourceSeconds:  # type: ignore[type-arg]
    return sum((row.used for row in report), start=ResourceSeconds())


def test_sums_are_equal_whatever_they_are_grouped_by_and_wherever_a_window_is_cut() -> None:
    chance = random.Random(7)
    tenants, users = [make_tenant(), make_tenant()], [make_user(), make_user()]
    lines = [
        a_line(
            chance.choice(tenants),
            chance.choice(users),
            timedelta(microseconds=chance.randrange(10**10)),
            timedelta(microseconds=chance.randrange(10**10)),
            chance.choice(POOLS),
        )
        for _ in range(200)
    ]
    append_ledger(lines, now=now())
    seconds = sum(LedgerEntry.objects.values_list("seconds", flat=True))
    whole = ResourceSeconds(1500 * seconds, (2**40 + 7) * seconds, 2000 * seconds)

    cuts = sorted(START + timedelta(microseconds=chance.randrange(2 * 10**10)) for _ in range(5))
    edges = [None, *cuts, None]
    for group_by in ("tenant", "user", "queue", "pool", "job"):
        assert total(usage_report(tenant_ids=None, since=None, until=None, group_by=group_by)) == whole
        parts = [
            total(usage_report(tenant_ids=None, since=since, until=until, group_by=group_by))
            for since, until in itertools.pairwise(edges)
        ]
        assert sum(parts, start=ResourceSeconds()) == whole


def test_a_year_on_a_thousand_nodes_stays_exact() -> None:
    tenant, user = make_tenant(), make_user()
    year = timedelta(days=365)
    line = a_line(tenant, user, timedelta(), year, memory_bytes=2**50 - 1, gpu_millis=8_000_000, cpu_millis=128_000_000)
    append_ledger([line], now=now() + year)

    (row,) = usage_report(tenant_ids=[tenant.pk], since=None, until=None)

    assert row.used == ResourceSeconds(128_000_000 * 31_536_000, (2**50 - 1) * 31_536_000, 8_000_000 * 31_536_000)


def test_a_line_is_written_once_per_attempt_and_pool() -> None:
    line = a_line(make_tenant(), make_user(), timedelta(), timedelta(seconds=5))

    assert [append_ledger([line], now=now()) for _ in range(2)] == [1, 0]


def test_clocks_that_disagree_count_no_time_and_no_future() -> None:
    tenant, user = make_tenant(), make_user()
    backwards = a_line(tenant, user, timedelta(), timedelta(seconds=-5))
    ahead = a_line(tenant, user, timedelta(), timedelta(seconds=90))

    append_ledger([backwards, ahead], now=START + timedelta(seconds=60))

    assert sorted(LedgerEntry.objects.values_list("seconds", flat=True)) == [0, 60]


def test_an_entry_never_changes() -> None:
    append_ledger([a_line(make_tenant(), make_user(), timedelta(), timedelta(seconds=5))], now=now())

    with pytest.raises(Exception, match="never changes"), transaction.atomic():
        LedgerEntry.objects.update(seconds=1)


def test_two_queries_whatever_the_number_of_entries() -> None:
    tenant, user = make_tenant(), make_user()
    append_ledger([a_line(tenant, user, timedelta(seconds=n), timedelta(seconds=5)) for n in range(50)], now=now())

    with CaptureQueriesContext(connection) as queries:
        usage_report(tenant_ids=[tenant.pk], since=START + timedelta(seconds=10), until=START + timedelta(seconds=20))

    assert len(queries) == 2
