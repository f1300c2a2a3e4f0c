"""Django as Berth runs it: one thread a request, connections that are kept and changed, streams that end with their client."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.signals import request_finished
from django.db import connection, connections
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path

from clusters.models import Pool, PoolMeasure
from upstream import django as ours

PIECES = 1_000
noted: list[Any] = []


def answer(request: HttpRequest) -> HttpResponse:
    """Asks the database, and notes where."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    noted.append((threading.current_thread().name, connections["default"]))
    response = HttpResponse(b"ok")
    response._resource_closers.append(lambda: noted.append("closed"))
    return response


def stream(request: HttpRequest) -> StreamingHttpResponse:
    def pieces() -> Iterator[bytes]:
        for number in range(PIECES):
            noted.append(number)
            yield b"x"

    return StreamingHttpResponse(pieces())


urlpatterns = [path("answer", answer), path("stream", stream)]


@pytest.fixture(autouse=True)
def application(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[ours.Application]:
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = []
    noted.clear()
    with ThreadPoolExecutor(1, thread_name_prefix="only") as threads:
        monkeypatch.setattr(ours, "_threads", threads)
        yield ours.Application()
        threads.submit(connections.close_all).result()


async def ask(application: ours.Application, name: str, *, leaves_after: int = 0) -> list[dict[str, Any]]:
    """One request; the client goes after so many messages, or stays."""
    sent: list[dict[str, Any]] = []
    gone = asyncio.Event()
    messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        if leaves_after and len(sent) >= leaves_after:
            gone.set()
            await asyncio.sleep(0)

    scope = {"type": "http", "method": "GET", "path": f"/{name}", "headers": [(b"host", b"localhost")], "query_string": b""}
    async with asyncio.timeout(60):
        await application(scope, receive, send)
    return sent


@pytest.mark.database
@pytest.mark.django_db(transaction=True)
async def test_a_request_is_answered_in_one_thread_that_keeps_its_connection(application: ours.Application) -> None:
    for _ in range(2):
        start, body = await ask(application, "answer")
        assert (start["status"], body["body"]) == (200, b"ok")
    (first, wrapper), closed, (second, again), closed_again = noted
    assert (closed, closed_again) == ("closed", "closed")
    assert first == second == "only_0"
    assert wrapper is again
    assert wrapper.connection is not None


async def test_a_stream_is_read_piece_by_piece_and_ends_with_its_client(application: ours.Application) -> None:
    senders: list[Any] = []

    def note(sender: Any, **rest: Any) -> None:
        senders.append(sender)

    request_finished.connect(note)
    try:
        sent = await ask(application, "stream", leaves_after=3)
    finally:
        request_finished.disconnect(note)
    assert 3 <= len(sent) < PIECES
    assert len(noted) < PIECES
    assert senders == [ours.Application]


@pytest.mark.database
@pytest.mark.django_db(transaction=True)
def test_a_kept_connection_is_changed_when_it_is_old() -> None:
    connection.ensure_connection()
    kept = connection.connection
    ours._refresh_connections()
    assert connection.connection is kept
    assert connection.close_at is not None
    connection.close_at = time.monotonic() - ours.CONNECTION_SECONDS - 1
    ours._refresh_connections()
    assert connection.connection is None


def test_a_relation_that_was_not_read_is_not_read_by_asking() -> None:
    pool = Pool(pk=1)
    assert ours.loaded(pool, "measure") is None
    measure = PoolMeasure(pool=pool)
    assert ours.loaded(pool, "measure") is measure
