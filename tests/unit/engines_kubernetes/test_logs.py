"""Streams out of a container's log: bytes, offsets, gaps and the quota."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Hashable, Mapping

import pytest

from clusters.engines.interface import EngineUnreachable, LogChunk, Stream
from clusters.engines.kubernetes.logs import LogReader, parse, read_raw
from clusters.engines.kubernetes.wrapper import read_frame

QUOTA = 1_000


class Log:
    """A container's log as the kubelet gives it, and how often it was asked for."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.asked: list[str] = []

    def write(self, text: str) -> None:
        self.lines.append((f"2026-01-01T10:00:{len(self.lines):02}.123456789Z", text))

    def frame(self, stream: str, offset: int, data: bytes) -> None:
        self.write(f"{stream}{offset}:{base64.b64encode(data).decode()}")

    def end(self, out: int, err: int = 0) -> None:
        self.write(f"O{out}.")
        self.write(f"E{err}.")

    def fetch(self, since: str, bytes_max: int = 0) -> bytes:
        self.asked.append(since)
        found = b"".join(f"{at} {text}\n".encode() for at, text in self.lines if at >= since)
        return found[:bytes_max] if bytes_max else found


@pytest.fixture
def log() -> Log:
    return Log()


def read(log: Log, reader: LogReader, cursor: int, stream: Stream = Stream.OUT, *, ended: bool = True):  # type: ignore[no-untyped-def]
    return reader.read("pod", stream, cursor, quota=QUOTA, ended=ended, fetch=log.fetch)


def test_both_streams_are_read_byte_by_byte_with_one_question(log: Log) -> None:
    log.frame("O", 0, bytes(range(256)))
    log.frame("E", 0, b"warning\n")
    log.frame("O", 256, b"more")
    log.end(out=260, err=8)
    reader = LogReader()
    out = read(log, reader, 0)
    assert out.chunks == (LogChunk(0, bytes(range(256)) + b"more"),)
    assert (out.cursor, out.complete) == (260, True)
    assert read(log, reader, 0, Stream.ERR).chunks == (LogChunk(0, b"warning\n"),)
    assert log.asked == [""]


def test_a_cursor_inside_a_line_gives_the_rest_of_it(log: Log) -> None:
    log.frame("O", 0, b"0123456789")
    log.end(out=10)
    assert read(log, LogReader(), 4).chunks == (LogChunk(4, b"456789"),)
    assert read(log, LogReader(), 10).chunks == ()


def test_a_reader_that_goes_on_asks_for_what_is_new(log: Log) -> None:
    reader = LogReader()
    log.frame("O", 0, b"first")
    read(log, reader, 0, ended=False)
    log.frame("O", 5, b"second")
    answer = read(log, reader, 5, ended=False)
    assert answer.chunks == (LogChunk(5, b"second"),)
    assert log.asked == ["", "2026-01-01T09:59:58Z"], "from a little before the last line"
    assert not answer.complete


def test_a_stream_that_never_printed_is_not_sought_in_the_whole_log_again(log: Log) -> None:
    reader = LogReader()
    log.frame("O", 0, b"first")
    for stream in Stream:
        read(log, reader, 0, stream, ended=False)
    log.frame("E", 0, b"at last")
    assert read(log, reader, 0, Stream.ERR, ended=False).chunks == (LogChunk(0, b"at last"),)
    assert read(log, reader, 5, ended=False).chunks == ()
    assert log.asked == ["", "2026-01-01T09:59:58Z"]


def look(log: Log, reader: LogReader, *, ended: bool = False, slowest: float = 0.0) -> Mapping[Stream, Hashable]:
    return reader.look("pod", ended=ended, slowest=slowest, fetch=log.fetch)


