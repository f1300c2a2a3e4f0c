"""Task output, read from containers' logs. The kubelet keeps them until the pod object goes, which `forget` decides.

The API gives a log from its beginning, or from a time on. So it is remembered from which time on the bytes behind an offset are:
the next question transfers what is new and little more. Offsets are in the lines themselves; without that memory a question is
only dearer.

A look (`LogReader.look`) asks for what is new of both streams at once, marks how far each has come, and keeps the lines for the
reads that follow. A container that has been silent for long is looked at less often.

The kubelet rotates a container's log (10 MiB by default) and then shows the newest file alone. What was not read by then is
lost: the first line that is left says how far, and a marker tells the reader. So it does where a stream breaks off before the
line that says its end: the container was killed with the wrapper, or went with its log.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from clusters.bounds import LOG_CHUNK_BYTES
from clusters.engines.interface import LogChunk, LogChunks, Stream
from clusters.engines.kubernetes.wrapper import Frame, read_frame
from kernel.limits import LOG_READ_BYTES

_STREAMS = {Stream.OUT: "O", Stream.ERR: "E"}
_REMEMBERED = 20_000  # Containers of which times are kept in memory, some 300 bytes each.
_AHEAD_SECONDS = 10.0  # Within this time, what was fetched beside something else serves a read.
_LOOK_BYTES = 64 * 1024  # A look that finds more keeps nothing: the read that follows fetches it all.
_SKEW = timedelta(seconds=2)  # Lines of the two streams may be written in another order than their times say.
_LOOK_SECONDS = 0.5  # Between two looks at a container that runs.
_ACTIVE_SECONDS = 10.0  # What printed so recently is looked at as often as that.
_SILENT_SHARE, _SILENT_SECONDS_MAX = 0.1, 4.0  # What was silent for longer, after this part of the time; and at most.
_ROTATED = "The node rotated the container's log before these bytes were read."
_CUT_OFF = "The container went before its last output was written down: some may be missing."
_PAST_QUOTA = "Output past the limit of {quota} bytes is dropped."


@dataclass(frozen=True, slots=True)
class _Ahead:
    """What was fetched of a stream and not asked for yet: all from an offset on, as of a moment."""

    at: float
    offset: int
    ended: bool
    frames: Sequence[Frame]


@dataclass(slots=True)
class _Memory:
    """What is known of one container's log. Whoever reads or looks has the lock."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    known: dict[str, tuple[int, str]] = field(default_factory=dict)  # By stream: all from this offset on is not before this time.
    ahead: dict[str, _Ahead] = field(default_factory=dict)  # By stream.
    ends: dict[str, int] = field(default_factory=dict)  # By stream: its whole length, where it has ended.
    marks: Mapping[Stream, Hashable] = field(default_factory=dict)
    has_ended: bool = False  # When it was last looked at.
    looked_at: float = 0.0
    news_at: float = field(default_factory=time.monotonic)


Fetch = Callable[[str, int], bytes]
"""Gives the log with timestamps: all of it, or from this time on; with a number, at most so many bytes of it."""


class LogReader:
    """Reads the streams of one cluster's containers. Threads share it."""

    def __init__(self) -> None:
        self._memory: OrderedDict[str, _Memory] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, task: str, stream: Stream, cursor: int, *, quota: int, ended: bool, fetch: Fetch) -> LogChunks:
        """Give what follows the cursor, at most LOG_READ_BYTES. `task` names the container's log among all."""
        tag = _STREAMS[stream]
        memory = self._remember(task)
        with memory.lock:
            ahead = memory.ahead.pop(tag, None)
            if ahead is None or not _serves(ahead, cursor, ended=ended):
                _fetch(memory, tag, cursor, ended, fetch)
                ahead = memory.ahead.pop(tag)
            found = _answer([frame for frame in ahead.frames if _follows(frame, cursor)], cursor, quota=quota, ended=ended)
            if not found.drained:
                memory.ahead[tag] = ahead
        return self.cut_off(task, stream, found.cursor, found.chunks) if found.complete and found.cursor else found

    def look(self, task: str, *, ended: bool, slowest: float, fetch: Fetch) -> Mapping[Stream, Hashable]:
        """A mark for each stream: while it stays the same, `read` has no more bytes to give than before. A container that has
        been silent may not be asked, if it was within the last `slowest` seconds; the marks are those of the last look then."""
        memory = self._remember(task)
        with memory.lock:
            now = time.monotonic()
            if _is_due(memory, now, ended=ended, slowest=slowest):
                _look(memory, now, ended=ended, fetch=fetch)
            return memory.marks

    def last_marks(self, task: str) -> Mapping[Stream, Hashable]:
        """The marks of the last look that had an answer; empty without one."""
        return self._remember(task).marks

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


