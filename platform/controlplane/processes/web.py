"""The web server: uvicorn in this process, with the same settings in both profiles."""

from __future__ import annotations

import threading
from types import FrameType

import uvicorn

from kernel.config import Config


class Server(uvicorn.Server):
    """Says through `asked_to_stop` that a signal came, so that the rest of the process ends beside it and not after it."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.asked_to_stop = threading.Event()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle SIGTERM and SIGINT; the server installs this itself while it runs."""
        self.asked_to_stop.set()
        super().handle_exit(sig, frame)


def server(config: Config) -> Server:
    """Build the server; the caller runs it."""
    return Server(
        uvicorn.Config(
            "controlplane.asgi:application",
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
            timeout_graceful_shutdown=2,  # Streams never end by themselves; their clients come back with a cursor.
            timeout_keep_alive=30,
            limit_concurrency=2_000,
        )
    )
