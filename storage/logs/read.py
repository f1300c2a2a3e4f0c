"""Reads stored logs: all streams of an attempt in one order, or one stream by byte range. Never asks an engine.

The merged order is the order in which chunks were stored. A cursor names the last row that was read and how far; the newest
row may grow behind it, so a reader that comes back continues inside the same row.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import F, QuerySet

from clusters.engines.interface import Stream, TaskName
from kernel.limits import LOG_READ_BYTES
from kernel.words import Text
from storage.bounds import LOG_TAIL_LINES_MAX
from storage.logs.store import AttemptKey, LogStore, StreamKey, default_store
from storage.logs.text import decode, incomplete_tail
from storage.models import AttemptLog, LogChunkIndex, LogStreamState
from webapi.bounds import PAGE_SIZE_MAX
from webapi.errors import InvalidCursor

REMOVED_MARKER = "these bytes are no longer stored"
READ_BYTES = 1024 * 1024
_CURSOR = re.compile(r"([0-9]{1,18})-([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which streams are wanted; None means all."""

    role: str | None = None
    index: int | None = None
    stream: str | None = None

    def narrow(self, rows: QuerySet[LogChunkIndex]) -> QuerySet[LogChunkIndex]:
        for column, value in (("role", self.role), ("index", self.index), ("stream", self.stream)):
            if value is not None:
                rows = rows.filter(**{column: value})
        return rows


ALL_STREAMS = LogFilter()


@dataclass(frozen=True, slots=True)
class LogItem:
    """A run of text of one stream, or a marker where bytes are missing. `offset` counts the stream's own bytes."""

    role: str
    index: int
    stream: str
    offset: int
    text: str
    at: datetime
    marker: str
    skipped_bytes: int
    cursor: str  # Where to go on behind this item.

    def as_dict(self) -> dict[str, object]:
        """The item as the API shows it."""
        return {
            "task": {"role": self.role, "index": self.index},
            "stream": self.stream,
            "offset": self.offset,
            "text": self.text,
            "at": self.at,
            "marker": self.marker or None,
            "skipped_bytes": self.skipped_bytes,
        }


@dataclass(frozen=True, slots=True)
class LogPage:
    """`complete`: the attempt's whole output is stored and nothing follows `cursor`. `more`: the next page is there already."""

    items: tuple[LogItem, ...]
    cursor: str
    complete: bool
    more: bool


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """One stored stream, as a file that is read by ranges. `size_bytes` grows until `complete`."""

    key: StreamKey
    size_bytes: int
    complete: bool


START = "0-0"


def read_merged(
    attempt_id: uuid.UUID,
    *,
    cursor: str | None = None,
    limit: int = PAGE_SIZE_MAX,
    wanted: LogFilter = ALL_STREAMS,
    bytes_max: int = LOG_READ_BYTES,
    store: LogStore | None = None,
) -> LogPage:
    """One page of an attempt's log behind `cursor`; an attempt without a log gives an empty page that is not complete."""
    sequence, position = _parse(cursor or START)
    log = AttemptLog.objects.filter(attempt_id=attempt_id).first()
    if log is None:
        return LogPage((), cursor or START, complete=False, more=False)
    was_complete = log.complete  # Read before the rows: what comes after them must not be missed.
    limit = min(max(limit, 1), PAGE_SIZE_MAX)
    rows = list(_rows(attempt_id, wanted, from_sequence=sequence)[: limit + 1])
    items: list[LogItem] = []
    room = bytes_max
    key = AttemptKey(log.tenant_id, log.job_id, log.attempt_id)
    more = False
    for row in rows:
        skip = position if row.sequence == sequence else 0
        if skip >= max(row.length, 1):
            continue  # Read to its present end.
        if room <= 0 or len(items) == limit:
            more = True
            break
        item, used = _item(row, key, skip, room, store or default_store())
        items.append(item)
        room -= used
        if skip + used < row.length:
            more = True
            break
    last = items[-1].cursor if items else (cursor or START)
    return LogPage(tuple(items), last, complete=was_complete and not more, more=more)


def tail_cursor(attempt_id: uuid.UUID, *, lines: int, wanted: LogFilter = ALL_STREAMS, store: LogStore | None = None) -> str:
    """The cursor from which about the last `lines` lines follow; the beginning if there are fewer."""
    lines = min(lines, LOG_TAIL_LINES_MAX)
    log = AttemptLog.objects.filter(attempt_id=attempt_id).first()
    if log is None:
        return START
    key = AttemptKey(log.tenant_id, log.job_id, log.attempt_id)
    rows = _rows(attempt_id, wanted).order_by("-sequence").iterator(chunk_size=100)
    for number, row in enumerate(rows):
        if lines <= 0:
            return f"{row.sequence}-{max(row.length, 1)}"
        data = _bytes(row, key, 0, row.length, store or default_store())
        # The end of the very last line is not the beginning of another one.
        body = data[:-1] if number == 0 and data.endswith(b"\n") else data
        count = body.count(b"\n")
        if count >= lines:
            start = len(body)
            for _ in range(lines):
                start = body.rindex(b"\n", 0, start)
            return f"{row.sequence}-{start + 1}"
        lines -= count
    return START


