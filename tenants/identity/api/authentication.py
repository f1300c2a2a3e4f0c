"""The sender of a request, for Django REST framework: a bearer token, or the cookie of a browser's session.

A browser sends its cookie by itself, whichever site's page asked for it. So what changes anything and comes by cookie brings a
header that only our own pages can know and send, and comes from our own origin (security T13). Sockets and streams use the same
credentials through `webapi.asgi_auth`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import uuid

from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from activity import origins
from kernel.actor import Actor
from kernel.config import current
from kernel.errors import BerthError, NotAuthenticated
from kernel.words import Text
from tenants.identity.credentials import authenticate
from tenants.identity.models import TokenKind, User
from upstream.rest_framework import plain, remember
from webapi.asgi_auth import TOKEN_LENGTH_MAX, session_text

CSRF_HEADER = "X-Berth-CSRF"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_SITES = frozenset({"same-origin", "none"})  # Of Sec-Fetch-Site: our own pages, and what a person typed.
_CSRF_PURPOSE = b"berth csrf v1"


class CsrfFailed(BerthError):
    """A request by a session's cookie that changes something lacks the session's CSRF value, or comes from another site."""

    code = "csrf_failed"
    status = 403
    title = Text("The request does not come from this portal", "请求并非来自本门户")


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer berth_<prefix>_<secret>`; `request.user` becomes the user and `request.auth` the actor."""

    def authenticate(self, request: Request) -> tuple[User, Actor] | None:
        header = request.headers.get("Authorization")
        if header is None:
            return None
        scheme, _, token = header.strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > TOKEN_LENGTH_MAX or not token.isascii():
            raise NotAuthenticated(
                Text("The Authorization header holds no valid token.", "Authorization 请求头中没有有效的令牌。"),
                hint=Text("Send `Authorization: Bearer <token>`.", "请发送 `Authorization: Bearer <token>`。"),
            )
        found = authenticate(token)
        remember(request, facts=found.facts)  # Read back by `webapi.actors.facts_of`.
        return found.user, found.actor

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="berth"'


class SessionAuthentication(BaseAuthentication):
    """The session's cookie, where no Authorization header is sent. A session that no longer counts is as good as none: a
    browser keeps sending it until a user signs in again."""

    def authenticate(self, request: Request) -> tuple[User, Actor] | None:
        text = session_text(request.META.get("HTTP_COOKIE")) if request.headers.get("Authorization") is None else None
        if text is None:
            return None
        try:
            found = authenticate(text, TokenKind.SESSION)
        except NotAuthenticated:
            return None
        if request.method not in SAFE_METHODS:
            demand_csrf(request, text)
        remember(request, facts=found.facts, session_text=text)  # Read back as above, and by `session_of`.
        return found.user, found.actor

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="berth"'


class BySession(BasePermission):
    """Lets in callers with a session, which only browsers have."""

    def has_permission(self, request: Request, view: object) -> bool:
        if session_of(request) is None:
            raise NotAuthenticated(
                Text("This needs a session of a browser.", "此操作需要浏览器会话。"),
                hint=Text("Sign in with POST /api/v1/session.", "请用 POST /api/v1/session 登录。"),
            )
        return True


def known(found: uuid.UUID | None) -> uuid.UUID:
    """The id of a user or credential where a permission has made sure that there is one."""
    assert found is not None, "nobody is signed in"
    return found


def session_of(request: Request) -> str | None:
    """The text of the session by which a request came; None for tokens and strangers."""
    if request.auth is None:
        return None
    text = getattr(plain(request), "session_text", None)
    return text if isinstance(text, str) else None


def csrf_of(text: str) -> str:
    """A session's CSRF value: follows from its secret, so nothing more is kept, and says nothing about it."""
    digest = hmac.new(text.encode(), _CSRF_PURPOSE, hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def demand_csrf(request: Request, text: str) -> None:
    """Raise CsrfFailed unless one of our own pages sent the request: the browser tells so, and the page knows the value.

    The value alone is not enough. Every browser that can hold a session sends `Origin` or `Sec-Fetch-Site` with a write.
    """
    demand_own_page(request)
    if request.headers.get("Origin") is None and request.headers.get("Sec-Fetch-Site", "").lower() != "same-origin":
        raise CsrfFailed(
            Text(
                "This request says of no page that sent it, by neither Origin nor Sec-Fetch-Site.",
                "请求的 Origin 与 Sec-Fetch-Site 均未说明它来自哪个页面。",
            ),
            hint=Text(
                "Write through the portal; programs use a token instead of a session.", "请通过门户修改；程序请使用令牌而非会话。"
            ),
        )
    sent = request.headers.get(CSRF_HEADER, "")
    if not hmac.compare_digest(sent.encode("utf-8", "replace"), csrf_of(text).encode()):
        raise CsrfFailed(
            Text(
                f"The header {CSRF_HEADER} does not hold the value of this session.", f"请求头 {CSRF_HEADER} 的值与此会话不符。"
            ),
            hint=Text(
                "Load the page again; GET /api/v1/session gives the value.", "请重新加载页面；GET /api/v1/session 给出该值。"
            ),
        )


def demand_own_page(request: Request) -> None:
    """Raise CsrfFailed for what a browser sends on behalf of another site's page."""
    origin = request.headers.get("Origin")
    is_own = origin is None or origins.is_allowed([origin], current())
    if not is_own or request.headers.get("Sec-Fetch-Site", "none").lower() not in OWN_SITES:
        raise CsrfFailed(
            Text("A page of another origin sent this request.", "此请求来自其他来源的页面。"),
            hint=Text(
                "Open the portal under its own address; an operator sets it as BERTH_PUBLIC_URL.",
                "请用门户自己的地址打开；该地址由运维人员通过 BERTH_PUBLIC_URL 设置。",
            ),
        )
