"""A web server that keeps the webhooks it is sent."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Message:
    """One POST as it came; header names in small letters."""

    headers: dict[str, str]
    content: bytes

    @property
    def delivery(self) -> str:
        return self.headers["berth-delivery"]

    @property
    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.content)
        return found


class Receiver:
    def __init__(self) -> None:
        self.messages: list[Message] = []
        messages = self.messages

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                messages.append(Message({name.lower(): value for name, value in self.headers.items()}, content))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"

    def about(self, job: dict[str, Any] | str) -> list[Message]:
        """What was said about a job, each delivery once: a repeated one has the same id."""
        job_id = job if isinstance(job, str) else job["id"]
        found = {message.delivery: message for message in tuple(self.messages) if message.body["job"]["id"] == job_id}
        return list(found.values())


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver while the block runs."""
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.server.shutdown()
        receiver.server.server_close()
        thread.join()
