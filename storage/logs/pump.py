"""Moves output from engines into the store, for all live attempts in turn. Nothing else ever asks an engine for logs.

The observer calls `pump` under a lease, again and again; with the lease lost, two pumps do the same work twice and store it
once. Memory is bounded by `LOG_BATCH_BYTES` whatever the tasks print, and a stream that prints without end gives way to
the others after `LOG_PASS_BYTES`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from clusters.engines.interface import Engine, EngineUnreachable, LogChunk, LogChunks, Stream, TaskName
from kernel.clock import database_now
from storage import bounds
from storage.logs.append import StreamChunks, append_chunks, open_logs
from storage.logs.store import AttemptKey, LogStore, StreamKey, default_store
from storage.models import AttemptLog, LogStreamState

Look = Callable[[StreamKey, Sequence[LogChunk], datetime], None]
"""Sees what a stream gave, and when it was stored. Of several pumps at one stream only the one that stored it calls."""


@dataclass(frozen=True, slots=True)
class LogSource:
    """An attempt whose output is wanted, with every task that it has; only of these streams where they are named."""

    tenant_id: uuid.UUID
    job_id: uuid.UUID
    attempt_id: uuid.UUID
    tasks: tuple[TaskName, ...]
    streams: frozenset[tuple[TaskName, Stream]] | None = None

    @property
    def key(self) -> AttemptKey:
        return AttemptKey(self.tenant_id, self.job_id, self.attempt_id)


@dataclass(slots=True)
class PumpCounts:
    """What one pass did. `complete` names attempts whose whole output is stored; `more` says that the next pass has work."""

    streams: int = 0
    live: int = 0  # Attempts that were looked at, whether they had something to give or not.
    stored_bytes: int = 0
    rows: int = 0
    more: bool = False
    moved: set[uuid.UUID] = field(default_factory=set)  # Attempts whose engine still had something to give.
    complete: set[uuid.UUID] = field(default_factory=set)
    drained: set[tuple[uuid.UUID, TaskName, Stream]] = field(default_factory=set)  # All that they had is stored.


def pump(
    engine: Engine,
    sources: Sequence[LogSource],
    *,
    now: Callable[[], datetime] = database_now,
    store: LogStore | None = None,
    attempt_quota_bytes: int = bounds.LOG_ATTEMPT_BYTES,
    look: Look | None = None,
) -> PumpCounts:
    """Store what the streams of these attempts have printed since the last pass, and let `look` see it.

    Raises EngineUnreachable after what was read until then is stored, and LogStoreFull. Not to be called inside a transaction.
    """
    counts = PumpCounts()
    store = store or default_store()
    batch: list[StreamChunks] = []
    drained: list[StreamKey] = []
    size = 0

    def flush() -> None:
        nonlocal size
        at = now()
        done = append_chunks(batch, now=at, store=store, attempt_quota_bytes=attempt_quota_bytes)
        counts.stored_bytes += done.stored_bytes
        counts.rows += done.rows
        counts.drained.update((key.attempt.attempt_id, key.task, key.stream) for key in drained)
        if look is not None:
            for item in batch:
                if item.key in done.moved:
                    look(item.key, item.answer.chunks, at)
        batch.clear()
        drained.clear()
        size = 0

    try:
        for key, cursor in _open_streams(sources, now=now()):
            answer, is_drained = _read(engine, key, cursor)
            counts.streams += 1
            counts.more |= not is_drained
            if answer.chunks:
                counts.moved.add(key.attempt.attempt_id)
            batch.append(StreamChunks(key, answer))
            if is_drained:
                drained.append(key)
            size += sum(len(chunk.data) for chunk in answer.chunks)
            if size >= bounds.LOG_BATCH_BYTES:
                flush()
    finally:
        flush()
    counts.complete = complete_logs([source.attempt_id for source in sources])
    return counts


def complete_logs(attempt_ids: Sequence[uuid.UUID]) -> set[uuid.UUID]:
    """Those attempts whose output is stored to its end: their engine objects may be forgotten."""
    found: set[uuid.UUID] = set()
    for start in range(0, len(attempt_ids), 500):
        part = attempt_ids[start : start + 500]
        found.update(AttemptLog.objects.filter(attempt_id__in=part, complete=True).values_list("attempt_id", flat=True))
    return found


def close_logs(sources: Sequence[LogSource], *, now: datetime, marker: str) -> None:
    """End the logs of attempts that no engine knows any more; open streams get `marker`, which says why they stop."""
    ended = [
        StreamChunks(key, LogChunks((LogChunk(cursor, b"", marker),), cursor, complete=True))
        for key, cursor in _open_streams(sources, now=now)
    ]
    append_chunks(ended, now=now)


def _open_streams(sources: Sequence[LogSource], *, now: datetime) -> Iterator[tuple[StreamKey, int]]:
    """Every stream that may still give something, with the offset from which it is wanted, oldest attempt first."""
    keys = {source.attempt_id: source.key for source in sources}
    wanted = {source.attempt_id: source.streams for source in sources}
    known = set(AttemptLog.objects.filter(attempt_id__in=keys).values_list("attempt_id", flat=True))
    open_logs([(source.key, source.tasks) for source in sources if source.attempt_id not in known], now=now)
    rows = LogStreamState.objects.filter(attempt_id__in=keys, complete=False).order_by("id")
    for row in list(rows):
        task, stream, only = TaskName(row.role, row.index), Stream(row.stream), wanted[row.attempt_id]
        if only is None or (task, stream) in only:
            yield StreamKey(keys[row.attempt_id], task, stream), row.cursor


def _read(engine: Engine, key: StreamKey, cursor: int) -> tuple[LogChunks, bool]:
    """Ask until the stream is drained or had its share of the pass; False: there is more at once."""
    chunks: list[LogChunk] = []
    size = 0
    answer = LogChunks((), cursor, complete=False)
    while size < bounds.LOG_PASS_BYTES:
        try:
            answer = engine.logs(key.attempt.attempt_id, key.task, key.stream, answer.cursor)
        except EngineUnreachable:
            if not chunks:
                raise
            return LogChunks(tuple(chunks), answer.cursor, complete=False), False
        chunks += answer.chunks
        size += sum(len(chunk.data) for chunk in answer.chunks)
        if answer.complete or answer.drained or not answer.chunks:
            return LogChunks(tuple(chunks), answer.cursor, answer.complete), True
    return LogChunks(tuple(chunks), answer.cursor, answer.complete), False