def _fetch(memory: _Memory, tag: str, cursor: int, ended: bool, fetch: Fetch) -> None:
    """Have all frames of the stream from the cursor on; a second question to the whole log before a gap is believed, or an end
    that no line says."""
    offset, since = memory.known.get(tag, (0, ""))
    since = since if offset <= cursor else ""
    asked_at = time.monotonic()
    if since and _take(memory, parse(fetch(since, 0)), since, asked_at, ended) and (not ended or tag in memory.ends):
        return
    _take(memory, parse(fetch("", 0)), "", asked_at, ended)


def _is_due(memory: _Memory, now: float, *, ended: bool, slowest: float) -> bool:
    """Whether a look has to ask."""
    if not memory.marks or memory.has_ended < ended:
        return True
    silence = now - memory.news_at
    wait = _LOOK_SECONDS if silence < _ACTIVE_SECONDS else max(slowest, min(_SILENT_SECONDS_MAX, silence * _SILENT_SHARE))
    return not ended and now - memory.looked_at >= wait


def _look(memory: _Memory, now: float, *, ended: bool, fetch: Fetch) -> None:
    known = [memory.known[tag][1] for tag in _STREAMS.values() if tag in memory.known]
    since = min(known) if len(known) == len(_STREAMS) else ""
    data = fetch(since, _LOOK_BYTES)
    before, memory.looked_at, memory.has_ended = memory.marks, now, ended
    if len(data) < _LOOK_BYTES and _take(memory, parse(data), since, now, ended):
        memory.marks = {stream: (memory.known.get(tag, (0, ""))[0], ended) for stream, tag in _STREAMS.items()}
    else:
        memory.ahead.clear()
        memory.marks = dict.fromkeys(_STREAMS, (now, ended))
    for stream, tag in _STREAMS.items():
        if memory.marks[stream] == before.get(stream):
            memory.ahead.pop(tag, None)  # Nobody will ask for it.
    if memory.marks != before:
        memory.news_at = now


def _serves(ahead: _Ahead, cursor: int, *, ended: bool) -> bool:
    return time.monotonic() - ahead.at < _AHEAD_SECONDS and ahead.offset <= cursor and ahead.ended >= ended


def _take(memory: _Memory, lines: Sequence[tuple[str, Frame]], since: str, asked_at: float, ended: bool) -> bool:
    """Note what lines from this time on say, and keep them for reads. False: something is missing before them."""
    latest = max((at for at, _ in lines), default="")
    is_whole = True
    for tag in _STREAMS.values():
        offset, from_time = memory.known.get(tag, (0, ""))
        if since and (not from_time or from_time < since):
            continue  # Of this stream, older lines may be missing.
        frames = sorted((frame for _, frame in lines if frame.stream == tag), key=lambda frame: frame.offset)
        if since and any(_follows(frame, offset) for frame in frames):
            is_whole &= min(frame.offset for frame in frames if _follows(frame, offset)) <= offset
        memory.ahead[tag] = _Ahead(asked_at, offset if since else 0, ended, frames)
        if last := [frame.offset for frame in frames if frame.last]:
            memory.ends[tag] = last[-1]
        end = max((frame.end for frame in frames), default=0)
        if latest:
            memory.known[tag] = (max(end, offset if since else 0), _before(latest))
    return is_whole


def _before(at: str) -> str:
    """A little before the time of a line; "" where it is none."""
    try:
        return (datetime.fromisoformat(at[:19]) - _SKEW).isoformat() + "Z"
    except ValueError:
        return ""


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
