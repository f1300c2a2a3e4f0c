"""uvicorn: connections that are bounded before anything is known of a request, and a server that ends in order.

uvicorn waits for a request's headers without end, and after an answer for as long as anything trickles in. Which bounds there are
and what is said to who passes them is up to the `Gate`; which requests are in hand is up to `InHand`.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from upstream.hooks import CORRECTNESS, Hook

log = structlog.get_logger("web")

GARBAGE_OBJECTS = 10_000  # Of one request are a few thousand; nearly all of them are gone with it, without being looked for.
ARRIVE_SECONDS = 2.0  # For the rest of a body that is on its way when the server is told to stop.

_CONNECTIONS = "security/limits/test_connections.py::"
_IMPL = "uvicorn.protocols.http.httptools_impl.HttpToolsProtocol."
_ENDING = "faults/test_ending_web.py::"

HOOKS = (
    Hook(
        upstream=_IMPL + "connection_made",
        parameters="self, transport",
        ours="GatedProtocol.connection_made",
        why="uvicorn bounds all connections together, not those of an address; one client could take them all.",
        gain=f"{CORRECTNESS}: other addresses get in",
        test=_CONNECTIONS + "test_one_address_takes_no_more_connections_than_its_share_and_others_get_in",
    ),
    Hook(
        upstream=_IMPL + "data_received",
        parameters="self, data",
        ours="GatedProtocol.data_received",
        why="What is still in the socket of a connection that was refused would be parsed.",
        gain=f"{CORRECTNESS}: a refused connection is served nothing",
        test=_CONNECTIONS + "test_one_address_takes_no_more_connections_than_its_share_and_others_get_in",
    ),
    Hook(
        upstream=_IMPL + "connection_lost",
        parameters="self, exc",
        ours="GatedProtocol.connection_lost",
        why="A connection that ended leaves the count of its address.",
        gain=f"{CORRECTNESS}: an address would be shut out for ever",
        test=_CONNECTIONS + "test_a_client_that_keeps_its_connection_and_asks_again_is_served",
    ),
    Hook(
        upstream=_IMPL + "on_headers_complete",
        parameters="self",
        ours="GatedProtocol.on_headers_complete",
        why="The end of the time for headers; uvicorn has none.",
        gain=f"{CORRECTNESS}: slow headers held connections without end",
        test=_CONNECTIONS + "test_a_hundred_clients_that_never_finish_their_headers_are_all_sent_away",
    ),
    Hook(
        upstream=_IMPL + "on_response_complete",
        parameters="self",
        ours="GatedProtocol.on_response_complete",
        why="The time for the next headers begins with the end of an answer (`cycle.response_complete`, `timeout_keep_alive`).",
        gain=f"{CORRECTNESS}: a second request held its connection without end",
        test=_CONNECTIONS + "test_a_body_that_trickles_after_the_answer_does_not_hold_its_connection",
    ),
    Hook(
        upstream=_IMPL + "handle_websocket_upgrade",
        parameters="self",
        ours="GatedProtocol.handle_websocket_upgrade",
        why="A connection that became a WebSocket is bounded by its user and leaves the count of its address.",
        gain=f"{CORRECTNESS}: sockets would use up an address's share",
        test=_CONNECTIONS + "test_a_websocket_leaves_the_count_and_no_timer_ends_it",
    ),
    Hook(
        upstream="uvicorn.server.Server.startup",
        parameters="self, sockets",
        ours="Server.startup",
        why="The moment at which connections are taken: what was loaded then stays out of garbage collection, and "
        "readiness is told.",
        gain="a look through all that was loaded holds up all requests for a tenth of a second",
        test=_ENDING + "test_requests_in_hand_get_their_own_answer_when_it_comes_in_time",
    ),
    Hook(
        upstream="uvicorn.server.Server.handle_exit",
        parameters="self, sig, frame",
        ours="Server.handle_exit",
        why="The rest of the process ends beside the server and not after it.",
        gain=f"{CORRECTNESS}: within the time that systemd grants, web and loops end one after the other otherwise",
        test=_ENDING + "test_requests_in_hand_get_their_own_answer_when_it_comes_in_time",
    ),
    Hook(
        upstream="uvicorn.server.Server.shutdown",
        parameters="self, sockets",
        ours="Server.shutdown",
        why="uvicorn waits for streams that never end and then cancels everything, with a plain 500 to who waits for an answer.",
        gain=f"{CORRECTNESS}: who waits is told 503 with `Retry-After`",
        test=_ENDING + "test_requests_in_hand_of_a_frozen_database_are_told_when_to_come_back",
    ),
)


class Gate(Protocol):
    """What is granted to connections, and what is written to those that are refused."""

    header_seconds: float

    def admit(self, address: str) -> str | None:
        """Count one more connection of an address; gives what it is counted as, None where the address has its share."""

    def release(self, name: str) -> None:
        """Give one back that `admit` counted under this name; empty: it was not counted."""

    def refuse_late(self, address: str) -> bytes:
        """The whole answer to a connection whose headers did not come in time."""

    def refuse_one_too_many(self, address: str) -> bytes:
        """The whole answer to a connection beyond the address's share."""


