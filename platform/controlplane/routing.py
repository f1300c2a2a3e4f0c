"""All WebSocket routes. Each authenticates by itself and has its expectation in the authorisation matrix."""

from __future__ import annotations

from typing import Any

from activity.routing import websocket_urlpatterns as activity_routes
from jobs.routing import websocket_urlpatterns as job_routes

websocket_urlpatterns: list[Any] = [*activity_routes, *job_routes]
