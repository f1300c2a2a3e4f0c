"""Long connections keep only what their credential still allows: it is looked at again every two seconds.

All open sockets and streams of a process are asked about in one batch. A revoked token or disabled user ends the connection, a
changed role changes what it hears. `recheck()` makes it sooner: code that revokes something calls it.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator, Callable

import structlog

from activity import hints, registry
from activity.feed import Viewer
from activity.threads import in_thread
from kernel.actor import ANONYMOUS, Actor

RECHECK_SECONDS = 2.0  # Revocation ends a connection within five seconds, also when every hint is lost.
RIGHTS = "rights"

log = structlog.get_logger("activity")


def recheck() -> None:
    """Look at all open connections again once the present transaction commits."""
    hints.wake(RIGHTS)


class Session:
    """One long connection. `changed` is set whenever its rights changed, `ended` once it has none."""

    def __init__(self, actor: Actor, on_end: Callable[[], None] | None = None) -> None:
        self.viewer = Viewer(actor)
        self._on_end = on_end
        self.changed = asyncio.Event()
        self.ended = False

    @property
    def actor(self) -> Actor:
        return self.viewer.actor

    def apply(self, actor: Actor | None) -> None:
        if actor is None:
            self.ended = True
            self.viewer.actor = ANONYMOUS  # From now on it hears nothing, however long closing takes.
            self.changed.set()
            if self._on_end is not None:
                self._on_end()
        elif actor != self.viewer.actor:
            self.viewer.actor = actor
            self.changed.set()


class Sessions:
    """All sessions of one event loop and the task that looks after them."""

    def __init__(self) -> None:
        self._open: set[Session] = set()
        self._bell = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def count_of(self, actor: Actor) -> int:
        return sum(session.actor.user_id == actor.user_id for session in self._open)

    @contextlib.asynccontextmanager
    async def opened(self, actor: Actor, on_end: Callable[[], None] | None = None) -> AsyncIterator[Session]:
        """A session that lasts as long as the block; `on_end` is called once its credential no longer counts."""
        session = Session(actor, on_end)
        self._open.add(session)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._recheck_forever(), name="activity.sessions")
        try:
            yield session
        finally:
            self._open.discard(session)
            if not self._open and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _recheck_forever(self) -> None:
        loop = asyncio.get_running_loop()

        def ring() -> None:
            with contextlib.suppress(RuntimeError):  # The loop closed meanwhile.
                loop.call_soon_threadsafe(self._bell.set)

        with hints.listen(RIGHTS, ring):
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RECHECK_SECONDS):
                        await self._bell.wait()
                self._bell.clear()
                try:
                    await self._recheck()
                except Exception:  # The outermost loop: whatever failed, listeners must not wait in silence for ever.
                    log.exception("recheck_failed")

    async def _recheck(self) -> None:
        sessions = tuple(session for session in self._open if not session.ended)
        actors = [session.actor for session in sessions]
        answers = await in_thread(registry.refreshed, actors)
        for session, actor in zip(sessions, answers, strict=True):
            session.apply(actor)


_sessions: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Sessions] = weakref.WeakKeyDictionary()


def sessions() -> Sessions:
    """The sessions of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _sessions.get(loop)
    if found is None:
        found = _sessions[loop] = Sessions()
    return found
