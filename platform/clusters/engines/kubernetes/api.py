"""The one door to the API server: rate, timeouts, and one meaning for every way in which it can refuse.

Everything is raw JSON: the typed models of the client take 2.0 s for a list of 1,000 pods, `json.loads` 0.3 s. A call waits for
the token bucket, then has a connect and a read timeout. What may help later is tried again here a few times (429 with its
Retry-After, 500, 503, 504, a lost connection); after that it is EngineUnreachable, which decides nothing. All writes are
idempotent by name, UID or resourceVersion, so a try after a lost reply is safe: it meets `AlreadyExists`, `Conflict` or
`NotFound`.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlencode

from clusters.engines.interface import EngineUnreachable

Json = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_TRIES = 4
_RETRY_STATUS = frozenset({429, 500, 502, 503, 504})
_PAUSE_SECONDS_MAX = 5.0
_TEXT_LENGTH = 600


class ApiRefused(Exception):
    """The API server answered, and the answer is no. `reason` is its own word for why."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}"[:_TEXT_LENGTH])
        self.status, self.reason, self.message = status, reason, message[:_TEXT_LENGTH]


class NotFound(ApiRefused):
    """404."""


class AlreadyExists(ApiRefused):
    """409 to a create."""


class Conflict(ApiRefused):
    """409 to a change: a resourceVersion or UID that is not the object's any more."""


class Expired(ApiRefused):
    """410: the resourceVersion of a list or watch is too old. Only a new list helps."""


class Forbidden(ApiRefused):
    """401 or 403: the account lacks a permission, or an admission rule refuses the object."""


