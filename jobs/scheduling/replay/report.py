"""What living through a window came to, side by side: as it was, under its own policy, under another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jobs.scheduling.replay.drawing import Steps, curves
from jobs.scheduling.replay.figures import Waits, jain, waits
from jobs.scheduling.replay.run import Outcome, Window
from jobs.scheduling.replay.trace import UNKNOWN, Past, Sample
from tenants.quota.shares import Shares

Row = tuple[str, str, str, str, str, str]


@dataclass(frozen=True, slots=True)
class Lived:
    """One way in which the window went. `outcome` None: as it really was."""

    name: str
    waits: dict[int, list[int]]  # By queue.
    outcome: Outcome | None = None
    samples: Sequence[Sample] = ()


def as_it_was(past: Past) -> Lived:
    found: dict[int, list[int]] = {}
    for one in past.entries:
        if one.started_at != UNKNOWN:
            found.setdefault(one.job.queue, []).append(one.started_at - one.job.submitted_at)
    return Lived("as it was", found)


def as_replayed(name: str, past: Past, outcome: Outcome, samples: Sequence[Sample]) -> Lived:
    found: dict[int, list[int]] = {}
    for one in past.entries:
        stay = outcome.stays.get(one.job.id)
        if stay is not None and stay.first_started_at >= 0:
            found.setdefault(one.job.queue, []).append(stay.first_started_at - one.job.submitted_at)
    return Lived(name, found, outcome, samples)


def tables(past: Past, ways: Sequence[Lived]) -> Iterator[str]:
    """Lines for a terminal."""
    yield from _aligned([("queue", "", "started", "mean wait", "p50", "p95"), *_wait_rows(past, ways)])
    yield ""
    yield from _aligned([("", "GPUs in use", "cores in use", "evictions", "lost GPU-hours", "Jain"), *_use_rows(past, ways)])
    opened = sum(one.is_open for one in past.entries) + sum(one.is_open for one in past.runs)
    never = sum(one.duration == UNKNOWN for one in past.entries)
    if opened or never:
        yield ""
        yield f"{opened} jobs still ran when this was exported, {never} never ran: their times to run are what is known or usual."


def picture(past: Past, ways: Sequence[Lived]) -> str:
    """Who waited and what was held, over time."""
    amounts: dict[str, Callable[[Sample], float]] = {"jobs that wait": lambda one: one.waiting}
    if _capacity(past, 2):
        amounts["GPUs in use"] = lambda one: one.held.gpu_millis / 1000
    else:
        amounts["cores in use"] = lambda one: one.held.cpu_millis / 1000
    panels: dict[str, dict[str, Steps]] = {
        title: {way.name: [(one.at, of(one)) for one in way.samples] for way in ways if way.samples}
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


def _wait_row(queue: str, way: str, found: Waits) -> Row:
    return (queue, way, str(found.jobs), f"{found.mean:.0f} s", f"{found.half} s", f"{found.most} s")


def _use_rows(past: Past, ways: Sequence[Lived]) -> Iterator[Row]:
    for way in ways:
        if way.outcome is None:
            continue
        gpus, cores = (_used(past, way.samples, place) for place in (2, 0))
        even, _ = jain(_inside(past, way.outcome), _weights(past), max(1, _capacity(past, 2)))
        lost = way.outcome.lost / 3_600_000
        yield (way.name, gpus, cores, str(way.outcome.evictions), f"{lost:.2f}", f"{even:.3f}")


def _inside(past: Past, outcome: Outcome) -> Iterator[Window]:
    return (window for window in outcome.windows if window.at <= past.ends_at)


def _used(past: Past, samples: Sequence[Sample], place: int) -> str:
    """The part of what there is that was held, between the beginning and the end of the window."""
    capacity = _capacity(past, place)
    if not capacity or past.ends_at <= past.begins_at:
        return "-"
    area, before, since = 0, 0, past.begins_at
    for one in samples:
        at = min(one.at, past.ends_at)
        area += before * max(0, at - since)
        since, before = max(since, at), (one.held.cpu_millis, one.held.memory_bytes, one.held.gpu_millis)[place]
    area += before * max(0, past.ends_at - since)
    return f"{100 * area / capacity / (past.ends_at - past.begins_at):.1f} %"


def _capacity(past: Past, place: int) -> int:
    totals = [one.total for one in past.state.capacities]
    return sum((one.cpu_millis, one.memory_bytes, one.gpu_millis)[place] for one in totals)


def _weights(past: Past) -> dict[int, int]:
    """What each queue deserves of all GPUs; alike where nobody was promised any."""
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
