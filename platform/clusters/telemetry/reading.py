"""Series as charts want them: the finest resolution that covers the time asked for and fits into the points allowed.

Reads only; the newest samples appear when the observer has flushed them. A gap is None, whatever caused it.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil

from clusters.engines.interface import TaskName
from clusters.models import SeriesChunk
from clusters.telemetry.chunks import Point, combine, unpack
from clusters.telemetry.metrics import METRICS, Metric, SubjectKind, metrics_of, task_subject
from clusters.telemetry.tiers import ANSWER_POINTS_MAX, POINTS_MAX, SUBJECTS_MAX, Tier, millis_of, moment_of, tiers
from kernel import config
from kernel.errors import FieldError, InvalidInput
from kernel.words import Text
from reconciling.bulk import BATCH_ROWS

DAY_MILLIS = 86_400_000


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of one subject. All tuples have one entry per slot; `values` are means, None is a gap."""

    subject: str
    metric: str
    unit: str
    resolution_seconds: float
    times: tuple[datetime, ...]
    values: tuple[float | None, ...]
    lows: tuple[float | None, ...]
    highs: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """A metric over the whole life of a subject, as far as it is still kept. `samples` says how much it rests on."""

    metric: str
    unit: str
    mean: float
    peak: float
    samples: int


def read_series(
    subject: str, metric: str, *, since: datetime, until: datetime, now: datetime, points_max: int = POINTS_MAX
) -> Series:
    """One series from `since` (inclusive) to `until` (exclusive). Raises InvalidInput for a metric that is not in the table."""
    return read_many([subject], [find_metric(metric)], since=since, until=until, now=now, points_max=points_max)[0]