class Response(Protocol):
    """What a transport gives. `chunks` reads the body as it comes."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def body(self) -> bytes: ...

    def chunks(self) -> Iterator[bytes]: ...

    def close(self) -> None: ...


class Transport(Protocol):
    """One HTTP request. Raises OSError where no answer came."""

    def __call__(
        self, method: str, path: str, body: Any, headers: Mapping[str, str], *, connect_seconds: float, read_seconds: float
    ) -> Response: ...


@dataclass
class TokenBucket:
    """At most `rate` calls a second, and `burst` at once. Threads share it."""

    rate: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _level: float = field(init=False)
    _at: float = field(init=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._level, self._at = self.burst, self.clock()

    def take(self) -> None:
        """Wait for a token. Those who wait have taken theirs already, so that they keep their order."""
        with self._lock:
            now = self.clock()
            self._level = min(self.burst, self._level + (now - self._at) * self.rate) - 1.0
            self._at = now
            wait = -self._level / self.rate
        if wait > 0:
            self.sleep(wait)


class Api:
    """Calls to one API server. Threads may share it."""

    def __init__(
        self,
        transport: Transport,
        *,
        rate: float = 50.0,
        burst: float = 100.0,
        connect_seconds: float = 5.0,
        read_seconds: float = 30.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._transport = transport
        self._bucket = TokenBucket(rate, burst, sleep=sleep)
        self._connect_seconds, self._read_seconds = connect_seconds, read_seconds
        self._sleep = sleep
        self.calls = 0  # For benches: requests per job.

    def get(self, path: str, **query: object) -> Json:
        return self._json("GET", path, query)

    def text(self, path: str, **query: object) -> bytes:
        """The body as it is: logs."""
        return self._send("GET", path, query)

    def once(self, path: str, *, seconds: float, bytes_max: int) -> bytes:
        """A body for which nobody waits: one try, and EngineUnreachable where it is not whole after `seconds` or is too large.
        Raises ApiRefused."""
        deadline = time.monotonic() + seconds
        try:
            response = self._once("GET", path, {}, None, "", seconds)
            try:
                data = b""
                for chunk in response.chunks():
                    data += chunk
                    if len(data) > bytes_max or time.monotonic() > deadline:
                        raise EngineUnreachable(f"The answer to GET {path} is too large, or too slow.")
            finally:
                response.close()
        except OSError as error:
            raise EngineUnreachable(f"GET {path}: {error}"[:_TEXT_LENGTH]) from error
        if response.status >= 400:
            raise refusal("GET", response.status, data)
        return data

    def create(self, path: str, document: Json) -> Json:
        """Raises AlreadyExists."""
        return self._json("POST", path, {}, document)

    def replace(self, path: str, document: Json) -> Json:
        """Raises Conflict where the document's resourceVersion is not the last one."""
        return self._json("PUT", path, {}, document)

    def patch(self, path: str, document: object, kind: str = MERGE_PATCH, **query: object) -> Json:
        return self._json("PATCH", path, query, document, kind)

    def apply(self, path: str, document: Json) -> Json:
        """Server-side apply with our field manager; repairs what other field managers changed of it."""
        return self._json("PATCH", path, {"fieldManager": "berth", "force": "true"}, document, APPLY_PATCH)

    def delete(self, path: str, options: Json | None = None, **query: object) -> Json:
        return self._json("DELETE", path, query, {"kind": "DeleteOptions", "apiVersion": "v1", **(options or {})})

    def lines(self, path: str, *, silence_seconds: float, **query: object) -> Iterator[bytes]:
        """Lines of an answer that goes on: a watch. Ends where the server ends it; silence is EngineUnreachable."""
        try:
            response = self._once("GET", path, query, None, "", silence_seconds)
        except OSError as error:
            raise EngineUnreachable(f"The watch did not begin: {error}"[:_TEXT_LENGTH]) from error
        try:
            if response.status >= 400:
                raise refusal("GET", response.status, response.body())
            rest = b""
            for chunk in response.chunks():
                *whole, rest = (rest + chunk).split(b"\n")
                yield from (line for line in whole if line.strip())
        except OSError as error:
            raise EngineUnreachable(f"The watch broke: {error}"[:_TEXT_LENGTH]) from error
        finally:
            response.close()

    def _json(self, method: str, path: str, query: Mapping[str, object], body: object = None, kind: str = "") -> Json:
        data = self._send(method, path, query, body, kind)
        try:
            document = json.loads(data)
        except ValueError as error:
            raise EngineUnreachable(f"The answer to {method} {path} is no JSON.") from error
        if not isinstance(document, dict):
            raise EngineUnreachable(f"The answer to {method} {path} is no object.")
        return document

    def _send(self, method: str, path: str, query: Mapping[str, object], body: object = None, kind: str = "") -> bytes:
        problem = ""
        for number in range(_TRIES):
            pause = random.uniform(0.5, 1.5) * 0.2 * 2**number  # noqa: S311 - jitter
            try:
                response = self._once(method, path, query, body, kind, self._read_seconds)
                try:
                    status, data, headers = response.status, response.body(), response.headers
                finally:
                    response.close()
            except OSError as error:
                problem = f"{type(error).__name__}: {error}"
                if number >= 1:  # A dead server costs two timeouts, not four.
                    break
            else:
                if status < 400:
                    return data
                if status not in _RETRY_STATUS:
                    raise refusal(method, status, data)
                problem = str(refusal(method, status, data))
                pause = max(pause, _retry_after(headers))
            self._sleep(min(pause, _PAUSE_SECONDS_MAX))
        raise EngineUnreachable(f"{method} {path}: {problem}"[:_TEXT_LENGTH])

    def _once(
        self, method: str, path: str, query: Mapping[str, object], body: object, kind: str, read_seconds: float
    ) -> Response:
        self._bucket.take()
        self.calls += 1
        words = {name: _word(value) for name, value in query.items() if value is not None}
        target = f"{path}?{urlencode(words)}" if words else path
        headers = {"Accept": "application/json, */*"}
        if body is not None:
            headers["Content-Type"] = kind or "application/json"
        return self._transport(method, target, body, headers, connect_seconds=self._connect_seconds, read_seconds=read_seconds)


def refusal(method: str, status: int, data: bytes) -> ApiRefused:
    """The typed refusal of an answer; what it says is a Status object, or text of something between us and the server."""
    try:
        document = json.loads(data)
    except ValueError:
        document = {}
    reason, message = "", data.decode(errors="replace").strip()
    if isinstance(document, dict):
        reason, message = str(document.get("reason", "")), str(document.get("message", message))
    if status == 404:
        return NotFound(status, reason, message)
    if status == 409:
        kind = AlreadyExists if reason == "AlreadyExists" or (method == "POST" and not reason) else Conflict
        return kind(status, reason, message)
    if status == 410:
        return Expired(status, reason, message)
    if status in (401, 403):
        return Forbidden(status, reason, message)
    return ApiRefused(status, reason, message)


def items(answer: Json) -> Sequence[Json]:
    """The objects of a list."""
    found = answer.get("items") or []
    return [item for item in found if isinstance(item, dict)]


def version_of(document: Json) -> int:
    """The resourceVersion as a number: comparable since Kubernetes 1.35, and in practice before; 0 where there is none."""
    text = str((document.get("metadata") or {}).get("resourceVersion", ""))
    return int(text) if text.isdigit() else 0


def _retry_after(headers: Mapping[str, str]) -> float:
    text = next((value for name, value in headers.items() if name.lower() == "retry-after"), "")
    return float(text) if text.isdigit() else 0.0


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