def find_stream(attempt_id: uuid.UUID, task: TaskName, stream: Stream) -> StreamFacts | None:
    """One stream as a file, or None if it has no log."""
    log = AttemptLog.objects.filter(attempt_id=attempt_id, removed_at__isnull=True).first()
    state = LogStreamState.objects.filter(
        attempt_id=attempt_id, role=task.role, index=task.index, stream=Stream(stream).value
    ).first()
    if log is None or state is None:
        return None
    key = StreamKey(AttemptKey(log.tenant_id, log.job_id, log.attempt_id), task, Stream(stream))
    return StreamFacts(key, state.file_bytes, state.complete)


def read_stream_bytes(facts: StreamFacts, start: int, end: int, *, store: LogStore | None = None) -> Iterator[bytes]:
    """The bytes of one stream from `start` up to `end`, piece by piece; markers of gaps are lines among them."""
    store = store or default_store()
    end = min(end, facts.size_bytes)
    while start < end:
        piece = store.read(facts.key, start, min(end, start + READ_BYTES))
        if not piece:  # Removed meanwhile: the promised length is kept, so that the answer stays well-formed.
            piece = b" " * min(end - start, READ_BYTES)
        yield piece
        start += len(piece)


def read_tail(attempt_id: uuid.UUID, task: TaskName, stream: Stream, *, size_bytes: int, store: LogStore | None = None) -> str:
    """The last text of one stream, at most so many bytes, from a whole line on where there is one; empty without a log."""
    facts = find_stream(attempt_id, task, stream)
    if facts is None:
        return ""
    start = max(0, facts.size_bytes - size_bytes)
    text = decode(b"".join(read_stream_bytes(facts, start, facts.size_bytes, store=store)))
    return text if not start or "\n" not in text else text.split("\n", 1)[1]


def list_streams(attempt_id: uuid.UUID) -> Sequence[tuple[TaskName, Stream, int, bool]]:
    """Every stream of an attempt with its stored bytes and whether it is complete."""
    rows = LogStreamState.objects.filter(attempt_id=attempt_id).order_by("role", "index", "stream")
    return [(TaskName(row.role, row.index), Stream(row.stream), row.file_bytes, row.complete) for row in rows]


def _rows(attempt_id: uuid.UUID, wanted: LogFilter, *, from_sequence: int = 0) -> QuerySet[LogChunkIndex]:
    rows = LogChunkIndex.objects.filter(attempt_id=attempt_id, sequence__gte=from_sequence)
    return wanted.narrow(rows).order_by(F("sequence").asc())


def _item(row: LogChunkIndex, key: AttemptKey, skip: int, room: int, store: LogStore) -> tuple[LogItem, int]:
    item = LogItem(
        row.role, row.index, row.stream, row.offset + skip, "", row.stored_at, row.marker, row.skipped_bytes, f"{row.sequence}-1"
    )
    if row.marker:
        return item, 1
    end = min(row.length, skip + max(room, 4))
    data = _bytes(row, key, skip, end, store)
    if end < row.length:
        data = data[: len(data) - incomplete_tail(data)]
    cursor = f"{row.sequence}-{skip + len(data)}"
    if not data:
        lost = replace(item, marker=REMOVED_MARKER, skipped_bytes=row.length - skip, cursor=f"{row.sequence}-{row.length}")
        return lost, row.length - skip
    return replace(item, text=decode(data), cursor=cursor), len(data)


def _bytes(row: LogChunkIndex, key: AttemptKey, start: int, end: int, store: LogStore) -> bytes:
    if row.marker:
        return b""
    stream = StreamKey(key, TaskName(row.role, row.index), Stream(row.stream))
    return store.read(stream, row.file_offset + start, row.file_offset + end)


def _parse(cursor: str) -> tuple[int, int]:
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise InvalidCursor(
            Text("The cursor was not made by this log.", "该游标不属于此日志。"),
            hint=Text(
                "Start without `cursor`, then pass on `cursor` unchanged.", "请先不带 `cursor` 开始，之后原样传递 `cursor`。"
            ),
        )
    return int(match[1]), int(match[2])
