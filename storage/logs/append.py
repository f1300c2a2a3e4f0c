"""Puts chunks of an engine's streams into the store: each byte once, gaps marked, order kept.

The engine is asked from the saved cursor, bytes go to the store first, then one transaction writes index rows and moves the
cursors from exactly where they were. A crash between the two repeats the write at the same position; a second pump finds
the cursors moved and its rows are dropped. Whatever arrives twice is skipped by its offset, whatever is missing becomes a marker.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q

from activity import hints
from clusters.engines.interface import LogChunk, LogChunks, Stream, TaskName
from kernel.crashpoints import crashpoint
from kernel.errors import StorageFull
from kernel.words import Text
from reconciling import bulk
from reconciling.troubles import Trouble
from storage import bounds, space
from storage.logs.store import AttemptKey, LogStore, StreamKey, default_store
from storage.logs.text import incomplete_tail
from storage.models import AttemptLog, LogChunkIndex, LogStreamState

LOST_MARKER = "output was lost before it could be stored"
QUOTA_MARKER = "the attempt's log quota is used up; output is no longer kept"
MARKER_LENGTH = 400
SEQUENCES_ASKED = 200  # Conditions of one query that looks for rows by number.

_without_room = Trouble("log_store_has_no_room")
_writers = ThreadPoolExecutor(bounds.LOG_WRITERS, thread_name_prefix="log-store")


class LogStoreFull(StorageFull):
    """The disk of the log store is full or takes no changes. Output waits in the engine, and nothing of it is lost."""

    title = Text("No room for logs", "没有空间存放日志")


MARKER_BEGIN = b"\n[berth: "


@dataclass(frozen=True, slots=True)
class StreamChunks:
    """What one call of an engine gave for one stream."""

    key: StreamKey
    answer: LogChunks


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of one batch: bytes kept per stream that was really moved on."""

    stored_bytes: int
    rows: int
    moved: frozenset[StreamKey]


@dataclass(slots=True)
class _Piece:
    """Bytes or a marker that become one index row, or grow the newest one."""

    offset: int
    length: int
    data: bytearray
    marker: str = ""
    skipped_bytes: int = 0


@dataclass(slots=True)
class _Plan:
    """What one stream gets: its pieces, and its state before and after."""

    key: StreamKey
    state: LogStreamState
    cursor: int
    complete: bool
    pieces: list[_Piece] = field(default_factory=list)

    @property
    def file_bytes(self) -> int:
        return sum(len(piece.data) for piece in self.pieces)

    @property
    def changes(self) -> bool:
        return bool(self.pieces) or self.cursor != self.state.cursor or self.complete != self.state.complete


def open_logs(attempts: Iterable[tuple[AttemptKey, Sequence[TaskName]]], *, now: datetime) -> None:
    """Make rows for all streams of attempts that have none yet; asked again it changes nothing.

    In one transaction: a log without its streams would be taken for one that is open, and never end.
    """
    wanted = list(attempts)
    with transaction.atomic():
        bulk.insert(
            AttemptLog,
            [
                {
                    "attempt_id": key.attempt_id,
                    "job_id": key.job_id,
                    "tenant_id": key.tenant_id,
                    "next_sequence": 1,
                    "stored_bytes": 0,
                    "complete": False,
                    "created_at": now,
                    "updated_at": now,
                }
                for key, _ in wanted
            ],
            ignore_conflicts=True,
        )
        crashpoint("storage.logs.before_streams")
        bulk.insert(
            LogStreamState,
            [
                {
                    "attempt_id": key.attempt_id,
                    "role": task.role,
                    "index": task.index,
                    "stream": stream.value,
                    "cursor": 0,
                    "file_bytes": 0,
                    "complete": False,
                    "last_sequence": 0,
                    "last_marker": "",
                }
                for key, tasks in wanted
                for task in tasks
                for stream in Stream
            ],
            ignore_conflicts=True,
        )


def append_chunks(
    batch: Sequence[StreamChunks],
    *,
    now: datetime,
    store: LogStore | None = None,
    attempt_quota_bytes: int = bounds.LOG_ATTEMPT_BYTES,
) -> Appended:
    """Store what engines gave. Call it outside a transaction: bytes are made durable before the rows are written.

    LogStoreFull where the disk has no room: no row is written then, and the engine is asked for the same bytes again.
    """
    store = store or default_store()
    states = _states(batch)
    room = _room(states, attempt_quota_bytes)
    plans = []
    for item in batch:
        state = states.get(item.key)
        if state is not None and not state.complete:
            plan = _plan(_with_what_is_here(item, state, store), state, room)
            if plan.changes:
                plans.append(plan)
    _write(store, plans)
    return _record(plans, now=now)


