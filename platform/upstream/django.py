"""Django: an ASGI application with every request in one thread, and what the console and reads reach into.

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
import gettext
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.contrib.admin import AdminSite, ModelAdmin
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.db import connections
from django.db.models import Model
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix
from django.utils.translation import trans_real

from upstream.hooks import CORRECTNESS, Hook

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

THREADS = 8  # Two cores keep two busy; the others wait for the database or a disk.
CONNECTION_SECONDS = 300.0  # A kept connection is changed for a fresh one this often, as proxies before a database expect.

_TEST = "unit/upstream/test_django.py::"
_ONE_THREAD = (
    "`/livez` 0.7 ms, and the largest part of 27.0 to 37.3 ms becoming 3.2 to 5.7 of a core for a submission, together with "
    "fewer statements (bench/RESULTS.md, P1)"
)

HOOKS = (
    Hook(
        upstream="django.core.handlers.asgi.ASGIHandler.__call__",
        parameters="self, scope, receive, send",
        ours="Application.__call__",
        why="Django's own starts a thread per request and changes between thread and loop at every middleware.",
        gain=_ONE_THREAD,
        test=_TEST + "test_a_request_is_answered_in_one_thread_that_keeps_its_connection",
    ),
    Hook(
        upstream="django.core.handlers.asgi.ASGIHandler.read_body",
        parameters="self, receive",
        ours="Application.__call__",
        why="A step of Django's own answer, taken by itself.",
        gain=_ONE_THREAD,
        test="api/webapi/test_envelope.py::test_an_undeclared_body_from_nobody_is_read_to_one_mebibyte_and_no_further",
    ),
    Hook(
        upstream="django.core.handlers.asgi.ASGIHandler.create_request",
        parameters="self, scope, body_file",
        ours="Application._answer",
        why="A step of Django's own answer, taken by itself.",
        gain=_ONE_THREAD,
        test=_TEST + "test_a_request_is_answered_in_one_thread_that_keeps_its_connection",
    ),
    Hook(
        upstream="django.core.handlers.asgi.ASGIHandler.send_response",
        parameters="self, response, send",
        ours="Application.__call__",
        why="A step of Django's own answer, taken by itself.",
        gain=_ONE_THREAD,
        test=_TEST + "test_a_request_is_answered_in_one_thread_that_keeps_its_connection",
    ),
    Hook(
        upstream="django.core.handlers.asgi.ASGIHandler.listen_for_disconnect",
        parameters="self, receive",
        ours="Application._stream",
        why="A step of Django's own answer, taken by itself.",
        gain=f"{CORRECTNESS}: a stream ends when its client goes",
        test=_TEST + "test_a_stream_is_read_piece_by_piece_and_ends_with_its_client",
    ),
    Hook(
        upstream="django.core.handlers.base.BaseHandler._middleware_chain",
        ours="Application.__init__",
        why="Django makes the chain for asynchronous calls when the handler is made; ours is the synchronous one.",
        gain=_ONE_THREAD,
        test=_TEST + "test_a_request_is_answered_in_one_thread_that_keeps_its_connection",
    ),
    Hook(
        upstream="django.http.response.HttpResponseBase._handler_class",
        ours="Application._answer",
        why="The sender of `request_finished`, as Django's own handler sets it.",
        gain=f"{CORRECTNESS}: what listens to the end of a request knows by whom it was answered",
        test=_TEST + "test_a_stream_is_read_piece_by_piece_and_ends_with_its_client",
    ),
    Hook(
        upstream="django.http.response.HttpResponseBase._resource_closers",
        ours="Application._answer",
        why="`close` would close files and give the thread's connection back as well; only the files are closed.",
        gain=_ONE_THREAD,
        test=_TEST + "test_a_request_is_answered_in_one_thread_that_keeps_its_connection",
    ),
    Hook(
        upstream="django.db.backends.base.base.BaseDatabaseWrapper.close_at",
        ours="_refresh_connections",
        why="A kept connection is changed after five minutes by when it was opened, which Django knows under this name.",
        gain=f"{CORRECTNESS}: a connection would be kept for ever",
        test=_TEST + "test_a_kept_connection_is_changed_when_it_is_old",
    ),
    Hook(
        upstream="django.db.models.base.Model._state",
        ours="loaded",
        why="Whether a related row was read already is told nowhere else; asking for it would read it.",
        gain="one statement less for each pool",
        test=_TEST + "test_a_relation_that_was_not_read_is_not_read_by_asking",
    ),
    Hook(
        upstream="django.contrib.admin.sites.AdminSite._registry",
        ours="registered",
        why="Columns and names of all tables of the console are gone through; Django's own list needs a request and its rights.",
        gain=f"{CORRECTNESS}: secret columns are left out of related rows, too",
        test="api/controlplane/test_console_filters.py::test_no_statement_of_a_page_reads_a_secret_column",
    ),
    Hook(
        upstream="django.utils.translation.trans_real.DjangoTranslation.merge",
        parameters="self, other",
        ours="add_words",
        why="The console's Chinese is made from a table of the source, and Django reads compiled files alone.",
        gain=f"{CORRECTNESS}: compiled catalogues would have to be kept in the tree",
        test="api/controlplane/test_console.py::test_the_console_speaks_chinese_to_those_who_read_it_and_english_to_all_others",
    ),
)


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


def loaded(row: Model, relation: str) -> Any | None:
    """The related row where it has been read with `row`; None where it has not been, or is none. Asks the database nothing."""
    return row._state.fields_cache.get(relation)


def registered(site: AdminSite) -> Mapping[type[Model], ModelAdmin[Any]]:
    """Tables of a console, each with what shows it."""
    found: Mapping[type[Model], ModelAdmin[Any]] = site._registry
    return found


def add_words(language: str, words: gettext.GNUTranslations) -> None:
    """Add words to Django's own of a language, for the whole process."""
    catalogue = trans_real.translation(language)
    words.plural = catalogue.plural  # type: ignore[attr-defined]  # Else Django keeps two catalogues and asks both.
    catalogue.merge(words)
