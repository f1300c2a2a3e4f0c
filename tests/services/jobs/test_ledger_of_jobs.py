"""Jobs and their ledger on the real scheduler: what ran is what is charged, and what became of it stands beside it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from rest_framework.test import APIClient

from clusters.engines.fake import Script
from clusters.engines.interface import Sample
from clusters.telemetry import flush, record_samples
from clusters.telemetry.recorder import forget_recorder
from jobs.selectors.charges import ended_charges
from tenants.budgets import spent_budgets
from tenants.ledger.budgets import BudgetKind, budget_refusal
from tenants.models import LedgerEntry, Price, Queue, UsageDay
from tenants.services import LedgerLine, append_ledger
from tenants.services.budgets import BudgetWish, measure_budgets, set_budget
from tenants.services.ledger import check_charges, check_reservations, fold_days
from tenants.usage import usage_report
from tests.builders.quay import Quay
from tests.factories.clusters import node_facts
from tests.factories.tenants import SYSTEM, Cast

pytestmark = pytest.mark.database


def test_the_time_of_all_attempts_is_the_time_in_the_ledger_to_the_unit(quay: Quay) -> None:
    for number in range(3):
        quay.submit(f"good-{number}", script=Script(duration_seconds=5 + number))
    quay.submit("bad", script=Script(duration_seconds=3, code=1), retry={"limit": 1, "on": ["user"]})
    quay.settle()
    fold_days(quay.now)

    found = check_charges(ended_charges())

    assert found.attempts == LedgerEntry.objects.count() == 5
    assert found.findings == ()
    assert found.by_attempts == found.by_ledger
    assert check_reservations() == []
    assert sorted(LedgerEntry.objects.values_list("fate", flat=True)) == ["failed", "retried", "useful", "useful", "useful"]
    assert set(UsageDay.objects.values_list("fate", flat=True)) == {"failed", "retried", "useful"}


def test_the_operators_command_compares_everything_and_ends_with_1_on_a_difference(quay: Quay) -> None:
    quay.submit("good", script=Script(duration_seconds=5))
    quay.settle()
    out = StringIO()

    call_command("ledger", "--fold", "--close", stdout=out)

    assert "1 entries were counted into days." in out.getvalue()
    assert re.search(r"\S+ +0\.000000 = +0\.000000", out.getvalue())
    assert "Everything agrees." in out.getvalue()
    UsageDay.objects.update(cpu_milli_seconds=1)
    with pytest.raises(SystemExit):
        call_command("ledger", stdout=out)
    assert "wrong_day" in out.getvalue()
    mended = StringIO()
    call_command("ledger", "--repair", stdout=mended)
    assert "was made again: 1 rows." in mended.getvalue()
    assert "Everything agrees." in mended.getvalue()


def test_a_budget_counts_what_runs_warns_once_and_refuses_when_it_is_spent(quay: Quay) -> None:
    from activity.models import Event

    Price.objects.create(  # A millionth of a million for a second of a core.
        pool_id=quay.pool.pk, resource="cpu_millis", micros_per_hour=3_600_000_000, currency="EUR", effective_at=quay.now,
        created_at=quay.now,
    )  # fmt: skip
    job = quay.submit("long", resources={"cpu": 1, "memory": "1Gi"}, script=Script(duration_seconds=400))
    quay.turn()
    queue = Queue.objects.select_related("parent").get(pk=job.queue_id)
    started = quay.now
    set_budget(actor=SYSTEM, queue=queue, wish=BudgetWish(BudgetKind.MONEY, 200_000_000, (50, 100), stops=True), now=started)
    path = [queue.pk, queue.parent_id]
    kinds = Event.objects.filter(kind__startswith="budget.").order_by("row").values_list("kind", flat=True)

    quay.pass_time(120)
    measure_budgets(quay.now)
    measure_budgets(quay.now)
    assert list(kinds.all()) == ["budget.changed", "budget.warned"]
    assert budget_refusal(path, spent_budgets(quay.now)) is None
    quay.pass_time(120)
    assert measure_budgets(quay.now) == 1

    refusal = budget_refusal(path, spent_budgets(quay.now))
    assert refusal is not None
    assert refusal.spent >= refusal.amount == 200_000_000
    assert refusal.queue_id == queue.pk
    assert list(kinds.all()) == ["budget.changed", "budget.warned", "budget.spent"]


def test_a_job_shows_what_it_burns_and_what_its_attempts_cost(quay: Quay) -> None:
    """A core costs a million millionths a second."""
    Price.objects.create(
        pool_id=quay.pool.pk, resource="cpu_millis", micros_per_hour=3_600_000_000, currency="EUR", effective_at=quay.now,
        created_at=quay.now,
    )  # fmt: skip
    client = APIClient()
    job = quay.submit("burns", resources={"cpu": 2, "memory": "1Gi"}, script=Script(duration_seconds=100))
    quay.turn()
    quay.pass_time(30)

    def cost(token: str, status: int = 200) -> Any:
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        answer = client.get(f"/api/v1/jobs/{job.id}/cost")
        assert answer.status_code == status
        return answer.json()

    live = cost(quay.cast.bob.token)
    assert live["micros_per_hour"] == 2 * 3_600_000_000
    assert live["micros"] in (60_000_000, 62_000_000)
    assert live["attempts"][0]["fate"] is None
    quay.settle()
    over = cost(quay.cast.alice.token)
    assert over["micros_per_hour"] == 0
    assert over["micros"] >= 200_000_000
    assert [attempt["fate"] for attempt in over["attempts"]] == ["useful"]
    cost(quay.cast.vera.token, 403)
    cost(quay.cast.carol.token, 404)


def test_what_a_jobs_tasks_did_with_their_gpus_is_found_by_the_names_that_they_are_measured_under(cast: Cast) -> None:
    """Its time is written by hand: on this clock nothing lasts."""
    quay = Quay(cast, nodes=[node_facts(cores=8, gpus=4)])
    roles = {
        name: {"replicas": 1, "command": "true", "resources": {"gpu": gpus, "cpu": 1}}
        for name, gpus in (("learner", 2), ("actor", 1), ("server", 0))
    }
    job = quay.submit("train", roles=roles, script=Script(duration_seconds=400))
    quay.turn()
    (attempt,) = quay.attempts(job)
    start = datetime(2026, 11, 20, 12, tzinfo=UTC)
    for number in range(12):
        samples = [
            Sample(f"task:{attempt.pk}:{role}:0", "gpu_utilization_ratio", ratio)
            for role, ratio in (("learner", 1.0), ("actor", 0.25), ("server", 1.0))
        ]
        record_samples(quay.cluster.pk, samples, start + timedelta(seconds=5 * number))
    line = LedgerLine(
        attempt_id=attempt.pk, number=1, job_id=job.pk, tenant_id=job.tenant_id, queue_id=job.queue_id, user_id=job.user_id,
        pool_id=quay.pool.pk, cluster_id=quay.cluster.pk, cpu_millis=3000, memory_bytes=0, gpu_millis=3000, started_at=start,
        ended_at=start + timedelta(minutes=1), outcome="succeeded",
    )  # fmt: skip
    append_ledger([line], now=quay.now)
    flush(start + timedelta(minutes=2))
    fold_days(start + timedelta(minutes=2))
    forget_recorder()

    (row,) = usage_report(tenant_ids=None, since=None, until=None, group_by="job")
    assert (row.gpu_measured_milli_seconds, row.gpu_busy_milli_seconds) == (60 * 3_000, 60 * 2_250)
