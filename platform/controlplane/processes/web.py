"""The web server: uvicorn in this process, with the same settings in both profiles."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn

from kernel.config import Config
from kernel.errors import Unavailable
from upstream.uvicorn import Server, gated
from webapi.body_limit import send_problem

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

CANCEL_SECONDS = 1  # After all clients have an answer; work of remaining threads is abandoned.
RETRY_SECONDS = 2  # Another process answers at once, the same one after its restart in a few seconds.


class Requests:
    """The requests in hand, and how they end when the server is told to stop.

    Server-sent events would never end by themselves, and their clients come back: they are ended at once. To the application
    it looks as if the client had gone, the one end of a stream that Django cleans up after; the client sees an answer that is
    complete. Everything else is drained: it gets the answer that is made for it, and what has none when the time is over gets
    503 with `Retry-After`. Without that the server's own cancellation would answer 500 in plain text.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self._in_hand: set[_Request] = set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        request = _Request(scope, receive, send)
        self._in_hand.add(request)
        try:
            await self._application(scope, request.receive, request.send)
            if request.ends.is_set() and not request.is_complete:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except asyncio.CancelledError:
            if not request.is_refused:  # One that is refused has its answer; only its thread was still at work.
                raise
        finally:
            self._in_hand.discard(request)

    @property
    def waiting(self) -> int:
        """How many wait for the beginning of their answer."""
        return sum(not request.has_begun for request in self._in_hand)

    def end_streams(self) -> None:
        """End all streams that are open."""
        for request in tuple(self._in_hand):
            if request.is_stream:
                request.ends.set()

    async def refuse(self, *, unless_arrived: bool = False) -> int:
        """Answer 503 to what has no answer yet, or only to what has not even arrived; how many that were."""
        late = [
            request
            for request in tuple(self._in_hand)
            if not request.has_begun and not (unless_arrived and request.has_arrived)
        ]  # fmt: skip
        for request in late:
            await request.refuse()
        return len(late)


class _Request:
    """One request, which turns out to be a stream or not."""

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        self.ends = asyncio.Event()
        self.is_stream = False
        self.has_arrived = False  # With all of its body.
        self.has_begun = False  # Its answer.
        self.is_complete = False
        self.is_refused = False
        self._scope = scope
        self._receive = receive
        self._send = send

    async def send(self, message: Message) -> None:
        """Pass the application's answer on, unless the client was refused meanwhile."""
        if self.is_refused:
            return
        if message["type"] == "http.response.start":
            self.has_begun = True
            self.is_stream = _is_stream(message)
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self.is_stream = False
            self.is_complete = True
        await self._send(message)

    async def receive(self) -> Message:
        if not self.is_stream:  # The body: only a stream that was begun has to be ended.
            piece = await self._receive()
            self.has_arrived = not piece.get("more_body", False)
            return piece
        message = asyncio.ensure_future(self._receive())
        end = asyncio.ensure_future(self.ends.wait())
        try:
            await asyncio.wait((message, end), return_when=asyncio.FIRST_COMPLETED)
            return message.result() if message.done() else {"type": "http.disconnect"}
        finally:
            message.cancel()
            end.cancel()

    async def refuse(self) -> None:
        """Answer in the application's place; what it still says is dropped."""
        self.is_refused = self.has_begun = self.is_complete = True
        await send_problem(self._scope, self._send, is_ending())


def is_ending() -> Unavailable:
    """The refusal of a request that this process did not answer before it ended."""
    return Unavailable(
        "This process of the server ended before it had the answer.",
        hint="If this was to change something, it may have been done or not: send it again with the same Idempotency-Key.",
        retry_after_seconds=RETRY_SECONDS,
    )


def _is_stream(start: Message) -> bool:
    headers = {name.lower(): value for name, value in start["headers"]}
    return bytes(headers.get(b"content-type", b"")).startswith(b"text/event-stream")


def server(config: Config) -> Server:
    """Build the server; the caller runs it."""
    from controlplane.asgi import application  # Loads the apps; a caller that only asks for the settings need not.
    from webapi.connections import Bounds

    requests = Requests(application)
    return Server(
        uvicorn.Config(
            requests,
            host=config.host,
            port=config.port,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            lifespan="off",
            http=gated(Bounds()),
            ws="websockets-sansio",
            ws_max_size=64 * 1024,
            ws_ping_interval=20.0,
            ws_per_message_deflate=False,  # Events are small; compression would cost memory per socket.
            timeout_graceful_shutdown=math.ceil(config.web_drain_seconds) + CANCEL_SECONDS,
            timeout_keep_alive=30,
            limit_concurrency=2_000,
        ),
        requests,
        drain_seconds=config.web_drain_seconds,
    )
