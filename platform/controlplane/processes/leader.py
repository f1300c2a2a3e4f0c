"""Leadership of named activities in this process, by leases in the database.

A lease is short, so that a standby takes over soon after its holder died; a step of work may last longer than it. So a
thread of this process prolongs what is held while a step is at work, for as long as a step may last and no longer: a leader
that is stuck loses its leases as one that is dead does.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import uuid
import weakref
from collections.abc import Iterator

import structlog

from kernel.clock import database_now
from kernel.config import current
from reconciling import leases

log = structlog.get_logger("leader")

STEP_LEASES = 12  # A step that lasts longer than so many leases is stuck: two minutes of ten seconds each.

_leaders: weakref.WeakSet[Leader] = weakref.WeakSet()


class Leader:
    """Runs nothing itself: `holds` says whether this process leads, and renews the lease before it runs out."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.holder = f"{socket.gethostname()}:{os.getpid()}"
        self._token: uuid.UUID | None = None
        self._sure_until = 0.0
        self._working_since: float | None = None
        self._lock = threading.Lock()
        _leaders.add(self)

    @property
    def leads(self) -> bool:
        """Whether it led when it looked last."""
        return self._token is not None

    def holds(self) -> bool:
        """Whether we lead now. A leader that was paused past its lease finds out here, before it does anything."""
        with self._lock:
            if self._token is not None and time.monotonic() < self._sure_until:
                return True
            self._renew()
            if self._token is None:
                self._acquire()
            return self._token is not None

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Keep the lease while the block works, however long it takes within reason; the keeper of this process does it."""
        self._working_since = time.monotonic()
        try:
            yield
        finally:
            self._working_since = None

    def resign(self) -> None:
        """Let a standby take over at once."""
        with self._lock:
            if self._token is not None:
                leases.release(self.name, self._token)
                self._token = None

    def keep(self) -> None:
        """Prolong the lease of a step at work. Called from another thread than the step's."""
        since = self._working_since
        seconds = current().leadership_seconds
        if self._token is None or since is None or time.monotonic() - since > STEP_LEASES * seconds:
            return
        with self._lock:
            if self._token is not None and time.monotonic() >= self._sure_until:
                self._renew()

    def _renew(self) -> None:
        if self._token is None:
            return
        seconds = current().leadership_seconds
        asked_at = time.monotonic()
        if not leases.renew(self.name, self._token, seconds=seconds, now=database_now()):
            log.warning("leadership_lost", lease=self.name)
            self._token = None
        self._sure_until = asked_at + seconds / 3

    def _acquire(self) -> None:
        seconds = current().leadership_seconds
        asked_at = time.monotonic()
        self._token = leases.acquire(self.name, holder=self.holder, seconds=seconds, now=database_now())
        self._sure_until = asked_at + seconds / 3
        if self._token is not None:
            log.info("leadership_taken", lease=self.name, holder=self.holder)


def leading() -> list[str]:
    """What this process leads, by name."""
    return sorted(leader.name for leader in tuple(_leaders) if leader.leads)


def keep_leases(stop: threading.Event) -> float:
    """Prolong what this process leads and works on: one round of a loop."""
    for leader in tuple(_leaders):
        leader.keep()
    lease_seconds = current().lease_seconds
    if leases.has_in_hand():
        leases.keep_in_hand(seconds=lease_seconds, now=database_now())
    return min(current().leadership_seconds, lease_seconds) / 6
