"""One POST to a checked address: the only way by which a channel reaches the network.

The URL is taken apart strictly, every address of its name is checked, and the connection goes to the checked address itself
(`kernel/targets.py`). No proxy is asked and no redirect is followed.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from activity.notifications.outcomes import GiveUp, Outcome, Sent, TryAgain
from kernel.targets import Resolver, Target, TargetRefused, parse_target, resolve, system_resolver

SECONDS_MAX = 10.0  # For the whole exchange, however slowly the other side speaks.
RESPONSE_BYTES_MAX = 64 * 1024  # Read, and dropped where no channel reads it; more is a receiver that does not mean us.
RETRY_AFTER_SECONDS_MAX = 3_600
TRANSIENT = frozenset({408, 409, 421, 425, 429, 500, 502, 503, 504, 507, 521, 522, 523, 524})

Connect = Callable[[str, int, float], socket.socket]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the other side said. `after_seconds` is its Retry-After, bounded; None for none that is a number."""

    status: int
    after_seconds: int | None
    body: bytes


Judge = Callable[[Answer], Outcome]


class Post(Protocol):
    """`post` with its way to the network decided."""

    def __call__(
        self, url: str, *, body: bytes, headers: Mapping[str, str], allow_private: bool, judge: Judge = ...
    ) -> Outcome: ...


def judged(answer: Answer) -> Outcome:
    """How a try ended, by the status alone."""
    status = answer.status
    if 200 <= status < 300:
        return Sent(status)
    if 300 <= status < 400:
        return GiveUp("The receiver answered with a redirect, which is not followed. Subscribe with the final address.", status)
    if status in TRANSIENT:
        return TryAgain(f"The receiver answered {status}.", status, answer.after_seconds)
    return GiveUp(f"The receiver refused the message with {status}.", status)


def post(
    url: str,
    *,
    body: bytes,
    headers: Mapping[str, str],
    allow_private: bool,
    judge: Judge = judged,
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
        return judge(_exchange(target, addresses[0], body=body, headers=headers, connect=connect or _connect))
    except TimeoutError:
        return TryAgain(f"No complete answer within {SECONDS_MAX:g} s.")
    except ssl.SSLCertVerificationError as error:
        return TryAgain(f"The certificate is not valid for {target.host}: {error.verify_message}")
    except OSError as error:
        return TryAgain(f"The connection failed: {type(error).__name__}: {error}")
    except (http.client.HTTPException, ValueError) as error:  # Without its words, which may repeat the path and its token.
        return TryAgain(f"The other side did not answer in HTTP ({type(error).__name__}).")


def _exchange(target: Target, address: str, *, body: bytes, headers: Mapping[str, str], connect: Connect) -> Answer:
    connection = _Pinned(target, address, connect)
    with contextlib.closing(connection), _deadline(connection) as is_over:
        try:
            connection.request("POST", target.path, body=body, headers={"Host": target.authority, **headers})
            response = connection.getresponse()
            said = response.read(RESPONSE_BYTES_MAX)
        except (OSError, http.client.HTTPException, ValueError):
            if is_over():
                raise TimeoutError from None
            raise
        return Answer(response.status, seconds_of(response.headers.get("Retry-After", "")), said)


def seconds_of(text: str) -> int | None:
    """A wait that the other side asks for, bounded; None where it is no whole number."""
    is_number = text.isascii() and text.isdecimal() and len(text) < 9
    return min(int(text), RETRY_AFTER_SECONDS_MAX) if is_number else None


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
