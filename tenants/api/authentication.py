"""Bearer tokens for Django REST framework; sockets and streams use the same function through `webapi.asgi_auth`."""

from __future__ import annotations

from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from kernel.actor import Actor
from kernel.errors import NotAuthenticated
from tenants.credentials import authenticate
from tenants.models import User
from webapi.asgi_auth import TOKEN_LENGTH_MAX


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer berth_<prefix>_<secret>`; `request.user` becomes the user and `request.auth` the actor."""

    def authenticate(self, request: Request) -> tuple[User, Actor] | None:
        header = request.headers.get("Authorization")
        if header is None:
            return None
        scheme, _, token = header.strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > TOKEN_LENGTH_MAX or not token.isascii():
            raise NotAuthenticated("The Authorization header holds no valid token.", hint="Send `Authorization: Bearer <token>`.")
        found = authenticate(token)
        request._request.facts = found.facts  # type: ignore[attr-defined]  # Read back by `webapi.actors.facts_of`.
        return found.user, found.actor

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="berth"'
