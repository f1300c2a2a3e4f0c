from __future__ import annotations

import itertools
import random
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from tenants.billing.services.ledger import check_days, fold_days
from tenants.capacity.quota.accounting import ResourceSeconds
from tenants.models import LedgerEntry, Tenant, User
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
    for folded in (False, True):  # Whether counted into days or not, the sums are the same.
        if folded:
            assert fold_days(now()) == 200
        for group_by in ("tenant", "user", "queue", "pool", "job", "fate", "day"):
            report = usage_report(tenant_ids=None, since=None, until=None, group_by=group_by)
            assert total(report) == whole
            assert sum(row.attempts for row in report) == 200
            parts = [
                total(usage_report(tenant_ids=None, since=since, until=until, group_by=group_by))
                for since, until in itertools.pairwise(edges)
            ]
            assert sum(parts, start=ResourceSeconds()) == whole
    assert check_days() == []


def test_days_count_what_touches_a_window_as_often_as_the_entries_themselves_do() -> None:
    chance = random.Random(11)
    tenant, user = make_tenant(), make_user()
    lines = [
        a_line(tenant, user, timedelta(hours=chance.randrange(300)), timedelta(hours=chance.choice([1, 5, 24, 30, 200])))
        for _ in range(120)
    ]
    append_ledger(lines, now=now())
    moments = [START + timedelta(hours=hours) for hours in (0, 7, 24, 25, 48, 72, 100, 240, 400, 600)]
    windows = [
        (None, None),
        *itertools.combinations(moments, 2),
        *((moment, None) for moment in moments),
        *((None, moment) for moment in moments),
    ]

    def attempts() -> list[int]:
        return [
            sum(row.attempts for row in usage_report(tenant_ids=None, since=since, until=until, group_by=group_by))
            for since, until in windows
            for group_by in ("tenant", "day")
        ]

    def touching(since: datetime | None, until: datetime | None) -> int:
        return sum((since is None or line.ended_at > since) and (until is None or line.started_at < until) for line in lines)

    expected = [touching(since, until) for since, until in windows for _group_by in ("tenant", "day")]
    assert attempts() == expected
    fold_days(now())
    assert attempts() == expected


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


@pytest.mark.parametrize("is_folded", [False, True])
def test_eight_queries_whatever_the_number_of_entries(is_folded: bool) -> None:
    tenant, user = make_tenant(), make_user()
    append_ledger([a_line(tenant, user, timedelta(seconds=n), timedelta(seconds=5)) for n in range(50)], now=now())
    if is_folded:
        fold_days(now())

    with CaptureQueriesContext(connection) as queries:
        usage_report(tenant_ids=[tenant.pk], since=START + timedelta(seconds=10), until=START + timedelta(seconds=20))

    assert len(queries) == 8


def test_the_first_jobs_are_those_of_the_whole_list() -> None:
    """Whatever sticks out of the window may be among them."""
    chance = random.Random(3)
    tenant, user = make_tenant(), make_user()
    jobs = [uuid.uuid4() for _ in range(30)]
    append_ledger(
        [
            a_line(
                tenant, user, timedelta(hours=chance.randrange(40)), timedelta(hours=chance.randrange(9)),
                job_id=chance.choice(jobs), gpu_millis=chance.choice([0, 1000]),
            )
            for _ in range(90)
        ],
        now=now(),
    )  # fmt: skip
    for since, until in ((None, None), (START + timedelta(hours=9), START + timedelta(hours=25))):
        whole = usage_report(tenant_ids=None, since=since, until=until, group_by="job")
        for first in (1, 5, 29, 60):
            assert usage_report(tenant_ids=None, since=since, until=until, group_by="job", first=first) == whole[:first]
