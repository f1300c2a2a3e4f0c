"""Results of replaying a window, side by side: as it was, under its own policy, under another policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jobs.scheduling.replay.drawing import Steps, curves
from jobs.scheduling.replay.figures import WaitTimes, jain, waits
from jobs.scheduling.replay.run import ReplayOutcome, UsageWindow
from jobs.scheduling.replay.trace import UNKNOWN, Past, Sample
from tenants.capacity.quota.shares import Shares

Row = tuple[str, str, str, str, str, str]


@dataclass(frozen=True, slots=True)
class Lived:
    """One course of the window. `outcome` None: as it really was."""

    name: str
    waits: dict[int, list[int]]  # By queue.
    outcome: ReplayOutcome | None = None
    samples: Sequence[Sample] = ()


def as_it_was(past: Past) -> Lived:
    found: dict[int, list[int]] = {}
    for entry in past.entries:
        if entry.started_at != UNKNOWN:
            found.setdefault(entry.job.queue, []).append(entry.started_at - entry.job.submitted_at)
    return Lived("as it was", found)


def as_replayed(name: str, past: Past, outcome: ReplayOutcome, samples: Sequence[Sample]) -> Lived:
    found: dict[int, list[int]] = {}
    for entry in past.entries:
        stay = outcome.stays.get(entry.job.id)
        if stay is not None and stay.first_started_at >= 0:
            found.setdefault(entry.job.queue, []).append(stay.first_started_at - entry.job.submitted_at)
    return Lived(name, found, outcome, samples)


def tables(past: Past, ways: Sequence[Lived]) -> Iterator[str]:
    """Lines for a terminal."""
    yield from _aligned([("queue", "", "started", "mean wait", "p50", "p95"), *_wait_rows(past, ways)])
    yield ""
    yield from _aligned([("", "GPUs in use", "cores in use", "evictions", "lost GPU-hours", "Jain"), *_use_rows(past, ways)])
    opened = sum(entry.is_open for entry in past.entries) + sum(run.is_open for run in past.runs)
    never = sum(entry.duration == UNKNOWN for entry in past.entries)
    if opened or never:
        yield ""
        yield f"{opened} jobs still ran when this was exported, {never} never ran: their times to run are what is known or usual."


def picture(past: Past, ways: Sequence[Lived]) -> str:
    """Waiting jobs and used capacity over time, as SVG."""
    amounts: dict[str, Callable[[Sample], float]] = {"jobs that wait": lambda sample: sample.waiting}
    if _capacity(past, 2):
        amounts["GPUs in use"] = lambda sample: sample.held.gpu_millis / 1000
    else:
        amounts["cores in use"] = lambda sample: sample.held.cpu_millis / 1000
    panels: dict[str, dict[str, Steps]] = {
        title: {way.name: [(sample.at, of(sample)) for sample in way.samples] for way in ways if way.samples}
        for title, of in amounts.items()
    }
    return curves("A past window, lived through again", panels, past.begins_at, past.ends_at)


def _wait_rows(past: Past, ways: Sequence[Lived]) -> Iterator[Row]:
    queues = sorted({queue for way in ways for queue in way.waits})
    for queue in [*queues, None]:
        for way in ways:
            if queue is None:
                found = waits(wait for values in way.waits.values() for wait in values)
            else:
                found = waits(way.waits.get(queue, ()))
            yield _wait_row("all" if queue is None else past.names[queue], way.name, found)


def _wait_row(queue: str, way: str, found: WaitTimes) -> Row:
    return (queue, way, str(found.jobs), f"{found.mean:.0f} s", f"{found.half} s", f"{found.most} s")


def _use_rows(past: Past, ways: Sequence[Lived]) -> Iterator[Row]:
    for way in ways:
        if way.outcome is None:
            continue
        gpus, cores = (_used(past, way.samples, place) for place in (2, 0))
        even, _ = jain(_inside(past, way.outcome), _weights(past), max(1, _capacity(past, 2)))
        lost = way.outcome.lost / 3_600_000
        yield (way.name, gpus, cores, str(way.outcome.evictions), f"{lost:.2f}", f"{even:.3f}")


def _inside(past: Past, outcome: ReplayOutcome) -> Iterator[UsageWindow]:
    return (window for window in outcome.windows if window.at <= past.ends_at)


def _used(past: Past, samples: Sequence[Sample], place: int) -> str:
    """The part of the capacity that was held, between the beginning and the end of the window."""
    capacity = _capacity(past, place)
    if not capacity or past.ends_at <= past.begins_at:
        return "-"
    area, before, since = 0, 0, past.begins_at
    for sample in samples:
        at = min(sample.at, past.ends_at)
        area += before * max(0, at - since)
        since, before = max(since, at), (sample.held.cpu_millis, sample.held.memory_bytes, sample.held.gpu_millis)[place]
    area += before * max(0, past.ends_at - since)
    return f"{100 * area / capacity / (past.ends_at - past.begins_at):.1f} %"


def _capacity(past: Past, place: int) -> int:
    totals = [total.total for total in past.state.capacities]
    return sum((total.cpu_millis, total.memory_bytes, total.gpu_millis)[place] for total in totals)


def _weights(past: Past) -> dict[int, int]:
    """What each queue deserves of all GPUs; 1 each where no queue deserves any."""
    shares = Shares(past.state.queues, past.state.capacities)
    owed = dict.fromkeys(range(len(past.names)), 0)
    for queue in past.state.queues:
        owed[shares.queue_at[queue.id]] = sum(row["gpu_millis"].owed for row in queue.limits.values() if "gpu_millis" in row)
    return {queue: amount or 1 for queue, amount in owed.items()} if any(owed.values()) else dict.fromkeys(owed, 1)


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        texts = [
            text.ljust(width) if column < 2 else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(texts).rstrip()
