"""WebSocket routes of this app. Each authenticates by itself and enters the authorisation matrix."""

from __future__ import annotations

from typing import Any

from django.urls import path

from jobs.api.terminal import ExecConsumer

_exec: Any = ExecConsumer.as_asgi()  # An ASGI application, where Django's types know views only.

websocket_urlpatterns: list[Any] = [path("ws/v1/exec", _exec, name="exec")]
