"""Following a log over broken connections: every line once."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from client_stub import CutOff, a_job, a_log, problem

from berth.cli.logs import LinePrinter
from berth.logs import LineAssembler, LogFilter, LogLine, LogMarks


@pytest.fixture
def running(stub: Any) -> Any:
    """A job that ends when its log has been read, with six numbered lines."""
    stub.jobs = [a_job(state="running")]
    stub.logs = [a_log(f"line {number}\n", number * 7) for number in range(6)]
    return stub


def _end(stub: Any) -> None:
    stub.jobs[0]["state"] = "succeeded"


def _texts(lines: Any) -> list[str]:
    return [line.text for line in lines]


ALL = [f"line {number}" for number in range(6)]


def test_a_finished_log_is_read_page_by_page(running: Any, client: Any) -> None:
    _end(running)

    assert _texts(client.jobs.logs("digits")) == ALL


def test_a_stream_that_breaks_is_resumed_behind_the_last_event(running: Any, client: Any) -> None:
    def cut(events: list[str]) -> CutOff:
        return CutOff("".join(events[:1]).encode(), events[1].encode()[:20])

    def finish(events: list[str]) -> bytes:
        _end(running)
        return "".join([*events, "event: end\ndata: {}\n\n"]).encode()

    running.streams = [cut, finish]
    running.fail(r"GET /jobs/[^/]+/logs", _nothing, _nothing)

    assert _texts(client.jobs.logs("digits", follow=True)) == ALL
    first, second = running.sent(r"GET /jobs/[^/]+/logs/stream")
    assert ("Last-Event-ID" in first.headers, second.headers["Last-Event-ID"]) == (False, "1")


def test_without_streams_the_log_is_polled(running: Any, client: Any, naps: list[float]) -> None:
    running.fail(r"GET /jobs/[^/]+/logs/stream", problem(404, "not_found", "No streams here."))

    def more(request: httpx2.Request) -> None:
        running.logs.append(a_log("last\n", 42))
        _end(running)

    running.fail(r"GET /jobs/[^/]+/logs", None, None, None, None, more)

    assert _texts(client.jobs.logs("digits", follow=True)) == [*ALL, "last"]
    assert naps


def test_what_a_coarse_cursor_repeats_is_not_shown_twice() -> None:
    marks = LogMarks()
    first = list(marks.new([a_log("abc\n", 0), a_log("def\n", 4)], 1))
    second = list(marks.new([a_log("def\nghi\n", 4), a_log("ghi\nj\n", 8)], 1))

    assert [line.text for line in first + second] == ["abc\n", "def\n", "ghi\n", "j\n"]


def test_bytes_that_are_no_text_do_not_hide_what_follows() -> None:
    marks = LogMarks()
    lines = list(marks.new([a_log("\ufffd\ufffd\ufffd", 0), a_log("after", 3)], 1))

    assert [line.text for line in lines] == ["\ufffd\ufffd\ufffd", "after"]


def test_a_marker_is_shown_once() -> None:
    marks = LogMarks()
    gap = a_log("", 4, marker="output was lost", skipped_bytes=10)
    lines = list(marks.new([a_log("abc\n", 0), gap, gap, a_log("later\n", 14)], 1))

    assert [line.marker or line.text for line in lines] == ["abc\n", "output was lost", "later\n"]


def test_following_goes_on_with_the_next_attempt(running: Any, client: Any) -> None:
    running.attempts = 2
    running.jobs[0].update(attempt=1)
    running.logs.append(a_log("again\n", 0, attempt=2))

    def retried(request: httpx2.Request) -> None:
        running.jobs[0].update(attempt=2, state="succeeded")

    running.fail(r"GET /jobs/0[^/]+", None, None, retried)

    lines = list(client.jobs.logs(running.jobs[0]["id"], follow=True))

    assert [line.marker or line.text for line in lines] == [*ALL, "attempt 2", "again"]


def test_tail_gives_the_last_lines_and_then_follows(running: Any, client: Any) -> None:
    _end(running)

    assert _texts(client.jobs.logs("digits", tail=2)) == ["line 4", "line 5"]
    assert _texts(client.jobs.logs("digits", tail=2, follow=True)) == ["line 4", "line 5"]


def test_filters_are_sent_to_the_server(running: Any, client: Any) -> None:
    _end(running)
    list(client.jobs.logs("digits", role="worker", index=1, stream="stderr", attempt=1))

    params = running.sent(r"GET /jobs/[^/]+/logs")[0].url.params
    assert (params["role"], params["index"], params["stream"], params["attempt"]) == ("worker", "1", "stderr", "1")


def test_a_reader_can_be_made_anew_at_a_kept_cursor(running: Any, client: Any) -> None:
    reader = client.jobs.log_reader("digits")
    early = list(reader.chunks())
    running.logs.append(a_log("new\n", 42))
    later = client.jobs.log_reader("digits", LogFilter(attempt=reader.attempt), cursor=reader.cursor)

    assert (len(early), _texts(later.lines())) == (6, ["new"])


def test_lines_of_several_streams_do_not_mix() -> None:
    assembler = LineAssembler()
    pieces = [LogLine("one ", "a-0", "stdout"), LogLine("two\n", "b-0", "stdout"), LogLine("end\nrest", "a-0", "stdout")]
    lines = [line for piece in pieces for line in assembler.add(piece)]

    assert [(line.task, line.text) for line in [*lines, *assembler.finish()]] == [
        ("b-0", "two"),
        ("a-0", "one end"),
        ("a-0", "rest"),
    ]


def test_a_line_without_end_is_handed_out_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.limits.LOG_LINE_CHARACTERS", 10)
    assembler = LineAssembler()
    lines = list(assembler.add(LogLine("x" * 25, "a-0", "stdout")))

    assert [len(line.text) for line in [*lines, *assembler.finish()]] == [10, 10, 5]


def test_a_progress_bar_comes_as_it_goes_and_once_as_a_line() -> None:
    assembler = LineAssembler()
    seen = []
    for offset, text in ((0, "begin\n\r 0%"), (10, "\r 50%"), (15, "\r100%\nnext"), (25, " one\r\n")):
        chunk = LogLine(text, "a-0", "stderr", offset=offset)
        seen += [*assembler.add(chunk), *filter(None, [assembler.bar(chunk)])]

    assert [(line.text, line.offset, line.is_open) for line in seen] == [
        ("begin", 0, False),
        (" 0%", 6, True),
        (" 50%", 6, True),
        ("100%", 6, False),
        ("next one", 21, False),
    ]


def test_a_long_line_is_one_line() -> None:
    assembler = LineAssembler()
    pieces = [LogLine("x" * 65_536, "a-0", "stdout", offset=65_536 * number) for number in range(5)]
    lines = [line for piece in [*pieces, LogLine("\n", "a-0", "stdout", offset=327_680)] for line in assembler.add(piece)]

    assert [len(line.text) for line in lines] == [327_680]


def _bar(printer: LinePrinter, *texts: str) -> None:
    printer.print(LogLine(text, "a-0", "stderr", is_open=True) for text in texts)


def test_a_bar_is_replaced_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("berth.cli.logs.is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "8")
    monkeypatch.setenv("TERM", "xterm")
    printer = LinePrinter(prefixed=False)
    _bar(printer, "10%", "20% of many")
    printer.print([LogLine("done", "a-0", "stdout")])

    assert capsys.readouterr().out == "\r\x1b[K10%\r\x1b[K20% of \r\x1b[Kdone\n"


def test_a_bar_is_a_line_now_and_then_on_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    printer = LinePrinter(prefixed=False)
    for at, text in ((0, "0%"), (9, "9%"), (10, "10%"), (19, "19%"), (21, "21%")):
        now[0] = at
        _bar(printer, text)
    printer.print([LogLine("100%", "a-0", "stderr")])

    assert capsys.readouterr().out.splitlines() == ["10%", "21%", "100%"]


def _nothing(request: httpx2.Request) -> httpx2.Response:
    """A page without news, as long as nothing was streamed."""
    return httpx2.Response(200, json={"items": [], "cursor": request.url.params.get("cursor") or "", "complete": False})
