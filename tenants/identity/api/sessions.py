"""Signing in with a browser, over HTTP: cookies are set and cleared here and nowhere else."""

from __future__ import annotations

import contextlib
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.actor import Actor
from kernel.clock import database_now
from kernel.config import current
from kernel.errors import BerthError
from tenants.identity import directory, oidc, selectors
from tenants.identity.access import demand
from tenants.identity.api import session_bodies as bodies
from tenants.identity.api import shapes
from tenants.identity.api.authentication import BySession, csrf_of, demand_own_page, known, session_of
from tenants.identity.known_browsers import KNOWN_SECONDS, seal, unseal
from tenants.identity.models import BrowserSession, Token, User
from tenants.identity.services.directory_people import connect_directory
from tenants.identity.services.sessions import (
    Browser,
    SignedIn,
    end_other_sessions,
    end_session,
    live_sessions,
    refuse_many_own,
    sign_in,
)
from tenants.identity.services.users import set_password
from webapi.access import fetch, visible
from webapi.addresses import client_address
from webapi.asgi_auth import authenticate_cookie, cookie_value, session_cookie_name
from webapi.pagination import page
from webapi.schema import page_of
from webapi.views import ApiView, Public, known_query


class SessionView(ApiView):
    """The session of the browser that asks."""

    permission_classes = (BySession,)
    public_methods = frozenset({"POST"})
    is_by_session = True

    def get_authenticators(self) -> list[Any]:
        """A caller who signs in is anonymous until then, whatever else the request brings."""
        request = getattr(self, "request", None)
        return [] if request is not None and request.method == "POST" else list(super().get_authenticators())

    @extend_schema(responses=bodies.SessionOut)
    def get(self, request: Request) -> Response:
        """Get the user signed in with this browser, and the CSRF value that each change must send."""
        session = Token.objects.get(id=known(self.actor.token_id))
        user = fetch(self.actor, User, str(self.actor.user_id), "user.read")
        return Response(_shown(self.actor, user, session, session_of(request) or ""))

    # Not idempotent by key: the kept answer would hold the CSRF value, and no cookie.
    @extend_schema(request=bodies.SignInBody, responses={201: bodies.SessionOut})
    def post(self, request: Request) -> Response:
        """Sign in with a name or e-mail address and a password. The answer sets the cookie of a new session.

        `second_factor_required`: `code` is missing; repeat the request with it. Too many attempts are `locked` for a while.
        """
        demand_own_page(request)
        body = bodies.SignInBody.validated(request.data)
        now = database_now()
        signed_in = sign_in(name=body["name"], password=body["password"], code=body["code"], browser=browser_of(request), now=now)
        end_former(request)
        user, session = signed_in.user, signed_in.session
        response = Response(_shown(signed_in.actor, user, session, signed_in.text), status=201)
        set_cookies(response, request, signed_in)
        return response

    @extend_schema(responses={204: None})
    def delete(self, request: Request) -> Response:
        """Sign out: the session ends at once, with all its live connections."""
        session = Token.objects.get(id=known(self.actor.token_id))
        end_session(actor=self.actor, session=session, now=database_now())
        response = Response(status=204)
        clear_cookie(response)
        return response


class SignInMethodsView(ApiView):
    """Ways to sign in."""

    permission_classes = (Public,)
    authentication_classes = ()

    @extend_schema(responses=bodies.SignInMethodsOut)
    def get(self, request: Request) -> Response:
        """Get the ways to sign in."""
        known_query(request, ())
        config = current()
        provider = {"name": config.oidc_name, "url": "/sign-in/oidc"} if oidc.is_on(config) else None
        return Response({"password": True, "directory": directory.is_on(config), "oidc": provider})


class SessionsView(ApiView):
    """Where you are signed in."""

    @extend_schema(responses=page_of(bodies.OwnSessionOut))
    def get(self, request: Request) -> Response:
        """List your browser sessions, newest first."""
        known_query(request, ())
        demand(self.actor, None, "session.read")
        rows = live_sessions(visible(self.actor, BrowserSession), now=database_now())
        return page(request, rows, order=("-id",), serialize=lambda rows: shapes.show_sessions(self.actor, rows))