def _write(store: LogStore, plans: Sequence[_Plan]) -> None:
    """Write the bytes of all plans. Each is synced by itself, several at once: the disk does many syncs in the time of one."""
    writes = [
        (plan.key, plan.state.file_bytes, b"".join(piece.data for piece in plan.pieces)) for plan in plans if plan.file_bytes
    ]
    if not writes:
        return
    try:
        if len(writes) == 1:
            store.write(*writes[0])
        else:
            begun = [_writers.submit(store.write, *write) for write in writes]
            wait(begun)
            for write_done in begun:
                write_done.result()
    except OSError as error:
        if not space.is_without_room(error):
            raise
        seconds = _without_room.met(error=str(error.strerror), folder="logs")
        raise LogStoreFull(
            Text(
                f"The log store cannot be written to: {error.strerror}. Output waits where it was printed.",
                f"无法写入日志存储：{error.strerror}。输出暂留在产生之处。",
            ),
            hint=Text(
                "An operator has to free space on the disk of the data directory; what waits is stored then.",
                "需由运维人员在数据目录所在磁盘上腾出空间，之后会存入暂留的输出。",
            ),
            retry_after_seconds=round(seconds),
        ) from error
    _without_room.over()
    crashpoint("storage.logs.after_write")


def _states(batch: Sequence[StreamChunks]) -> dict[StreamKey, LogStreamState]:
    """The rows of the batch's streams, in one query; streams of attempts whose log was removed are left out."""
    attempts = {item.key.attempt.attempt_id: item.key.attempt for item in batch}
    live = set(AttemptLog.objects.filter(attempt_id__in=attempts, removed_at__isnull=True).values_list("attempt_id", flat=True))
    return {
        StreamKey(attempts[row.attempt_id], TaskName(row.role, row.index), Stream(row.stream)): row
        for row in LogStreamState.objects.filter(attempt_id__in=live)
    }


def _room(states: Mapping[StreamKey, LogStreamState], quota: int) -> dict[uuid.UUID, int]:
    room: dict[uuid.UUID, int] = {}
    for key, state in states.items():
        room[key.attempt.attempt_id] = room.get(key.attempt.attempt_id, quota) - state.file_bytes
    return room


def _with_what_is_here(item: StreamChunks, state: LogStreamState, store: LogStore) -> StreamChunks:
    """Fill gaps of the engine's answer with bytes that the store has beyond what the rows tell: after a restore of an older
    database, what the engine handed on since is here alone. Only while positions in the file are offsets of the stream.
    """
    if state.file_bytes != state.cursor or not any(chunk.skipped_bytes for chunk in item.answer.chunks):
        return item
    chunks: list[LogChunk] = []
    for chunk in item.answer.chunks:
        if not chunk.skipped_bytes and not chunk.marker:
            chunks.append(chunk)
            continue
        end = chunk.offset + min(chunk.skipped_bytes, bounds.LOG_PASS_BYTES)
        data = store.read(item.key, chunk.offset, end)
        if not data or len(data) < end - chunk.offset or MARKER_BEGIN in data:
            return item
        chunks.append(LogChunk(chunk.offset, data))
        if end < chunk.offset + chunk.skipped_bytes:  # The rest has its turn in the next pass.
            return StreamChunks(item.key, LogChunks(tuple(chunks), end, complete=False))
    return StreamChunks(item.key, replace(item.answer, chunks=tuple(chunks)))


def _plan(item: StreamChunks, state: LogStreamState, room: dict[uuid.UUID, int]) -> _Plan:
    plan = _Plan(item.key, state, cursor=state.cursor, complete=False)
    attempt_id = item.key.attempt.attempt_id
    for chunk in item.answer.chunks:
        if chunk.marker or chunk.skipped_bytes:
            _add_gap(plan, chunk.offset, chunk.skipped_bytes, chunk.marker or LOST_MARKER)
            continue
        data = _unseen(plan, chunk)
        while data:
            taken, data = data[: bounds.LOG_ROW_BYTES], data[bounds.LOG_ROW_BYTES :]
            if room[attempt_id] < len(taken):
                _add_gap(plan, plan.cursor, len(taken), QUOTA_MARKER)
                continue
            _add_bytes(plan, taken)
            room[attempt_id] -= len(taken)
    if item.answer.complete:
        if item.answer.cursor > plan.cursor:
            _add_gap(plan, plan.cursor, item.answer.cursor - plan.cursor, LOST_MARKER)
        plan.complete = True
    else:
        _hold_back_tail(plan)
    return plan


