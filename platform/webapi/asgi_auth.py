"""Who acts, for everything outside Django REST framework: WebSockets, event streams, the bound on bodies.

One function answers everywhere. `tenants` registers it at start, because credentials are its rows; until then every caller is
anonymous. A credential is only ever a header, the cookie of a session, or, for WebSockets, a one-time ticket that `activity`
checks: never part of a URL. Code that lets a cookie count looks at the request's origin, too: the browser sends it by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections

from kernel.actor import Actor
from kernel.config import current
from kernel.errors import NotAuthenticated
from kernel.words import Text

TOKEN_LENGTH_MAX = 512  # Longer than any token of ours; nothing longer is hashed or looked up.

Authenticator = Callable[[str], Actor]

_authenticator: Authenticator | None = None
_session_authenticator: Authenticator | None = None


def register_authenticator(authenticator: Authenticator) -> None:
    """Install the function from a bearer token's text to its actor. It raises NotAuthenticated for a token that is not valid."""
    global _authenticator
    _authenticator = authenticator


def register_session_authenticator(authenticator: Authenticator) -> None:
    """The same for the text of a session's cookie."""
    global _session_authenticator
    _session_authenticator = authenticator


def session_cookie_name() -> str:
    """Over https the name forbids the cookie to come from or go to another host or path (security C28)."""
    return "__Host-berth-session" if current().public_url.startswith("https:") else "berth-session"


def session_text(cookies: str | None) -> str | None:
    """The session's text in a Cookie header; None without one."""
    text = cookie_value(cookies, session_cookie_name())
    return text if text and len(text) <= TOKEN_LENGTH_MAX and text.isascii() else None


def cookie_value(cookies: str | None, wanted: str) -> str | None:
    """One cookie of ours, whose values hold no quotes; None without it, and where there are two: one is not ours."""
    pairs = [part.strip().partition("=") for part in (cookies or "").replace(",", ";").split(";")]
    found = {value for name, _, value in pairs if name == wanted}
    return found.pop() if len(found) == 1 else None


def authenticate_cookie(cookies: str | None) -> Actor | None:
    """The actor of a Cookie header; None when it holds no session, NotAuthenticated when that is over."""
    text = session_text(cookies)
    return None if text is None or _session_authenticator is None else _session_authenticator(text)


def authenticate_header(header: str | None) -> Actor | None:
    """The actor of an `Authorization` header; None when there is none, NotAuthenticated when it is not valid."""
    if header is None:
        return None
    scheme, _, token = header.strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > TOKEN_LENGTH_MAX or not token.isascii():
        raise NotAuthenticated(
            Text("The Authorization header holds no valid token.", "Authorization 请求头中没有有效的令牌。"),
            hint=Text("Send `Authorization: Bearer <token>`.", "请发送 `Authorization: Bearer <token>`。"),
        )
    if _authenticator is None:
        raise NotAuthenticated(Text("No kind of token is accepted here.", "此处不接受任何令牌。"))
    return _authenticator(token)


async def authenticate_scope(scope: Mapping[str, Any]) -> Actor | None:
    """The actor of an ASGI connection (HTTP or WebSocket), by its header. Call it on every connection, before any work."""
    header = header_of(scope, b"authorization")
    if header is None:
        return None
    return await sync_to_async(_in_thread, thread_sensitive=False)(authenticate_header, header)


async def authenticate_scope_cookie(scope: Mapping[str, Any]) -> Actor | None:
    """The same by its cookie, which counts only where no header is sent."""
    cookies = header_of(scope, b"cookie")
    if cookies is None or header_of(scope, b"authorization") is not None:
        return None
    return await sync_to_async(_in_thread, thread_sensitive=False)(authenticate_cookie, cookies)


def header_of(scope: Mapping[str, Any], name: bytes) -> str | None:
    """One header of an ASGI connection, None when it is absent. Several of one name are joined as Django does."""
    values = [value.decode("latin-1") for key, value in scope.get("headers", ()) if key.lower() == name]
    return ",".join(values) if values else None


def _in_thread(authenticate: Callable[[str | None], Actor | None], text: str) -> Actor | None:
    try:
        return authenticate(text)
    finally:
        close_old_connections()  # The thread goes back to a pool and must not keep a connection.
