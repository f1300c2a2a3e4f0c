"""The ledger on a database: days, prices, statements and checks, as the sweep and the operators meet them."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from kernel.resources import Resources
from tenants.billing.ledger.prices import UNITS
from tenants.billing.ledger_rows import price_book
from tenants.billing.services.ledger import (
    Charge,
    check_charges,
    check_days,
    check_reservations,
    close_months,
    fold_days,
    verify_statements,
)
from tenants.billing.services.ledger.check import check_hourly
from tenants.billing.services.ledger.statements import GRACE
from tenants.billing.statements import closed_months, statement_of
from tenants.billing.usage import UsageFilter, job_costs, usage_lines, usage_report
from tenants.models import LedgerEntry, LedgerPending, Price, Statement, Tenant, UsageDay, User
from tenants.services import LedgerLine, append_ledger, release, reserve
from tests.factories.tenants import ask, make_tenant, make_user, now, top_queue

pytestmark = pytest.mark.database
START = datetime(2026, 3, 30, 12, tzinfo=UTC)
POOL = uuid.UUID(int=1)
HOUR = timedelta(hours=1)
APRIL = datetime(2026, 4, 1, tzinfo=UTC)


def a_price(micros: int, since: datetime = START, *, pool_id: uuid.UUID = POOL, resource: str = "gpu_millis") -> Price:
    return Price.objects.create(
        pool_id=pool_id, resource=resource, micros_per_hour=micros, currency="EUR", effective_at=since, created_at=since
    )


def a_line(tenant: Tenant, user: User, start: timedelta, length: timedelta, **changes: Any) -> LedgerLine:
    values: dict[str, Any] = {
        "attempt_id": uuid.uuid4(),
        "number": 1,
        "job_id": uuid.uuid4(),
        "tenant_id": tenant.pk,
        "queue_id": top_queue(tenant).pk,
        "user_id": user.pk,
        "pool_id": POOL,
        "cluster_id": uuid.UUID(int=9),
        "cpu_millis": 0,
        "memory_bytes": 0,
        "gpu_millis": 2_000,
        "started_at": START + start,
        "ended_at": START + start + length,
        "outcome": "succeeded",
    }
    return LedgerLine(**{**values, **changes})


def book(*lines: LedgerLine, fold: bool = True) -> None:
    append_ledger(lines, now=START + timedelta(days=300))
    if fold:
        fold_days(now())


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant("vision")


@pytest.fixture
def user() -> User:
    return make_user("bob")


def test_every_entry_waits_to_be_counted_and_is_counted_once(tenant: Tenant, user: User) -> None:
    lines = [a_line(tenant, user, HOUR * n, HOUR) for n in range(5)]
    append_ledger([*lines, *lines], now=START + timedelta(days=9))

    assert LedgerPending.objects.count() == 5
    assert fold_days(now()) == 5
    assert fold_days(now()) == 0
    assert sum(UsageDay.objects.values_list("gpu_milli_seconds", flat=True)) == 5 * 2_000 * 3_600
    assert check_days() == []


def test_an_entry_that_the_release_before_wrote_is_counted_by_its_outcome(tenant: Tenant, user: User) -> None:
    """It knows neither `fate` nor `LedgerPending`: the one is null, the other is written by the trigger."""
    for outcome in ("succeeded", "failed", "preempted", "stopped"):
        LedgerEntry.objects.create(
            attempt_id=uuid.uuid4(), number=1, job_id=uuid.uuid4(), tenant=tenant, queue=top_queue(tenant), user=user,
            pool_id=POOL, cluster_id=uuid.UUID(int=9), cpu_millis=0, memory_bytes=0, gpu_millis=1_000,
            started_at=START, ended_at=START + HOUR, seconds=3_600, outcome=outcome,
        )  # fmt: skip

    def report() -> dict[Any, int]:
        rows = usage_report(tenant_ids=None, since=None, until=None, group_by="fate")
        return {row.key: row.used.gpu_milli_seconds for row in rows}

    expected = dict.fromkeys(("useful", "failed", "evicted", "stopped"), 3_600_000)
    assert report() == expected
    assert fold_days(now()) == 4
    assert report() == expected
    for fate in expected:
        (row,) = usage_report(tenant_ids=None, since=START, until=START + HOUR, group_by="tenant", fate=fate)
        assert row.attempts == 1


def test_a_failed_attempt_whose_job_went_on_was_retried(tenant: Tenant, user: User) -> None:
    book(
        a_line(tenant, user, HOUR, HOUR, outcome="failed", goes_on=True),
        a_line(tenant, user, HOUR, HOUR, outcome="preempted", goes_on=True),
        a_line(tenant, user, HOUR, HOUR, outcome="failed"),
    )

    rows = usage_report(tenant_ids=None, since=None, until=None, group_by="fate")

    assert sorted(str(row.key) for row in rows) == ["evicted", "failed", "retried"]


def test_a_use_that_spans_a_change_of_price_is_charged_at_both(tenant: Tenant, user: User) -> None:
    a_price(1_000_000)
    a_price(3_000_000, START + HOUR)
    a_price(5_000_000, START + 2 * HOUR)
    line = a_line(tenant, user, timedelta(), 2 * HOUR)
    book(line)

    (row,) = usage_report(tenant_ids=[tenant.pk], since=None, until=None)

    assert row.micros == 2 * 1_000_000 + 2 * 3_000_000
    assert job_costs([line.job_id], since=START + HOUR, until=None) == {line.job_id: 6_000_000}
    by_day = usage_report(tenant_ids=None, since=START, until=START + HOUR, group_by="day")
    assert [row.micros for row in by_day] == [2_000_000]


@pytest.mark.capability("69", "A new price never acts on the past; prices and closed months never change")
def test_a_new_price_changes_nothing_that_was_used_before(tenant: Tenant, user: User) -> None:
    a_price(1_000_000)
    book(a_line(tenant, user, timedelta(), HOUR))
    before = statement_of(tenant.pk, 202603)

    a_price(9_000_000, START + HOUR)

    assert check_days() == []
    assert statement_of(tenant.pk, 202603).document["totals"] == before.document["totals"]


@pytest.mark.capability("69", "A new price never acts on the past; prices and closed months never change")
def test_a_price_and_a_statement_never_change(tenant: Tenant, user: User) -> None:
    a_price(1_000_000)
    book(a_line(tenant, user, timedelta(), HOUR))
    close_months(START + timedelta(days=40))

    for model, change in ((Price, {"micros_per_hour": 1}), (Statement, {"sha256": "0" * 64})):
        with pytest.raises(Exception, match="never changes"), transaction.atomic():
            model.objects.update(**change)  # type: ignore[attr-defined]


@pytest.mark.capability("69", "A month is made again from the ledger, to the byte")
def test_a_month_is_closed_once_it_is_over_and_made_again_to_the_byte(tenant: Tenant, user: User) -> None:
    elsewhere = make_tenant("elsewhere")
    a_price(2_500_000)
    a_price(40_000, resource="cpu_millis")
    book(
        a_line(tenant, user, timedelta(), 30 * HOUR, cpu_millis=1_500, memory_bytes=2**35 + 1),
        a_line(tenant, user, timedelta(), HOUR, outcome="failed"),
        a_line(tenant, user, 34 * HOUR, 3 * HOUR),  # It ends in April.
        a_line(elsewhere, user, timedelta(), HOUR),
    )
    april = datetime(2026, 4, 1, tzinfo=UTC)

    assert close_months(april + GRACE - timedelta(seconds=1)) == 0
    open_one = statement_of(tenant.pk, 202603)
    assert close_months(april + GRACE) == 2
    assert close_months(april + GRACE) == 0

    stored = statement_of(tenant.pk, 202603)
    assert open_one.closed_at is None
    assert stored.closed_at is not None
    assert stored.data == open_one.data
    assert json.loads(stored.data)["totals"]["micros"] == 150_000_000 + 5_000_000 + 1_800_000
    assert [row.month for row in closed_months(tenant.pk)] == [202603]
    assert all(verified.is_right for verified in verify_statements())
    april_document = statement_of(tenant.pk, 202604).document
    assert {line["used_in"] for line in april_document["lines"]} == {"2026-03", "2026-04"}
    assert april_document["totals"]["attempts"] == 1


def test_a_statement_that_was_tampered_with_is_found(tenant: Tenant, user: User) -> None:
    a_price(1_000_000)
    book(a_line(tenant, user, timedelta(), HOUR))
    close_months(START + timedelta(days=40))
    row = Statement.objects.get()
    row.delete()
    changed = row.document.replace('"micros":2000000', '"micros":1000000')
    Statement.objects.create(
        tenant=tenant, month=row.month, currency="EUR", document=changed, sha256=row.sha256, closed_at=row.closed_at
    )

    (verified,) = verify_statements(tenant_id=tenant.pk)

    assert not verified.is_right
    assert not verified.is_intact
    assert verified.made_now == row.sha256


def test_what_is_learnt_after_its_month_was_closed_is_charged_in_the_next(tenant: Tenant, user: User) -> None:
    book(a_line(tenant, user, timedelta(), HOUR))
    assert close_months(APRIL + GRACE) == 1
    book(a_line(tenant, user, HOUR * 2, HOUR))

    late = LedgerEntry.objects.latest("ended_at")
    assert (late.started_at, late.ended_at, late.seconds) == (APRIL - HOUR, APRIL, 3_600)
    assert statement_of(tenant.pk, 202604).document["totals"]["attempts"] == 1
    assert [found.is_right for found in verify_statements()] == [True]


def test_a_month_waits_until_it_is_known_what_ran_and_no_longer_than_a_week(tenant: Tenant, user: User) -> None:
    book(a_line(tenant, user, timedelta(), HOUR))

    assert close_months(APRIL + 24 * HOUR, known_until=APRIL - HOUR) == 0
    assert close_months(APRIL + 7 * 24 * HOUR, known_until=START) == 0
    assert close_months(APRIL + 7 * 24 * HOUR + GRACE, known_until=START) == 1


def test_a_month_is_closed_as_soon_as_it_is_known_what_ran(tenant: Tenant, user: User) -> None:
    book(a_line(tenant, user, timedelta(), HOUR))

    assert close_months(APRIL + 24 * HOUR, known_until=APRIL + GRACE) == 1


def test_a_month_with_use_that_is_not_counted_yet_stays_open(tenant: Tenant, user: User) -> None:
    book(a_line(tenant, user, timedelta(), HOUR))
    book(a_line(tenant, user, timedelta(), HOUR), fold=False)

    assert close_months(START + timedelta(days=40)) == 0
    fold_days(now())
    assert close_months(START + timedelta(days=40)) == 1
    assert statement_of(tenant.pk, 202603).document["totals"]["attempts"] == 2


def test_days_that_do_not_say_what_the_ledger_says_are_found(tenant: Tenant, user: User) -> None:
    book(a_line(tenant, user, timedelta(), HOUR))
    UsageDay.objects.update(gpu_milli_seconds=1)

    findings = check_days(tenant_id=tenant.pk, month=202603)

    assert [finding.code for finding in findings] == ["wrong_day"]
    assert "7200000" in findings[0].detail


def test_the_ledger_is_compared_with_what_was_reserved_and_with_what_ran(tenant: Tenant, user: User) -> None:
    queue, at = top_queue(tenant), now()
    right, unbooked, unreserved, other = (uuid.uuid4() for _ in range(4))
    amounts = {right: 2_000, unbooked: 2_000, other: 4_000}
    for attempt_id, gpu_millis in amounts.items():
        reserve([ask(queue, POOL, Resources(gpu_millis=gpu_millis), attempt_id=attempt_id)], now=at)
    release(amounts, now=at)
    append_ledger(
        [a_line(tenant, user, timedelta(), HOUR, attempt_id=attempt_id) for attempt_id in (right, unreserved, other)],
        now=START + HOUR,
    )
    span = (START, START + HOUR)
    charges = [Charge(each, tenant.pk, POOL, *span, *span) for each in (right, unbooked, unreserved, other)]

    found = check_charges(charges)

    assert [(finding.code, finding.subject) for finding in found.findings] == [
        ("not_charged", str(unbooked)),
        ("wrong_amount", str(other)),
    ]
    assert sorted(finding.code for finding in check_reservations()) == ["not_reserved", "wrong_amount"]
    exact = check_charges([charges[0]])
    assert exact.by_attempts == exact.by_ledger == {tenant.pk: 2_000 * 3_600}
    assert len(check_hourly(START + HOUR)) == 2
    assert check_hourly(START + HOUR) == []  # Once an hour.


def test_lines_for_an_export_add_up_to_the_report(tenant: Tenant, user: User) -> None:
    a_price(1_000_000)
    book(*(a_line(tenant, user, HOUR * n, 20 * HOUR, outcome="failed" if n % 2 else "succeeded") for n in range(10)))
    book(a_line(tenant, user, HOUR, 50 * HOUR), fold=False)
    for since, until in ((None, None), (START + 7 * HOUR, START + 40 * HOUR), (START + 13 * HOUR, START + 14 * HOUR)):
        lines = usage_lines(UsageFilter(frozenset({tenant.pk}), since, until))
        (row,) = usage_report(tenant_ids=[tenant.pk], since=since, until=until)
        assert sum(use.micros for use in lines.values()) == row.micros
        assert sum(use.gpu_milli_seconds for use in lines.values()) == row.used.gpu_milli_seconds
        assert sum(use.attempts for use in lines.values()) == row.attempts


def test_counting_takes_as_many_statements_for_a_thousand_entries_as_for_one(tenant: Tenant, user: User) -> None:
    def statements(count: int) -> int:
        append_ledger([a_line(tenant, user, timedelta(seconds=n), HOUR) for n in range(count)], now=START + timedelta(days=9))
        with CaptureQueriesContext(connection) as queries:
            fold_days(now())
        return len(queries)

    statements(1)
    assert statements(1) == statements(1_000)


def test_prices_are_for_one_core_one_gib_and_one_gpu() -> None:
    a_price(7, resource="memory_bytes")
    assert (
        price_book().cost(
            POOL, "memory_bytes", UNITS["memory_bytes"] * 3, int(START.timestamp()), int((START + HOUR).timestamp())
        )
        == 21
    )
