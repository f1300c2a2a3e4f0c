"""Connections that say nothing, or a byte now and then, end; and no address takes more of them than its share."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from kernel.config import Config
from upstream.uvicorn import gated
from webapi.connections import Bounds

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

COUNT = 100
SECONDS = 60.0  # For a loaded machine; the bounds that nobody keeps are fractions of one.
KEPT = 3.0  # A bound that a client keeps: its first request comes within it, although everything here shares one loop.
BEGUN = b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "
WHOLE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Answers at once, without reading a body."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def serving(bounds: Bounds, *, keep_alive: int = 30) -> AsyncGenerator[int]:
    listening = socket.create_server(("127.0.0.1", 0), backlog=2 * COUNT)
    config = uvicorn.Config(
        application, lifespan="off", log_config=None, http=gated(bounds), ws="websockets-sansio", timeout_keep_alive=keep_alive
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started:
        await asyncio.sleep(0)
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        await task
        listening.close()


class Line:
    """One client's connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def end(self) -> bytes:
        """All that comes until the server closes."""
        async with asyncio.timeout(SECONDS):
            return await self.reader.read()

    async def ask(self) -> bytes:
        self.writer.write(WHOLE)
        async with asyncio.timeout(SECONDS):
            head = await self.reader.readuntil(b"\r\n\r\n")
            return head + await self.reader.readexactly(2)


@asynccontextmanager
async def lines(port: int, count: int, sent: bytes = b"", *, host: str = "127.0.0.1") -> AsyncGenerator[list[Line]]:
    opened = [Line(*await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0))) for _ in range(count)]
    for line in opened:
        line.writer.write(sent)
    try:
        yield opened
    finally:
        for line in opened:
            line.writer.close()
            with contextlib.suppress(OSError):
                await line.writer.wait_closed()


def refusal(answer: bytes) -> dict[str, Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head
    assert b"connection: close" in head
    problem: dict[str, Any] = json.loads(body)
    return problem


async def test_a_hundred_clients_that_never_finish_their_headers_are_all_sent_away() -> None:
    bounds = Bounds(header_seconds=0.3)
    async with serving(bounds) as port, lines(port, COUNT, BEGUN) as opened:
        answers = await asyncio.gather(*(line.end() for line in opened))
        assert {answer.split(b"\r\n")[0] for answer in answers} == {b"HTTP/1.1 408 Request Timeout"}
        assert refusal(answers[0])["code"] == "request_timeout"
        assert not bounds.open


async def test_a_client_that_says_nothing_at_all_is_sent_away() -> None:
    async with serving(Bounds(header_seconds=0.2)) as port, lines(port, 3) as opened:
        assert all([b"408" in await line.end() for line in opened])


async def test_headers_that_trickle_are_not_waited_for() -> None:
    """Each byte that comes is no reason to wait on."""
    async with serving(Bounds(header_seconds=0.4)) as port, lines(port, 1, BEGUN) as (line,):

        async def trickle() -> None:
            while True:
                line.writer.write(b"x")
                await asyncio.sleep(0.02)  # As a slow client does; nothing is waited for here.

        trickling = asyncio.create_task(trickle())
        with contextlib.suppress(ConnectionError):
            assert b"408" in await line.end()
        trickling.cancel()
        await asyncio.gather(trickling, return_exceptions=True)
        assert line.reader.at_eof() or line.reader.exception() is not None


async def test_a_body_that_trickles_after_the_answer_does_not_hold_its_connection() -> None:
    body = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    async with serving(Bounds(header_seconds=KEPT), keep_alive=0) as port, lines(port, 1, body) as (line,):

        async def trickle() -> None:
            while True:
                line.writer.write(b"x")
                await asyncio.sleep(0.02)  # As a slow client does; nothing is waited for here.

        trickling = asyncio.create_task(trickle())
        with contextlib.suppress(ConnectionError):
            assert (await line.end()).startswith(b"HTTP/1.1 200")
        trickling.cancel()
        await asyncio.gather(trickling, return_exceptions=True)


async def test_a_client_that_keeps_its_connection_and_asks_again_is_served() -> None:
    async with serving(Bounds(header_seconds=KEPT)) as port, lines(port, 1) as (line,):
        for _ in range(3):
            assert (await line.ask()).endswith(b"ok")
            await asyncio.sleep(KEPT * 0.4)  # Beyond the bound of one request together; the pauses are the client's.
        assert (await line.ask()).endswith(b"ok")


async def test_one_address_takes_no_more_connections_than_its_share_and_others_get_in() -> None:
    bounds = Bounds(header_seconds=3600, per_address=COUNT)
    async with serving(bounds) as port, lines(port, COUNT) as opened:
        assert [await line.ask() for line in opened][-1].endswith(b"ok")
        async with lines(port, 3) as refused:
            for line in refused:
                problem = refusal(await line.end())
                assert (problem["code"], problem["status"]) == ("too_many_requests", 429)
                assert "100 connections" in problem["detail"]
        async with lines(port, 1, host="127.0.0.2") as (other,):
            assert (await other.ask()).endswith(b"ok")
        opened[0].writer.close()
        await opened[0].writer.wait_closed()
        while bounds.open["127.0.0.1"] == COUNT:
            await asyncio.sleep(0)
        async with lines(port, 1) as (again,):
            assert (await again.ask()).endswith(b"ok")


async def test_a_named_proxy_brings_many_people() -> None:
    bounds = Bounds(header_seconds=3600, per_address=1, is_exempt=lambda address: address == "127.0.0.1")
    async with serving(bounds) as port, lines(port, 5) as opened:
        assert all([(await line.ask()).endswith(b"ok") for line in opened])


async def test_a_websocket_leaves_the_count_and_no_timer_ends_it() -> None:
    upgrade = (
        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    bounds = Bounds(header_seconds=KEPT, per_address=1)
    async with serving(bounds) as port, lines(port, 1, upgrade) as (line,):
        async with asyncio.timeout(SECONDS):
            assert b"101" in await line.reader.readuntil(b"\r\n\r\n")
        assert not bounds.open
        async with lines(port, 1) as (late,):  # Its end shows that the time of the first is over, too.
            assert b"408" in await late.end()
        assert not line.reader.at_eof()


def test_the_server_runs_with_these_bounds(config: Config) -> None:
    from controlplane.processes.web import server

    protocol = server(config).config.http
    assert isinstance(protocol, type)
    assert protocol._gate == Bounds()  # type: ignore[attr-defined]  # What `gated` made of it.


@pytest.fixture
def config() -> Config:
    from kernel.config import current

    return current()
