"""Deserved and delivered shares on the real scheduler: demand is written down, weeks are closed, signed, and made again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, InternalError, transaction
from rest_framework.test import APIClient

from activity.models import Event
from clusters.engines.fake import Script
from jobs.selectors.charges import live_holdings
from tenants.billing.ledger.fairness import HOUR, WEEK, ShareKey, week_of
from tenants.billing.services.shares import Demand, close_weeks, record_demand, verify_weeks
from tenants.billing.shares import account, stored_week, week_text
from tenants.capacity.quota.accounting import mark
from tenants.capacity.services.edits import edit_limits
from tenants.models import DemandHour, Queue, ShareStatement
from tests.builders.quay import Quay
from tests.factories.tenants import SYSTEM

pytestmark = pytest.mark.database
ONE = {"cpu": 8, "memory": "1Gi"}  # The whole machine of the quay.
MONDAY = datetime(2026, 11, 16, tzinfo=UTC)


@pytest.fixture
def week(quay: Quay) -> int:
    """It is a Monday morning, and the installation has closed the weeks before."""
    quay.now = MONDAY + timedelta(hours=2)
    close_weeks(quay.now, running=live_holdings)
    return week_of(mark(quay.now))


def lives_through(quay: Quay, minutes: int) -> None:
    for _ in range(minutes):
        quay.turn()
        quay.pass_time(60)
    quay.turn()


def of_tenant(quay: Quay, queue: Queue, until: int) -> Any:
    found = account(until - 7 * 86_400, until, running=live_holdings())
    return found.shares[ShareKey(queue.pk, quay.pool.pk, "cpu_millis")]


def test_what_runs_and_what_waits_is_in_the_account_before_anything_has_ended(quay: Quay) -> None:
    runs = quay.submit("runs", resources=ONE, script=Script(duration_seconds=100_000))
    quay.turn()
    quay.submit("waits", resources=ONE)
    lives_through(quay, 10)
    share = of_tenant(quay, runs.queue, mark(quay.now))

    assert abs(share.delivered - 8000 * 600) <= 8000 * 5
    assert abs(share.requested - share.delivered - 8000 * 600) <= 8000 * 60
    assert share.fair == share.delivered_by_all


def test_who_waits_for_what_no_machine_has_is_no_demand(quay: Quay) -> None:
    quay.submit("runs", resources={"cpu": 1, "memory": "1Gi"}, script=Script(duration_seconds=100_000))
    quay.turn()
    quay.submit("held", resources=ONE, hold=True)
    lives_through(quay, 5)

    assert not DemandHour.objects.exists()


def test_two_schedulers_that_both_lead_count_no_second_twice(quay: Quay) -> None:
    queue_id = quay.submit("any").queue_id
    demands = [Demand(queue_id, quay.pool.pk, 1000, 2000)]
    record_demand(demands, since=HOUR - 60, until=HOUR + 60)
    record_demand(demands, since=HOUR - 40, until=HOUR + 80)

    rows = DemandHour.objects.order_by("hour").values_list("hour", "cpu_milli_seconds", "gpu_milli_seconds")
    assert list(rows) == [(0, 60_000, 120_000), (1, 80_000, 160_000)]
    assert record_demand(demands, since=HOUR, until=HOUR + 20) == 0


@pytest.mark.capability("6.10", "A statement of each tenant's week is signed, and made again from ledger and limits, to the byte")
def test_a_week_is_closed_signed_and_made_again_to_the_byte(quay: Quay, week: int) -> None:
    job = quay.submit("long", resources=ONE, script=Script(duration_seconds=2 * WEEK))
    lives_through(quay, 3)
    edit_limits(
        actor=SYSTEM, changes=[_change(job.queue_id, quay, deserved=8000)], effective_from=None, comment="", now=quay.now
    )  # fmt: skip
    assert close_weeks(quay.now, running=live_holdings) == 0
    quay.now = MONDAY + timedelta(days=7, hours=2)

    assert close_weeks(quay.now, running=live_holdings) == 1
    assert close_weeks(quay.now, running=live_holdings) == 0
    made = stored_week(job.tenant_id, week)
    assert made is not None
    assert made.is_right
    assert week_text(week) == made.document["week"] == "2026-W47"
    line = next(line for line in made.document["lines"] if line["resource"] == "cpu_millis")
    assert line["delivered"] == pytest.approx(8000 * (WEEK - 2 * HOUR), rel=0.001)
    assert line["shortfall"] == 0
    assert [row["deserved"] for row in made.document["limits"] if row["resource"] == "cpu_millis"] == [None, 8000]
    assert Event.objects.filter(kind="share_statement.closed").count() == 1
    quay.stop(quay.job(job.id))  # What ran is in the ledger now; other limits hold from now on.
    quay.settle()
    edit_limits(
        actor=SYSTEM, changes=[_change(job.queue_id, quay, deserved=4000)], effective_from=None, comment="", now=quay.now
    )  # fmt: skip

    assert [found.is_right for found in verify_weeks(running=live_holdings)] == [True]


@pytest.mark.capability("6.10", "A changed statement is found, and the table refuses changes")
def test_a_statement_that_was_tampered_with_is_found_and_the_table_refuses(quay: Quay, week: int) -> None:
    quay.submit("long", resources=ONE, script=Script(duration_seconds=600))
    quay.settle(step_seconds=60)
    quay.now = MONDAY + timedelta(days=7, hours=2)
    close_weeks(quay.now, running=live_holdings)
    row = ShareStatement.objects.get()
    with pytest.raises((IntegrityError, InternalError)), transaction.atomic():
        ShareStatement.objects.update(sha256="0" * 64)
    out = StringIO()
    call_command("ledger", stdout=out)
    assert "1 statements of shares made again: 1 are the same to the byte, and signed here." in out.getvalue()

    row.delete()
    row.document = row.document.replace('"week":"2026-W47"', '"week":"2026-W48"')
    row.save(force_insert=True)
    assert [(verified.is_intact, verified.is_right) for verified in verify_weeks(running=live_holdings)] == [(False, False)]


@pytest.mark.capability("33", "Every queue reads what it deserved, wanted and got, and what is missing")
def test_a_tenant_reads_its_shares_and_nobody_elses(quay: Quay, week: int) -> None:
    cast, client = quay.cast, APIClient()
    slug = quay.submit("long", resources=ONE, script=Script(duration_seconds=100_000)).tenant.slug
    quay.turn()
    quay.submit("theirs", by=cast.carol, resources=ONE)
    lives_through(quay, 10)

    def get(token: str, path: str, status: int = 200, **query: str) -> Any:
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        answer = client.get(f"/api/v1/{path}", query)
        assert answer.status_code == status, answer.content
        return answer.json() if answer["Content-Type"].endswith("json") else answer.content

    mine = get(cast.bob.token, "shares")["items"]
    theirs = get(cast.carol.token, "shares")["items"]
    assert {row["tenant"]["slug"] for row in mine} == {slug}
    assert [(row["resource"], row["deficit"] < 0) for row in mine] == [("cpu_millis", True)]
    assert {row["tenant"]["slug"] for row in theirs}.isdisjoint({slug})
    assert {row["tenant"]["slug"] for row in get(cast.otto.token, "shares")["items"]} == {cast.tenant.slug, cast.elsewhere.slug}
    assert mine[0]["deficit"] == -theirs[0]["deficit"]
    assert mine[0]["delivered_by_all"] == theirs[0]["delivered_by_all"]
    assert get(cast.bob.token, "shares", format="csv").decode().startswith("tenant,tenant_name,queue")
    path = f"tenants/{slug}/shares/{week_text(week)}"
    assert get(cast.bob.token, path)["closed_at"] is None
    get(cast.carol.token, path, 404)
    get(cast.bob.token, f"tenants/{slug}/shares/2026-47", 422)
    get(cast.bob.token, f"tenants/{slug}/shares/2027-W47", 404)
    before = get(cast.bob.token, f"tenants/{slug}/shares/2020-W01", 404)
    assert "before this installation kept shares" in before["detail"], "a week that nobody recorded is not open"

    quay.now = MONDAY + timedelta(days=7, hours=2)
    close_weeks(quay.now, running=live_holdings)
    shown = get(cast.bob.token, path)
    assert shown["closed_at"] is not None
    assert shown["public_key"] == get(cast.bob.token, "signing-keys")["public_key"]
    assert [row["week"] for row in get(cast.bob.token, f"tenants/{slug}/shares")["items"]] == ["2026-W47"]


def _change(queue_id: Any, quay: Quay, **values: int | None) -> Any:
    from tenants.capacity.quota.edits import Change

    return Change(queue_id, quay.pool.pk, "cpu_millis", values)
