"""From samples to charts: written in few statements, thinned with age, gaps never filled."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from clusters.engines.interface import EngineUnreachable, Sample, TaskName
from clusters.models import SeriesChunk
from clusters.telemetry.collecting import collect, flush, record_samples, sweep_expired
from clusters.telemetry.metrics import node_subject, scoped, task_subject
from clusters.telemetry.reading import Series, job_metrics, latest_values, plan_window, read_series, summarize_tasks
from clusters.telemetry.recorder import forget_recorder, recorder
from clusters.telemetry.tiers import RAW_KEEP, SUBJECTS_MAX, TEN_MINUTES
from kernel.errors import InvalidInput
from kernel.ids import new_id
from tests.factories.clusters import MeasuringEngine, make_cluster, use_engine

pytestmark = pytest.mark.database

START = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
CLUSTER = uuid.UUID(int=1)
NODE = scoped(CLUSTER, node_subject("n1"))
STEP = timedelta(seconds=5)


def sample_at(moment: datetime, value: float, *, subject: str = "node:n1", metric: str = "cpu_millis") -> None:
    record_samples(CLUSTER, [Sample(subject, metric, value)], moment)


def fill(count: int, *, start: datetime = START, value: float = 1.0, skip: tuple[int, ...] = ()) -> datetime:
    """One sample every interval but the skipped ones, all written; returns the time after the last."""
    for number in range(count):
        if number not in skip:
            sample_at(start + number * STEP, value + number)
    end = start + count * STEP
    flush(end)
    return end


def read(since: datetime, until: datetime, *, now: datetime | None = None, points_max: int = 500) -> Series:
    return read_series(NODE, "cpu_millis", since=since, until=until, now=now or until, points_max=points_max)


def test_what_was_sampled_is_read_back_with_its_unit() -> None:
    end = fill(4)
    series = read(START, end)
    assert (series.values, series.unit, series.resolution_seconds) == ((1, 2, 3, 4), "thousandths of a core", 5.0)
    assert series.times == tuple(START + number * STEP for number in range(4))


@pytest.mark.capability("41", "A gap is marked, never silent")
@pytest.mark.capability("93", "The use of a task's GPUs is measured and kept, and a gap stays a gap")
def test_a_missed_interval_is_a_gap_and_nothing_fills_it() -> None:
    end = fill(8, skip=(2, 3))
    assert read(START, end).values == (1, 2, None, None, 5, 6, 7, 8)


def test_time_before_the_first_sample_is_a_gap() -> None:
    end = fill(2)
    assert read(START - 2 * STEP, end).values == (None, None, 1, 2)


def test_a_value_that_is_not_finite_is_a_gap() -> None:
    for number, value in enumerate((1.0, float("nan"), float("inf"), 4.0)):
        sample_at(START + number * STEP, value)
    flush(START + 4 * STEP)
    assert read(START, START + 4 * STEP).values == (1, None, None, 4)


def test_a_restart_is_a_gap_and_the_new_process_goes_on_in_the_same_chunk() -> None:
    fill(3)
    forget_recorder()
    end = fill(3, start=START + 6 * STEP, value=10.0)
    assert read(START, end).values == (1, 2, 3, None, None, None, 10, 11, 12)
    assert SeriesChunk.objects.count() == 3  # One per tier, not one per process.


def test_after_a_restart_the_folded_minute_knows_both_processes() -> None:
    fill(3)
    forget_recorder()
    fill(3, start=START + 6 * STEP, value=10.0)
    later = START + RAW_KEEP + timedelta(minutes=1)
    series = read(START, START + timedelta(minutes=1), now=later)
    assert (series.lows[0], series.highs[0], series.values[0]) == (1, 12, pytest.approx(39 / 6))


def test_older_time_is_read_coarser_with_lowest_and_highest() -> None:
    fill(24)
    later = START + RAW_KEEP + timedelta(minutes=1)
    series = read(START, START + timedelta(minutes=2), now=later)
    assert series.resolution_seconds == 60
    assert series.values == (pytest.approx(6.5), pytest.approx(18.5))
    assert (series.lows, series.highs) == ((1, 13), (12, 24))


def test_a_gap_survives_thinning() -> None:
    fill(12)
    fill(12, start=START + timedelta(minutes=3))
    later = START + RAW_KEEP + timedelta(minutes=10)
    values = read(START, START + timedelta(minutes=4), now=later).values
    assert [value is None for value in values] == [False, True, True, False]


def test_a_long_time_fits_into_the_points_asked_for() -> None:
    for days in (0.01, 0.1, 1, 5, 14):
        until = START + timedelta(days=days)
        for points_max in (2, 10, 500):
            assert plan_window(START, until, until, points_max=points_max).points <= points_max


def test_joined_points_are_means_and_keep_the_extremes() -> None:
    end = fill(12)
    series = read(START, end, points_max=7)
    assert series.resolution_seconds == 10
    assert series.values == (1.5, 3.5, 5.5, 7.5, 9.5, 11.5)
    assert (series.lows[0], series.highs[0]) == (1, 2)


def test_the_newest_slots_that_may_only_be_unwritten_are_not_shown_as_a_gap() -> None:
    end = fill(3)
    assert read(START, end + 2 * STEP, now=end + 2 * STEP).values == (1, 2, 3)
    assert read(START, end + 20 * STEP, now=end + 20 * STEP).values[:5] == (1, 2, 3, None, None)


def test_a_time_that_ended_before_it_began_or_lies_ahead_is_empty() -> None:
    end = fill(3)
    assert read(end, START).values == ()
    assert read(end + STEP, end + 2 * STEP, now=end).values == ()


def test_samples_are_written_in_few_statements_however_many_series(django_assert_max_num_queries: Callable[..., Any]) -> None:
    samples = [Sample(f"node:n{number}", "cpu_millis", 1.0) for number in range(300)]
    recorder().record(samples, START)
    with django_assert_max_num_queries(3):  # Savepoint, one insert of 900 chunks, release.
        assert flush(START) == 900
    recorder().record(samples, START + STEP)
    with django_assert_max_num_queries(3):
        flush(START + STEP)
    assert SeriesChunk.objects.count() == 900


def test_between_flushes_nothing_is_written(django_assert_num_queries: Callable[..., Any]) -> None:
    fill(1)
    with django_assert_num_queries(0):
        sample_at(START + 2 * STEP, 2.0)


def test_a_day_of_samples_is_a_few_dozen_rows() -> None:
    for number in range(24 * 60 * 12):
        recorder().record([Sample(NODE, "cpu_millis", 1.0)], START + number * STEP)
    flush(START + timedelta(days=1))
    assert SeriesChunk.objects.count() == 144 + 24 + 3
    sweep_expired(START + timedelta(days=1))
    assert SeriesChunk.objects.count() <= 13 + 24 + 3


def test_the_sweep_removes_what_is_past_its_time_and_only_that() -> None:
    end = fill(3)
    assert sweep_expired(end) == 0
    assert sweep_expired(end + timedelta(days=1)) == 1  # The raw chunk.
    assert sweep_expired(end + TEN_MINUTES.keep + timedelta(days=1)) == 2


def test_a_name_outside_the_table_or_for_another_subject_is_left_out() -> None:
    samples = [
        Sample("node:n1", "colour", 1.0),
        Sample("node:n1", "gpu_xid_code", 1.0),
        Sample("job:1", "cpu_millis", 1.0),
        Sample("node:n1", "cpu_millis", 1.0),
    ]
    assert record_samples(CLUSTER, samples, START) == 1
    assert recorder().left_out == 3


def test_a_failed_write_is_repeated_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder().record([Sample(NODE, "cpu_millis", 1.0)], START)
    with monkeypatch.context() as broken:
        broken.setattr("clusters.telemetry.recorder.bulk.update", _raise)
        with pytest.raises(OSError, match="disk"):
            flush(START)
    flush(START + STEP)
    assert read(START, START + STEP).values == (1,)


def _raise(*_: object) -> None:
    raise OSError("no disk")


def test_equal_node_names_of_two_clusters_stay_apart() -> None:
    other = uuid.UUID(int=2)
    record_samples(CLUSTER, [Sample("node:n1", "cpu_millis", 1.0)], START)
    record_samples(other, [Sample("node:n1", "cpu_millis", 2.0)], START)
    flush(START)
    found = latest_values([NODE, scoped(other, "node:n1")], now=START)
    assert found == {(NODE, "cpu_millis"): 1.0, (scoped(other, "node:n1"), "cpu_millis"): 2.0}


def test_the_latest_value_of_a_silent_subject_is_missing() -> None:
    end = fill(3)
    assert latest_values([NODE], now=end) == {(NODE, "cpu_millis"): 3.0}
    assert latest_values([NODE], now=end + timedelta(minutes=1)) == {}


def test_an_engine_that_cannot_measure_is_no_error() -> None:
    use_engine(object())
    assert collect(make_cluster().pk, now=START) == 0
    use_engine(MeasuringEngine(samples=[Sample("node:n1", "cpu_millis", 1.0)]))
    assert collect(make_cluster().pk, now=START) == 1


def test_an_engine_out_of_reach_leaves_a_gap() -> None:
    class Silent(MeasuringEngine):
        def sample(self) -> Sequence[Sample]:
            raise EngineUnreachable

    use_engine(Silent())
    assert collect(make_cluster().pk, now=START) == 0


class TestTasks:
    def test_a_short_task_has_its_summary_after_it_fell_silent(self) -> None:
        attempt = new_id()
        subject = task_subject(attempt, "worker", 0)
        for number, value in enumerate((10.0, 30.0, 20.0)):
            sample_at(START + number * STEP, value, subject=subject, metric="memory_bytes")
        recorder().flush(START + timedelta(minutes=1))
        found = summarize_tasks(attempt, [TaskName("worker", 0), TaskName("worker", 1)])
        (summary,) = found[TaskName("worker", 0)]
        assert (summary.metric, summary.mean, summary.peak, summary.samples) == ("memory_bytes", 20, 30, 3)
        assert TaskName("worker", 1) not in found

    def test_tasks_keep_their_series_after_the_end(self) -> None:
        attempt = new_id()
        sample_at(START, 5.0, subject=task_subject(attempt, "worker", 0), metric="gpu_utilization_ratio")
        flush(START)
        later = START + timedelta(days=3)
        sweep_expired(later)
        (series,) = job_metrics(attempt, [TaskName("worker", 0)], "gpu_utilization_ratio", START, later, now=later)
        assert [value for value in series.values if value is not None] == [5.0]

    def test_without_a_name_every_metric_that_was_measured_is_read(self, django_assert_num_queries: Callable[..., Any]) -> None:
        attempt = new_id()
        for metric in ("cpu_millis", "memory_bytes"):
            sample_at(START, 5.0, subject=task_subject(attempt, "worker", 0), metric=metric)
        flush(START)
        tasks = [TaskName("worker", 0), TaskName("worker", 1)]
        with django_assert_num_queries(1):
            found = job_metrics(attempt, tasks, None, START, START + STEP, now=START + STEP)
        assert [(series.subject, series.metric) for series in found] == [
            (task_subject(attempt, "worker", 0), "cpu_millis"),
            (task_subject(attempt, "worker", 0), "memory_bytes"),
        ]

    def test_too_many_tasks_or_an_unknown_metric_are_refused_with_a_way_out(self) -> None:
        tasks = [TaskName("worker", index) for index in range(SUBJECTS_MAX + 1)]
        with pytest.raises(InvalidInput, match="at most 64"):
            job_metrics(new_id(), tasks, None, START, START + STEP, now=START + STEP)
        with pytest.raises(InvalidInput) as refused:
            job_metrics(new_id(), tasks[:1], "gpu_xid_code", START, START + STEP, now=START + STEP)
        assert "cpu_millis" in refused.value.hint
