"""One signed POST to a checked address.

The receiver verifies `Berth-Signature: t=<unix seconds>,v1=<hex>`, where v1 is HMAC-SHA256 with the subscription's secret over
`<t>.<body>`, and refuses old times. A message may come twice when Berth dies between sending and noting it: `Berth-Delivery`
is the same then, and the receiver drops the second.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from activity.notifications.outcomes import GiveUp, Outcome, Sent, TryAgain
from activity.notifications.targets import Resolver, Target, TargetRefused, parse_target, resolve, system_resolver

SECONDS_MAX = 10.0  # For the whole exchange, however slowly the other side speaks.
RESPONSE_BYTES_MAX = 64 * 1024  # Read and dropped; more is a receiver that does not mean us.
RETRY_AFTER_SECONDS_MAX = 3_600
TRANSIENT = frozenset({408, 409, 421, 425, 429, 500, 502, 503, 504, 507, 521, 522, 523, 524})

Connect = Callable[[str, int, float], socket.socket]


def sign(secret: str, body: bytes, *, at: datetime) -> str:
    """The Berth-Signature header."""
    seconds = int(at.timestamp())
    digest = hmac.new(secret.encode(), b"%d." % seconds + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={digest}"


def encode(payload: Mapping[str, Any]) -> bytes:
    """The body: JSON whose bytes the signature covers."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def post(
    url: str,
    *,
    body: bytes,
    headers: Mapping[str, str],
    allow_private: bool,
    resolver: Resolver = system_resolver,
    connect: Connect | None = None,
) -> Outcome:
    """Send once. Returns how it ended; raises nothing that a target can cause."""
    try:
        target = parse_target(url, allow_private=allow_private)
        addresses = resolve(target, resolver=resolver, allow_private=allow_private)
    except TargetRefused as error:
        return GiveUp(error.detail)
    except (OSError, UnicodeError) as error:
        return TryAgain(f"The name could not be resolved: {error}")
    try:
        return _exchange(target, addresses[0], body=body, headers=headers, connect=connect or _connect)
    except TimeoutError:
        return TryAgain(f"No complete answer within {SECONDS_MAX:g} s.")
    except ssl.SSLCertVerificationError as error:
        return TryAgain(f"The certificate is not valid for {target.host}: {error.verify_message}")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return TryAgain(f"The connection failed: {type(error).__name__}: {error}")


def _exchange(target: Target, address: str, *, body: bytes, headers: Mapping[str, str], connect: Connect) -> Outcome:
    connection = _Pinned(target, address, connect)
    with contextlib.closing(connection), _deadline(connection) as is_over:
        try:
            connection.request("POST", target.path, body=body, headers={"Host": target.authority, **headers})
            response = connection.getresponse()
            response.read(RESPONSE_BYTES_MAX)
        except (OSError, http.client.HTTPException, ValueError):
            if is_over():
                raise TimeoutError from None
            raise
        return _judge(response.status, response.headers.get("Retry-After", ""))


def _judge(status: int, retry_after: str) -> Outcome:
    if 200 <= status < 300:
        return Sent(status)
    if 300 <= status < 400:
        return GiveUp("The receiver answered with a redirect, which is not followed. Subscribe with the final address.", status)
    if status in TRANSIENT:
        wait = int(retry_after) if retry_after.isascii() and retry_after.isdecimal() and len(retry_after) < 9 else None
        return TryAgain(f"The receiver answered {status}.", status, None if wait is None else min(wait, RETRY_AFTER_SECONDS_MAX))
    return GiveUp(f"The receiver refused the message with {status}.", status)


class _Pinned(http.client.HTTPConnection):
    """A connection to one address, whatever the name says by now. No proxy is asked."""

    def __init__(self, target: Target, address: str, connect: Connect) -> None:
        super().__init__(target.host, target.port, timeout=SECONDS_MAX)
        self._target = target
        self._address = address
        self._connect = connect

    def connect(self) -> None:
        plain = self._connect(self._address, self._target.port, SECONDS_MAX)
        self.sock = plain
        if self._target.is_tls:
            self.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=self._target.host)


def _connect(address: str, port: int, timeout_seconds: float) -> socket.socket:
    return socket.create_connection((address, port), timeout_seconds)


@contextlib.contextmanager
def _deadline(connection: _Pinned) -> Iterator[Callable[[], bool]]:
    """Cut the connection when the time is over: a timeout per read would let a byte every nine seconds go on for hours."""
    over = threading.Event()

    def cut() -> None:
        over.set()
        sock = connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(SECONDS_MAX, cut)
    timer.daemon = True
    timer.start()
    try:
        yield over.is_set
    finally:
        timer.cancel()