def _add_bytes(plan: _Plan, data: bytes) -> None:
    """Append to the piece before while a row has room for it: engines may give many small chunks."""
    last = plan.pieces[-1] if plan.pieces else None
    if last is not None and not last.marker and last.length + len(data) <= bounds.LOG_ROW_BYTES:
        last.data += data
        last.length += len(data)
    else:
        carried = _take_tail(last) if last is not None and not last.marker else bytearray()
        plan.pieces.append(_Piece(plan.cursor - len(carried), len(carried) + len(data), carried + data))
    plan.cursor += len(data)


def _take_tail(piece: _Piece) -> bytearray:
    """Cut the beginning of an unfinished character off a piece, for the next one."""
    cut = incomplete_tail(piece.data)
    tail = piece.data[len(piece.data) - cut :]
    del piece.data[len(piece.data) - cut :]
    piece.length -= cut
    return tail


def _unseen(plan: _Plan, chunk: LogChunk) -> bytes:
    """The part of a chunk that is not stored yet; bytes that are missing before it become a marker."""
    if chunk.offset > plan.cursor:
        _add_gap(plan, plan.cursor, chunk.offset - plan.cursor, LOST_MARKER)
    return chunk.data[max(0, plan.cursor - chunk.offset) :]


def _add_gap(plan: _Plan, offset: int, skipped_bytes: int, marker: str) -> None:
    """Mark missing bytes, also inside the file itself, so that a download tells of them; neighbouring gaps become one."""
    end = offset + skipped_bytes
    skipped = end - max(offset, plan.cursor)
    if skipped_bytes and skipped <= 0:
        return  # Marked by an earlier call.
    if not skipped_bytes and offset < plan.cursor:
        return
    marker = marker[:MARKER_LENGTH]
    continues = plan.pieces[-1].marker == marker if plan.pieces else plan.state.last_marker == marker
    if continues and plan.pieces:
        plan.pieces[-1].skipped_bytes += skipped
    elif not continues or skipped:
        line = bytearray() if continues else _marker_line(marker)
        plan.pieces.append(_Piece(max(offset, plan.cursor), 0, line, marker, skipped))
    plan.cursor = max(plan.cursor, end)


def _marker_line(marker: str) -> bytearray:
    return bytearray(MARKER_BEGIN + f"{marker}]\n".encode())


def _hold_back_tail(plan: _Plan) -> None:
    """Leave the beginning of an unfinished character to the next pass, so that every row decodes by itself."""
    if not plan.pieces or plan.pieces[-1].marker:
        return
    last = plan.pieces[-1]
    plan.cursor -= len(_take_tail(last))
    if not last.length:
        plan.pieces.pop()


def _record(plans: Sequence[_Plan], *, now: datetime) -> Appended:
    if not plans:
        return Appended(0, 0, frozenset())
    with transaction.atomic():
        logs = _lock({plan.key.attempt.attempt_id for plan in plans})
        mine = _unchanged(plans, logs)
        newest = _newest_rows(mine)
        grown, rows = _rows(mine, logs, newest, now=now)
        bulk.update(LogChunkIndex, grown)
        bulk.insert(LogChunkIndex, rows)
        _move_cursors(mine, rows)
        _move_logs(mine, rows, now=now)
        _close_complete(mine)
        for attempt_id in {plan.key.attempt.attempt_id for plan in mine}:
            hints.wake(topic(attempt_id))
    return Appended(sum(plan.file_bytes for plan in mine), len(rows), frozenset(plan.key for plan in mine))


def _lock(attempt_ids: set[uuid.UUID]) -> dict[uuid.UUID, AttemptLog]:
    """Lock the logs' rows in id order; their holder orders all streams of the attempt."""
    rows = AttemptLog.objects.select_for_update().filter(attempt_id__in=attempt_ids, removed_at__isnull=True)
    return {row.attempt_id: row for row in rows.order_by("attempt_id")}


def _unchanged(plans: Sequence[_Plan], logs: Mapping[uuid.UUID, AttemptLog]) -> list[_Plan]:
    """The plans whose stream is still where it was read; another pump was faster with the others."""
    rows = LogStreamState.objects.filter(id__in=[plan.state.id for plan in plans], complete=False)
    present = {row[0]: row[1:] for row in rows.values_list("id", "cursor", "file_bytes")}
    return [
        plan
        for plan in plans
        if plan.key.attempt.attempt_id in logs and present.get(plan.state.id) == (plan.state.cursor, plan.state.file_bytes)
    ]


def _newest_rows(plans: Sequence[_Plan]) -> dict[int, LogChunkIndex]:
    """The newest index row of each stream, by the stream's id."""
    wanted = {(plan.key.attempt.attempt_id, plan.state.last_sequence): plan.state.id for plan in plans}
    by_sequence: dict[int, list[uuid.UUID]] = {}
    for attempt_id, sequence in wanted:
        by_sequence.setdefault(sequence, []).append(attempt_id)
    pairs = sorted(by_sequence.items())
    found: dict[int, LogChunkIndex] = {}
    for start in range(0, len(pairs), SEQUENCES_ASKED):
        asked = Q()
        for sequence, attempt_ids in pairs[start : start + SEQUENCES_ASKED]:
            asked |= Q(sequence=sequence, attempt_id__in=attempt_ids)
        found |= {wanted[row.attempt_id, row.sequence]: row for row in LogChunkIndex.objects.filter(asked)}
    return found


