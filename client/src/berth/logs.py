"""Following what a job prints: every byte once, in order per stream, over any number of broken connections.

The server hands out chunks with a cursor that says "everything before this". After a break we ask again from the last
cursor. Offsets guard that: each stream of each task counts its bytes from 0 and never restarts, so what arrives twice is
dropped, and a gap is shown as one, never hidden."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import httpx2

from berth import limits
from berth.errors import ApiError
from berth.transport import Call, Transport, backoff_seconds

_NO_STREAMING = frozenset({404, 405, 406, 501})  # A server or proxy without streams: ask again and again instead.
_LATER = frozenset({429, 502, 503, 504})
_STREAM_ENDS = frozenset({"end", "complete"})
ENDED_STATES = frozenset({"succeeded", "failed", "stopped"})
REPLACEMENT = "\ufffd"
StreamKey = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of one stream of one task. `marker` is set instead of `text` where output is missing, and says why.

    What a carriage return wrote over, as progress bars do, is not part of `text`. `is_open`: a bar that goes on; it comes again,
    with the same offset, when it has moved.
    """

    text: str
    task: str
    stream: str
    at: datetime | None = None
    attempt: int = 0
    offset: int = 0
    marker: str = ""
    is_open: bool = False

    @property
    def role(self) -> str:
        return self.task.rpartition("-")[0]

    @property
    def index(self) -> int:
        number = self.task.rpartition("-")[2]
        return int(number) if number.isdigit() else 0


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which part of the log; None means all."""

    attempt: int | None = None
    role: str | None = None
    index: int | None = None
    stream: str | None = None

    def as_params(self) -> dict[str, object]:
        return {"attempt": self.attempt, "role": self.role, "index": self.index, "stream": self.stream}


@dataclass(slots=True)
class _Mark:
    """How far one stream was handed out. `end` None: unknown, because bytes that are no text were replaced in it."""

    start: int
    end: int | None
    marker: str = ""


class LogMarks:
    """Remembers per stream how far it was handed out, and gives of what arrives only what is new."""

    def __init__(self) -> None:
        self._marks: dict[StreamKey, _Mark] = {}

    def new(self, items: Iterable[Mapping[str, Any]], attempt: int) -> Iterator[LogLine]:
        for item in items:
            line = self._unseen(item, attempt)
            if line is not None:
                yield line

    def _unseen(self, item: Mapping[str, Any], attempt: int) -> LogLine | None:
        """The part of an item that was not handed out yet; None when all of it was."""
        task, stream, start = _task_name(item), str(item["stream"]), int(item["offset"])
        at, text, marker = _time(item.get("at")), str(item.get("text") or ""), str(item.get("marker") or "")
        key = (attempt, task, stream)
        mark = self._marks.get(key)
        if marker:
            if mark and (start < mark.start or (start == mark.start and marker == mark.marker)):
                return None
            self._marks[key] = _Mark(start, start + int(item.get("skipped_bytes") or 0), marker)
            return LogLine("", task, stream, at, attempt, start, marker)
        size = None if REPLACEMENT in text else len(text.encode())
        if mark and not mark.marker and mark.end is not None and size is not None and start < mark.end:
            text, start = text.encode()[mark.end - start :].decode(errors="ignore"), mark.end
            size = len(text.encode())
        elif mark and not mark.marker and start <= mark.start:
            return None
        if not text:
            return None
        self._marks[key] = _Mark(start, None if size is None else start + size)
        return LogLine(text, task, stream, at, attempt, start)


class LogReader:
    """Reads one job's log from a place on. `attempt` and `cursor` move with what was handed out; keep both to go on later.

    A cursor belongs to one attempt. Following goes from attempt to attempt until the job has ended, with a marker between.
    """

    def __init__(
        self,
        transport: Transport,
        job_id: str,
        log_filter: LogFilter,
        *,
        cursor: str = "",
        tail: int | None = None,
        marks: LogMarks | None = None,
    ) -> None:
        self.transport = transport
        self.job_id = job_id
        self.filter = log_filter
        self.attempt = log_filter.attempt or 0
        self.cursor = cursor
        self._tail = tail
        self._marks = marks or LogMarks()

    def after(self) -> LogReader:
        """Another reader that goes on where this one stopped."""
        reader = LogReader(self.transport, self.job_id, self.filter, cursor=self.cursor, marks=self._marks)
        reader.attempt = self.attempt
        return reader

    def lines(self, *, follow: bool = False, bars: bool = False) -> Iterator[LogLine]:
        """Whole lines; an unfinished last line is handed out at the end. With `bars` also progress bars as they go, `is_open`."""
        assembler = LineAssembler()
        for chunk in self.chunks(follow=follow):
            yield from assembler.add(chunk)
            bar = assembler.bar(chunk) if bars else None
            if bar is not None:
                yield bar
        yield from assembler.finish()

    def chunks(self, *, follow: bool = False) -> Iterator[LogLine]:
        """Pieces as they come, not cut at line ends."""
        while True:
            latest, has_ended = self._job(follow=follow)
            self.attempt = self.attempt or latest
            if self.attempt:
                yield from self._read_attempt(follow=follow)
                latest, has_ended = self._job(follow=follow)
            if not follow or self.filter.attempt or (has_ended and latest <= self.attempt):
                return
            if 0 < self.attempt < latest:
                self.attempt, self.cursor = self.attempt + 1, ""
                yield LogLine("", "", "", attempt=self.attempt, marker=f"attempt {self.attempt}")
            else:
                self.transport.sleep(limits.POLL_SECONDS)

    def _job(self, *, follow: bool) -> tuple[int, bool]:
        """Number of the newest attempt, 0 before the first, and whether the job has ended."""
        job = self.transport.json(Call("GET", f"/jobs/{self.job_id}", patient=follow))
        return int(job.get("attempt") or 0), job.get("state") in ENDED_STATES

    def _read_attempt(self, *, follow: bool) -> Iterator[LogLine]:
        streaming = True
        broken = 0
        while True:
            complete = yield from self._read_pages(follow=follow)
            if complete or not follow:
                return
            if not streaming:
                self.transport.sleep(limits.POLL_SECONDS)
                continue
            cursor = self.cursor
            try:
                yield from self._read_stream()
                broken = 0 if self.cursor != cursor else broken + 1
            except ApiError as error:
                if error.status not in _NO_STREAMING | _LATER:
                    raise
                streaming = error.status in _LATER
                broken += 1
            except httpx2.TransportError:
                broken = 0 if self.cursor != cursor else broken + 1
            if broken:
                self.transport.sleep(backoff_seconds(min(broken, 5)))

    def _read_pages(self, *, follow: bool) -> Generator[LogLine, None, bool]:
        """What is there now; gives whether the attempt's log is complete."""
        while True:
            params = {**self.filter.as_params(), "attempt": self.attempt, "cursor": self.cursor or None}
            if not self.cursor:
                params["tail"] = self._tail
            page = self.transport.json(Call("GET", f"/jobs/{self.job_id}/logs", params, patient=follow))
            items, cursor = page.get("items", []), page.get("cursor") or self.cursor
            yield from self._marks.new(items, self.attempt)
            moved, self.cursor = cursor != self.cursor, cursor
            if page.get("complete") or not items or not moved:
                return bool(page.get("complete"))

    def _read_stream(self) -> Iterator[LogLine]:
        """One connection of server-sent events; ends when the server says so or the line breaks."""
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if self.cursor:
            headers["Last-Event-ID"] = self.cursor
        params = {**self.filter.as_params(), "attempt": self.attempt}
        with self.transport.accepted_stream(Call("GET", f"/jobs/{self.job_id}/logs/stream", params, headers=headers)) as response:
            for event in httpx2.EventSource(response):
                document = _document(event.data)
                own = [document] if "offset" in document else []
                yield from self._marks.new(document.get("items", own), self.attempt)
                self.cursor = event.id or self.cursor
                if event.event in _STREAM_ENDS or document.get("complete"):
                    return


