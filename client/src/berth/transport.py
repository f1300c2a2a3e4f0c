"""One place that talks HTTP: headers, bounds, retries and the reading of refusals, for both clients.

A request is sent again when nothing can have happened (no connection), when the server says "later" (429, 503), or when
its repetition changes nothing: reads, writes of a whole value, and posts, which carry an Idempotency-Key of their own.
Redirects are never followed, so that a token goes only where the user sent it."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

from berth import __version__, limits
from berth.config import Settings
from berth.errors import AnswerInvalid, ApiError, BerthError, ConfigurationInvalid, InvalidInput, ServerUnreachable, from_problem

API_PREFIX = "/api/v1"
_LATER = frozenset({429, 502, 503, 504})
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)

Json = Any  # Values as JSON gives them; the TypedDicts of `berth.types` name their shapes.


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `repeatable` False: sent again only if it cannot have arrived. `patient`: a user waits for a job, so a
    server that is away for minutes is waited for."""

    method: str
    path: str
    params: Mapping[str, object] = field(default_factory=dict)
    json: object = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    at_root: bool = False  # True: the path is not under /api/v1.
    patient: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """An accepted answer, read completely."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Json:
        """The body as an object, None where there is none; anything else means that this is no Berth server."""
        if not self.body:
            return None
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError):
            raise _not_berths("is not JSON") from None
        if not isinstance(value, dict):
            raise _not_berths("is JSON, but not an object")
        return value


def post(
    path: str, body: object = None, *, params: Mapping[str, object] | None = None, idempotency_key: str | None = None
) -> Call:
    """A POST that may be repeated, because the server answers a known key with the first answer."""
    key = idempotency_key or uuid.uuid4().hex
    if not key.isascii() or not key.isprintable():
        raise InvalidInput(f"The idempotency key {key!r} is not plain ASCII.", hint="Write it with letters, digits and dashes.")
    return Call("POST", path, params or {}, json=body, headers={"Idempotency-Key": key})


class _Shared:
    """What both transports do alike: everything but the waiting."""

    def __init__(self, settings: Settings, *, language: str = "", tries: int = limits.TRIES) -> None:
        if not settings.server:
            raise ConfigurationInvalid(
                "No server is set.", hint="Run: berth login --server https://berth.example.org (or set BERTH_SERVER)"
            )
        self.settings = settings
        self.tries = max(1, tries)
        self.headers = {"User-Agent": f"berth-client/{__version__}", "Accept": "application/json, application/problem+json"}
        if settings.token:
            _refuse_odd_token(settings.token)
            self.headers["Authorization"] = f"Bearer {settings.token}"
        if language:
            self.headers["Accept-Language"] = language
        self.timeout = httpx2.Timeout(limits.TIMEOUT_SECONDS, connect=limits.CONNECT_SECONDS)
        self.stream_timeout = httpx2.Timeout(limits.STREAM_IDLE_SECONDS, connect=limits.CONNECT_SECONDS)

    def arguments(self, call: Call, *, streamed: bool = False) -> dict[str, Any]:
        """Keyword arguments of httpx2's `build_request`."""
        base = self.settings.server if call.at_root else self.settings.server + API_PREFIX
        arguments: dict[str, Any] = {
            "method": call.method,
            "url": base + call.path,
            "params": _query(call.params),
            "headers": {**self.headers, **call.headers},
            "timeout": self.stream_timeout if streamed else self.timeout,
        }
        if call.content is not None:
            arguments["content"] = call.content
        elif call.json is not None:
            arguments["json"] = call.json
        return arguments

    def pause_after_failure(self, call: Call, error: httpx2.TransportError, tried: int) -> float:
        """Seconds to wait before the next try, or the error for the user."""
        if tried < self._tries_of(call) and (isinstance(error, _NEVER_SENT) or call.repeatable):
            return backoff_seconds(tried)
        raise self.unreachable(error) from error

    def pause_after_refusal(self, call: Call, error: ApiError, tried: int) -> float:
        """Seconds to wait after a refusal that may pass, or the refusal itself."""
        later = error.status in (429, 503) or (error.status in _LATER and call.repeatable)
        wanted = error.retry_after_seconds
        if not later or tried >= self._tries_of(call) or (wanted or 0) > limits.RETRY_AFTER_SECONDS_MAX:
            raise error
        return backoff_seconds(tried) if wanted is None else wanted

    def _tries_of(self, call: Call) -> int:
        return max(self.tries, limits.PATIENT_TRIES) if call.patient else self.tries

    def unreachable(self, error: Exception) -> ServerUnreachable:
        """The error for "no answer", with the reason in plain words."""
        reason = str(error).strip() or type(error).__name__
        return ServerUnreachable(
            f"{self.settings.server} does not answer: {reason}.",
            hint="Is the platform running, and is the address right? berth version",
        )

    def reply(self, response: httpx2.Response, body: bytes) -> Reply:
        """An accepted answer, or the error that the refusal stands for."""
        if response.status_code < 300 or response.status_code == 304:
            return Reply(response.status_code, response.headers, body)
        raise self.refusal(response, body)

    def refusal(self, response: httpx2.Response, body: bytes) -> BerthError:
        if 300 <= response.status_code < 400:
            target = response.headers.get("location", "another address")
            return AnswerInvalid(f"The server sends us on to {target}.", hint="Log in with that address if it is right.")
        try:
            problem: object = json.loads(body)
        except (ValueError, RecursionError):
            problem = None
        return from_problem(
            response.status_code,
            problem,
            request_id=response.headers.get("x-request-id", ""),
            retry_after_seconds=retry_after(response.headers.get("retry-after")),
        )