def _rows(
    plans: Sequence[_Plan], logs: Mapping[uuid.UUID, AttemptLog], newest: Mapping[int, LogChunkIndex], *, now: datetime
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Updates of rows that grow, and new rows with the numbers that follow."""
    grown: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    next_sequence = {attempt_id: log.next_sequence for attempt_id, log in logs.items()}
    for plan in plans:
        attempt_id, position = plan.key.attempt.attempt_id, plan.state.file_bytes
        row = newest.get(plan.state.id)
        for number, piece in enumerate(plan.pieces):
            if number == 0 and row is not None and _grows(row, piece, logs[attempt_id], now):
                grown.append(
                    {
                        "id": row.id,
                        "length": row.length + piece.length,
                        "file_length": row.file_length + len(piece.data),
                        "skipped_bytes": row.skipped_bytes + piece.skipped_bytes,
                    }
                )
            else:
                rows.append(_new_row(plan.key, piece, next_sequence[attempt_id], position, now))
                next_sequence[attempt_id] += 1
            position += len(piece.data)
    return grown, rows


def _grows(row: LogChunkIndex, piece: _Piece, log: AttemptLog, now: datetime) -> bool:
    """Whether the stream's newest row takes the piece: a gap that goes on, or bytes behind the attempt's very newest row."""
    if row.marker or piece.marker:
        return row.marker == piece.marker and not piece.data
    is_newest = row.sequence == log.next_sequence - 1
    is_young = (now - row.stored_at).total_seconds() < bounds.LOG_GROW_SECONDS
    return is_newest and is_young and row.length + piece.length <= bounds.LOG_ROW_BYTES


def _new_row(key: StreamKey, piece: _Piece, sequence: int, position: int, now: datetime) -> dict[str, Any]:
    return {
        "attempt_id": key.attempt.attempt_id,
        "sequence": sequence,
        "role": key.task.role,
        "index": key.task.index,
        "stream": key.stream.value,
        "offset": piece.offset,
        "length": piece.length,
        "file_offset": position,
        "file_length": len(piece.data),
        "marker": piece.marker,
        "skipped_bytes": piece.skipped_bytes,
        "stored_at": now,
    }


def _move_cursors(plans: Sequence[_Plan], rows: Sequence[Mapping[str, Any]]) -> None:
    last = {(row["attempt_id"], row["role"], row["index"], row["stream"]): row["sequence"] for row in rows}
    bulk.update(
        LogStreamState,
        [
            {
                "id": plan.state.id,
                "cursor": plan.cursor,
                "file_bytes": plan.state.file_bytes + plan.file_bytes,
                "complete": plan.complete,
                "last_marker": plan.pieces[-1].marker if plan.pieces else plan.state.last_marker,
                "last_sequence": last.get(
                    (plan.key.attempt.attempt_id, plan.key.task.role, plan.key.task.index, plan.key.stream.value),
                    plan.state.last_sequence,
                ),
            }
            for plan in plans
        ],
    )


def _move_logs(plans: Sequence[_Plan], rows: Sequence[Mapping[str, Any]], *, now: datetime) -> None:
    counts = Counter(row["attempt_id"] for row in rows)
    sizes: Counter[uuid.UUID] = Counter()
    for plan in plans:
        sizes[plan.key.attempt.attempt_id] += plan.file_bytes
    bulk.update(
        AttemptLog,
        [
            {"attempt_id": attempt_id, "next_sequence": counts[attempt_id], "stored_bytes": size, "updated_at": now}
            for attempt_id, size in sizes.items()
        ],
        key="attempt_id",
        increment=("next_sequence", "stored_bytes"),
    )


def _close_complete(plans: Sequence[_Plan]) -> None:
    """Mark attempts whose last stream is complete now."""
    ended = {plan.key.attempt.attempt_id for plan in plans if plan.complete}
    if not ended:
        return
    open_streams = LogStreamState.objects.filter(attempt_id__in=ended, complete=False)
    open_still = set(open_streams.values_list("attempt_id", flat=True).distinct())
    AttemptLog.objects.filter(attempt_id__in=ended - open_still).update(complete=True)


def topic(attempt_id: uuid.UUID) -> str:
    """The hint that new log bytes of an attempt are stored."""
    return f"logs.{attempt_id}"
