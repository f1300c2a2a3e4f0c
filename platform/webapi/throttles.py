"""How often one token may call, and how often all of a tenant together: buckets of a minute's requests that refill evenly.

In the embedded profile the buckets live in this process; with Redis all web processes share a count per window. Losing
either only lets a caller start afresh, and without its Redis each process counts for itself, so that a caller gets at most the
limit times the number of processes: the throttle protects the others' latency, no guarantee rests on it. A caller that sends
invalid credentials is counted by network address, so that guessing is bounded too.

A request counts for one tenant: the oldest in which its user has a role, which for inherited roles is the topmost. That is known
without a query, and no caller can choose another. Operators count for none: they must get in while a tenant floods the server.
A caller that was refused is refused again until then by this process, before its token is looked up: a flood costs no query.
"""

from __future__ import annotations

import functools
import hashlib
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from redis import Redis
from redis.exceptions import RedisError
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from kernel.actor import Actor
from kernel.config import current
from kernel.errors import TooManyRequests
from kernel.words import NO_HINT, Text
from webapi.actors import actor_of
from webapi.addresses import client_address, network_of
from webapi.asgi_auth import session_text

BUCKETS_MAX = 50_000  # The longest unused go first; a forgotten bucket is a full one.
REDIS_SECONDS = 0.25  # A slow Redis must not slow every request; the local count takes over.
REDIS_PAUSE_SECONDS = 5.0  # After a failure no request waits for Redis again so soon.
WINDOW_SECONDS = 60

log = structlog.get_logger("webapi")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Charge:
    """One count that a request goes to, how many it allows, and within how many seconds. A name has one window only."""

    name: str
    limit: int
    seconds: int = WINDOW_SECONDS


class Buckets:
    """Token buckets by name, in memory. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, charge: Charge) -> float:
        """Take one request out of a bucket; 0 when there was one, else the seconds until there is."""
        with self._lock:
            level = self._level(charge)
            wait = 0.0 if level >= 1 else (1 - level) * charge.seconds / charge.limit
            self._keep(charge, level if wait else level - 1)
        return wait

    def give_back(self, charge: Charge) -> None:
        """Undo one `take` that was let through."""
        with self._lock:
            self._keep(charge, min(float(charge.limit), self._level(charge) + 1))

    def _level(self, charge: Charge) -> float:
        level, seen = self._levels.pop(charge.name, (float(charge.limit), self._clock()))
        return min(float(charge.limit), level + (self._clock() - seen) * charge.limit / charge.seconds)

    def _keep(self, charge: Charge, level: float) -> None:
        self._levels[charge.name] = (level, self._clock())
        if len(self._levels) > BUCKETS_MAX:
            self._levels.popitem(last=False)

    def clear(self) -> None:
        """Fill all buckets again."""
        with self._lock:
            self._levels.clear()


class SharedCounts:
    """Requests of a sliding window, counted in Redis for all web processes. Plain commands, no script on the server."""

    def __init__(self, redis: Redis, clock: Callable[[], float] = time.time) -> None:
        self._redis = redis
        self._clock = clock

    def take_all(self, charges: Sequence[Charge]) -> list[float]:
        """Count one request for several names in one round trip; the seconds to wait for each. Raises RedisError."""
        now = self._clock()
        with self._redis.pipeline(transaction=False) as pipe:
            for charge in charges:
                key = _key(charge, now)
                pipe.incr(key)
                pipe.expire(key, 2 * charge.seconds)
                pipe.get(_key(charge, now - charge.seconds))
            answers = pipe.execute()
        waits = []
        for place, charge in enumerate(charges):
            count, _, before = answers[3 * place : 3 * place + 3]
            used = int(count) + int(before or 0) * (1 - now % charge.seconds / charge.seconds)
            over = (used - charge.limit) * charge.seconds / charge.limit
            waits.append(min(float(charge.seconds), over) if used > charge.limit else 0.0)
        return waits

    def give_back(self, charges: Sequence[Charge]) -> list[Any]:
        """Undo one `take_all`; returns what Redis says. Raises RedisError."""
        now = self._clock()
        with self._redis.pipeline(transaction=False) as pipe:
            for charge in charges:
                pipe.decr(_key(charge, now))
                pipe.expire(_key(charge, now), 2 * charge.seconds)  # A window that has just begun had no key.
            return pipe.execute()


class Refusals:
    """Credentials that were refused a moment ago, by digest, each with the time until which they are. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until: OrderedDict[bytes, tuple[float, Text[str]]] = OrderedDict()

    def note(self, credential: str, *, seconds: float, words: Text[str]) -> None:
        with self._lock:
            self._until[_digest(credential)] = (self._clock() + seconds, words)
            if len(self._until) > BUCKETS_MAX:
                self._until.popitem(last=False)

    def of(self, credential: str) -> tuple[float, Text[str]]:
        """The seconds for which it is still refused, and why; 0 when it is not."""
        if not self._until:
            return 0.0, NO_HINT
        key = _digest(credential)
        with self._lock:
            until, words = self._until.get(key, (0.0, NO_HINT))
            wait = until - self._clock()
            if words is not NO_HINT and wait <= 0:
                del self._until[key]
        return max(0.0, wait) if words is not NO_HINT else 0.0, words

    def clear(self) -> None:
        with self._lock:
            self._until.clear()


buckets = Buckets()
refusals = Refusals()
_redis_rests_until = 0.0
_home: OrderedDict[uuid.UUID, uuid.UUID] = OrderedDict()


