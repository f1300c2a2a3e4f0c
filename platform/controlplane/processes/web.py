"""The web server: uvicorn in this process, with the same settings in both profiles."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from types import FrameType
from typing import Any

import uvicorn

from kernel.config import Config

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

GARBAGE_OBJECTS = 10_000  # Of one request are a few thousand; nearly all of them are gone with it, without being looked for.
ANSWER_SECONDS = 2  # Requests in hand when the server is told to stop; streams are ended before.


class Streams:
    """Ends server-sent events when the server stops: they would never end by themselves, and their clients come back.

    To the application it looks as if the client had gone: the one end of a stream that Django cleans up after. The client
    sees an answer that is complete.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self._open: set[_Stream] = set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        stream = _Stream(receive)

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_stream(message):
                stream.is_open = True
                self._open.add(stream)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                self._open.discard(stream)
                stream.is_complete = True
            await send(message)

        try:
            await self._application(scope, stream.receive, watch)
            if stream.ends.is_set() and not stream.is_complete:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._open.discard(stream)

    def end(self) -> None:
        """End all that are open."""
        for stream in tuple(self._open):
            stream.ends.set()


class _Stream:
    """One request, which turns out to be a stream or not."""

    def __init__(self, receive: Receive) -> None:
        self.ends = asyncio.Event()
        self.is_open = False
        self.is_complete = False
        self._receive = receive

    async def receive(self) -> Message:
        if not self.is_open:  # The body: only a stream that was begun has to be ended.
            return await self._receive()
        message = asyncio.ensure_future(self._receive())
        end = asyncio.ensure_future(self.ends.wait())
        try:
            await asyncio.wait((message, end), return_when=asyncio.FIRST_COMPLETED)
            return message.result() if message.done() else {"type": "http.disconnect"}
        finally:
            message.cancel()
            end.cancel()


def _is_stream(start: Message) -> bool:
    headers = {name.lower(): value for name, value in start["headers"]}
    return bytes(headers.get(b"content-type", b"")).startswith(b"text/event-stream")


class Server(uvicorn.Server):
    """Says through `asked_to_stop` that a signal came, so that the rest of the process ends beside it and not after it."""

    def __init__(self, config: uvicorn.Config, streams: Streams) -> None:
        super().__init__(config)
        self.asked_to_stop = threading.Event()
        self._streams = streams
        self.on_ready: Callable[[], None] = lambda: None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Take connections, and say so."""
        await super().startup(sockets)
        if not self.should_exit:
            # What was loaded stays for good: to look through it for garbage would hold up all requests for a tenth of a second.
            gc.freeze()
            gc.set_threshold(GARBAGE_OBJECTS)
            self.on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle SIGTERM and SIGINT; the server installs this itself while it runs."""
        self.asked_to_stop.set()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what would not end by itself, then wait for the rest."""
        self._streams.end()
        await super().shutdown(sockets)


def server(config: Config) -> Server:
    """Build the server; the caller runs it."""
    from controlplane.asgi import application  # Loads the apps; whoever only asks for the settings need not.

    streams = Streams(application)
    return Server(
        uvicorn.Config(
            streams,
            host=config.host,
            port=config.port,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            lifespan="off",
            ws="websockets-sansio",
            ws_max_size=64 * 1024,
            ws_ping_interval=20.0,
            ws_per_message_deflate=False,  # Events are small; compression would cost memory per socket.
            timeout_graceful_shutdown=ANSWER_SECONDS,
            timeout_keep_alive=30,
            limit_concurrency=2_000,
        ),
        streams,
    )
