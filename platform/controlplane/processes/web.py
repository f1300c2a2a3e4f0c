"""The web server: uvicorn in this process, with the same settings in both profiles."""

from __future__ import annotations

import uvicorn

from kernel.config import Config


def server(config: Config) -> uvicorn.Server:
    """Build the server; the caller runs it."""
    return uvicorn.Server(
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
            timeout_graceful_shutdown=5,
            timeout_keep_alive=30,
            limit_concurrency=2_000,
        )
    )
