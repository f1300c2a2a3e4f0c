"""WebSocket routes of this app. Each authenticates by itself and enters the authorisation matrix."""

from __future__ import annotations

from typing import Any

from django.urls import path

from activity.consumers import LiveConsumer

_live: Any = LiveConsumer.as_asgi()  # An ASGI application, where Django's types know views only.

websocket_urlpatterns: list[Any] = [path("ws/v1/live", _live, name="live")]
