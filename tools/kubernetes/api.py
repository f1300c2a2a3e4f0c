"""Requests to an API server, as plain JSON and without a client library: what starts a cluster must not lean on what it tests."""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

REQUEST_SECONDS_MAX = 30.0


class ApiRefused(Exception):
    """The API server answered with an error. `reason` is its own word for it: NotFound, AlreadyExists, Forbidden, Invalid ..."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class Api:
    """An API server, spoken to with a certificate. Each request has a connection of its own, so threads may share this."""

    def __init__(self, server: str, authority: Path, certificate: Path, key: Path) -> None:
        address = urlsplit(server)
        assert address.hostname is not None
        assert address.port is not None
        self._host, self._port = address.hostname, address.port
        self._context = ssl.create_default_context(cafile=str(authority))
        self._context.load_cert_chain(certificate, key)

    def request(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json",
        seconds: float = REQUEST_SECONDS_MAX,
    ) -> Any:  # fmt: skip
        """The answer as parsed JSON. Raises ApiRefused, and OSError or HTTPException where nothing answers."""
        return json.loads(self.text(method, path, body, content_type=content_type, seconds=seconds))

    def text(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json",
        seconds: float = REQUEST_SECONDS_MAX,
    ) -> str:  # fmt: skip
        """The answer as it is. Raises as `request`."""
        connection = http.client.HTTPSConnection(self._host, self._port, timeout=seconds, context=self._context)
        try:
            content = None if body is None else json.dumps(body).encode()
            connection.request(method, path, content, {"Content-Type": content_type, "Accept": "application/json, */*"})
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        finally:
            connection.close()
        if answer.status >= 400:
            raise _refused(answer.status, text)
        return text

    def is_ready(self) -> bool:
        """Whether it takes requests."""
        try:
            return self.text("GET", "/readyz", seconds=5.0) == "ok"
        except (OSError, http.client.HTTPException, ApiRefused):
            return False


def _refused(status: int, text: str) -> ApiRefused:
    """From the `Status` object that an API server sends; proxies and the kubelet send text."""
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        return ApiRefused(status, "", text.strip())
    return ApiRefused(status, str(answer.get("reason", "")), str(answer.get("message", "")))
