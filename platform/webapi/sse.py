"""Server-sent events: long answers that stay open, for clients that cannot or need not speak WebSocket.

A stream is an async iterator of `Event`s behind an ordinary `ApiView`: authentication, access, throttling and description
are those of every other operation, and only the sending is asynchronous. A silent stream sends a comment now and then, so
that proxies keep it open and a gone client is noticed. The source is pulled: what a slow client has not read yet is not made.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, InterfaceError, connections
from django.http import StreamingHttpResponse
from rest_framework.request import Request

from kernel.errors import BerthError, FieldError, InvalidInput
from kernel.words import Language, Text
from webapi.problems import as_failure, problem_body

HEARTBEAT_SECONDS = 15.0  # Shorter than the idle timeout of common proxies (60 s), with room for a lost one.
RETRY_MILLISECONDS = 2_000  # What a browser waits before it connects again.
STREAM_SECONDS_MAX = 3_600.0  # Then the client connects again with its last id: a revoked role ends at the latest here.
EVENT_ID_LENGTH_MAX = 200


@dataclass(frozen=True, slots=True)
class Event:
    """One message. `id` comes back as `Last-Event-ID`; `data` is sent as JSON on one line."""

    data: Any
    id: str = ""
    event: str = ""

    def encode(self) -> bytes:
        """The message as it goes over the wire."""
        lines = []
        if self.id:
            lines.append(f"id: {_one_line(self.id)}")
        if self.event:
            lines.append(f"event: {_one_line(self.event)}")
        lines.append(f"data: {json.dumps(self.data, ensure_ascii=False, separators=(',', ':'), default=str)}")
        return ("\n".join(lines) + "\n\n").encode()


def last_event_id(request: Request) -> str:
    """Where the caller's stream broke off: `Last-Event-ID`, or the query parameter `after` of the first connection."""
    text: str = request.headers.get("Last-Event-ID", "") or request.query_params.get("after", "")
    if len(text) > EVENT_ID_LENGTH_MAX or not text.isprintable():
        message = Text("Last-Event-ID is not one of this stream.", "Last-Event-ID 不属于此事件流。")
        raise InvalidInput(message, fields=[FieldError("/Last-Event-ID", "invalid", message)])
    return text


def event_stream(
    source: AsyncIterator[Event],
    *,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
    seconds_max: float = STREAM_SECONDS_MAX,
    is_allowed: Callable[[], Any] | None = None,
    language: str = Language.ENGLISH,
) -> StreamingHttpResponse:
    """Answer with a stream of events; return it from an `ApiView` handler.

    `is_allowed`, an async function, is asked at every heartbeat interval: once it says no, the stream ends. The request's
    database connection is given back first, because the answer lasts and the connection would with it. `language`: what the last
    event says of a failure.
    """
    _give_connections_back()
    body = _encode(source, heartbeat_seconds=heartbeat_seconds, seconds_max=seconds_max, is_allowed=is_allowed, language=language)
    response = StreamingHttpResponse(body, content_type="text/event-stream; charset=utf-8")
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


def _give_connections_back() -> None:
    """What Django does at the end of a request; never inside a transaction, which a closed connection would break."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


async def _encode(
    source: AsyncIterator[Event],
    *,
    heartbeat_seconds: float,
    seconds_max: float,
    is_allowed: Callable[[], Any] | None,
    language: str,
) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds_max
    checked = loop.time()
    pending: asyncio.Task[Event] | None = None
    yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
    try:
        while loop.time() < end:
            if is_allowed is not None and loop.time() - checked >= heartbeat_seconds:
                checked = loop.time()
                try:
                    if not await is_allowed():
                        return
                except (DatabaseError, InterfaceError) as error:  # Rights are unknown: the client is told to come back.
                    yield _problem(as_failure(error), language)
                    return
            pending = pending or asyncio.ensure_future(_next(source))
            done, _ = await asyncio.wait({pending}, timeout=heartbeat_seconds)
            if not done:
                yield b": still here\n\n"
                continue
            finished, pending = pending, None
            try:
                yield finished.result().encode()
            except StopAsyncIteration:
                return
            except BerthError as error:
                yield _problem(error, language)
                return
            except (DatabaseError, InterfaceError) as error:
                yield _problem(as_failure(error), language)
                return
    finally:
        await _close(source, pending)


def _problem(failure: BerthError, language: str) -> bytes:
    """The last event of a stream that cannot go on. Its client connects again with the last id that it saw."""
    return Event(problem_body(failure, request_id="", language=Language(language)), event="problem").encode()


async def _next(source: AsyncIterator[Event]) -> Event:
    """A task cannot end with StopAsyncIteration raised by itself; `anext` inside a coroutine may."""
    return await anext(source)


async def _close(source: AsyncIterator[Event], pending: asyncio.Task[Event] | None) -> None:
    if pending is not None:
        pending.cancel()
        with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration, BerthError):
            await pending
    close = getattr(source, "aclose", None)
    if close is not None:
        await close()


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ").replace("\0", " ")