def test_a_look_marks_what_went_on_and_serves_the_reads_that_follow(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", itertools.count(1_000.0).__next__)
    reader = LogReader()
    nothing = look(log, reader)
    log.frame("O", 0, b"first")
    first = look(log, reader)
    assert (first[Stream.OUT] != nothing[Stream.OUT], first[Stream.ERR]) == (True, nothing[Stream.ERR])
    asked = len(log.asked)
    assert read(log, reader, 0, ended=False).chunks == (LogChunk(0, b"first"),)
    assert len(log.asked) == asked
    assert look(log, reader) == first
    for part in range(7):
        log.frame("O", 5 + part * 10_000, b"x" * 10_000)
    assert look(log, reader)[Stream.OUT] != first[Stream.OUT], "more than a look takes"
    assert sum(len(chunk.data) for chunk in read(log, reader, 5, ended=False).chunks) == 70_000
    log.end(out=70_005)
    running, over = look(log, reader), look(log, reader, ended=True)
    assert over != running
    assert read(log, reader, 70_005).complete
    asked = len(log.asked)
    assert look(log, reader, ended=True) == over
    assert len(log.asked) == asked


def test_a_container_that_is_silent_is_asked_less_often(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 1_000.0
    monkeypatch.setattr("time.monotonic", lambda: clock)
    reader = LogReader()
    asked = {}
    for phase, slowest, looks in (("active", 0.0, 9), ("silent", 0.0, 100), ("many", 20.0, 100)):
        before = len(log.asked)
        for _ in range(looks):
            look(log, reader, slowest=slowest)
            clock += 1.0
        asked[phase] = len(log.asked) - before
    assert asked["active"] == 9
    assert 25 <= asked["silent"] <= 50
    assert asked["many"] == 5
    log.frame("O", 0, b"again")
    clock += 20.0
    look(log, reader, slowest=20.0)
    before = len(log.asked)
    clock += 1.0
    look(log, reader, slowest=20.0)
    assert len(log.asked) == before + 1, "what has just printed is asked each time"


def test_a_look_without_an_answer_leaves_the_marks_as_they_were(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", itertools.count(1_000.0).__next__)
    reader = LogReader()
    log.frame("O", 0, b"first")
    marks = look(log, reader)

    def unreachable(since: str, bytes_max: int) -> bytes:
        raise EngineUnreachable("no answer")

    with pytest.raises(EngineUnreachable):
        reader.look("pod", ended=False, slowest=0.0, fetch=unreachable)
    assert reader.last_marks("pod") == marks
    log.frame("O", 5, b"second")
    assert look(log, reader) != marks
    assert read(log, reader, 5, ended=False).chunks == (LogChunk(5, b"second"),)


def test_an_end_that_no_line_says_is_believed_only_by_the_whole_log(log: Log) -> None:
    reader = LogReader()
    log.frame("O", 0, b"0123")
    read(log, reader, 0, ended=False)
    log.frame("O", 4, b"4567")
    log.end(out=8)
    log.lines[1:] = [("2026-01-01T09:00:00.000000000Z", text) for _, text in log.lines[1:]]  # The node's clock was set back.
    answer = read(log, reader, 4)
    assert (answer.chunks, answer.complete) == ((LogChunk(4, b"4567"),), True)


def test_what_the_node_rotated_away_has_a_marker(log: Log) -> None:
    log.frame("O", 700, b"rest")
    log.end(out=704)
    first, second = read(log, LogReader(), 0).chunks
    assert (first.offset, first.skipped_bytes, bool(first.marker)) == (0, 700, True)
    assert second == LogChunk(700, b"rest")


def test_a_stream_that_breaks_off_has_a_marker(log: Log) -> None:
    log.frame("O", 0, b"epoch 1\n")
    reader = LogReader()
    assert read(log, reader, 0, ended=False).chunks == (LogChunk(0, b"epoch 1\n"),)
    (marker,) = read(log, reader, 8).chunks
    assert (marker.offset, marker.data, marker.marker) == (8, b"", reader.cut_off("pod", Stream.OUT, 8).chunks[0].marker)
    log.end(out=8)
    assert read(log, reader, 8) == reader.cut_off("pod", Stream.OUT, 8)
    assert read(log, reader, 8).chunks == ()


def test_a_gap_is_believed_only_by_the_whole_log(log: Log) -> None:
    reader = LogReader()
    log.frame("O", 0, b"0123")
    read(log, reader, 0, ended=False)
    log.frame("O", 4, b"4567")
    log.frame("O", 8, b"89")
    log.lines[1] = ("2026-01-01T09:00:00.000000000Z", log.lines[1][1])  # A node's clock that was set back.
    answer = read(log, reader, 4, ended=False)
    assert b"".join(chunk.data for chunk in answer.chunks) == b"456789"
    assert log.asked[-1] == ""


def test_output_past_the_quota_is_one_marker(log: Log) -> None:
    log.frame("O", 0, b"x" * 600)
    log.write("O600!100")
    log.write("O700!300")
    log.write("O1000.")
    data, marker = read(log, LogReader(), 0).chunks
    assert data.data == b"x" * 600
    assert (marker.offset, marker.skipped_bytes) == (600, 400)


@pytest.mark.parametrize(
    "line", [b"", b"O", b"O1", b"X0:YQ==", b"O0:Y", b"O0:!!", b"O-1:YQ==", b"O0!x", b"O0.x", b"O0:" + b"A" * 70_000, b"\xff\xfe"]
)
def test_what_the_wrapper_did_not_write_is_no_frame(line: bytes) -> None:
    assert read_frame(line) is None
    assert parse(b"2026-01-01T10:00:00.123456789Z " + line + b"\n") == []


def test_a_line_that_was_cut_is_read_again(log: Log) -> None:
    log.frame("O", 0, b"0123456789")
    cut = log.fetch("")[:-5]
    frames = parse(cut)
    assert frames == [] or frames[0][1].data == b"0123456789"[: len(frames[0][1].data or b"")]


def test_a_log_without_wrapper_is_given_as_it_is() -> None:
    assert read_raw(b"text", 0, ended=False, quota=100).chunks == (LogChunk(0, b"text"),)
    past = read_raw(b"x" * 120, 0, ended=True, quota=100)
    assert (past.chunks[-1].skipped_bytes, past.cursor, past.complete) == (20, 120, True)
    rotated = read_raw(b"tail", 50, ended=False, quota=100)
    assert rotated.cursor == 50
