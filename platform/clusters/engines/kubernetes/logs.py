"""Task output, read from containers' logs. The kubelet keeps them until the pod object goes, which `forget` decides.

The API gives a log from its beginning, or from a time on. So the time of the line that held a cursor is remembered: the next
question transfers what is new and little more. Offsets are in the lines themselves; without that memory a question is only
dearer.

The kubelet rotates a container's log (10 MiB by default) and then shows the newest file alone. What was not read by then is
lost: the first line that is left says how far, and a marker tells the reader. So it does where a stream breaks off before the
line that says its end: the container was killed with the wrapper, or went with its log.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from clusters.bounds import LOG_CHUNK_BYTES
from clusters.engines.interface import LogChunk, LogChunks, Stream
from clusters.engines.kubernetes.wrapper import Frame, read_frame
from kernel.limits import LOG_READ_BYTES

_STREAMS = {Stream.OUT: "O", Stream.ERR: "E"}
_REMEMBERED = 20_000  # Containers of which times are kept in memory, some 300 bytes each.
_SHARED_SECONDS = 1.0  # Within this time, what was fetched for one stream serves the other.
_ROTATED = "The node rotated the container's log before these bytes were read."
_CUT_OFF = "The container went before its last output was written down: some may be missing."
_PAST_QUOTA = "Output past the limit of {quota} bytes is dropped."


@dataclass(slots=True)
class _Memory:
    """What is known of one container's log."""

    times: dict[str, tuple[int, str]] = field(default_factory=dict)  # By stream: an offset, and the time of its line.
    frames: dict[str, tuple[float, int, bool, list[Frame]]] = field(default_factory=dict)  # Fetched for the other stream.
    ends: dict[str, int] = field(default_factory=dict)  # By stream: its whole length, where it has ended.


Fetch = Callable[[str], bytes]
"""Gives the log with timestamps; all of it, or from this time on."""


class LogReader:
    """Reads the streams of one cluster's containers. Threads share it."""

    def __init__(self) -> None:
        self._memory: OrderedDict[str, _Memory] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, task: str, stream: Stream, cursor: int, *, quota: int, ended: bool, fetch: Fetch) -> LogChunks:
        """Give what follows the cursor, at most LOG_READ_BYTES. `task` names the container's log among all."""
        tag = _STREAMS[stream]
        memory = self._remember(task)
        shared = memory.frames.pop(tag, None)
        if shared is not None and time.monotonic() - shared[0] < _SHARED_SECONDS and shared[1] <= cursor and shared[2] >= ended:
            frames = shared[3]
        else:
            frames = self._fetch(memory, tag, cursor, ended, fetch)
        found = _answer(frames, cursor, quota=quota, ended=ended)
        return self.cut_off(task, stream, found.cursor, found.chunks) if found.complete and found.cursor else found

    def cut_off(self, task: str, stream: Stream, cursor: int, chunks: tuple[LogChunk, ...] = ()) -> LogChunks:
        """The log of a container that has ended, or is gone, and of which nothing but these chunks can be read."""
        if self._remember(task).ends.get(_STREAMS[stream]) != cursor:
            chunks = (*chunks, LogChunk(cursor, b"", marker=_CUT_OFF))
        return LogChunks(chunks, cursor, complete=True, drained=True)

    def _remember(self, task: str) -> _Memory:
        with self._lock:
            memory = self._memory.setdefault(task, _Memory())
            self._memory.move_to_end(task)
            while len(self._memory) > _REMEMBERED:
                self._memory.popitem(last=False)
            return memory

    def _fetch(self, memory: _Memory, tag: str, cursor: int, ended: bool, fetch: Fetch) -> list[Frame]:
        """All frames of the stream from the cursor on; a second question to the whole log before a gap is believed."""
        offset, since = memory.times.get(tag, (0, ""))
        since = since if offset <= cursor else ""
        other = "E" if tag == "O" else "O"
        other_offset, other_since = memory.times.get(other, (0, ""))
        asked_at = time.monotonic()
        lines = parse(fetch(since))
        frames = [frame for _, frame in lines if frame.stream == tag and _follows(frame, cursor)]
        if since and frames and frames[0].offset > cursor:
            since = ""
            lines = parse(fetch(since))
            frames = [frame for _, frame in lines if frame.stream == tag and _follows(frame, cursor)]
        for at, frame in lines:
            if frame.stream == tag and frame.offset <= cursor:
                memory.times[tag] = (frame.offset, at)
            if frame.last:
                memory.ends[frame.stream] = frame.offset
        if not since or (other_since and since <= other_since):  # Nothing of the other stream is missing from where it stood.
            rest = [frame for _, frame in lines if frame.stream == other]
            memory.frames[other] = (asked_at, other_offset if since else 0, ended, rest)
        return frames


