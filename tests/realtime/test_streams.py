"""The live feed over a real server: server-sent events and a real WebSocket client, with real authentication."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import uvicorn
import websockets

from activity import sessions
from activity.threads import in_thread
from tenants.models import Token
from tests.factories.activity import make_events, now
from tests.factories.tenants import Cast

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]

SECONDS = 60.0  # A loaded machine; an idle one needs a fraction of one.


@pytest.fixture
async def address(cast: Cast) -> AsyncIterator[str]:
    """The whole application behind uvicorn on a free port."""
    from controlplane.asgi import application

    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(application, lifespan="off", log_level="warning", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listening.close()


@asynccontextmanager
async def stream(address: str, token: str, **headers: str) -> AsyncGenerator[AsyncIterator[dict[str, Any]]]:
    """Messages of `/events/stream` as dictionaries of their fields."""

    async def messages(lines: AsyncIterator[str]) -> AsyncIterator[dict[str, Any]]:
        fields: dict[str, Any] = {}
        async for line in lines:
            name, _, value = line.partition(": ")
            if not line and "data" in fields:
                yield {**fields, "data": json.loads(fields["data"])}
            fields = {} if not line else {**fields, name: value}

    async with (
        httpx2.AsyncClient(timeout=SECONDS) as client,
        client.stream(
            "GET", f"http://{address}/api/v1/events/stream", headers={"Authorization": f"Bearer {token}", **headers}
        ) as response,
    ):
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield messages(response.aiter_lines())


async def test_a_stream_goes_on_after_the_last_id_and_then_live(cast: Cast, address: str) -> None:
    seen, missed = await in_thread(make_events, "job.seen", "job.missed", tenant_id=cast.tenant.pk)
    async with stream(address, cast.bob.token, **{"Last-Event-ID": str(seen.seq)}) as messages:
        first = await anext(messages)
        assert (first["id"], first["event"], first["data"]["kind"]) == (str(missed.seq), "event", "job.missed")
        (live,) = await in_thread(make_events, "job.live", tenant_id=cast.tenant.pk)
        assert (await anext(messages))["id"] == str(live.seq)


async def test_a_stream_shows_nothing_of_other_tenants(cast: Cast, address: str) -> None:
    (first,) = await in_thread(make_events, "job.secret", tenant_id=cast.tenant.pk)
    async with stream(address, cast.carol.token, **{"Last-Event-ID": str((first.seq or 1) - 1)}) as messages:
        await in_thread(make_events, "job.secret", tenant_id=cast.tenant.pk)
        await in_thread(make_events, "job.mine", tenant_id=cast.elsewhere.pk)
        assert (await anext(messages))["data"]["kind"] == "job.mine"


async def test_a_stream_of_a_revoked_token_ends_within_five_seconds(cast: Cast, address: str) -> None:
    assert 2 * sessions.RECHECK_SECONDS < 5  # What a loaded machine takes to answer is no part of the promise.
    async with stream(address, cast.bob.token) as messages:
        await in_thread(lambda: Token.objects.filter(user=cast.bob.user).update(revoked_at=now()))
        await in_thread(sessions.recheck)
        async with asyncio.timeout(SECONDS):
            assert [message async for message in messages] == []


async def test_a_stream_needs_a_token(cast: Cast, address: str) -> None:
    async with httpx2.AsyncClient(timeout=SECONDS) as client:
        assert (await client.get(f"http://{address}/api/v1/events/stream")).status_code == 401


async def test_a_real_client_listens_over_a_real_socket(cast: Cast, address: str) -> None:
    headers = {"Authorization": f"Bearer {cast.bob.token}"}
    async with websockets.connect(f"ws://{address}/ws/v1/live", additional_headers=headers, open_timeout=SECONDS) as client:
        await client.send(json.dumps({"subscribe": {"tenant": cast.tenant.slug}, "id": "t"}))
        assert json.loads(await client.recv())["type"] == "subscribed"
        (event,) = await in_thread(make_events, "job.running", tenant_id=cast.tenant.pk)
        async with asyncio.timeout(SECONDS):
            assert json.loads(await client.recv())["event"]["seq"] == event.seq


async def test_a_foreign_page_is_turned_away_at_the_door(cast: Cast, address: str) -> None:
    headers = {"Authorization": f"Bearer {cast.bob.token}"}
    with pytest.raises(websockets.InvalidStatus) as refusal:
        await websockets.connect(
            f"ws://{address}/ws/v1/live", additional_headers=headers, origin=websockets.Origin("https://evil.org")
        )
    assert refusal.value.response.status_code == 403


async def test_a_reader_that_stops_reading_is_cut_off_and_the_server_goes_on(cast: Cast, address: str, monkeypatch: Any) -> None:
    """A real client whose kernel buffers fill up; another one hears everything meanwhile."""
    from activity import consumers

    def send_seconds_max(consumer: consumers.LiveConsumer) -> float:
        return 0.3 if consumer._session.actor.user_id == cast.bob.user.pk else SECONDS  # The other one may be slow for once.

    async def note(consumer: consumers.LiveConsumer, code: int) -> None:
        closed.append(code)
        await close(consumer, code)

    closed: list[int] = []
    close = consumers.LiveConsumer._close
    monkeypatch.setattr(consumers.LiveConsumer, "send_seconds_max", property(send_seconds_max))
    monkeypatch.setattr(consumers.LiveConsumer, "_close", note)
    total, size = 60, 100
    headers = {"Authorization": f"Bearer {cast.bob.token}"}
    url = f"ws://{address}/ws/v1/live"
    data = {f"text{number}": "x" * 3_900 for number in range(size)}  # About 400 KB each: no buffer holds them all.
    async with (
        websockets.connect(
            url,
            additional_headers=headers,
            max_queue=1,
            max_size=None,
            compression=None,
            open_timeout=SECONDS,
            ping_interval=None,
        ) as slow,
        websockets.connect(
            url, additional_headers={"Authorization": f"Bearer {cast.vera.token}"}, max_size=None, open_timeout=SECONDS
        ) as quick,
    ):
        for client in (slow, quick):
            await client.send(json.dumps({"subscribe": {"user": "me"}, "id": "u"}))
            assert json.loads(await client.recv())["type"] == "subscribed"
        for _ in range(total):
            (event,) = await in_thread(make_events, "job.changed", tenant_id=cast.tenant.pk, data=data)
            async with asyncio.timeout(SECONDS):
                assert json.loads(await quick.recv())["event"]["seq"] == event.seq
        async with asyncio.timeout(SECONDS):
            while 1013 not in closed:  # Whoever read on before that would be no slow reader.
                await asyncio.sleep(0.01)
        with contextlib.suppress(websockets.ConnectionClosed):
            for _ in range(total):
                await slow.recv()
            pytest.fail("the slow reader received everything; nothing was bounded")
