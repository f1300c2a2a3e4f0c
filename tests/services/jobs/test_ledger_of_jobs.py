"""Jobs and their ledger on the real scheduler: what ran is what is charged, and what became of it stands beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
from jobs.models import ClusterLook, Job
from jobs.selectors.charges import ended_charges, known_until
from kernel.ids import new_id
from tenants.billing.budgets import spent_budgets
from tenants.billing.idle_capacity import held_idle
from tenants.billing.ledger.budgets import BudgetKind, budget_refusal
from tenants.billing.services.budgets import BudgetWish, measure_budgets, set_budget
from tenants.billing.services.ledger import check_charges, check_reservations, fold_days
from tenants.billing.usage import UsageFilter, usage_report
from tenants.capacity.quota.accounting import seconds_between
from tenants.models import LedgerEntry, Price, Queue, UsageDay
from tenants.services import LedgerLine, append_ledger
from tests.builders.quay import Quay
from tests.factories.clusters import node_facts
from tests.factories.tenants import SYSTEM, Cast

pytestmark = pytest.mark.database


@pytest.mark.capability("69", "The time of all attempts is the time in the ledger, to the unit")
@pytest.mark.capability("60", "The time of all attempts is the time in the ledger, to the unit")
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


def seconds_charged(job: Job) -> list[int]:
    return list(LedgerEntry.objects.filter(job_id=job.id).order_by("number").values_list("seconds", flat=True))


def test_what_ran_is_charged_and_not_the_time_until_the_platform_noticed(quay: Quay) -> None:
    job = quay.submit("short", resources={"cpu": 2, "memory": "1Gi"}, script=Script(start_seconds=40, duration_seconds=3))
    quay.turn()
    quay.pass_time(41)
    quay.turn()
    quay.pass_time(600)  # Nobody looks.
    quay.settle()

    (entry,) = LedgerEntry.objects.all()
    assert abs(entry.seconds - 3) <= 1
    assert entry.held_seconds is not None
    assert entry.held_seconds >= 640
    assert check_charges(ended_charges()).findings == ()
    held = {row.kind: row.used.cpu_milli_seconds // 2_000 for row in held_idle(UsageFilter(None), now=quay.now)}
    assert abs(held["starting"] - 40) <= 1
    assert abs(held["ending"] - 598) <= 1
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {quay.cast.bob.token}")
    shown = client.get(f"/api/v1/jobs/{job.id}/cost").json()["attempts"][0]
    assert (shown["cpu_milli_seconds"], shown["held_seconds"]) == (entry.seconds * 2_000, entry.held_seconds)


def test_an_attempt_that_vanished_is_charged_until_it_was_last_seen(quay: Quay) -> None:
    job = quay.submit("gone", retry={"limit": 0, "on": []}, script=Script(duration_seconds=10_000))
    quay.turn()
    quay.pass_time(30)
    quay.turn()
    quay.pass_time(600)
    quay.engine.delete(quay.attempts(job)[0].id)
    quay.turn()

    assert abs(seconds_charged(job)[0] - 30) <= 6
    assert check_charges(ended_charges()).findings == ()


def test_an_attempt_whose_tasks_never_started_costs_nothing(quay: Quay) -> None:
    job = quay.submit("never", script=Script(start_seconds=10_000))
    quay.turn()
    quay.pass_time(60)
    quay.stop(job)
    quay.settle()

    assert seconds_charged(job) == [0]
    assert check_charges(ended_charges()).findings == ()


def test_the_check_finds_an_entry_that_charges_until_the_end_was_noticed(quay: Quay) -> None:
    quay.submit("short", script=Script(duration_seconds=3))
    quay.turn()
    quay.pass_time(600)
    quay.settle()
    row = LedgerEntry.objects.values().get()
    LedgerEntry.objects.all().delete()
    until = quay.attempts(quay.job(row["job_id"]))[0].ended_at
    assert until is not None
    LedgerEntry.objects.create(**{**row, "id": new_id(), "ended_at": until, "seconds": row["held_seconds"]})

    assert [finding.code for finding in check_charges(ended_charges()).findings] == ["wrong_time"]


def test_an_entry_of_the_release_before_is_judged_by_what_that_charged(quay: Quay) -> None:
    quay.submit("short", script=Script(duration_seconds=3))
    quay.turn()
    quay.pass_time(600)
    quay.settle()
    row = LedgerEntry.objects.values().get()
    (attempt,) = quay.attempts(quay.job(row["job_id"]))
    assert attempt.ended_at is not None
    assert attempt.launched_at is not None
    LedgerEntry.objects.all().delete()
    times = {"id": new_id(), "started_at": attempt.launched_at, "ended_at": attempt.ended_at, "held_seconds": None}
    LedgerEntry.objects.create(**{**row, **times, "seconds": seconds_between(attempt.launched_at, attempt.ended_at)})

    assert check_charges(ended_charges()).findings == ()


def test_books_stay_open_until_it_is_known_what_ran(quay: Quay) -> None:
    quay.submit("long", script=Script(duration_seconds=10_000))
    quay.turn(2)
    looked_at = ClusterLook.objects.get().looked_at
    quay.pass_time(100)

    assert known_until(quay.now) == looked_at
    quay.turn()
    assert quay.now - known_until(quay.now) < timedelta(seconds=1)


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


@pytest.mark.capability("69", "Budgets in money or GPU hours warn once, and keep new jobs waiting when they stop")
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


@pytest.mark.capability("6.4", "A running job shows what it costs per hour and so far")
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


def measured(quay: Quay, job: Job, ratios: Mapping[str, float], *, gpu_millis: int) -> tuple[int, int]:
    """The GPU-hours of a minute, in thousandths of seconds, that was measured so, by role: all, and those in which GPUs worked.

    Its time is written by hand: on this clock nothing lasts.
    """
    (attempt,) = quay.attempts(job)
    start = datetime(2026, 11, 20, 12, tzinfo=UTC)
    for number in range(12):
        samples = [Sample(f"task:{attempt.pk}:{role}:0", "gpu_utilization_ratio", ratio) for role, ratio in ratios.items()]
        record_samples(quay.cluster.pk, samples, start + timedelta(seconds=5 * number))
    line = LedgerLine(
        attempt_id=attempt.pk, number=1, job_id=job.pk, tenant_id=job.tenant_id, queue_id=job.queue_id, user_id=job.user_id,
        pool_id=quay.pool.pk, cluster_id=quay.cluster.pk, cpu_millis=1000, memory_bytes=0, gpu_millis=gpu_millis,
        started_at=start, ended_at=start + timedelta(minutes=1), outcome="succeeded",
    )  # fmt: skip
    append_ledger([line], now=quay.now)
    flush(start + timedelta(minutes=2))
    fold_days(start + timedelta(minutes=2))
    forget_recorder()
    (row,) = usage_report(tenant_ids=None, since=None, until=None, group_by="job")
    return row.gpu_measured_milli_seconds, row.gpu_busy_milli_seconds


def test_what_is_drawn_for_simulated_gpus_is_no_hour_in_which_a_gpu_worked(cast: Cast) -> None:
    quay = Quay(cast, nodes=[node_facts(cores=8, gpus=2, simulated=True)])
    job = quay.submit("train", resources={"gpu": 2, "cpu": 1}, script=Script(duration_seconds=400))
    quay.turn()

    assert measured(quay, job, {"worker": 1.0}, gpu_millis=2000) == (0, 0)


def test_what_a_jobs_tasks_did_with_their_gpus_is_found_by_the_names_that_they_are_measured_under(cast: Cast) -> None:
    quay = Quay(cast, nodes=[node_facts(cores=8, gpus=4)])
    roles = {
        name: {"replicas": 1, "command": "true", "resources": {"gpu": gpus, "cpu": 1}}
        for name, gpus in (("learner", 2), ("actor", 1), ("server", 0))
    }
    job = quay.submit("train", roles=roles, script=Script(duration_seconds=400))
    quay.turn()

    ratios = {"learner": 1.0, "actor": 0.25, "server": 1.0}
    assert measured(quay, job, ratios, gpu_millis=3000) == (60 * 3_000, 60 * 2_250)
