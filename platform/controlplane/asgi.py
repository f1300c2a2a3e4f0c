"""The web server's entry: HTTP to Django, WebSockets to live channels and terminals. Nothing else listens."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

import django

django.setup(set_prefix=False)  # Loads the apps; the routing below needs them.

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402

from controlplane.routing import websocket_urlpatterns  # noqa: E402  (after the apps are loaded)
from upstream.django import Application  # noqa: E402
from webapi.body_limit import BodyLimit  # noqa: E402

_routes: Any = ProtocolTypeRouter({"http": Application(), "websocket": URLRouter(websocket_urlpatterns)})

application = BodyLimit(_routes)