def read_many(
    subjects: Sequence[str],
    metrics: Sequence[Metric],
    *,
    since: datetime,
    until: datetime,
    now: datetime,
    points_max: int = POINTS_MAX,
) -> list[Series]:
    """Every metric of every subject, in that order, all at one resolution, in one query. Empty series are in it too."""
    count = max(1, len(subjects) * len(metrics))
    window = plan_window(since, until, now, points_max=max(2, min(points_max, ANSWER_POINTS_MAX // count)))
    points = _load(subjects, [metric.name for metric in metrics], window)
    return [
        _series(subject, metric, points.get((subject, metric.name), {}), window, now)
        for subject in subjects
        for metric in metrics
    ]


def job_metrics(
    attempt_id: uuid.UUID,
    tasks: Sequence[TaskName],
    metric: str | None,
    since: datetime,
    until: datetime,
    *,
    now: datetime,
    points_max: int = POINTS_MAX,
) -> list[Series]:
    """Series of an attempt's tasks: one metric, or with None all that were measured. Raises InvalidInput past the bound."""
    if len(tasks) > SUBJECTS_MAX:
        message = Text(
            f"The attempt has {len(tasks)} tasks; one answer holds at most {SUBJECTS_MAX}.",
            f"该尝试有 {len(tasks)} 个任务；一次应答最多包含 {SUBJECTS_MAX} 个。",
        )
        hint = Text("Ask for one task with `task=<role>-<index>`.", "请用 `task=<role>-<index>` 指定一个任务。")
        raise InvalidInput(message, hint=hint, fields=[FieldError("/task", "too_many", message, hint)])
    wanted = metrics_of(SubjectKind.TASK) if metric is None else (find_metric(metric, SubjectKind.TASK),)
    subjects = [task_subject(attempt_id, task.role, task.index) for task in tasks]
    found = read_many(subjects, wanted, since=since, until=until, now=now, points_max=points_max)
    return [series for series in found if metric is not None or any(value is not None for value in series.values)]


def summarize_tasks(attempt_id: uuid.UUID, tasks: Sequence[TaskName]) -> dict[TaskName, tuple[Summary, ...]]:
    """Mean and peak of everything measured of each task; tasks that were never measured are missing. One query per 1,000."""
    by_subject = {task_subject(attempt_id, task.role, task.index): task for task in tasks}
    subjects = list(by_subject)
    coarsest = tiers(config.current().telemetry_seconds)[-1].resolution_millis
    points: dict[tuple[str, str], list[Point]] = defaultdict(list)
    for start in range(0, len(subjects), BATCH_ROWS):
        rows = SeriesChunk.objects.filter(subject__in=subjects[start : start + BATCH_ROWS], resolution_millis=coarsest)
        for subject, metric, packed in rows.values_list("subject", "metric", "packed"):
            points[subject, metric] += [point for point in unpack(packed) if point is not None]
    summaries: dict[TaskName, list[Summary]] = defaultdict(list)
    for subject, task in by_subject.items():
        for entry in metrics_of(SubjectKind.TASK):
            whole = combine(points.get((subject, entry.name), []))
            if whole is not None:
                summary = Summary(entry.name, entry.unit.value, whole.mean, whole.high, round(whole.count))
                summaries[task].append(summary)
    return {task: tuple(found) for task, found in summaries.items()}


def ratio_by_day(subjects: Sequence[str], metric: str) -> dict[tuple[str, int], tuple[float, float]]:
    """For how many seconds of each day (UTC, counted since 1970) a ratio was measured of each subject, and its mean times these.

    From the coarsest series, which are kept longest; days without a sample are missing. One query per 1,000 subjects.
    """
    sample_seconds = config.current().telemetry_seconds
    coarsest = tiers(sample_seconds)[-1].resolution_millis
    found: dict[tuple[str, int], tuple[float, float]] = {}
    for start in range(0, len(subjects), BATCH_ROWS):
        rows = SeriesChunk.objects.filter(
            subject__in=subjects[start : start + BATCH_ROWS], metric=metric, resolution_millis=coarsest
        )
        for subject, start_at, packed in rows.values_list("subject", "start_at", "packed"):
            for moment, point in _points(millis_of(start_at), coarsest, packed):
                seconds, worked = found.get((subject, moment // DAY_MILLIS), (0.0, 0.0))
                more = min(point.count * sample_seconds, coarsest / 1000)
                found[subject, moment // DAY_MILLIS] = seconds + more, worked + more * point.mean
    return found


def latest_values(
    subjects: Sequence[str], *, now: datetime, metrics: Sequence[str] | None = None
) -> dict[tuple[str, str], float]:
    """The newest value of each (subject, metric) that is still fresh: what fell silent is missing. None: all metrics."""
    raw = tiers(config.current().telemetry_seconds)[0]
    fresh_millis = max(3 * raw.resolution_millis, int(2 * raw.flush_seconds * 1000))
    now_millis = millis_of(now)
    oldest = moment_of(now_millis - fresh_millis - raw.span_millis)
    newest: dict[tuple[str, str], tuple[int, float]] = {}
    for start in range(0, len(subjects), BATCH_ROWS):
        rows = SeriesChunk.objects.filter(
            subject__in=subjects[start : start + BATCH_ROWS], resolution_millis=raw.resolution_millis, start_at__gt=oldest
        )
        if metrics is not None:
            rows = rows.filter(metric__in=metrics)
        for subject, metric, start_at, packed in rows.values_list("subject", "metric", "start_at", "packed"):
            for moment, point in _points(millis_of(start_at), raw.resolution_millis, packed):
                if now_millis - fresh_millis <= moment and moment > newest.get((subject, metric), (-1, 0.0))[0]:
                    newest[subject, metric] = (moment, point.mean)
    return {key: value for key, (_, value) in newest.items()}


def find_metric(name: str, kind: SubjectKind | None = None) -> Metric:
    """The entry of the table; raises InvalidInput that lists what there is, for a kind of subject if given."""
    metric = METRICS.get(name)
    if metric is not None and (kind is None or kind in metric.subjects):
        return metric
    known = ", ".join(entry.name for entry in METRICS.values() if kind is None or kind in entry.subjects)
    message = Text(
        f"There is no metric {name[:80]!r}{f' of a {kind.value}' if kind else ''}.",
        f"没有{f' {kind.value} 的' if kind else ''}指标 {name[:80]!r}。",
    )
    raise InvalidInput(
        message,
        hint=Text(f"One of: {known}.", f"可选：{known}。"),
        fields=[FieldError("/metric", "unknown", message, Text(f"One of: {known}.", f"可选：{known}。"))],
    )


@dataclass(frozen=True, slots=True)
class Window:
    """What will be read: the tier, and how many of its slots become one point. Times are whole points."""

    tier: Tier
    factor: int
    start_millis: int
    points: int

    @property
    def step_millis(self) -> int:
        return self.tier.resolution_millis * self.factor


def plan_window(since: datetime, until: datetime, now: datetime, *, points_max: int = POINTS_MAX) -> Window:
    """Choose the finest tier that still keeps `since` and gives at most `points_max` points.

    Slots are joined while that stays finer than the next tier. Time before what is kept, and time to come, is cut off.
    """
    known = tiers(config.current().telemetry_seconds)
    oldest = now - known[-1].keep
    begin, end = millis_of(max(since, oldest)), millis_of(min(until, now))
    for position, tier in enumerate(known):
        is_last = position == len(known) - 1
        if not is_last and max(since, oldest) < now - tier.keep:
            continue
        # One more than the quotient may be touched, as the first and the last point are seldom whole.
        factor = max(1, ceil(max(0, end - begin) / tier.resolution_millis / max(1, points_max - 1)))
        if is_last or tier.resolution_millis * factor < known[position + 1].resolution_millis:
            step = tier.resolution_millis * factor
            start = begin - begin % step
            return Window(tier, factor, start, max(0, ceil((end - start) / step)) if end > begin else 0)
    raise AssertionError("the last tier takes what no other takes")


def _load(subjects: Sequence[str], metrics: Sequence[str], window: Window) -> dict[tuple[str, str], dict[int, list[Point]]]:
    """Points by series and by number of the window's point."""
    begin, end = window.start_millis, window.start_millis + window.points * window.step_millis
    found: dict[tuple[str, str], dict[int, list[Point]]] = defaultdict(lambda: defaultdict(list))
    if not window.points:
        return found
    rows = SeriesChunk.objects.filter(
        subject__in=subjects,
        metric__in=metrics,
        resolution_millis=window.tier.resolution_millis,
        start_at__gt=moment_of(begin - window.tier.span_millis),
        start_at__lt=moment_of(end),
    )
    for subject, metric, start_at, packed in rows.values_list("subject", "metric", "start_at", "packed"):
        slots = found[subject, metric]
        for moment, point in _points(millis_of(start_at), window.tier.resolution_millis, packed):
            if begin <= moment < end:
                slots[(moment - begin) // window.step_millis].append(point)
    return found


def _series(subject: str, metric: Metric, slots: dict[int, list[Point]], window: Window, now: datetime) -> Series:
    points = [combine(slots.get(number, [])) for number in range(window.points)]
    # The newest slots may be measured but not written yet: that is not known to be a gap.
    pending = millis_of(now) - int(window.tier.flush_seconds * 1000) - window.step_millis
    while points and points[-1] is None and window.start_millis + (len(points) - 1) * window.step_millis > pending:
        points.pop()
    return Series(
        subject=subject,
        metric=metric.name,
        unit=metric.unit.value,
        resolution_seconds=window.step_millis / 1000,
        times=tuple(moment_of(window.start_millis + number * window.step_millis) for number in range(len(points))),
        values=tuple(None if point is None else point.mean for point in points),
        lows=tuple(None if point is None else point.low for point in points),
        highs=tuple(None if point is None else point.high for point in points),
    )


def _points(start_millis: int, resolution_millis: int, packed: str) -> Iterable[tuple[int, Point]]:
    for slot, point in enumerate(unpack(packed)):
        if point is not None:
            yield start_millis + slot * resolution_millis, point
