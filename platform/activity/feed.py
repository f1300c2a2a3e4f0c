"""The live feed: numbered events, handed to all listeners in this process.

The database is the truth and `seq` the order. One reader per process and event loop follows the table, woken by hints and by
its own clock, and hands each event to the followers of its channels. A follower that starts at an older `seq` first reads the
table up to exactly where the reader stands, then joins it; both happen on one event loop without a pause between "nothing is
missing" and "joined", so no event is lost and none comes twice. A follower that does not keep up is cut off rather than allowed
to fill the memory: it comes back with the last `seq` it saw, and reads on from the table.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
import weakref
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import structlog
from django.db.models import Min, Q

from activity import hints
from activity.models import Event
from activity.registry import sees_tenant
from activity.sequencer import last_seq
from activity.threads import in_thread
from kernel.actor import Actor

POLL_SECONDS = 1.0  # How late an event can be when every hint is lost.
PAGE_ROWS = 500
BACKLOG_MAX = 1_000  # Events that wait for one slow follower: about half a megabyte.

log = structlog.get_logger("activity")


@dataclass(frozen=True, slots=True)
class FeedChannel:
    """What a follower listens to: one `tenant`, one `job`, or for a `user` everything that the user may see."""

    kind: str
    id: uuid.UUID


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """A numbered event, with its form for clients made once for all followers."""

    seq: int
    tenant_id: uuid.UUID | None
    job_id: uuid.UUID | None
    body: dict[str, Any]


class Overrun(Exception):
    """The follower is too slow; it must come back with the last `seq` that it saw."""


class Viewer:
    """Who listens. Its actor is replaced when its rights change, and what it no longer sees stops coming at once."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor

    def sees(self, tenant_id: uuid.UUID | None) -> bool:
        return sees_tenant(self.actor, tenant_id)

    def condition(self) -> Q:
        """The same as a condition of a query."""
        return Q() if self.actor.is_operator else Q(tenant_id__in=frozenset(self.actor.roles))


class Follower:
    """One listener's place in the feed."""

    def __init__(self, channel: FeedChannel, viewer: Viewer, *, floor: int) -> None:
        self.channel = channel
        self.viewer = viewer
        self._floor = floor
        self._waiting: asyncio.Queue[FeedEvent] = asyncio.Queue(BACKLOG_MAX)
        self._overrun = False

    def offer(self, event: FeedEvent) -> None:
        if event.seq <= self._floor or self._overrun or not self.viewer.sees(event.tenant_id):
            return
        try:
            self._waiting.put_nowait(event)
        except asyncio.QueueFull:
            self._overrun = True

    async def next(self) -> FeedEvent:
        """The next event. What was received before an overrun is still given."""
        if self._overrun and self._waiting.empty():
            raise Overrun
        return await self._waiting.get()


class Feed:
    """The reader of one event loop and its followers."""

    def __init__(self) -> None:
        self.position = 0
        self._followers: dict[tuple[str, uuid.UUID | None], set[Follower]] = {}
        self._bell = asyncio.Event()
        self._starting = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None
        self._users = 0

    async def follow(self, channel: FeedChannel, *, after: int, viewer: Viewer) -> AsyncGenerator[FeedEvent]:
        """All events of a channel after `after`, as `starting_point` gave it: old ones first, then live ones without end."""
        self._users += 1
        follower: Follower | None = None
        try:
            await self._start()
            cursor = after
            while cursor < self.position:  # No pause between this check and joining below.
                until = self.position
                page = await _read(channel, viewer, after=cursor, until=until)
                for event in page:
                    yield event
                cursor = page[-1].seq if len(page) == PAGE_ROWS else until
            follower = Follower(channel, viewer, floor=cursor)
            self._followers.setdefault(_place(channel), set()).add(follower)
            while True:
                yield await follower.next()
        finally:
            if follower is not None:
                self._leave(follower)
            self._users -= 1
            if self._users == 0 and self._reader is not None:
                self._reader.cancel()
                self._reader = None

    def _leave(self, follower: Follower) -> None:
        place = _place(follower.channel)
        self._followers[place].discard(follower)
        if not self._followers[place]:
            del self._followers[place]

    async def _start(self) -> None:
        async with self._starting:
            if self._reader is None or self._reader.done():
                self.position = await in_thread(last_seq)
                self._reader = asyncio.create_task(self._read_forever(), name="activity.feed")

    async def _read_forever(self) -> None:
        loop = asyncio.get_running_loop()
        with hints.listen(hints.SEQUENCED, lambda: _ring(loop, self._bell)):
            while True:
                self._bell.clear()
                try:
                    await self._catch_up()
                except Exception:  # The outermost loop: whatever failed, listeners must not wait in silence for ever.
                    log.exception("feed_read_failed")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._bell.wait()

    async def _catch_up(self) -> None:
        while True:
            page = await _read(None, None, after=self.position, until=None)
            for event in page:
                self._hand_out(event)
            if len(page) < PAGE_ROWS:
                return

    def _hand_out(self, event: FeedEvent) -> None:
        self.position = event.seq
        for kind, identity in (("tenant", event.tenant_id), ("job", event.job_id), ("user", None)):
            for follower in self._followers.get((kind, identity), ()):
                follower.offer(event)


_feeds: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Feed] = weakref.WeakKeyDictionary()


def feed() -> Feed:
    """The feed of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _feeds.get(loop)
    if found is None:
        found = _feeds[loop] = Feed()
    return found


def starting_point(after: int | None) -> int:
    """Where a new follower begins. None, and a `seq` from the future (an older backup was restored): now.

    Read before the follower is told that it listens: what happens after that, it hears.
    """
    present = last_seq()
    return present if after is None else min(after, present)


def oldest_seq() -> int | None:
    """The first event that retention has left; None when there is none."""
    oldest: int | None = Event.objects.aggregate(oldest=Min("seq"))["oldest"]
    return oldest


def event_body(event: Event) -> dict[str, Any]:
    """An event as clients see it, everywhere the same."""
    return {
        "seq": event.seq,
        "kind": event.kind,
        "tenant_id": str(event.tenant_id) if event.tenant_id else None,
        "subject": {"kind": event.subject_kind, "id": str(event.subject_id)},
        "job_id": str(event.job_id) if event.job_id else None,
        "data": event.data,
        "at": event.at.isoformat().replace("+00:00", "Z"),
    }


def _place(channel: FeedChannel) -> tuple[str, uuid.UUID | None]:
    """Where followers of a channel stand. All `user` channels stand together: what each sees is its viewer's business."""
    return (channel.kind, None if channel.kind == "user" else channel.id)


async def _read(channel: FeedChannel | None, viewer: Viewer | None, *, after: int, until: int | None) -> list[FeedEvent]:
    """One page of what a viewer sees of a channel, or of everything for the reader itself, in order."""
    condition = Q(seq__gt=after)
    if until is not None:
        condition &= Q(seq__lte=until)
    if channel is not None and channel.kind != "user":
        condition &= Q(**{f"{channel.kind}_id": channel.id})
    if viewer is not None:
        condition &= viewer.condition()
    return await in_thread(_read_page, condition)


def _read_page(condition: Q) -> list[FeedEvent]:
    rows = Event.objects.filter(condition).order_by("seq")[:PAGE_ROWS]
    return [FeedEvent(row.seq or 0, row.tenant_id, row.job_id, event_body(row)) for row in rows]


def _ring(loop: asyncio.AbstractEventLoop, bell: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # The loop closed between the hint and its arrival.
        loop.call_soon_threadsafe(bell.set)
