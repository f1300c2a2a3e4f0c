"""How often one token may call: a bucket of a minute's requests that refills evenly.

In the embedded profile the buckets live in this process; with Redis all web processes share a count per minute. Losing
either only lets a caller start afresh: the throttle protects the others' latency, no guarantee rests on it. Whoever sends
credentials that are not valid is counted by network address, so that guessing is bounded too.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import structlog
from redis import Redis
from redis.exceptions import RedisError
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from kernel.config import current
from kernel.errors import TooManyRequests
from webapi.actors import actor_of

BUCKETS_MAX = 50_000  # The longest unused go first; a forgotten bucket is a full one.
REDIS_SECONDS = 0.25  # A slow Redis must not slow every request; the local count takes over.
WINDOW_SECONDS = 60

log = structlog.get_logger("webapi")


class Buckets:
    """Token buckets by name, in memory. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, *, per_minute: int) -> float:
        """Take one request out of a bucket; 0 when there was one, else the seconds until there is."""
        rate = per_minute / WINDOW_SECONDS
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


class SharedCounts:
    """Requests of the sliding minute, counted in Redis for all web processes. Plain commands, no script on the server."""

    def __init__(self, redis: Redis, clock: Callable[[], float] = time.time) -> None:
        self._redis = redis
        self._clock = clock

    def take(self, name: str, *, per_minute: int) -> float:
        """Count one request; 0 when it is within the limit, else the seconds until one is. Raises RedisError."""
        now = self._clock()
        window, passed = divmod(now, WINDOW_SECONDS)
        this, last = f"berth:rate:{name}:{int(window)}", f"berth:rate:{name}:{int(window) - 1}"
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.incr(this)
            pipe.expire(this, 2 * WINDOW_SECONDS)
            pipe.get(last)
            count, _, before = pipe.execute()
        used = int(count) + int(before or 0) * (1 - passed / WINDOW_SECONDS)
        if used <= per_minute:
            return 0.0
        return min(float(WINDOW_SECONDS), (used - per_minute) * WINDOW_SECONDS / per_minute)


buckets = Buckets()


@functools.cache
def _shared(redis_url: str) -> SharedCounts:
    return SharedCounts(Redis.from_url(redis_url, socket_timeout=REDIS_SECONDS, socket_connect_timeout=REDIS_SECONDS))


def take(name: str) -> float:
    """Count a request of a caller against `BERTH_REQUESTS_PER_MINUTE`; the seconds to wait, 0 when it may pass."""
    config = current()
    if not config.requests_per_minute:
        return 0.0
    if config.redis_url:
        try:
            return _shared(config.redis_url).take(name, per_minute=config.requests_per_minute)
        except RedisError as error:
            log.warning("shared_throttle_unavailable", error=type(error).__name__)
    return buckets.take(name, per_minute=config.requests_per_minute)


def charge_stranger(request: Request) -> None:
    """Count a request without valid credentials by its address; TooManyRequests when there were too many."""
    wait = take(address_of(request))
    if wait:
        raise TooManyRequests(
            "Too many requests without a valid token came from this address.",
            hint="Wait as long as Retry-After says, and sign in with `berth login`.",
            retry_after_seconds=int(wait) + 1,
        )


class PerToken(BaseThrottle):
    """`BERTH_REQUESTS_PER_MINUTE` per token, or per address for whoever sent none; 0 switches it off."""

    def __init__(self) -> None:
        self._wait_seconds = 0.0

    def allow_request(self, request: Request, view: Any) -> bool:
        self._wait_seconds = take(caller(request))
        return self._wait_seconds == 0

    def wait(self) -> float | None:
        return self._wait_seconds + 1  # Rounded up: a client that waits exactly so long must succeed.


def caller(request: Request) -> str:
    """Whose requests are counted together: the token's, else the user's, else the network address's."""
    actor = actor_of(request)
    if actor.token_id is not None:
        return f"token:{actor.token_id}"
    if actor.user_id is not None:
        return f"user:{actor.user_id}"
    return address_of(request)


def address_of(request: Request) -> str:
    """The network address that a request came from, as the server saw it: headers that anybody can write count nothing."""
    return f"address:{request.META.get('REMOTE_ADDR', '')}"
