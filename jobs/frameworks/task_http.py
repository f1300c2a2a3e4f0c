"""HTTP between the tasks of one attempt: requests bear the attempt's key, for tasks of other tenants may reach the ports.

Sent along with a job, so it imports the standard library only and runs on Python 3.7."""

from __future__ import annotations

import contextlib
import hmac
import http.client
import http.server
import json
import os
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

KEY = os.environ.get("BERTH_ATTEMPT_KEY", "")
REQUEST_BYTES_MAX = 1 << 20
CONNECT_SECONDS = 30.0
answering: set[TaskHandler] = set()  # Those whose answer has not been sent.


class TaskHandler(http.server.BaseHTTPRequestHandler):
    """One connection from a task. A stranger gets 401 and no word of explanation."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # Head and body go together.
    timeout = 30  # Who is silent for longer connects again.

    def answer(self, body: dict[str, Any] | None) -> dict[str, Any] | None:
        """What to say to a GET, without a body, or a POST at `self.path`; None: there is nothing there."""
        raise NotImplementedError

    def take(self) -> dict[str, Any] | None:
        """What to say to a PUT, whose body of `self.length` bytes this reads from `self.rfile`."""
        return None

    def do_GET(self) -> None:
        with self._under_way():
            self._reply(None)

    def do_POST(self) -> None:
        with self._under_way():
            self._take()

    def do_PUT(self) -> None:
        self.close_connection = True  # Its body may not have been read.
        with self._under_way():
            if self.is_known:
                self._reply_by(self.take)
            else:
                self.send(401)

    @contextlib.contextmanager
    def _under_way(self) -> Iterator[None]:
        """Until the answer is on its way, the process should not end."""
        answering.add(self)
        try:
            yield
            self.wfile.flush()
        finally:
            answering.discard(self)

    def _take(self) -> None:
        if not self.is_known or self.length > REQUEST_BYTES_MAX:
            self.close_connection = True  # With a body that was not read.
            self.send(401 if not self.is_known else 413)
            return
        try:
            body = json.loads(self.rfile.read(self.length))
        except ValueError:
            body = None
        if isinstance(body, dict):
            self._reply(body)
        else:
            self.send(400, {"error": "the body is no JSON object"})

    @property
    def length(self) -> int:
        given = self.headers.get("Content-Length", "")
        return int(given) if given.isdigit() else 0

    @property
    def is_known(self) -> bool:
        return hmac.compare_digest(self.headers.get("Authorization", "").encode(), f"Bearer {KEY}".encode())

    def _reply(self, body: dict[str, Any] | None) -> None:
        if not self.is_known:
            self.send(401)
            return
        self._reply_by(lambda: self.answer(body))

    def _reply_by(self, make: Callable[[], dict[str, Any] | None]) -> None:
        try:
            answer = make()
        except (ValueError, TypeError, AttributeError, IndexError) as error:
            self.send(400, {"error": f"the request is none of this protocol: {error}"})
            return
        self.send(404 if answer is None else 200, answer)

    def send(self, status: int, body: dict[str, Any] | None = None) -> None:
        data = b"" if body is None else json.dumps(body).encode() + b"\n"
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # Without asking a name server who this is.

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: whose connection broke off asks again."""


class _Server6(_Server):
    address_family = socket.AF_INET6


def listen(handler: type[TaskHandler], port: int) -> None:
    """Answer in threads, as long as the process lives."""
    host = os.environ.get("BERTH_HOST", "")
    kind = _Server6 if ":" in host else _Server
    try:
        server = kind((host, port), handler)
    except OSError:
        server = kind(("", port), handler)  # The address is one that others see, not one of this machine's own.
    threading.Thread(target=server.serve_forever, daemon=True).start()


def finish_answers(seconds: float = 2.0) -> None:
    """Before the process ends: let those that asked hear the answer."""
    deadline = time.monotonic() + seconds
    while answering and time.monotonic() < deadline:
        time.sleep(0.01)


class RequestRefused(Exception):
    """The other side answered, and not well."""


class Client:
    """A connection to one task, made again where it is gone. One thread at a time."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=CONNECT_SECONDS)

    def send(self, method: str, path: str, body: bytes | IO[bytes], length: int) -> dict[str, Any]:
        """One request. Raises OSError where it came to nothing, RequestRefused where it will come to nothing again."""
        headers = {"Authorization": f"Bearer {KEY}", "Content-Length": str(length)}
        try:
            self._connection.request(method, path, body, headers)
            reply = self._connection.getresponse()
            data = reply.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise ConnectionError(str(error)) from error
        if reply.status != 200:
            raise RequestRefused(f"{method} {path}: {reply.status} {data[:200]!r}")
        answer: dict[str, Any] = json.loads(data)
        return answer

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """One request with a JSON body, once more at once where the connection had been closed meanwhile."""
        data = json.dumps(body).encode()
        try:
            return self.send("POST", path, data, len(data))
        except OSError:
            return self.send("POST", path, data, len(data))