@functools.cache
def _shared(redis_url: str) -> SharedCounts:
    return SharedCounts(Redis.from_url(redis_url, socket_timeout=REDIS_SECONDS, socket_connect_timeout=REDIS_SECONDS))


def forget() -> None:
    """Start afresh, as a new process does."""
    global _redis_rests_until
    _redis_rests_until = 0.0
    buckets.clear()
    refusals.clear()
    _home.clear()


def take_all(charges: Sequence[Charge]) -> list[float]:
    """Count a request for each of the names; the seconds to wait for each, 0 where it may pass."""
    found = _in_redis(lambda shared: shared.take_all(charges))
    return [buckets.take(charge) for charge in charges] if found is None else found


def give_back(charges: Sequence[Charge]) -> None:
    """Undo one `take_all` that was let through."""
    if _in_redis(lambda shared: shared.give_back(charges)) is None:
        for charge in charges:
            buckets.give_back(charge)


def _in_redis(work: Callable[[SharedCounts], Answer]) -> Answer | None:
    """What the shared counts answer; None where there are none, or none that answer now."""
    global _redis_rests_until
    redis_url = current().redis_url
    if not redis_url or time.monotonic() < _redis_rests_until:
        return None
    try:
        return work(_shared(redis_url))
    except RedisError as error:
        _redis_rests_until = time.monotonic() + REDIS_PAUSE_SECONDS
        log.warning("shared_throttle_unavailable", error=type(error).__name__)
        return None


def _key(charge: Charge, at: float) -> str:
    return f"berth:rate:{charge.name}:{int(at // charge.seconds)}"


def charge_stranger(request: Request) -> None:
    """Count a request without valid credentials by its address; TooManyRequests when there were too many."""
    config = current()
    if not config.requests_per_minute:
        return
    [wait] = take_all([Charge(address_of(request), config.requests_per_minute)])
    if wait:
        raise TooManyRequests(
            Text("Too many requests without a valid token came from this address.", "来自此地址的无有效令牌的请求过多。"),
            hint=Text(
                "Wait as long as Retry-After says, and sign in with `berth login`.",
                "请等待 Retry-After 所示的时间，并用 `berth login` 登录。",
            ),
            retry_after_seconds=int(wait) + 1,
        )


def refuse_again(request: Request) -> None:
    """Refuse a caller that was refused a moment ago, without asking who it is."""
    wait, words = refusals.of(_credential_of(request))
    if wait:
        raise _too_many(words, wait)


class PerCaller(BaseThrottle):
    """`BERTH_REQUESTS_PER_MINUTE` per token, or per address for callers without one, and `BERTH_TENANT_REQUESTS_PER_MINUTE` for
    all of a tenant together."""

    def allow_request(self, request: Request, view: Any) -> bool:
        charges = charges_of(request)
        waits = take_all(charges) if charges else []
        if any(waits):
            is_tenant = not waits[0]
            words = (
                Text("The tenant's members", "该租户的成员")
                if is_tenant
                else Text("This token", "此令牌")
                if "address:" not in charges[0].name
                else Text("This address", "此地址")
            )
            self._refuse(request, words, max(waits))
        return True

    def _refuse(self, request: Request, words: Text[str], wait: float) -> None:
        credential = _credential_of(request)
        if credential:
            refusals.note(credential, seconds=wait, words=words)
        raise _too_many(words, wait)


def charges_of(request: Request) -> list[Charge]:
    """What a request counts against, its token first."""
    config = current()
    if not config.requests_per_minute:
        return []
    charges = [Charge(caller(request), config.requests_per_minute)]
    tenant = home_tenant(actor_of(request)) if config.tenant_requests_per_minute else None
    if tenant is not None:
        charges.append(Charge(f"tenant:{tenant}", config.tenant_requests_per_minute))
    return charges


def home_tenant(actor: Actor) -> uuid.UUID | None:
    """The tenant for which an actor's requests count: the oldest in which it has a role. Ids begin with their time."""
    if actor.is_operator or not actor.roles or actor.user_id is None:
        return None
    known = _home.get(actor.user_id)
    if known is None or known not in actor.roles:
        known = _home[actor.user_id] = min(actor.roles)
        if len(_home) > BUCKETS_MAX:
            _home.popitem(last=False)
    return known


def caller(request: Request) -> str:
    """Whose requests are counted together: the token's, else the user's, else the network address's."""
    actor = actor_of(request)
    if actor.token_id is not None:
        return f"token:{actor.token_id}"
    if actor.user_id is not None:
        return f"user:{actor.user_id}"
    return address_of(request)


def address_of(request: Request) -> str:
    """The network that a request came from."""
    return f"address:{network_of(client_address(request.META))}"


def _credential_of(request: Request) -> str:
    """What a request says it may by: its header, else its session; empty without either."""
    return request.META.get("HTTP_AUTHORIZATION") or session_text(request.META.get("HTTP_COOKIE")) or ""


def _too_many(words: Text[str], wait: float) -> TooManyRequests:
    return TooManyRequests(
        Text(f"{words.en} sent more requests than allowed.", f"{words.zh}发送的请求超过允许的数量。"),
        hint=Text(
            "Wait as long as Retry-After says; ask for pages and batches instead of single objects.",
            "请等待 Retry-After 所示的时间；请使用分页与批量，而非逐个请求。",
        ),
        retry_after_seconds=int(wait) + 1,  # Rounded up: a client that waits exactly so long must succeed.
    )


def _digest(credential: str) -> bytes:
    return hashlib.blake2b(credential.encode("utf-8", "replace"), digest_size=16).digest()
