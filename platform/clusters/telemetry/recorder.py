"""Takes samples, holds the open chunk of every series in memory, and writes all that changed in one statement.

Samples arrive every few seconds for thousands of series; a row a sample would be the largest table of the installation. A
sample is folded into each tier as it arrives, so that nothing has to be thinned later. What a crash loses is the time since
the last flush, and it stays a gap. A new process finds the chunk that its predecessor began by its unique place and merges
with it.
"""

from __future__ import annotations

import math
import threading
import uuid
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from django.db import transaction

from clusters.engines.interface import Sample
from clusters.models import SUBJECT_LENGTH, SeriesChunk
from clusters.telemetry.chunks import Chunk, FoldedChunk, RawChunk
from clusters.telemetry.metrics import METRICS, kind_of
from clusters.telemetry.tiers import CLOSED_CHUNKS_MAX, SERIES_MAX, SILENT_INTERVALS, Tier, millis_of, moment_of, tiers
from kernel import config
from kernel.ids import new_ids
from reconciling import bulk

log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class _Open:
    """One chunk being filled. `row_id` None: not stored yet, as far as this process knows."""

    subject: str
    metric: str
    tier: Tier
    start_millis: int
    chunk: Chunk
    row_id: uuid.UUID | None = None
    dirty: bool = False
    flushed_millis: int = 0

    @property
    def place(self) -> tuple[str, str, int, int]:
        return (self.subject, self.metric, self.tier.resolution_millis, self.start_millis)


@dataclass(slots=True)
class _Series:
    slot: int  # Number of the raw slot, counted from the epoch, that took the last sample.
    sampled_millis: int
    open: list[_Open] = field(default_factory=list)  # One per tier.