class Transport(_Shared):
    """Blocking requests over one pool of connections."""

    def __init__(
        self,
        settings: Settings,
        *,
        http: httpx2.BaseTransport | None = None,
        language: str = "",
        tries: int = limits.TRIES,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(settings, language=language, tries=tries)
        self.sleep = sleep
        self.on_outage: Callable[[], None] | None = None
        """Called once per request that has been sent again several times, so that a person knows what is waited for."""
        self._http = httpx2.Client(transport=http, timeout=self.timeout)

    def close(self) -> None:
        self._http.close()

    def send(self, call: Call) -> Reply:
        """Send until accepted, refused for good, or out of tries."""
        tried = 0
        while True:
            tried += 1
            try:
                return self._once(call)
            except httpx2.TransportError as error:
                pause = self.pause_after_failure(call, error, tried)
            except ApiError as error:
                if _is_done_already(call, error, tried):
                    return Reply(204, {}, b"")
                pause = self.pause_after_refusal(call, error, tried)
            if tried == limits.TRIES_UNSAID and self.on_outage:
                self.on_outage()
            self.sleep(pause)

    def json(self, call: Call) -> Json:
        return _read(call, self.send(call))

    def _once(self, call: Call) -> Reply:
        with self.stream(call, streamed=False) as response:
            return self.reply(response, _bounded(response.iter_bytes()))

    @contextmanager
    def stream(self, call: Call, *, streamed: bool = True) -> Iterator[httpx2.Response]:
        """One try at an answer that is read piece by piece; the caller looks at the status and resumes by itself."""
        with _named_faults(self.settings.server):
            response = self._http.send(self._http.build_request(**self.arguments(call, streamed=streamed)), stream=True)
            try:
                yield response
            finally:
                response.close()

    @contextmanager
    def accepted_stream(self, call: Call) -> Iterator[httpx2.Response]:
        """Like `stream`, but a refusal is raised."""
        with self.stream(call) as response:
            if response.status_code >= 300:
                raise self.refusal(response, _bounded(response.iter_bytes()))
            yield response


class AsyncTransport(_Shared):
    """The same, awaited."""

    def __init__(
        self,
        settings: Settings,
        *,
        http: httpx2.AsyncBaseTransport | None = None,
        language: str = "",
        tries: int = limits.TRIES,
    ) -> None:
        super().__init__(settings, language=language, tries=tries)
        self._http = httpx2.AsyncClient(transport=http, timeout=self.timeout)

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, call: Call) -> Reply:
        """Send until accepted, refused for good, or out of tries."""
        import asyncio

        tried = 0
        while True:
            tried += 1
            try:
                return await self._once(call)
            except httpx2.TransportError as error:
                pause = self.pause_after_failure(call, error, tried)
            except ApiError as error:
                if _is_done_already(call, error, tried):
                    return Reply(204, {}, b"")
                pause = self.pause_after_refusal(call, error, tried)
            await asyncio.sleep(pause)

    async def json(self, call: Call) -> Json:
        return _read(call, await self.send(call))

    async def _once(self, call: Call) -> Reply:
        async with self.stream(call, streamed=False) as response:
            body = bytearray()
            async for part in response.aiter_bytes():
                body += part
                _refuse_excess(len(body))
            return self.reply(response, bytes(body))

    @asynccontextmanager
    async def stream(self, call: Call, *, streamed: bool = True) -> AsyncIterator[httpx2.Response]:
        """One try at an answer that is read piece by piece."""
        with _named_faults(self.settings.server):
            response = await self._http.send(self._http.build_request(**self.arguments(call, streamed=streamed)), stream=True)
            try:
                yield response
            finally:
                await response.aclose()


