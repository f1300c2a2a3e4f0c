"""Who acts, for everything outside Django REST framework: WebSockets, event streams, the bound on bodies.

One function answers everywhere. `tenants` registers it at start, because credentials are its rows; until then nobody is
anybody. A credential is only ever a header (or, for WebSockets, a one-time ticket that `activity` checks): never part of a URL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections

from kernel.actor import Actor
from kernel.errors import NotAuthenticated

TOKEN_LENGTH_MAX = 512  # Longer than any token of ours; nothing longer is hashed or looked up.

Authenticator = Callable[[str], Actor]

_authenticator: Authenticator | None = None


def register_authenticator(authenticator: Authenticator) -> None:
    """Install the function from a bearer token's text to its actor. It raises NotAuthenticated for a token that is not valid."""
    global _authenticator
    _authenticator = authenticator


def authenticate_header(header: str | None) -> Actor | None:
    """The actor of an `Authorization` header; None when there is none, NotAuthenticated when it is not valid."""
    if header is None:
        return None
    scheme, _, token = header.strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > TOKEN_LENGTH_MAX or not token.isascii():
        raise NotAuthenticated("The Authorization header holds no valid token.", hint="Send `Authorization: Bearer <token>`.")
    if _authenticator is None:
        raise NotAuthenticated("No kind of token is accepted here.")
    return _authenticator(token)


async def authenticate_scope(scope: Mapping[str, Any]) -> Actor | None:
    """The actor of an ASGI connection (HTTP or WebSocket), by its header. Call it on every connection, before any work."""
    header = header_of(scope, b"authorization")
    if header is None:
        return None
    return await sync_to_async(_authenticate_in_thread, thread_sensitive=False)(header)


def header_of(scope: Mapping[str, Any], name: bytes) -> str | None:
    """One header of an ASGI connection, None when it is absent. Several of one name are joined as Django does."""
    values = [value.decode("latin-1") for key, value in scope.get("headers", ()) if key.lower() == name]
    return ",".join(values) if values else None


def _authenticate_in_thread(header: str) -> Actor | None:
    try:
        return authenticate_header(header)
    finally:
        close_old_connections()  # The thread goes back to a pool and must not keep a connection.
