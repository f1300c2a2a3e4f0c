"""Resource-time in integers, cut at any moment so that the parts add up to the whole exactly.

An interval is measured between whole seconds of the clock: its length is the number of second marks that it passes. Two
windows that meet share a mark and count it once, so the sum over adjacent windows is the sum over their union.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from kernel.resources import Resources

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ResourceSeconds:
    """Amounts multiplied by seconds: `gpu_milli_seconds` 3,600,000 is one GPU for an hour."""

    cpu_milli_seconds: int = 0
    memory_byte_seconds: int = 0
    gpu_milli_seconds: int = 0

    def __add__(self, other: ResourceSeconds) -> ResourceSeconds:
        return ResourceSeconds(
            self.cpu_milli_seconds + other.cpu_milli_seconds,
            self.memory_byte_seconds + other.memory_byte_seconds,
            self.gpu_milli_seconds + other.gpu_milli_seconds,
        )


def mark(moment: datetime) -> int:
    """The last whole second at or before a moment, counted from 1970."""
    return (moment - _EPOCH) // _SECOND


def seconds_between(started_at: datetime, ended_at: datetime) -> int:
    """How many second marks an interval passes."""
    return mark(ended_at) - mark(started_at)


def seconds_within(started_at: datetime, ended_at: datetime, *, since: datetime | None, until: datetime | None) -> int:
    """The part of an interval inside a window, which may be open on either side."""
    start = started_at if since is None else max(started_at, since)
    end = ended_at if until is None else min(ended_at, until)
    return max(0, seconds_between(start, end))


def used(amount: Resources, seconds: int) -> ResourceSeconds:
    return ResourceSeconds(amount.cpu_millis * seconds, amount.memory_bytes * seconds, amount.gpu_millis * seconds)


_SECOND = datetime.resolution * 1_000_000
