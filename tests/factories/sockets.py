"""A client's end of a WebSocket application, without a server. (`channels.testing` needs daphne, which Berth does not use.)"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from asgiref.testing import ApplicationCommunicator

SECONDS = 30.0  # A loaded machine; what is measured says so where it is measured.


class Socket(ApplicationCommunicator):  # type: ignore[misc]
    """One connection. `connect` says whether it was accepted; everything received is JSON."""

    def __init__(self, application: Any, url: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        parts = urlsplit(url)
        scope = {
            "type": "websocket",
            "path": parts.path,
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "headers": list(headers),
            "subprotocols": [],
            "client": ["127.0.0.1", 0],
            "server": ["127.0.0.1", 8620],
        }
        super().__init__(application, scope)

    async def connect(self) -> bool:
        await self.send_input({"type": "websocket.connect"})
        answer = await self.receive_output(SECONDS)
        return bool(answer["type"] == "websocket.accept")

    async def send(self, message: Any) -> None:
        await self.send_text(json.dumps(message))

    async def send_text(self, text: str) -> None:
        await self.send_input({"type": "websocket.receive", "text": text})

    async def send_bytes(self, data: bytes) -> None:
        await self.send_input({"type": "websocket.receive", "bytes": data})

    async def receive(self) -> dict[str, Any]:
        message = await self.receive_output(SECONDS)
        assert message["type"] == "websocket.send", message
        received: dict[str, Any] = json.loads(message["text"])
        return received

    async def close_code(self) -> int:
        """Read on until the application closes."""
        while True:
            message = await self.receive_output(SECONDS)
            if message["type"] == "websocket.close":
                return int(message["code"])

    async def disconnect(self, code: int = 1000) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": code})
        await self.wait(SECONDS)
