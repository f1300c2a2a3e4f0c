"""Connections are bounded before anything is known of a request: in time, and in number for each address.

uvicorn waits for a request's headers without end, and after an answer for as long as anything trickles in. `bounded` makes its
protocol one that ends a connection whose next request is not complete in time, and that takes no more connections from an
address than its share. A proxy that the operator named (`BERTH_TRUSTED_PROXIES`) brings many people, and bounds them itself.
Connections that became WebSockets leave the count: those are bounded by user.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kernel.errors import BerthError, TooManyRequests
from kernel.limits import CONNECTIONS_PER_ADDRESS, HEADER_SECONDS
from webapi.addresses import is_proxy, network_of
from webapi.errors import RequestTimeout
from webapi.problems import CONTENT_TYPE, headers_of, problem_body
from webapi.wording import Language

log = structlog.get_logger("webapi")


@dataclass(slots=True)
class Bounds:
    """What one web process grants: seconds for headers, connections for an address, and who has how many."""

    header_seconds: float = HEADER_SECONDS
    per_address: int = CONNECTIONS_PER_ADDRESS
    is_exempt: Callable[[str], bool] = is_proxy
    open: Counter[str] = field(default_factory=Counter)

    def admit(self, address: str) -> str | None:
        """Count one more connection of an address; gives what it is counted as, None where the address has its share."""
        if not address or self.is_exempt(address):
            return ""
        name = network_of(address)
        if self.open[name] >= self.per_address:
            return None
        self.open[name] += 1
        return name

    def release(self, name: str) -> None:
        """Give one back that `admit` counted under this name; empty: it was not counted."""
        if name:
            self.open[name] -= 1
            if self.open[name] <= 0:
                del self.open[name]


def bounded(bounds: Bounds) -> type[HttpToolsProtocol]:
    """Make the server's protocol with these bounds, which all its connections share."""

    class Bounded(_BoundedProtocol):
        _bounds = bounds

    return Bounded


class _BoundedProtocol(HttpToolsProtocol):
    """One connection. Between requests a timer runs; while one is in hand, its body has bounds of its own."""

    _bounds: Bounds

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._counted: str | None = ""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As in the class above.
        super().connection_made(transport)
        self._counted = self._bounds.admit(self.client[0] if self.client else "")
        if self._counted is None:
            self._end_with(_too_many(self._bounds.per_address))
            return
        self._expect_headers(self._bounds.header_seconds)

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
            self._expect_headers(self.timeout_keep_alive + self._bounds.header_seconds)

    def handle_websocket_upgrade(self) -> None:
        self._leave()
        super().handle_websocket_upgrade()

    def _expect_headers(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self._too_late)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_late(self) -> None:
        if not self.transport.is_closing():
            self._end_with(_late(self._bounds.header_seconds))

    def _end_with(self, failure: BerthError) -> None:
        log.info("connection_refused", code=failure.code, address=self.client[0] if self.client else "")
        self.transport.write(_answer(failure))
        self.transport.close()

    def _leave(self) -> None:
        self._stop_timer()
        if self._counted:
            self._bounds.release(self._counted)
        self._counted = ""


def _answer(failure: BerthError) -> bytes:
    body = json.dumps(problem_body(failure, request_id="", language=Language.ENGLISH)).encode()
    headers = {
        "content-type": CONTENT_TYPE,
        "content-length": str(len(body)),
        "connection": "close",
        **{name.lower(): value for name, value in headers_of(failure).items()},
    }
    lines = [f"HTTP/1.1 {failure.status} {HTTPStatus(failure.status).phrase}", *(f"{name}: {headers[name]}" for name in headers)]
    return "\r\n".join((*lines, "", "")).encode("latin-1") + body


def _late(seconds: float) -> RequestTimeout:
    return RequestTimeout(
        f"The headers of a request did not arrive within {seconds:g} seconds.", hint="Send the whole request at once."
    )


def _too_many(count: int) -> TooManyRequests:
    return TooManyRequests(
        f"{count} connections of this address are open.",
        hint="Close some, or use fewer at once. Operators: name a proxy in BERTH_TRUSTED_PROXIES.",
    )
