"""Following a log: pages come while it grows, and the last one says that it is the last."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from channels.db import database_sync_to_async

from storage import logs
from tests.factories.storage import PrintingEngine, a_log_source

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


async def pump(engine: PrintingEngine, source: logs.LogSource) -> None:
    await database_sync_to_async(logs.pump)(engine, [source], now=lambda: NOW)


async def test_a_follower_sees_new_lines_and_the_end():
    source, engine = a_log_source(), PrintingEngine().prints(b"first\n")
    seen: list[str] = []
    last: list[logs.LogPage] = []

    async def follow() -> None:
        async for page in logs.follow(source.attempt_id):
            seen.append("".join(item.text for item in page.items))
            last[:] = [page]

    follower = asyncio.create_task(follow())
    await pump(engine, source)
    async with asyncio.timeout(60):
        while "".join(seen) != "first\n":
            await asyncio.sleep(0.01)
        engine.prints(b"second\n")
        engine.ended = True
        await pump(engine, source)
        await follower
    assert "".join(seen) == "first\nsecond\n"
    assert last[0].complete


async def test_a_follower_that_comes_back_goes_on_where_it_was():
    source, engine = a_log_source(), PrintingEngine().prints(b"first\n")
    await pump(engine, source)
    async with asyncio.timeout(60):
        async for page in logs.follow(source.attempt_id):
            cursor = page.cursor
            break
        engine.prints(b"second\n")
        engine.ended = True
        await pump(engine, source)
        texts = [item.text async for page in logs.follow(source.attempt_id, cursor=cursor) for item in page.items]
    assert texts == ["second\n"]


async def test_a_quiet_log_gives_a_sign_of_life():
    source = a_log_source()
    async with asyncio.timeout(60):
        async for page in logs.follow(source.attempt_id, idle_seconds=0.0):
            assert page.items == ()
            break
