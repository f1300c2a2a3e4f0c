"""Task output: files that tasks append to, read by byte offset, bounded on disk by punching holes, so that offsets stay.

A hole means bytes that are no longer here: past the quota, or handed on already. The kernel knows where holes are, so no
other bookkeeping exists, except for a task that cuts its own output to nothing: from then on offsets count from a base.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

from clusters.bounds import LOG_CHUNK_BYTES
from clusters.engines.interface import LogChunk, LogChunks, Stream
from clusters.engines.local import records
from kernel.limits import LOG_AHEAD_BYTES, LOG_READ_BYTES, MIB

_PAGE = 4_096  # Holes are whole blocks; the remainder stays until there is a block of it.
_HANDED_ON_BYTES = 4 * MIB  # How much the reader is past before its part is given back to the disk.
_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02  # linux/falloc.h
_LINE_SLACK = 256 * 1024  # The quota is applied in blocks; a reader is held to the exact byte.

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class LogFiles:
    """Reads the streams of one engine's tasks."""

    def __init__(self, root: str) -> None:
        self._root = root

    def read(self, attempt_id: str, task: str, stream: Stream, cursor: int, *, quota: int, ended: bool) -> LogChunks:
        """Give what follows the cursor, at most LOG_READ_BYTES. A caller that asks from a cursor has stored all before it, but
        for the last LOG_AHEAD_BYTES. A task that has not begun has no file yet, and its output is not complete for that."""
        control = f"{self._root}/{records.ATTEMPTS}/{attempt_id}/{records.CONTROL}"
        path = f"{control}/{task}.{stream.value}"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return LogChunks((), cursor, complete=ended)
        try:
            base, chunks = self._base(attempt_id, f"{task}.{stream.value}", descriptor, cursor)
            chunks += list(_chunks(descriptor, base, cursor, quota, ended=ended))
            end = max([cursor, *(chunk.offset + len(chunk.data) + chunk.skipped_bytes for chunk in chunks)])
            _hand_on(descriptor, cursor - base - LOG_AHEAD_BYTES)
            cut(path, max(0, quota - base))
            size = base + os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        return LogChunks(tuple(chunks), end, complete=ended and end >= size, drained=end >= size)

    def size(self, attempt_id: str, task: str, stream: Stream) -> int | None:
        """How long the stream's file is; None while there is none. One call of the system: thousands are asked a second."""
        try:
            return os.stat(f"{self._root}/{records.ATTEMPTS}/{attempt_id}/{records.CONTROL}/{task}.{stream.value}").st_size
        except FileNotFoundError:
            return None

    def _base(self, attempt_id: str, name: str, descriptor: int, cursor: int) -> tuple[int, list[LogChunk]]:
        """Give what to add to a position in the file. It grows when the task has cut the file below what was read."""
        document = records.read_json(records.note(self._root, attempt_id, f"{name}.base"))
        base: int = document["base"] if document else 0
        if base + os.fstat(descriptor).st_size >= cursor:
            return base, []
        records.write_json(records.note(self._root, attempt_id, f"{name}.base", make=True), {"base": cursor})
        return cursor, [LogChunk(cursor, b"", marker="The task cut its own output here.")]


def cut(path: str, quota: int) -> None:
    """Give the blocks past the quota back to the disk; the size stays. Does nothing where the file is within it."""
    try:
        size = os.stat(path).st_size
        if size <= quota + _LINE_SLACK:
            return
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        _punch(descriptor, _up(quota), size - size % _PAGE)
    finally:
        os.close(descriptor)


def _chunks(descriptor: int, base: int, cursor: int, quota: int, *, ended: bool) -> Iterator[LogChunk]:
    size = os.fstat(descriptor).st_size
    position, room = cursor - base, LOG_READ_BYTES
    while position < min(size, quota - base) and room > 0:
        start = _next_data(descriptor, position, size)
        if start > position:
            start = min(start, quota - base)
            yield LogChunk(
                base + position,
                b"",
                marker="These bytes were handed on earlier and are no longer here.",
                skipped_bytes=start - position,
            )
            position = start
            continue
        data = os.pread(descriptor, min(LOG_CHUNK_BYTES, room, quota - base - position), position)
        data = data[: max(0, _next_hole(descriptor, position, size) - position)]
        if not data:
            return
        yield LogChunk(base + position, data)
        position += len(data)
        room -= len(data)
    past = base + size - max(quota, cursor)
    if room > 0 and past > 0 and (cursor <= quota or ended):
        offset = max(quota, base + position)
        yield LogChunk(
            offset, b"", marker=f"Output past the limit of {quota} bytes is dropped.", skipped_bytes=base + size - offset
        )


def _hand_on(descriptor: int, position: int) -> None:
    """Punch what the reader has certainly stored, once it is worth a call."""
    first = os.fstat(descriptor).st_size
    if position < _HANDED_ON_BYTES:
        return
    first = _next_data(descriptor, 0, first)
    if position - first >= _HANDED_ON_BYTES:
        _punch(descriptor, first - first % _PAGE, position - position % _PAGE)


def _punch(descriptor: int, start: int, end: int) -> None:
    """Release blocks. A file system that cannot keeps them: the quota then bounds what is read, not the disk."""
    if end > start:
        _libc.fallocate(descriptor, _PUNCH_HOLE | _KEEP_SIZE, start, end - start)


def _next_data(descriptor: int, position: int, size: int) -> int:
    try:
        return os.lseek(descriptor, position, os.SEEK_DATA)
    except OSError:
        return size  # ENXIO: only a hole follows.


def _next_hole(descriptor: int, position: int, size: int) -> int:
    try:
        return os.lseek(descriptor, position, os.SEEK_HOLE)
    except OSError:
        return size


def _up(position: int) -> int:
    return position + -position % _PAGE
