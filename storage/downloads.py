"""Answers that carry files: by ranges, as attachments, and never as something that a browser runs (security T9).

The bytes of a file are a tenant's, and no browser may take them for a page of ours: always `attachment`, always an inert
type, never sniffed, and in a sandbox without any right should a browser show them all the same.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils.http import content_disposition_header
from rest_framework.request import Request

from kernel.errors import BerthError, NotFound
from kernel.words import Text
from storage.bounds import COPY_BYTES
from storage.logs import StreamFacts, read_stream_bytes
from storage.models import Artifact
from storage.paths import shown_name
from upstream.rest_framework import plain
from webapi.problems import problem_response

BINARY = "application/octet-stream"
ARCHIVE = "application/x-tar"
TEXT = "text/plain; charset=utf-8"
_RANGE = re.compile(r"bytes=(?:([0-9]{1,18})-([0-9]{1,18})?|-([0-9]{1,18}))")


class RangeNotSatisfiable(BerthError):
    """The range begins behind the end of the file; `Content-Range` of the answer says how long it is now."""

    code = "range_not_satisfiable"
    status = 416
    title = Text("The range is not in the file", "请求范围超出文件")


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes that are sent: from `start` up to, not including, `end`. `partial`: the caller asked for a range."""

    start: int
    end: int
    partial: bool


def parse_range(header: str, size_bytes: int) -> Span:
    """The span of a `Range` header; the whole file for none, and for forms that a server may ignore (several ranges).

    RangeNotSatisfiable where nothing of the range exists (RFC 9110, section 14.1.2).
    """
    match = _RANGE.fullmatch(header.strip())
    if match is None:
        return Span(0, size_bytes, partial=False)
    first, last, suffix = match.groups()
    if suffix is not None:
        start, end = max(0, size_bytes - int(suffix)), size_bytes
    else:
        start, end = int(first), min(size_bytes, int(last) + 1 if last is not None else size_bytes)
        if last is not None and int(last) < int(first):
            return Span(0, size_bytes, partial=False)
    if start >= size_bytes or start >= end:
        raise RangeNotSatisfiable(
            Text(
                f"The file has {size_bytes:,} bytes, the range begins at {start:,}.",
                f"文件有 {size_bytes:,} 字节，而所请求的范围从 {start:,} 开始。",
            ),
            hint=Text(
                "Ask again from the present end; a log grows while its job runs.", "请从当前末尾重新请求；作业运行时日志会增长。"
            ),
        )
    return Span(start, end, partial=True)


class PiecesResponse(StreamingHttpResponse):
    """Sends pieces as they are read, in sync and async servers alike, and never holds the whole file in memory."""

    def __init__(self, pieces: Iterator[bytes], *, on_close: Callable[[], None] | None = None, status: int = 200) -> None:
        super().__init__(pieces, status=status)
        self._pieces = pieces
        self._on_close = on_close

    def close(self) -> None:
        super().close()
        if self._on_close is not None:
            on_close, self._on_close = self._on_close, None
            on_close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        # Django would collect a plain iterator into a list here. One thread at a time reads ahead by one piece.
        while True:
            piece = await asyncio.to_thread(next, self._pieces, None)
            if piece is None:
                return
            yield piece


def artifact_response(request: Request, artifact: Artifact) -> HttpResponseBase:
    """Send an artifact; the caller has checked that the actor may have it."""
    try:
        descriptor = os.open(artifact.location, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotFound(
            Text(f"The artifact {artifact.path[:200]!r} is no longer stored.", f"产物 {artifact.path[:200]!r} 已不再保存。")
        ) from None
    return descriptor_response(request, descriptor, size_bytes=artifact.size_bytes, name=artifact.path, etag=artifact.sha256)


def descriptor_response(request: Request, descriptor: int, *, size_bytes: int, name: str, etag: str) -> HttpResponseBase:
    """Send an open file and close it afterwards, also when nothing was sent."""

    def close() -> None:
        os.close(descriptor)

    return _respond(
        request,
        size_bytes=size_bytes,
        read=lambda start, end: _pieces(descriptor, start, end),
        etag=etag,
        content_type=BINARY,
        name=shown_name(name),
        close=close,
    )


def archive_response(pieces: Iterator[bytes], *, name: str) -> HttpResponseBase:
    """Send an archive as it is packed; how long it becomes is not known before."""
    response = PiecesResponse(pieces)
    response["Content-Type"] = ARCHIVE
    _headers(response, "", name)
    del response["Accept-Ranges"]
    return response


def log_response(request: Request, facts: StreamFacts) -> HttpResponseBase:
    """Send one stream of a task as plain text, by ranges; while it grows, each answer is as long as it is now."""
    name = f"{facts.key.task}.{facts.key.stream.value}.log"
    response = _respond(
        request,
        size_bytes=facts.size_bytes,
        read=lambda start, end: read_stream_bytes(facts, start, end),
        etag="" if not facts.complete else f"{facts.key.attempt.attempt_id.hex}-{facts.size_bytes:x}",
        content_type=TEXT,
        name=name,
    )
    response["Berth-Log-Complete"] = "true" if facts.complete else "false"
    return response


def _respond(
    request: Request,
    *,
    size_bytes: int,
    read: Callable[[int, int], Iterator[bytes]],
    etag: str,
    content_type: str,
    name: str,
    close: Callable[[], None] | None = None,
) -> HttpResponseBase:
    tag = f'"{etag}"' if etag else ""
    try:
        span = parse_range(_range_header(request, tag), size_bytes)
    except RangeNotSatisfiable as failure:
        refused = problem_response(failure, plain(request))
        refused["Content-Range"] = f"bytes */{size_bytes}"
        return _closed(refused, close)
    if tag and tag in _tags(request.headers.get("If-None-Match", "")):
        return _closed(_headers(HttpResponse(status=304), tag, name), close)
    if request.method == "HEAD":
        response: HttpResponseBase = _closed(HttpResponse(status=206 if span.partial else 200), close)
    else:
        response = PiecesResponse(read(span.start, span.end), on_close=close, status=206 if span.partial else 200)
    response["Content-Type"] = content_type
    response["Content-Length"] = str(span.end - span.start)
    if span.partial:
        response["Content-Range"] = f"bytes {span.start}-{span.end - 1}/{size_bytes}"
    return _headers(response, tag, name)


def _headers(response: HttpResponseBase, tag: str, name: str) -> HttpResponseBase:
    response["Accept-Ranges"] = "bytes"
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'; frame-ancestors 'none'"
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, no-cache"
    if tag:
        response["ETag"] = tag
    return response


def _range_header(request: Request, tag: str) -> str:
    """The range, unless `If-Range` names another state of the file: then the whole file is sent."""
    condition = request.headers.get("If-Range", "").strip()
    if condition and condition != tag:
        return ""
    text: str = request.headers.get("Range", "")
    return text


def _tags(header: str) -> set[str]:
    return {part.strip().removeprefix("W/") for part in header.split(",") if part.strip()}


def _closed(response: HttpResponseBase, close: Callable[[], None] | None) -> HttpResponseBase:
    if close is not None:
        close()
    return response


def _pieces(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    """The bytes of an open file; a file that became shorter meanwhile ends the connection, it is not filled up."""
    while start < end:
        piece = os.pread(descriptor, min(COPY_BYTES, end - start), start)
        if not piece:
            raise OSError("the file became shorter while it was sent")
        yield piece
        start += len(piece)
