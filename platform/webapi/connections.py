"""Connections are bounded before anything is known of a request: in time, and in number for each address.

uvicorn waits for a request's headers without end, and after an answer for as long as anything trickles in. With `Bounds` as its
gate (`upstream.uvicorn`) a connection ends whose next request is not complete in time, and an address gets no more connections
than its share. A proxy that the operator named (`BERTH_TRUSTED_PROXIES`) brings many people, and bounds them itself.
Connections that became WebSockets leave the count: those are bounded by user.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus

import structlog

from kernel.errors import BerthError, TooManyRequests
from kernel.words import Language, Text
from webapi.addresses import is_proxy, network_of
from webapi.bounds import CONNECTIONS_PER_ADDRESS, HEADER_SECONDS
from webapi.errors import RequestTimeout
from webapi.problems import CONTENT_TYPE, headers_of, problem_body

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

    def refuse_late(self, address: str) -> bytes:
        """The whole answer to a connection whose headers did not come in time."""
        return _refuse(_late(self.header_seconds), address)

    def refuse_one_too_many(self, address: str) -> bytes:
        """The whole answer to a connection beyond the address's share."""
        return _refuse(_too_many(self.per_address), address)


def _refuse(failure: BerthError, address: str) -> bytes:
    log.info("connection_refused", code=failure.code, address=address)
    return _answer(failure)


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
        Text(f"The headers of a request did not arrive within {seconds:g} seconds.", f"请求头未在 {seconds:g} 秒内到达。"),
        hint=Text("Send the whole request at once.", "请一次发送完整的请求。"),
    )


def _too_many(count: int) -> TooManyRequests:
    return TooManyRequests(
        Text(f"{count} connections of this address are open.", f"此地址已打开 {count} 个连接。"),
        hint=Text(
            "Close some, or use fewer at once. Operators: name a proxy in BERTH_TRUSTED_PROXIES.",
            "请关闭一些，或减少同时使用的连接。运维人员可在 BERTH_TRUSTED_PROXIES 中登记代理。",
        ),
    )
