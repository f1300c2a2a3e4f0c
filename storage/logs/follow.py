"""Follows a log while it grows: for server-sent events and sockets. Works from rows; hints only make it sooner."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

from django.db import InterfaceError, OperationalError

from activity import hints
from activity.threads import in_thread
from storage.logs.append import topic
from storage.logs.read import ALL_STREAMS, LogFilter, LogPage, read_merged

POLL_SECONDS = 2.0  # How late a page may be when its hint was lost.
SPACING_SECONDS = 0.1  # A task that prints without pause becomes ten pages a second, not one per line.
PAGE_ITEMS = 200
PAGE_BYTES = 256 * 1024  # A slow reader's share of memory.


async def follow(
    attempt_id: uuid.UUID, *, cursor: str | None = None, wanted: LogFilter = ALL_STREAMS, idle_seconds: float | None = None
) -> AsyncIterator[LogPage]:
    """Give pages as they come, until the log is complete; that last page says so and may be empty.

    With `idle_seconds`, an empty page comes after so long without news: the caller's chance to send a heartbeat and to look
    whether the reader may still read.
    """
    loop, news = asyncio.get_running_loop(), asyncio.Event()
    quiet_seconds = 0.0

    def ring() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(news.set)

    with hints.listen(topic(attempt_id), ring):
        while True:
            news.clear()
            try:
                page = await in_thread(
                    read_merged, attempt_id, cursor=cursor, limit=PAGE_ITEMS, wanted=wanted, bytes_max=PAGE_BYTES
                )
            except (OperationalError, InterfaceError):  # The cursor stands: the reader only waits longer.
                quiet_seconds += await _wait(news)
                continue
            cursor = page.cursor
            if page.items or page.complete:
                quiet_seconds = 0.0
                yield page
            if page.complete:
                return
            if page.more:
                continue
            if idle_seconds is not None and quiet_seconds >= idle_seconds:
                quiet_seconds = 0.0
                yield page
            quiet_seconds += await _wait(news)


async def _wait(news: asyncio.Event) -> float:
    """Sleep until news or the next poll; gives the seconds that passed without any."""
    await asyncio.sleep(SPACING_SECONDS)
    try:
        async with asyncio.timeout(POLL_SECONDS - SPACING_SECONDS):
            await news.wait()
    except TimeoutError:
        return POLL_SECONDS
    return 0.0
