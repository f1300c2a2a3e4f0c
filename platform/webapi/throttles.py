"""How often one token may call: a bucket of a minute's requests that refills evenly.

In the embedded profile the buckets live in this process; with Redis all web processes share a count. Losing either only
lets a caller start with a full bucket again: the throttle protects the others' latency, no guarantee rests on it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from kernel.config import current
from webapi.actors import actor_of

BUCKETS_MAX = 50_000  # The longest unused go first; a forgotten bucket is a full one.


class Buckets:
    """Token buckets by name, in memory. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, *, per_minute: int) -> float:
        """Take one request out of a bucket; 0 when there was one, else the seconds until there is."""
        rate = per_minute / 60
        with self._lock:
            now = self._clock()
            level, seen = self._levels.pop(name, (float(per_minute), now))
            level = min(float(per_minute), level + (now - seen) * rate)
            wait = 0.0 if level >= 1 else (1 - level) / rate
            self._levels[name] = (level if wait else level - 1, now)
            if len(self._levels) > BUCKETS_MAX:
                self._levels.popitem(last=False)
        return wait

    def clear(self) -> None:
        """Fill all buckets again."""
        with self._lock:
            self._levels.clear()


buckets = Buckets()


class PerToken(BaseThrottle):
    """`BERTH_REQUESTS_PER_MINUTE` per token, or per address for whoever sent none; 0 switches it off."""

    def __init__(self) -> None:
        self._wait_seconds = 0.0

    def allow_request(self, request: Request, view: Any) -> bool:
        per_minute = current().requests_per_minute
        if not per_minute:
            return True
        self._wait_seconds = buckets.take(caller(request), per_minute=per_minute)
        return self._wait_seconds == 0

    def wait(self) -> float | None:
        return self._wait_seconds + 1  # Rounded up: a client that waits exactly so long must succeed.


def caller(request: Request) -> str:
    """Whose bucket a request takes from: the token's, else the user's, else the network address's."""
    actor = actor_of(request)
    if actor.token_id is not None:
        return f"token:{actor.token_id}"
    if actor.user_id is not None:
        return f"user:{actor.user_id}"
    return f"address:{request.META.get('REMOTE_ADDR', '')}"
