"""Server-sent events."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from django.test import AsyncClient

from kernel.errors import Conflict
from webapi.sse import Event, event_stream


async def collect(response, count=100):
    parts = []
    async for part in response:
        parts.append(part)
        if len(parts) == count:
            break
    return b"".join(parts).decode()


async def test_a_stream_sends_events_from_where_it_broke_off():
    headers = {"authorization": "Bearer alice-token", "last-event-id": "1", "accept": "text/event-stream"}
    response = await AsyncClient().get("/api/v1/stream", headers=headers)

    assert response["Content-Type"].startswith("text/event-stream")
    assert response["Cache-Control"] == "no-store"
    text = await collect(response)
    assert text == ('retry: 2000\n\nid: 2\nevent: line\ndata: {"text":"a\\nb"}\n\nid: 3\nevent: line\ndata: {"text":"a\\nb"}\n\n')


async def test_a_stream_needs_the_same_token_as_everything_else():
    assert (await AsyncClient().get("/api/v1/stream")).status_code == 401
    assert (await AsyncClient().get("/api/v1/stream", headers={"authorization": "Bearer garbage"})).status_code == 401


async def test_a_silent_stream_says_now_and_then_that_it_is_alive():
    closed = asyncio.Event()

    async def silent() -> AsyncIterator[Event]:
        try:
            await asyncio.Event().wait()
            yield Event({})
        finally:
            closed.set()

    parts = []
    enough = asyncio.Event()

    async def read() -> None:
        async for part in event_stream(silent(), heartbeat_seconds=0.01):
            parts.append(part)
            if len(parts) == 3:
                enough.set()

    reading = asyncio.ensure_future(read())
    await asyncio.wait_for(enough.wait(), timeout=60)
    reading.cancel()  # What the server does when the client has gone.
    await asyncio.wait([reading])

    assert parts[1:3] == [b": still here\n\n"] * 2
    await asyncio.wait_for(closed.wait(), timeout=60)


async def test_a_stream_ends_once_it_is_no_longer_allowed():
    asked = 0

    async def is_allowed() -> bool:
        nonlocal asked
        asked += 1
        return asked < 2

    async def silent() -> AsyncIterator[Event]:
        await asyncio.Event().wait()
        yield Event({})

    response = event_stream(silent(), heartbeat_seconds=0.01, is_allowed=is_allowed)
    await asyncio.wait_for(collect(response), timeout=60)

    assert asked == 2


async def test_a_failure_while_streaming_is_an_event():
    async def failing() -> AsyncIterator[Event]:
        yield Event({"n": 1})
        raise Conflict("The log is gone.")

    text = await collect(event_stream(failing()))

    assert 'event: problem\ndata: {"type":"/docs/errors#conflict"' in text


@pytest.mark.parametrize("name", ["id", "event"])
def test_no_value_can_forge_another_line(name):
    text = Event("x", **{name: "a\r\ndata: forged\n\n"}).encode().decode()

    assert text.count("\n\n") == 1
    assert not any(line.startswith("data: forged") for line in text.splitlines())
