"""Django as an ASGI application, with every request in one thread from its first middleware to its last.

Django's own handler is built for asynchronous views. With synchronous ones it starts a thread per request, changes between that
thread and the event loop at every middleware that knows only one of the two, and opens and gives back the database for each
request: more work than most of our views are. Here a request's body is read on the event loop, its whole answer is made in a
thread of a small pool, and only the sending, and what streams, is asynchronous again.

Each thread of the pool keeps its database connection. So there are fewer threads than connections in the pool of the database
(`controlplane.settings`): what else asks for one must find one.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.db import connections
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

THREADS = 8  # Two cores keep two busy; the others wait for the database or a disk.
CONNECTION_SECONDS = 300.0  # A kept connection is changed for a fresh one this often, as proxies before a database expect.


class Application(ASGIHandler):
    """Answers HTTP. One per process, or several: they share the pool of threads."""

    def __init__(self) -> None:
        super().__init__()
        self._middleware_chain = None
        self.load_middleware(is_async=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise ValueError(f"This application speaks HTTP, not {scope['type']}.")
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        with closing(body):
            context = contextvars.copy_context()  # What one request binds, such as its id in the log, is not the next one's.
            loop = asyncio.get_running_loop()
            response = await loop.run_in_executor(_threads, context.run, self._answer, scope, body)
            if response.streaming:
                await self._stream(response, receive, send)
            else:
                await self.send_response(response, send)

    def _answer(self, scope: Scope, body: Any) -> HttpResponseBase:
        """Everything that is synchronous about one request."""
        _refresh_connections()
        set_script_prefix(get_script_prefix(scope))
        request, refusal = self.create_request(scope, body)
        if request is None:
            assert refusal is not None
            return refusal
        response: HttpResponseBase = self.get_response(request)
        response._handler_class = self.__class__  # type: ignore[attr-defined]  # Django's own name: who tells of the end.
        if not response.streaming:
            for close in response._resource_closers:  # type: ignore[attr-defined]  # `close` would give back the connection too.
                close()
        return response

    async def _stream(self, response: HttpResponseBase, receive: Receive, send: Send) -> None:
        """Send an answer that lasts, until it ends or the client goes."""
        if not response.is_async:  # type: ignore[attr-defined]  # Streaming answers have it.
            response.streaming_content = _pieces(response.streaming_content)  # type: ignore[attr-defined]
        async with ThreadSensitiveContext():
            sending = asyncio.create_task(self.send_response(response, send))
            leaving = asyncio.create_task(self.listen_for_disconnect(receive))
            try:
                await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (leaving, sending):
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError, RequestAborted):
                        await task
                await sync_to_async(response.close)()


async def _pieces(content: Iterable[bytes]) -> AsyncIterator[bytes]:
    """A file piece by piece, read in threads: Django itself would read all of it first."""
    pieces = iter(content)
    while (piece := await sync_to_async(_next, thread_sensitive=False)(pieces)) is not None:
        yield piece


def _next(pieces: Iterator[bytes]) -> bytes | None:
    return next(pieces, None)


_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="web")


def _refresh_connections() -> None:
    """Keep this thread's connections while they are sound and young. Called before a request, where nothing is open."""
    now = time.monotonic()
    for connection in connections.all(initialized_only=True):
        if hasattr(connection, "close_if_hung_up"):  # By a server that restarted meanwhile.
            connection.close_if_hung_up()
        if connection.connection is None:
            continue
        if connection.close_at is None or connection.errors_occurred or not connection.get_autocommit():
            connection.close_if_unusable_or_obsolete()
        # `close_at` is when it was opened: no age is set for it.
        elif now > connection.close_at + CONNECTION_SECONDS:
            connection.close()