def read_raw(data: bytes, cursor: int, *, ended: bool, quota: int) -> LogChunks:
    """The log of a container without wrapper: both streams in one, as they are; a rotated log has lost its beginning."""
    size = min(len(data), quota)
    if len(data) < cursor:
        return LogChunks((LogChunk(cursor, b"", marker=_ROTATED),) if not ended else (), cursor, complete=ended, drained=True)
    part = data[cursor : min(size, cursor + LOG_READ_BYTES)]
    chunks = [LogChunk(cursor + start, part[start : start + LOG_CHUNK_BYTES]) for start in range(0, len(part), LOG_CHUNK_BYTES)]
    end = cursor + len(part)
    if ended and end >= size and len(data) > max(size, end):
        chunks.append(LogChunk(end, b"", marker=_PAST_QUOTA.format(quota=quota), skipped_bytes=len(data) - end))
        end = len(data)
    return LogChunks(tuple(chunks), end, complete=ended and end >= len(data), drained=end >= size)


def parse(data: bytes) -> list[tuple[str, Frame]]:
    """Lines of a log with timestamps. A line that is cut, or was not written by the wrapper, is passed over."""
    found = []
    for line in data.split(b"\n"):
        at, _, text = line.partition(b" ")
        frame = read_frame(text)
        if frame is not None and 20 <= len(at) <= 40:
            found.append((at.decode("ascii", "replace"), frame))
    return found


def _follows(frame: Frame, cursor: int) -> bool:
    return frame.end > cursor


def _answer(frames: Sequence[Frame], cursor: int, *, quota: int, ended: bool) -> LogChunks:
    chunks: list[LogChunk] = []
    at, room = cursor, LOG_READ_BYTES
    for frame in sorted(frames, key=lambda item: item.offset):
        if frame.last or frame.end <= at:
            continue
        if room <= 0:
            return LogChunks(tuple(chunks), at, complete=False)
        if frame.offset > at:
            _skip(chunks, at, frame.offset - at, _ROTATED)
            at = frame.offset
        if frame.data is None:
            _skip(chunks, at, frame.end - at, _PAST_QUOTA.format(quota=quota))
        else:
            data = frame.data[at - frame.offset :]
            _add(chunks, at, data)
            room -= len(data)
        at = frame.end
    return LogChunks(tuple(chunks), at, complete=ended, drained=True)


def _add(chunks: list[LogChunk], at: int, data: bytes) -> None:
    last = chunks[-1] if chunks else None
    if (
        last is not None
        and not last.marker
        and last.offset + len(last.data) == at
        and len(last.data) + len(data) <= LOG_CHUNK_BYTES
    ):
        chunks[-1] = LogChunk(last.offset, last.data + data)
    else:
        chunks.append(LogChunk(at, data))


def _skip(chunks: list[LogChunk], at: int, count: int, why: str) -> None:
    last = chunks[-1] if chunks else None
    if last is not None and last.marker == why and last.offset + last.skipped_bytes == at:
        chunks[-1] = LogChunk(last.offset, b"", marker=why, skipped_bytes=last.skipped_bytes + count)
    else:
        chunks.append(LogChunk(at, b"", marker=why, skipped_bytes=count))
