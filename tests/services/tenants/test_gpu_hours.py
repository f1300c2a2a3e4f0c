"""GPU time that was held against GPU time in which GPUs worked: from samples of tasks to reports."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.engines.interface import Sample
from clusters.models import SeriesChunk
from clusters.telemetry import flush, record_samples
from clusters.telemetry.metrics import task_subject
from clusters.telemetry.recorder import forget_recorder
from clusters.telemetry.tiers import settled_after
from kernel.config import current
from tenants.billing.services.ledger import GpuTask, check_days, fold_days, measured, rebuild_days
from tenants.billing.usage import UsageFilter, UsageRow, usage_lines, usage_report
from tenants.models import LedgerMeasure, LedgerPending, Tenant, UsageDay, User
from tenants.services import LedgerLine, append_ledger
from tests.factories.tenants import make_tenant, make_user, top_queue

pytestmark = pytest.mark.database
START = datetime(2026, 11, 20, 12, tzinfo=UTC)
STEP = timedelta(seconds=5)  # Between two samples.
SETTLED = settled_after(5.0) + timedelta(seconds=1)
Run = Callable[..., LedgerLine]


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[GpuTask]:
    """What the jobs would say of tasks with GPUs."""
    found: list[GpuTask] = []

    def source(attempt_ids: Collection[uuid.UUID]) -> Iterator[GpuTask]:
        return (task for task in found if task.attempt_id in attempt_ids)

    monkeypatch.setattr(measured, "_sources", [source])
    return found


@pytest.fixture
def run(tasks: list[GpuTask]) -> Iterator[Run]:
    """An attempt of so many seconds in the ledger, whose tasks hold so many GPUs each and were seen to work so much."""
    tenant, user = make_tenant("vision"), make_user("bob")

    def run_attempt(seconds: int, *held: tuple[int, float], start: datetime = START, seen: int | None = None) -> LedgerLine:
        line = a_line(tenant, user, start, seconds, sum(gpus for gpus, _ in held) * 1000)
        for index, (gpus, _) in enumerate(held):
            tasks.append(GpuTask(line.attempt_id, task_subject(line.attempt_id, "worker", index), gpus * 1000))
        for number in range((seconds if seen is None else seen) // 5):
            samples = [
                Sample(task_subject(line.attempt_id, "worker", index), "gpu_utilization_ratio", ratio)
                for index, (_, ratio) in enumerate(held)
            ]
            record_samples(line.cluster_id, samples, start + number * STEP)
        append_ledger([line], now=line.ended_at)
        return line

    yield run_attempt
    forget_recorder()


def a_line(tenant: Tenant, user: User, start: datetime, seconds: int, gpu_millis: int) -> LedgerLine:
    return LedgerLine(
        attempt_id=uuid.uuid4(), number=1, job_id=uuid.uuid4(), tenant_id=tenant.pk, queue_id=top_queue(tenant).pk,
        user_id=user.pk, pool_id=uuid.UUID(int=1), cluster_id=uuid.UUID(int=9), cpu_millis=1000, memory_bytes=2**30,
        gpu_millis=gpu_millis, started_at=start, ended_at=start + timedelta(seconds=seconds), outcome="succeeded",
    )  # fmt: skip


def settle(*lines: LedgerLine) -> datetime:
    """Until all samples are written and what ended is counted into days."""
    now = max(line.ended_at for line in lines) + SETTLED
    flush(now)
    fold_days(now)
    assert not LedgerPending.objects.exists()
    return now


def report(group_by: str = "tenant", **window: Any) -> UsageRow:
    (row,) = usage_report(**{"tenant_ids": None, "since": None, "until": None, **window}, group_by=group_by)
    return row


def told(row: UsageRow) -> tuple[int, int, int]:
    """Held, measured, worked: in GPU-seconds."""
    sums = (row.used.gpu_milli_seconds, row.gpu_measured_milli_seconds, row.gpu_busy_milli_seconds)
    return sums[0] // 1000, sums[1] // 1000, sums[2] // 1000


def test_the_interval_of_these_tests_is_the_default() -> None:
    assert current().telemetry_seconds == STEP.total_seconds()


@pytest.mark.capability("60", "GPU hours that were held stand beside busy ones, by tenant, user, queue, pool and job")
@pytest.mark.capability("6.4", "GPU hours that a job held and left idle are counted")
@pytest.mark.parametrize("group_by", ["tenant", "user", "queue", "pool", "job", "fate", "day"])
def test_hours_in_which_gpus_worked_stand_beside_hours_in_which_they_were_held(run: Run, group_by: str) -> None:
    """Two GPUs that work the whole time, and one that works a quarter of it."""
    settle(run(600, (2, 1.0), (1, 0.25)))

    assert told(report(group_by)) == (1_800, 1_800, 1_350)
    assert check_days() == []


@pytest.mark.capability("60", "GPU hours that were held stand beside busy ones, by tenant, user, queue, pool and job")
def test_what_nobody_looked_at_is_no_idleness(run: Run) -> None:
    settle(run(600, (1, 1.0), seen=300))

    assert told(report()) == (600, 300, 300)


def test_an_attempt_is_counted_once_its_samples_are_all_written_and_its_use_is_told_before(run: Run) -> None:
    line = run(600, (1, 0.5))
    without = run(600)

    assert fold_days(line.ended_at) == 1, "what held no GPU waits for no sample"
    assert LedgerPending.objects.count() == 1
    assert told(report()) == (600, 0, 0)
    settle(line, without)
    assert told(report()) == (600, 600, 300)


def test_a_day_has_its_own_part_and_a_window_cuts_it(run: Run) -> None:
    midnight = datetime(2026, 11, 21, tzinfo=UTC)
    settle(run(1_200, (1, 0.5), start=midnight - timedelta(minutes=10)))

    rows = usage_report(tenant_ids=None, since=None, until=None, group_by="day")
    assert [told(row) for row in rows] == [(600, 600, 300)] * 2
    window: dict[str, Any] = {"since": midnight - timedelta(minutes=5), "until": midnight + timedelta(minutes=1)}
    assert told(report(**window)) == told(report("job", **window)) == (360, 360, 180)
    assert [told(report("job", **part)) for part in ({"until": midnight}, {"since": midnight})] == [(600, 600, 300)] * 2


def test_an_export_has_them_line_by_line(run: Run) -> None:
    settle(run(600, (1, 0.5)))

    (use,) = usage_lines(UsageFilter()).values()
    assert (use.gpu_measured_milli_seconds, use.gpu_busy_milli_seconds) == (600_000, 300_000)


def test_what_was_measured_stays_when_its_series_are_gone(run: Run) -> None:
    line = run(600, (1, 0.5))
    now = settle(line)
    SeriesChunk.objects.all().delete()
    UsageDay.objects.update(gpu_busy_milli_seconds=7)

    assert [finding.code for finding in check_days()] == ["wrong_day"]
    rebuild_days(line.tenant_id, 202611, now=now)
    assert told(report()) == (600, 600, 300)
    assert check_days() == []


def test_samples_stand_for_no_more_time_than_was_held(run: Run) -> None:
    """Two samples, five seconds each, of a run of seven."""
    settle(run(7, (1, 1.0), seen=10))

    (measure,) = LedgerMeasure.objects.all()
    assert measure.measured_milli_seconds == measure.busy_milli_seconds == 7_000


def test_what_is_not_measured_is_not_stored(run: Run) -> None:
    settle(run(600, (1, 1.0), seen=0), run(600))

    assert not LedgerMeasure.objects.exists()
    assert told(report()) == (600, 0, 0)


def test_counting_asks_as_many_times_for_many_attempts_as_for_few(run: Run) -> None:
    def queries(count: int) -> int:
        lines = [run(10, (1, 1.0)) for _ in range(count)]
        now = lines[0].ended_at + SETTLED
        flush(now)
        with CaptureQueriesContext(connection) as found:
            assert fold_days(now) == count
        return len(found)

    queries(1)
    assert queries(2) == queries(40)
