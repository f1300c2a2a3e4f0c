"""The two addresses of signing in elsewhere: where a browser sets out, and where it comes back. No part of the API.

Whatever fails leads to the sign-in page with a code, `/sign-in?error=<code>`, and into the log with its reason:

    oidc_off           no provider is set up                     oidc_state    the way back is too old, was used, or is another's
    oidc_unavailable   the provider does not answer as it should oidc_token    what the provider signed is wrong
    oidc_refused       the provider, or the person, said no      oidc_domain   the address is of another domain
    oidc_groups        the provider says nothing of groups       no_account    there is no account, and none is made
    account_disabled   the account is disabled                   too_many      too many sign-ins from this address
    link_needed        the account has a password: sign in with it once, and connect it (POST /api/v1/identities:connect)
    oidc_taken         this person of the provider is connected with another account
"""

from __future__ import annotations

from urllib.parse import urlencode

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import path
from django.views.decorators.http import require_safe
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.actor import Actor
from kernel.clock import database_now
from kernel.config import current
from kernel.errors import NotAuthenticated, Unavailable
from kernel.words import Text
from tenants.identity import oidc
from tenants.identity.access import demand
from tenants.identity.api import session_bodies as bodies
from tenants.identity.api.authentication import BySession
from tenants.identity.api.sessions import browser_of, end_former, set_cookies
from tenants.identity.identity_claims import SignInFailed
from tenants.identity.services.external import connect, of_provider, person_of
from tenants.identity.services.oidc_states import spend_state
from tenants.identity.services.sessions import open_session
from webapi.addresses import client_address, network_of
from webapi.asgi_auth import authenticate_cookie, cookie_value
from webapi.throttles import Charge, take_all
from webapi.views import ApiView

TRIES_PER_MINUTE = 30  # Of one address: an office has one.

log = structlog.get_logger("tenants")


@require_safe
def set_out(request: HttpRequest) -> HttpResponseRedirect:
    """Send the browser to the provider, with what it needs to come back."""
    config = current()
    auth_request = oidc.new_auth_request(request.GET.get("next", "/"))
    try:
        _count(request)
        response = HttpResponseRedirect(oidc.leave_url(config, auth_request))
    except SignInFailed as failure:
        return _failed(failure, auth_request.next)
    _set_state(response, oidc.sealed(auth_request))
    return response


@require_safe
def come_back(request: HttpRequest) -> HttpResponseRedirect:
    """Sign in whom the provider speaks of, in the browser that set out."""
    config, now, next_path = current(), database_now(), "/"
    try:
        _count(request)
        auth_request = oidc.unsealed(cookie_value(request.META.get("HTTP_COOKIE"), state_cookie_name()) or "")
        next_path = auth_request.next
        spend_state(auth_request.state, now=now)
        if "error" in request.GET:
            raise SignInFailed("oidc_refused", f"the provider says {request.GET['error'][:60]!r}")
        claims = oidc.come_back(
            config, auth_request, state=request.GET.get("state", ""), code=request.GET.get("code", "")[:2_000]
        )
        actor = _connecting(request, auth_request)
        policy = of_provider(config)
        user = connect(claims, actor=actor, policy=policy, now=now) if actor else person_of(claims, policy=policy, now=now)
        signed_in = open_session(user, browser=browser_of(request), how="oidc", now=now)
    except SignInFailed as failure:
        response = _failed(failure, next_path)
    else:
        end_former(request)
        response = HttpResponseRedirect(next_path)
        set_cookies(response, request, signed_in)
    _set_state(response, "")
    return response


class ConnectView(ApiView):
    """A person of the provider, and the account that is signed in."""

    permission_classes = (BySession,)
    is_by_session = True

    @extend_schema(request=None, responses=bodies.ConnectOut)
    def post(self, request: Request) -> Response:
        """Begin to link your account with the identity provider; send the browser to the address within ten minutes."""
        demand(self.actor, None, "user.edit_self")
        auth_request = oidc.new_auth_request("/account", user_id=str(self.actor.user_id))
        try:
            _count(request)
            response = Response({"url": oidc.leave_url(current(), auth_request)})
        except SignInFailed as failure:
            log.warning("oidc_sign_in_failed", code=failure.code, reason=str(failure))
            raise Unavailable(
                Text("The identity provider cannot be used now.", "目前无法使用身份提供方。"),
                hint=Text("Try again later, or ask an operator.", "请稍后重试，或联系运维人员。"),
            ) from None
        _set_state(response, oidc.sealed(auth_request))
        return response


def _connecting(request: HttpRequest, auth_request: oidc.AuthRequest) -> Actor | None:
    """The user who set out to connect an account, and is still signed in with this browser; None at a plain sign-in."""
    if not auth_request.user_id:
        return None
    try:
        actor = authenticate_cookie(request.META.get("HTTP_COOKIE"))
    except NotAuthenticated:
        actor = None
    if actor is None or str(actor.user_id) != auth_request.user_id:
        raise SignInFailed("oidc_state", "whoever set out is not signed in any more")
    return actor


def state_cookie_name() -> str:
    return "__Host-berth-oidc" if settings.IS_HTTPS else "berth-oidc"


def _set_state(response: HttpResponseBase, text: str) -> None:
    """Lax: the provider leads the browser back from another site. Empty text clears it."""
    response.set_cookie(
        state_cookie_name(), text, max_age=oidc.STATE_SECONDS if text else 0, path="/", secure=settings.IS_HTTPS, httponly=True,
        samesite="Lax",
    )  # fmt: skip


def _count(request: HttpRequest | Request) -> None:
    [wait] = take_all([Charge(f"oidc:{network_of(client_address(request.META))}", TRIES_PER_MINUTE)])
    if wait:
        raise SignInFailed("too_many", "too many sign-ins from this address")


def _failed(failure: SignInFailed, next_path: str) -> HttpResponseRedirect:
    log.warning("oidc_sign_in_failed", code=failure.code, reason=str(failure))
    query = {"error": failure.code} | ({"next": next_path} if next_path != "/" else {})
    return HttpResponseRedirect(f"/sign-in?{urlencode(query)}")


urlpatterns = [
    path("sign-in/oidc", set_out, name="oidc"),
    path("sign-in/oidc/return", come_back, name="oidc-return"),
]
