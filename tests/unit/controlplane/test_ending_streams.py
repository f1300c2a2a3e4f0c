"""When the server stops, streams end as if they had said everything; whatever else is in hand is left alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controlplane.processes.web import Message, Receive, Send, Streams

Sent = list[Message]


class Client:
    """One request as a server sees it: what was sent to the client, and a client that stays."""

    def __init__(self, streams: Streams, kind: str = "http") -> None:
        self.sent: Sent = []
        self.started = asyncio.Event()
        self.task = asyncio.create_task(streams({"type": kind}, self._receive, self._send))

    async def _receive(self) -> Message:
        await asyncio.Event().wait()
        raise AssertionError("the client says nothing more")

    async def _send(self, message: Message) -> None:
        self.sent.append(message)
        self.started.set()


def application(content_type: bytes, *, answers: asyncio.Event | None = None) -> Any:
    """Begins an answer and goes on until the client is gone, or until it is told to answer."""

    async def run(scope: Message, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"Content-Type", content_type)]})
        gone = asyncio.ensure_future(receive())
        answer = asyncio.ensure_future((answers or asyncio.Event()).wait())
        await asyncio.wait((gone, answer), return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            await send({"type": "http.response.body", "body": b"all"})
        else:
            assert gone.result() == {"type": "http.disconnect"}
        for task in (gone, answer):
            task.cancel()

    return run


async def test_an_open_stream_is_completed() -> None:
    streams = Streams(application(b"text/event-stream; charset=utf-8"))
    client = Client(streams)
    await client.started.wait()
    streams.end()
    await asyncio.wait_for(client.task, 10)
    assert client.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert not streams._open


@pytest.mark.parametrize("kind", [b"application/json", b"text/plain"])
async def test_an_answer_in_hand_is_given_whole(kind: bytes) -> None:
    answers = asyncio.Event()
    streams = Streams(application(kind, answers=answers))
    client = Client(streams)
    await client.started.wait()
    streams.end()
    await asyncio.sleep(0)
    assert not client.task.done()
    answers.set()
    await asyncio.wait_for(client.task, 10)
    assert [message.get("body") for message in client.sent] == [None, b"all"]


async def test_a_stream_that_ended_by_itself_is_not_ended_twice() -> None:
    answers = asyncio.Event()
    answers.set()
    streams = Streams(application(b"text/event-stream", answers=answers))
    client = Client(streams)
    await asyncio.wait_for(client.task, 10)
    streams.end()
    assert [message.get("body") for message in client.sent] == [None, b"all"]


async def test_sockets_are_the_servers_to_close() -> None:
    seen: list[tuple[Receive, Send]] = []

    async def socket(scope: Message, receive: Receive, send: Send) -> None:
        seen.append((receive, send))

    client = Client(Streams(socket), kind="websocket")
    await client.task
    assert seen == [(client._receive, client._send)]