class LineAssembler:
    """Cuts pieces into lines per stream, with a bound on how long an unfinished one may grow."""

    def __init__(self) -> None:
        self._open: dict[StreamKey, LogLine] = {}

    def add(self, chunk: LogLine) -> Iterator[LogLine]:
        """The lines that end in a piece."""
        key = _stream(chunk)
        waiting = self._open.pop(key, None)
        if chunk.marker:
            if waiting:
                yield replace(waiting, is_open=False)
            yield chunk
            return
        *whole, rest = chunk.text.split("\n")
        offset = chunk.offset
        for text in whole:
            begun = waiting or replace(chunk, text="", offset=offset)
            yield replace(begun, text=_last_written((begun.text + text).rstrip("\r")), is_open=False)
            offset += len(text.encode()) + 1
            waiting = None
        if rest or waiting:
            yield from self._keep(key, waiting or replace(chunk, text="", offset=offset), rest)

    def bar(self, chunk: LogLine) -> LogLine | None:
        """The line that a piece leaves unfinished, if it writes over itself."""
        line = self._open.get(_stream(chunk))
        return line if line is not None and line.is_open else None

    def finish(self) -> Iterator[LogLine]:
        """Unfinished lines, in the order in which they began."""
        yield from (replace(line, is_open=False) for line in self._open.values())
        self._open.clear()

    def _keep(self, key: StreamKey, begun: LogLine, text: str) -> Iterator[LogLine]:
        """Keep what has no end yet; what is too long for that is handed out."""
        is_bar = begun.is_open or "\r" in text
        text, offset = _last_written(begun.text + text), begun.offset
        while len(text) > limits.LOG_LINE_CHARACTERS:
            piece, text = text[: limits.LOG_LINE_CHARACTERS], text[limits.LOG_LINE_CHARACTERS :]
            yield replace(begun, text=piece, offset=offset, is_open=False)
            offset += len(piece.encode())
        if text:
            self._open[key] = replace(begun, text=text, offset=offset, is_open=is_bar)


def _stream(chunk: LogLine) -> StreamKey:
    return (chunk.attempt, chunk.task, chunk.stream)


def _last_written(text: str) -> str:
    """What a line shows that carriage returns begin anew; one at its end has overwritten nothing yet."""
    end = len(text.rstrip("\r"))
    return text[text.rfind("\r", 0, end) + 1 :]


def _task_name(item: Mapping[str, Any]) -> str:
    task = item.get("task")
    if isinstance(task, Mapping):
        return f"{task.get('role', '')}-{task.get('index', 0)}"
    if task:
        return str(task)
    return f"{item['role']}-{item.get('index', 0)}" if item.get("role") else ""


def _time(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return None


def _document(data: str) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