class Recorder:
    """The series that one process samples. All methods may be called from any thread."""

    def __init__(self, sample_seconds: float) -> None:
        self.tiers = tiers(sample_seconds)
        self.left_out = 0  # Samples refused because of the bound on series or a name that is not in the table.
        self._series: dict[tuple[str, str], _Series] = {}
        self._closed: deque[_Open] = deque(maxlen=CLOSED_CHUNKS_MAX)
        self._flushed_millis = 0
        self._lock = threading.RLock()

    def record(self, samples: Iterable[Sample], at: datetime) -> int:
        """Put samples of one moment into their series, in memory. Returns how many were taken."""
        millis = millis_of(at)
        taken = 0
        with self._lock:
            for sample in samples:
                taken += self._take(sample, millis)
        return taken

    def flush(self, now: datetime, *, everything: bool = False) -> int:
        """Write what changed, if it is time; `everything` writes at once (shutdown, tests). Returns chunks written.

        Chunks that could not be written stay for the next flush.
        """
        millis = millis_of(now)
        with self._lock:
            if not everything and millis - self._flushed_millis < self.tiers[0].flush_seconds * 1000:
                return 0
            self._close_silent(millis)
            due = [*self._closed, *(item for item in self._all_open() if item.dirty and (everything or _is_due(item, millis)))]
            _store(due)
            self._closed.clear()
            self._flushed_millis = millis
            for item in due:
                item.flushed_millis = millis
            return len(due)

    def _take(self, sample: Sample, millis: int) -> int:
        key = (sample.subject, sample.metric)
        series = self._series.get(key)
        if not math.isfinite(sample.value):
            return 0  # Not measured; the slot stays a gap.
        if series is None:
            if not self._may_begin(sample):
                return 0
            series = self._series[key] = _Series(slot=millis // self.tiers[0].resolution_millis, sampled_millis=millis)
        else:
            series.slot = next_slot(series.slot, series.sampled_millis, millis, self.tiers[0].resolution_millis)
            series.sampled_millis = millis
        moment = series.slot * self.tiers[0].resolution_millis
        for position, tier in enumerate(self.tiers):
            item = self._open(series, position, tier, key, moment)
            item.chunk.add((moment - item.start_millis) // tier.resolution_millis, sample.value)
            item.dirty = True
        return 1

    def _may_begin(self, sample: Sample) -> bool:
        metric = METRICS.get(sample.metric)
        kind = kind_of(sample.subject)
        known = metric is not None and kind in metric.subjects and len(sample.subject) <= SUBJECT_LENGTH
        if known and len(self._series) < SERIES_MAX:
            return True
        if not self.left_out:
            log.warning("telemetry.left_out", subject=sample.subject[:80], metric=sample.metric[:80], is_known=known)
        self.left_out += 1
        return False

    def _open(self, series: _Series, position: int, tier: Tier, key: tuple[str, str], moment: int) -> _Open:
        start = moment - moment % tier.span_millis
        if position == len(series.open):
            series.open.append(_begin(key, tier, start))
        elif series.open[position].start_millis != start:
            if series.open[position].dirty:
                self._closed.append(series.open[position])
            series.open[position] = _begin(key, tier, start)
        return series.open[position]

    def _close_silent(self, millis: int) -> None:
        limit = millis - max(SILENT_INTERVALS * self.tiers[0].resolution_millis, int(self.tiers[0].flush_seconds * 1000))
        for key in [key for key, series in self._series.items() if series.sampled_millis < limit]:
            self._closed.extend(item for item in self._series.pop(key).open if item.dirty)

    def _all_open(self) -> Iterable[_Open]:
        return (item for series in self._series.values() for item in series.open)


def next_slot(slot: int, sampled_millis: int, millis: int, resolution_millis: int) -> int:
    """The slot of a sample after one at `sampled_millis` in `slot`: one further per interval that passed, rounded.

    A timer is never exact. Cutting time into slots alone would put two samples into one slot and none into the next, which
    shows as a gap that was none. The answer is never further than one slot from the true one.
    """
    true_slot = millis // resolution_millis
    expected = slot + (millis - sampled_millis + resolution_millis // 2) // resolution_millis
    return max(true_slot - 1, min(true_slot + 1, expected))


def _store(chunks: Sequence[_Open]) -> None:
    """Write chunks in one transaction. If it fails they are as new and as unwritten as before."""
    fresh = [item for item in chunks if item.row_id is None]
    known = [item for item in chunks if item.row_id is not None]
    try:
        with transaction.atomic():
            _insert(fresh)
            rows = [{"id": item.row_id, "packed": item.chunk.pack()} for item in known]
            kept = {row["id"] for row in bulk.update(SeriesChunk, rows)}
    except BaseException:
        for item in fresh:
            item.row_id = None
        raise
    for item in chunks:
        item.dirty = False
    for item in known:
        if item.row_id not in kept:  # Expired and swept while this process slept; begin it anew.
            item.row_id, item.dirty = None, True


def _insert(fresh: Sequence[_Open]) -> None:
    """Insert chunks; where another process stored the same chunk first, merge with it."""
    for item, row_id in zip(fresh, new_ids(len(fresh)), strict=True):
        item.row_id = row_id
    if bulk.insert(SeriesChunk, [_row(item) for item in fresh], ignore_conflicts=True) < len(fresh):
        _adopt(fresh)


def _adopt(fresh: Sequence[_Open]) -> None:
    """Merge with the rows that stood in the way of an insert."""
    stored = {
        (row.subject, row.metric, row.resolution_millis, millis_of(row.start_at)): row
        for part in _parts(sorted({item.subject for item in fresh}))
        for row in SeriesChunk.objects.filter(
            subject__in=part,
            resolution_millis__in={item.tier.resolution_millis for item in fresh},
            start_at__in={moment_of(item.start_millis) for item in fresh},
        )
    }
    merged = []
    for item in fresh:
        row = stored[item.place]
        if row.id != item.row_id:
            item.row_id = row.id
            item.chunk.merge(row.packed)
            merged.append({"id": row.id, "packed": item.chunk.pack()})
    bulk.update(SeriesChunk, merged)


def _row(item: _Open) -> dict[str, object]:
    return {
        "id": item.row_id,
        "subject": item.subject,
        "metric": item.metric,
        "resolution_millis": item.tier.resolution_millis,
        "start_at": moment_of(item.start_millis),
        "packed": item.chunk.pack(),
        "expires_at": moment_of(item.start_millis + item.tier.span_millis) + item.tier.keep,
    }


def _begin(key: tuple[str, str], tier: Tier, start_millis: int) -> _Open:
    chunk: Chunk = FoldedChunk(tier.slots) if tier.folded else RawChunk(tier.slots)
    return _Open(subject=key[0], metric=key[1], tier=tier, start_millis=start_millis, chunk=chunk)


def _is_due(item: _Open, millis: int) -> bool:
    return item.row_id is None or millis - item.flushed_millis >= item.tier.flush_seconds * 1000


def _parts(subjects: Sequence[str]) -> list[Sequence[str]]:
    return [subjects[start : start + bulk.BATCH_ROWS] for start in range(0, len(subjects), bulk.BATCH_ROWS)]


_recorder: Recorder | None = None
_recorder_lock = threading.Lock()


def recorder() -> Recorder:
    """The recorder of this process."""
    global _recorder
    with _recorder_lock:
        if _recorder is None:
            _recorder = Recorder(config.current().telemetry_seconds)
        return _recorder


def forget_recorder() -> None:
    """Drop what was not flushed: a restart, as far as the series can tell."""
    global _recorder
    with _recorder_lock:
        _recorder = None
