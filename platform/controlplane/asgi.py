"""The web server's entry: HTTP to Django, WebSockets to the live channels. Nothing else listens."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

from django.core.asgi import get_asgi_application

_http = get_asgi_application()  # Loads the apps; the routing below needs them.

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402

from activity.routing import websocket_urlpatterns  # noqa: E402  (after the apps are loaded)
from webapi.body_limit import BodyLimit  # noqa: E402

_routes: Any = ProtocolTypeRouter({"http": _http, "websocket": URLRouter(websocket_urlpatterns)})

application = BodyLimit(_routes)
