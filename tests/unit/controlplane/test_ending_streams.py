"""When the server stops, streams end as if they had said everything; what else is in hand gets its answer, or in the end 503."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from controlplane.processes.web import Message, Receive, Requests, Send

Sent = list[Message]


class Client:
    """One request as a server sees it: what was sent to the client, and a client that stays."""

    def __init__(self, requests: Requests, kind: str = "http") -> None:
        self.sent: Sent = []
        self.started = asyncio.Event()
        self.has_sent = False
        self.task = asyncio.create_task(requests({"type": kind, "headers": []}, self._receive, self._send))

    async def _receive(self) -> Message:
        if not self.has_sent:
            self.has_sent = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.Event().wait()
        raise AssertionError("the client says nothing more")

    async def _send(self, message: Message) -> None:
        self.sent.append(message)
        self.started.set()


def application(content_type: bytes, *, answers: asyncio.Event | None = None) -> Any:
    """Begins an answer and goes on until the client is gone, or until it is told to answer."""

    async def run(scope: Message, receive: Receive, send: Send) -> None:
        await receive()
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
    requests = Requests(application(b"text/event-stream; charset=utf-8"))
    client = Client(requests)
    await client.started.wait()
    requests.end_streams()
    await asyncio.wait_for(client.task, 60)
    assert client.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert not requests._in_hand


@pytest.mark.parametrize("kind", [b"application/json", b"text/plain"])
async def test_an_answer_in_hand_is_given_whole(kind: bytes) -> None:
    answers = asyncio.Event()
    requests = Requests(application(kind, answers=answers))
    client = Client(requests)
    await client.started.wait()
    requests.end_streams()
    await asyncio.sleep(0)
    assert not client.task.done()
    answers.set()
    await asyncio.wait_for(client.task, 60)
    assert [message.get("body") for message in client.sent] == [None, b"all"]


async def test_a_stream_that_ended_by_itself_is_not_ended_twice() -> None:
    answers = asyncio.Event()
    answers.set()
    requests = Requests(application(b"text/event-stream", answers=answers))
    client = Client(requests)
    await asyncio.wait_for(client.task, 60)
    requests.end_streams()
    assert [message.get("body") for message in client.sent] == [None, b"all"]


async def test_sockets_are_the_servers_to_close() -> None:
    seen: list[tuple[Receive, Send]] = []

    async def socket(scope: Message, receive: Receive, send: Send) -> None:
        seen.append((receive, send))

    client = Client(Requests(socket), kind="websocket")
    await client.task
    assert seen == [(client._receive, client._send)]


async def late_client(*, body: bool = True) -> tuple[Requests, Client, asyncio.Event]:
    """A request whose answer is not there yet; with `body` false, all of it has not arrived either."""
    answers, asked = asyncio.Event(), asyncio.Event()

    async def run(scope: Message, receive: Receive, send: Send) -> None:
        if body:
            await receive()
        asked.set()
        await answers.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"late"})

    requests = Requests(run)
    client = Client(requests)
    await asked.wait()
    return requests, client, answers


async def test_a_request_without_an_answer_when_the_drain_is_over_is_told_to_come_back() -> None:
    requests, client, answers = await late_client()
    assert requests.waiting == 1
    assert await requests.refuse(unless_arrived=True) == 0
    assert await requests.refuse() == 1
    start, body = client.sent
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    assert (start["status"], headers["content-type"], headers["retry-after"]) == (503, "application/problem+json", "2")
    assert "same Idempotency-Key" in json.loads(body["body"])["hint"]
    answers.set()
    await asyncio.wait_for(client.task, 60)
    assert len(client.sent) == 2, "what came too late is not a second answer"
    assert await requests.refuse() == 0


async def test_a_request_that_is_cancelled_after_its_refusal_is_no_fault() -> None:
    requests, client, _ = await late_client()
    await requests.refuse()
    client.task.cancel()
    await asyncio.wait_for(client.task, 60)


async def test_a_request_that_has_not_arrived_whole_is_not_waited_for() -> None:
    requests, client, answers = await late_client(body=False)
    assert await requests.refuse(unless_arrived=True) == 1
    answers.set()
    await asyncio.wait_for(client.task, 60)
    assert client.sent[0]["status"] == 503
