"""The live feed as server-sent events: what a WebSocket subscription gives, for clients that speak only HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

from activity.feed import FeedChannel, Overrun, feed, oldest_seq, starting_point
from activity.sessions import sessions
from kernel.actor import Actor
from webapi.sse import Event

HEARTBEAT_SECONDS = 3.0  # A quiet stream of a revoked token ends at its next heartbeat, so within five seconds.


class LiveStream:
    """One client's stream; `is_allowed` answers whether its credential still counts. Made before the answer begins."""

    def __init__(self, actor: Actor, channel: FeedChannel, *, after: int | None) -> None:
        self._actor = actor
        self._channel = channel
        self._start = starting_point(after)
        self._oldest = oldest_seq() if after is not None else None
        self._has_ended = False

    async def is_allowed(self) -> bool:
        return not self._has_ended

    async def events(self) -> AsyncGenerator[Event]:
        """Events with their `seq` as id. Ends when the client is too slow or no longer allowed; it comes back by its last id."""
        async with sessions().opened(self._actor, on_end=self._end) as session:
            if self._oldest is not None and self._start + 1 < self._oldest:
                yield Event({"oldest": self._oldest}, event="gap")
            source = feed().follow(self._channel, after=self._start, viewer=session.viewer)
            async with contextlib.aclosing(source):
                with contextlib.suppress(Overrun):
                    async for event in source:
                        if self._has_ended:
                            return
                        yield Event(event.body, id=str(event.seq), event="event")

    def _end(self) -> None:
        self._has_ended = True
