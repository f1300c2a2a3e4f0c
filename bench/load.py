"""A load generator that costs next to nothing: many keep-alive HTTP/1.1 connections driven by one thread and one `epoll`.

A general HTTP client spends a millisecond of CPU on a request; on two cores shared with the server that would be a fifth of
what is to be measured. This one speaks just enough HTTP for one server that it knows: it sends bytes that were prepared
before, and reads an answer by its `Content-Length`.
"""

from __future__ import annotations

import heapq
import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

ANSWER_SECONDS_MAX = 60.0  # An answer that takes longer is an error.


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, and when: `began` and `ended` by the monotonic clock. Status 0: the connection broke."""

    status: int
    body: bytes
    began: float
    ended: float


@dataclass(slots=True)
class Outcome:
    """What one run measured. Times are in seconds."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)  # Of answers with the wanted status.
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds if self.seconds else 0.0

    def percentile(self, percent: float) -> float:
        """The latency in milliseconds that `percent` of the answers did not exceed."""
        if not self.latencies:
            return float("nan")
        ordered = sorted(self.latencies)
        return 1000 * ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def request(method: str, path: str, *, token: str, body: bytes = b"", headers: Iterable[tuple[str, str]] = ()) -> bytes:
    """The bytes of one request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}"]
    if body or method in ("POST", "PUT", "PATCH"):
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def drive(
    url: str | Sequence[str],
    next_request: Callable[[int], bytes | None],
    *,
    clients: int,
    wanted: int,
    rate: float | None = None,
    seconds: float | None = None,
    receive: Callable[[int, Answer], None] | None = None,
) -> Outcome:
    """Let `clients` connections send what `next_request(client)` gives until it gives None or `seconds` are over.

    Without `rate` every client sends as soon as it was answered (a closed loop). With it, all of them together send so many
    requests a second at fixed times, and the latency counts from the time when a request was due: a server that stalls does
    not hide it by keeping the clients from asking. `url` may be several addresses; clients take them in turn.
    """
    urls = [url] if isinstance(url, str) else list(url)
    loop = _Loop(urls, clients, next_request, wanted, rate, seconds, receive)
    return loop.run()


class _Client:
    """One connection and the request that is on its way."""

    __slots__ = ("address", "began", "buffer", "end", "number", "sock", "to_send")

    def __init__(self, number: int, address: tuple[str, int]) -> None:
        self.number = number
        self.address = address
        self.sock: socket.socket | None = None
        self.buffer = b""
        self.to_send = b""
        self.end = 0  # Length of the whole answer, once its head is known.
        self.began = 0.0

    def connect(self) -> socket.socket:
        self.sock = socket.create_connection(self.address, timeout=10)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        return self.sock


class _Loop:
    def __init__(
        self,
        urls: list[str],
        clients: int,
        next_request: Callable[[int], bytes | None],
        wanted: int,
        rate: float | None,
        seconds: float | None,
        receive: Callable[[int, Answer], None] | None,
    ) -> None:
        places = [(urlsplit(url).hostname or "127.0.0.1", urlsplit(url).port or 80) for url in urls]
        self._clients = [_Client(number, places[number % len(places)]) for number in range(clients)]
        self._next_request = next_request
        self._wanted = wanted
        self._interval = clients / rate if rate else 0.0
        self._spacing = 1 / rate if rate else 0.0
        self._seconds = seconds
        self._receive = receive
        self._poll = select.epoll()
        self._by_fd: dict[int, _Client] = {}
        self._due: list[tuple[float, int]] = []  # When idle clients send next.
        self._busy = 0
        self._exhausted = False
        self._outcome = Outcome()

    def run(self) -> Outcome:
        began = time.monotonic()
        self._deadline = began + self._seconds if self._seconds is not None else float("inf")
        for client in self._clients:
            self._open(client)
            heapq.heappush(self._due, (began + client.number * self._spacing, client.number))
        try:
            while True:
                now = time.monotonic()
                self._send_due(now)
                if not self._busy and (self._exhausted or not self._due or now >= self._deadline):
                    break
                if self._busy and now > self._deadline + ANSWER_SECONDS_MAX:
                    self._outcome.errors["no answer"] += self._busy
                    break
                timeout = max(0.0, min(1.0, self._due[0][0] - now)) if self._due and not self._exhausted else 1.0
                for descriptor, _ in self._poll.poll(timeout):
                    self._read(self._by_fd[descriptor])
        finally:
            for client in self._clients:
                if client.sock is not None:
                    client.sock.close()
            self._poll.close()
        self._outcome.seconds = time.monotonic() - began
        return self._outcome

    def _open(self, client: _Client) -> None:
        if client.sock is not None:
            self._by_fd.pop(client.sock.fileno(), None)
            client.sock.close()
        sock = client.connect()
        self._by_fd[sock.fileno()] = client
        self._poll.register(sock.fileno(), select.EPOLLIN)

    def _send_due(self, now: float) -> None:
        while self._due and self._due[0][0] <= now and not self._exhausted and now < self._deadline:
            due, number = heapq.heappop(self._due)
            client = self._clients[number]
            data = self._next_request(number)
            if data is None:
                self._exhausted = True
                return
            client.began = due if self._interval else time.monotonic()
            client.buffer, client.end = b"", 0
            self._busy += 1
            self._send(client, data)

    def _send(self, client: _Client, data: bytes) -> None:
        """Requests fit the socket's buffer but for batches, which are sent blocking: the measurement is then of one client."""
        assert client.sock is not None
        try:
            sent = client.sock.send(data)
            if sent < len(data):
                client.sock.setblocking(True)
                client.sock.sendall(data[sent:])
                client.sock.setblocking(False)
        except OSError as error:
            self._failed(client, f"send: {error.strerror or type(error).__name__}")

    def _read(self, client: _Client) -> None:
        assert client.sock is not None
        try:
            piece = client.sock.recv(262_144)
        except BlockingIOError:
            return
        except OSError as error:
            self._failed(client, f"receive: {error.strerror or type(error).__name__}")
            return
        if not piece:
            self._failed(client, "closed by the server")
            return
        client.buffer += piece
        if not client.end:
            client.end = _length_of(client.buffer)
        if client.end and len(client.buffer) >= client.end:
            self._answered(client)

    def _answered(self, client: _Client) -> None:
        ended = time.monotonic()
        head, _, body = client.buffer.partition(b"\r\n\r\n")
        status = int(head[9:12])
        self._busy -= 1
        if status == self._wanted:
            self._outcome.latencies.append(ended - client.began)
        else:
            self._outcome.errors[f"status {status}"] += 1
        if self._receive is not None:
            self._receive(client.number, Answer(status, body, client.began, ended))
        heapq.heappush(self._due, (client.began + self._interval if self._interval else ended, client.number))

    def _failed(self, client: _Client, what: str) -> None:
        now = time.monotonic()
        self._outcome.errors[what] += 1
        self._busy -= 1
        if self._receive is not None:
            self._receive(client.number, Answer(0, b"", client.began, now))
        self._open(client)
        heapq.heappush(self._due, (now + 0.05, client.number))


def _length_of(buffer: bytes) -> int:
    """How long the answer is, head and body; 0 while its head is not complete."""
    head_end = buffer.find(b"\r\n\r\n")
    if head_end < 0:
        return 0
    head = buffer[:head_end].lower()
    start = head.find(b"\r\ncontent-length:")
    if start < 0:
        return head_end + 4
    stop = head.find(b"\r\n", start + 2)
    value = head[start + 17 : stop if stop >= 0 else len(head)]
    return head_end + 4 + int(value)
