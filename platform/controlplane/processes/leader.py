"""Leadership of one named activity in this process, by a lease in the database."""

from __future__ import annotations

import os
import socket
import time
import uuid

import structlog

from kernel.clock import database_now
from kernel.config import current
from reconciling import leases

log = structlog.get_logger("leader")


class Leader:
    """Runs nothing itself: `holds` says whether this process leads, and renews the lease before it runs out."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.holder = f"{socket.gethostname()}:{os.getpid()}"
        self._token: uuid.UUID | None = None
        self._sure_until = 0.0

    def holds(self) -> bool:
        """Whether we lead now. A leader that was paused past its lease finds out here, before it does anything."""
        if self._token is not None and time.monotonic() < self._sure_until:
            return True
        seconds = current().lease_seconds
        asked_at = time.monotonic()
        now = database_now()
        if self._token is not None and not leases.renew(self.name, self._token, seconds=seconds, now=now):
            log.warning("leadership_lost", lease=self.name)
            self._token = None
        if self._token is None:
            self._token = leases.acquire(self.name, holder=self.holder, seconds=seconds, now=now)
            if self._token is not None:
                log.info("leadership_taken", lease=self.name, holder=self.holder)
        self._sure_until = asked_at + seconds / 3
        return self._token is not None

    def resign(self) -> None:
        """Let a standby take over at once."""
        if self._token is not None:
            leases.release(self.name, self._token)
            self._token = None
