"""Answers with files: ranges as RFC 9110 has them, piece by piece in sync and async servers."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest
from django.test import RequestFactory
from rest_framework.request import Request

from clusters.engines.interface import Stream
from storage import logs
from storage.downloads import PiecesResponse, RangeNotSatisfiable, Span, descriptor_response, log_response, parse_range
from storage.paths import shown_name
from tests.factories.storage import WORKER, PrintingEngine, a_log_source

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def a_request(**headers: str) -> Request:
    return Request(RequestFactory().get("/", headers=headers))


@pytest.mark.parametrize(
    ("header", "span"),
    [
        ("", Span(0, 100, False)),
        ("bytes=0-9", Span(0, 10, True)),
        ("bytes=0-0", Span(0, 1, True)),
        ("bytes=90-", Span(90, 100, True)),
        ("bytes=90-1000", Span(90, 100, True)),
        ("bytes=-10", Span(90, 100, True)),
        ("bytes=-1000", Span(0, 100, True)),
        ("bytes=9-0", Span(0, 100, False)),
        ("bytes=0-1,3-4", Span(0, 100, False)),
        ("lines=1-2", Span(0, 100, False)),
        ("bytes=", Span(0, 100, False)),
        ("bytes=a-b", Span(0, 100, False)),
        ("bytes=" + "9" * 400 + "-", Span(0, 100, False)),
    ],
)
def test_ranges_are_read_as_the_standard_says(header, span):
    assert parse_range(header, 100) == span


@pytest.mark.parametrize(("header", "size"), [("bytes=100-", 100), ("bytes=200-300", 100), ("bytes=0-", 0), ("bytes=-0", 100)])
def test_a_range_behind_the_end_is_told(header, size):
    with pytest.raises(RangeNotSatisfiable):
        parse_range(header, size)


async def test_an_async_server_gets_pieces_and_never_the_whole_file(tmp_path):
    size = 5 * 1024 * 1024 + 3
    (tmp_path / "f").write_bytes(os.urandom(size))
    descriptor = os.open(tmp_path / "f", os.O_RDONLY)
    response = descriptor_response(a_request(), descriptor, size_bytes=size, name="f", etag="x")
    assert isinstance(response, PiecesResponse)
    pieces = [piece async for piece in response]
    assert b"".join(pieces) == (tmp_path / "f").read_bytes()
    assert max(map(len, pieces)) <= 1024 * 1024
    response._on_close()
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(descriptor)


async def test_a_file_that_became_shorter_ends_the_answer_instead_of_filling_it_up(tmp_path):
    (tmp_path / "f").write_bytes(b"abc")
    descriptor = os.open(tmp_path / "f", os.O_RDONLY)
    response = descriptor_response(a_request(), descriptor, size_bytes=10, name="f", etag="x")
    with pytest.raises(OSError, match="shorter"):
        b"".join([piece async for piece in response])
    os.close(descriptor)


@pytest.mark.database
def test_a_log_is_plain_text_by_ranges_and_says_whether_it_grows():
    source, engine = a_log_source(), PrintingEngine().prints(b"<script>alert(1)</script>\n")
    logs.pump(engine, [source], now=lambda: NOW)
    facts = logs.find_stream(source.attempt_id, WORKER, Stream.OUT)
    response = log_response(a_request(Range="bytes=8-"), facts)
    assert (response.status_code, response["Content-Type"]) == (206, "text/plain; charset=utf-8")
    assert (response["X-Content-Type-Options"], response["Berth-Log-Complete"]) == ("nosniff", "false")
    assert response["Content-Disposition"] == 'attachment; filename="worker-0.stdout.log"'
    assert b"".join(response.streaming_content) == b"alert(1)</script>\n"
    beyond = log_response(a_request(Range="bytes=26-"), facts)
    assert (beyond.status_code, beyond["Content-Range"]) == (416, "bytes */26")
    assert beyond["Berth-Log-Complete"] == "false"


@pytest.mark.database
def test_the_tail_of_a_stream_begins_with_a_whole_line():
    source, engine = a_log_source(), PrintingEngine().prints(b"first line\nsecond\nthird\n")
    logs.pump(engine, [source], now=lambda: NOW)
    assert logs.read_tail(source.attempt_id, WORKER, Stream.OUT, size_bytes=10) == "third\n"
    assert logs.read_tail(source.attempt_id, WORKER, Stream.OUT, size_bytes=1000) == "first line\nsecond\nthird\n"
    assert logs.read_tail(source.attempt_id, WORKER, Stream.ERR, size_bytes=10) == ""


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/b.txt", "b.txt"),
        ("x\r\ny", "x__y"),
        ("数据.npz", "数据.npz"),
        ("a/", "file"),
        ('q"<>', "q___"),
        ("x\u202egpj", "x_gpj"),
    ],
)
def test_names_of_downloads_are_harmless(path, name):
    assert shown_name(path) == name