def gated(gate: Gate) -> type[HttpToolsProtocol]:
    """Make the server's protocol with this gate, which all its connections share."""

    class Gated(GatedProtocol):
        _gate = gate

    return Gated


class GatedProtocol(HttpToolsProtocol):
    """One connection. Between requests a timer runs; while one is in hand, its body has bounds of its own."""

    _gate: Gate

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._counted: str | None = ""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As in the class above.
        super().connection_made(transport)
        self._counted = self._gate.admit(self._address)
        if self._counted is None:
            self._end_with(self._gate.refuse_one_too_many(self._address))
            return
        self._expect_headers(self._gate.header_seconds)

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():  # What is still in the socket of a connection that was refused.
            super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        self._stop_timer()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self._expect_headers(self.timeout_keep_alive + self._gate.header_seconds)

    def handle_websocket_upgrade(self) -> None:
        self._leave()
        super().handle_websocket_upgrade()

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def _expect_headers(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self._too_late)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_late(self) -> None:
        if not self.transport.is_closing():
            self._end_with(self._gate.refuse_late(self._address))

    def _end_with(self, answer: bytes) -> None:
        self.transport.write(answer)
        self.transport.close()

    def _leave(self) -> None:
        self._stop_timer()
        if self._counted:
            self._gate.release(self._counted)
        self._counted = ""


class InHand(Protocol):
    """The requests in hand of the application that the server runs."""

    @property
    def waiting(self) -> int:
        """How many wait for the beginning of their answer."""

    def end_streams(self) -> None:
        """End all streams that are open."""

    async def refuse(self, *, unless_arrived: bool = False) -> int:
        """Answer 503 to what has no answer yet, or only to what has not even arrived; how many that were."""


class Server(uvicorn.Server):
    """Says through `asked_to_stop` that a signal came, so that the rest of the process ends beside it and not after it."""

    def __init__(self, config: uvicorn.Config, requests: InHand, *, drain_seconds: float) -> None:
        super().__init__(config)
        self.asked_to_stop = threading.Event()
        self._requests = requests
        self._drain_seconds = drain_seconds
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
        """End what would not end by itself, then wait for the rest; what needs longer than the drain is refused."""
        self._requests.end_streams()
        if self._requests.waiting:
            log.info("draining", requests=self._requests.waiting, seconds=self._drain_seconds)
        refusing = asyncio.create_task(self._refuse_late())
        try:
            await super().shutdown(sockets)
        finally:
            refusing.cancel()

    async def _refuse_late(self) -> None:
        first = min(ARRIVE_SECONDS, self._drain_seconds)
        await asyncio.sleep(first)
        refused = await self._requests.refuse(unless_arrived=True)
        await asyncio.sleep(self._drain_seconds - first)
        refused += await self._requests.refuse()
        if refused:
            log.warning("requests_refused", requests=refused, seconds=self._drain_seconds)
