"""Figures of a replay for people: waits, use, evenness of shares. Floats appear here only."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from jobs.scheduling.replay.run import UsageWindow


@dataclass(frozen=True, slots=True)
class WaitTimes:
    """Seconds from submission to the first start."""

    jobs: int
    mean: float
    half: int  # The median, as the value of one job.
    most: int  # What 95 of 100 waited at most.


def waits(values: Iterable[int]) -> WaitTimes:
    ordered = sorted(values)
    if not ordered:
        return WaitTimes(0, 0.0, 0, 0)
    return WaitTimes(len(ordered), statistics.fmean(ordered), ranked(ordered, 50), ranked(ordered, 95))


def ranked(ordered: Sequence[int], percent: int) -> int:
    """The smallest value that `percent` of 100 values do not exceed."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def jain(windows: Iterable[UsageWindow], weight: Mapping[int, int], capacity: int) -> tuple[float, float]:
    """Jain's index over held / owed of queues with unmet demand, mean of the windows with two or more of them.

    Owed is what each queue would get if the whole capacity were divided by weight, without giving a queue more than it has use
    for, at that moment. For the second number a queue that holds more than it is owed counts as holding what it is owed.
    """
    raw, capped = [], []
    for window in windows:
        unmet = [queue for queue, wanted in window.wanted.items() if wanted > window.held.get(queue, 0)]
        if len(unmet) < 2:
            continue
        owed = max_min(window.wanted, weight, capacity)
        parts = [window.held.get(queue, 0) / max(owed[queue], 1e-9) for queue in unmet]
        raw.append(evenness(parts))
        capped.append(evenness([min(1.0, part) for part in parts]))
    return (statistics.fmean(raw), statistics.fmean(capped)) if raw else (1.0, 1.0)


def evenness(parts: Sequence[float]) -> float:
    squares = sum(part * part for part in parts)
    return sum(parts) ** 2 / (len(parts) * squares) if squares else 1.0


def max_min(wanted: Mapping[int, int], weight: Mapping[int, int], capacity: int) -> dict[int, float]:
    """Max-min fair division by weight: no queue gets more than it wants, and what is left over is divided again."""
    owed = dict.fromkeys(wanted, 0.0)
    left, open_queues = float(capacity), {queue for queue, amount in wanted.items() if amount}
    while open_queues and left > 1e-6:
        level = left / sum(weight[queue] for queue in open_queues)
        content = {queue for queue in open_queues if wanted[queue] - owed[queue] <= level * weight[queue]}
        for queue in content or open_queues:
            part = wanted[queue] - owed[queue] if content else level * weight[queue]
            owed[queue] += part
            left -= part
        if not content:
            break
        open_queues -= content
    return owed