class OneSessionView(ApiView):
    """One browser."""

    @extend_schema(responses={204: None})
    def delete(self, request: Request, session_id: str) -> Response:
        """Sign out a browser session of yours: it ends at once, with all its live connections."""
        session = fetch(self.actor, BrowserSession, session_id, "session.delete")
        end_session(actor=self.actor, session=session, now=database_now())
        return Response(status=204)


class EndOthersView(ApiView):
    """All browsers but this one."""

    @extend_schema(request=None, responses=bodies.EndedOut)
    def post(self, request: Request) -> Response:
        """End all your sessions but the present one."""
        return Response({"ended": end_other_sessions(actor=self.actor, now=database_now())})


class PasswordView(ApiView):
    """One's own password."""

    @extend_schema(request=bodies.PasswordBody, responses={204: None})
    def post(self, request: Request) -> Response:
        """Change your password. All your tokens and other sessions end."""
        demand(self.actor, None, "user.edit_self")
        body = bodies.PasswordBody.validated(request.data)
        user = User.objects.get(id=known(self.actor.user_id))
        refuse_many_own(self.actor, user)
        set_password(actor=self.actor, user=user, old=body["current"], new=body["new"], now=database_now())
        return Response(status=204)


class ConnectDirectoryView(ApiView):
    """A person of the directory, and the account that is signed in."""

    permission_classes = (BySession,)
    is_by_session = True

    @extend_schema(request=bodies.DirectoryBody, responses={204: None})
    def post(self, request: Request) -> Response:
        """Link your account with the directory; from then on its password signs you in, too."""
        demand(self.actor, None, "user.edit_self")
        body = bodies.DirectoryBody.validated(request.data)
        refuse_many_own(self.actor, User.objects.get(id=known(self.actor.user_id)))
        connect_directory(actor=self.actor, name=body["name"], password=body["password"], now=database_now())
        return Response(status=204)


def browser_of(request: Request | HttpRequest) -> Browser:
    """What is kept of the browser that signs in."""
    meta = request.META
    known = unseal(cookie_value(meta.get("HTTP_COOKIE"), known_cookie_name()))
    return Browser(meta.get("HTTP_USER_AGENT", ""), client_address(meta), getattr(request, "request_id", "") or "", known)


def end_former(request: Request | HttpRequest) -> None:
    """End the session that a browser had before it signed in anew."""
    with contextlib.suppress(BerthError):
        former = authenticate_cookie(request.META.get("HTTP_COOKIE"))
        if former is not None:
            end_session(actor=former, session=Token.objects.get(id=known(former.token_id)), now=database_now())


def set_cookies(response: Any, request: Request | HttpRequest, signed_in: SignedIn) -> None:
    """The session's, and the one by which the browser is known. Lax, because a sign-in elsewhere leads back here from another
    site; neither opens a change by itself."""
    known = seal(signed_in.user.pk, browser_of(request).known)
    ages = {session_cookie_name(): current().session_days * 86_400, known_cookie_name(): KNOWN_SECONDS}
    for (name, age), text in zip(ages.items(), (signed_in.text, known), strict=True):
        response.set_cookie(name, text, max_age=age, path="/", secure=settings.IS_HTTPS, httponly=True, samesite="Lax")


def known_cookie_name() -> str:
    return "__Host-berth-known" if settings.IS_HTTPS else "berth-known"


def clear_cookie(response: Any) -> None:
    response.set_cookie(session_cookie_name(), "", max_age=0, path="/", secure=settings.IS_HTTPS, httponly=True, samesite="Lax")


def _shown(actor: Actor, user: User, session: Token, text: str) -> dict[str, Any]:
    return {
        **shapes.show_who(user, selectors.tenants_of(actor)),
        "session": str(session.pk),
        "csrf": csrf_of(text),
        "expires_at": session.expires_at,
    }
