"""The broker may be away: messages are hints, so what they would have started is done without them, and nothing waits for it.

`answers` says in a moment whether sending makes sense now; else the sender does the work itself. A worker that lost
its connection tries again every two seconds for as long as it takes (`upstream.kombu`).
"""

from __future__ import annotations

import threading
import time

import redis

ANSWER_SECONDS = 0.5  # A broker that is slower than this is no help.
AWAY_SECONDS = 1.0  # It is not asked more often than this while it is away.
SOCKET_SECONDS = 5.0  # A frozen broker holds up no process for longer than this.


class Broker:
    """Whether the broker answers, asked at most once a second while it does not."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client: redis.Redis | None = None
        self._away_until = 0.0
        self._lock = threading.Lock()

    def answers(self) -> bool:
        """Ask it; True at once for the broker in memory."""
        if not self.url:
            return True
        with self._lock:
            if time.monotonic() < self._away_until:
                return False
            try:
                if self._client is None:
                    self._client = redis.Redis.from_url(
                        self.url, socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS, retry=None
                    )
                self._client.ping()
            except redis.RedisError:
                self.is_away()
                return False
            return True

    def is_away(self) -> None:
        """Take note that it did not do what it was asked."""
        self._away_until = time.monotonic() + AWAY_SECONDS
