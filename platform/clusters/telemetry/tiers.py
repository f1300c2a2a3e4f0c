"""How long what is measured is kept, and how coarse it becomes with age. Each number has its reason here.

One series costs a fixed number of rows however long it lives: 13 + 49 + 29 chunks of at most 1.6 KB each.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

POINTS_MAX = 500  # Points of one answer: more than a chart is pixels wide per line that one can tell apart.
ANSWER_POINTS_MAX = 50_000  # All series of one answer together; 32 tasks x 3 metrics x 500.
SUBJECTS_MAX = 64  # Subjects in one answer: more lines than a chart can show; ask with a filter for others.
SERIES_MAX = 100_000  # Held open by one observer, about 4 KB each; further series are left out and counted.
CLOSED_CHUNKS_MAX = 200_000  # Kept while the database cannot be written; about 20 minutes of the largest observer.
FLUSH_SECONDS = 15.0  # What a crash of the observer may lose, and how far a chart may lag behind.
SILENT_INTERVALS = 3  # A series without a sample for so long has ended, or its node is lost: write it out and let it go.
FOLDED_FLUSH_SECONDS = 60.0  # Folded chunks change slowly; raw chunks hold the last minutes anyway.


@dataclass(frozen=True, slots=True)
class Tier:
    """One resolution. `slots` neighbouring slots make a chunk; `folded` slots hold minimum, mean, maximum and count."""

    resolution_millis: int
    slots: int
    keep: timedelta
    folded: bool
    flush_seconds: float

    @property
    def span_millis(self) -> int:
        return self.resolution_millis * self.slots

    @property
    def resolution_seconds(self) -> float:
        return self.resolution_millis / 1000


RAW_SLOTS = 120  # Ten minutes at the default interval: small enough to rewrite at each flush.
RAW_KEEP = timedelta(hours=2)  # Long enough to look at what just went wrong, at full detail.
MINUTES = Tier(60_000, 60, timedelta(days=2), folded=True, flush_seconds=FOLDED_FLUSH_SECONDS)  # Yesterday's run.
TEN_MINUTES = Tier(600_000, 72, timedelta(days=14), folded=True, flush_seconds=FOLDED_FLUSH_SECONDS)  # Two working weeks.


def tiers(sample_seconds: float) -> tuple[Tier, ...]:
    """All resolutions for a sampling interval, finest first. A folded tier must hold at least two samples a slot."""
    raw = Tier(max(1, round(sample_seconds * 1000)), RAW_SLOTS, RAW_KEEP, folded=False, flush_seconds=FLUSH_SECONDS)
    return (raw, *(tier for tier in (MINUTES, TEN_MINUTES) if tier.resolution_millis >= 2 * raw.resolution_millis))


def settled_after(sample_seconds: float) -> timedelta:
    """So long after its last sample all of a series is in the database: silent, then flushed, and ten seconds for that."""
    return timedelta(seconds=max(SILENT_INTERVALS * sample_seconds, FLUSH_SECONDS) + FLUSH_SECONDS + 10)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def millis_of(moment: datetime) -> int:
    """Whole milliseconds since the epoch: slots are cut with integers."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def moment_of(millis: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=millis)