def _is_done_already(call: Call, error: ApiError, tried: int) -> bool:
    """Whether a removal finds nothing any more, because the try whose answer was lost did it."""
    return tried > 1 and call.method == "DELETE" and error.status == 404


def backoff_seconds(tried: int) -> float:
    """Doubling, with jitter, so that many clients do not come back in step after a restart."""
    base = min(limits.BACKOFF_SECONDS * 2 ** (tried - 1), limits.BACKOFF_SECONDS_MAX)
    return float(base * random.uniform(0.75, 1.25))  # noqa: S311 - spreads load, keeps no secret.


def retry_after(header: str | None) -> float | None:
    """Seconds of a Retry-After header; the date form is not used by Berth and gives None."""
    try:
        return max(0.0, float(header)) if header else None
    except ValueError:
        return None


def _read(call: Call, reply: Reply) -> Json:
    """The answer's object. Writes may be answered by nothing; a reading that is has nothing to show."""
    value = reply.json()
    if value is None and call.method == "GET":
        raise _not_berths("is empty")
    return value


def _not_berths(what: str) -> AnswerInvalid:
    return AnswerInvalid(
        f"The server's answer {what}; this does not look like a Berth server.", hint="Check the address: berth whoami"
    )


@contextmanager
def _named_faults(server: str) -> Iterator[None]:
    """Turn faults that are neither of the line nor of the server's refusal into errors for the user."""
    try:
        yield
    except httpx2.DecodingError as error:
        raise AnswerInvalid(
            "The server's answer is damaged: it cannot be unpacked.", hint="Does a proxy stand between? Try again."
        ) from error
    except httpx2.InvalidURL as error:
        raise ConfigurationInvalid(
            f"{server!r} is not a server address: {error}.", hint="Write it like https://berth.example.org"
        ) from error


def _refuse_odd_token(token: str) -> None:
    """No header can carry it; without this refusal, the error that says so would show the token."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationInvalid(
            "The token holds a blank, a line break or a character that no token has.",
            hint="Set BERTH_TOKEN to the token alone, or sign in again: berth login",
        )


def _query(params: Mapping[str, object]) -> list[tuple[str, str]]:
    """Leave out what is None; repeat the key of a list; write booleans as JSON does."""
    pairs: list[tuple[str, str]] = []
    for key, value in params.items():
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if item is not None:
                pairs.append((key, ("true" if item else "false") if isinstance(item, bool) else str(item)))
    return pairs


def _bounded(parts: Iterator[bytes]) -> bytes:
    body = bytearray()
    for part in parts:
        body += part
        _refuse_excess(len(body))
    return bytes(body)


def _refuse_excess(size_bytes: int) -> None:
    if size_bytes > limits.ANSWER_BYTES:
        raise AnswerInvalid(
            f"The server's answer is larger than {limits.ANSWER_BYTES // limits.MIB} MiB; it was not read further."
        )
