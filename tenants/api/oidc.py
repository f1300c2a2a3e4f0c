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
from tenants import oidc
from tenants.access import demand
from tenants.api import session_bodies as bodies
from tenants.api.authentication import BySession
from tenants.api.sessions import browser_of, end_former, set_cookies
from tenants.identity_claims import SignInFailed
from tenants.services.external import connect, of_provider, person_of
from tenants.services.sessions import open_session
from tenants.services.trips import spend_state
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
    trip = oidc.new_trip(request.GET.get("next", "/"))
    try:
        _count(request)
        response = HttpResponseRedirect(oidc.leave_url(config, trip))
    except SignInFailed as failure:
        return _failed(failure, trip.next)
    _set_trip(response, oidc.sealed(trip))
    return response


@require_safe
def come_back(request: HttpRequest) -> HttpResponseRedirect:
    """Sign in whom the provider speaks of, in the browser that set out."""
    config, now, next_path = current(), database_now(), "/"
    try:
        _count(request)
        trip = oidc.unsealed(cookie_value(request.META.get("HTTP_COOKIE"), trip_cookie_name()) or "")
        next_path = trip.next
        spend_state(trip.state, now=now)
        if "error" in request.GET:
            raise SignInFailed("oidc_refused", f"the provider says {request.GET['error'][:60]!r}")
        claims = oidc.come_back(config, trip, state=request.GET.get("state", ""), code=request.GET.get("code", "")[:2_000])
        actor = _connecting(request, trip)
        policy = of_provider(config)
        user = connect(claims, actor=actor, policy=policy, now=now) if actor else person_of(claims, policy=policy, now=now)
        signed_in = open_session(user, browser=browser_of(request), how="oidc", now=now)
    except SignInFailed as failure:
        response = _failed(failure, next_path)
    else:
        end_former(request)
        response = HttpResponseRedirect(next_path)
        set_cookies(response, request, signed_in)
    _set_trip(response, "")
    return response


class ConnectView(ApiView):
    """A person of the provider, and the account that is signed in."""

    permission_classes = (BySession,)
    is_by_session = True

    @extend_schema(request=None, responses=bodies.ConnectOut)
    def post(self, request: Request) -> Response:
        """Set out to connect your account with the identity provider: send the browser to the address within ten minutes."""
        demand(self.actor, None, "user.edit_self")
        trip = oidc.new_trip("/account", user_id=str(self.actor.user_id))
        try:
            _count(request)
            response = Response({"url": oidc.leave_url(current(), trip)})
        except SignInFailed as failure:
            log.warning("oidc_sign_in_failed", code=failure.code, reason=str(failure))
            raise Unavailable("The identity provider cannot be used now.", hint="Try again later, or ask an operator.") from None
        _set_trip(response, oidc.sealed(trip))
        return response


def _connecting(request: HttpRequest, trip: oidc.Trip) -> Actor | None:
    """Who set out to connect an account, and is still signed in with this browser; None where somebody just signs in."""
    if not trip.user_id:
        return None
    try:
        actor = authenticate_cookie(request.META.get("HTTP_COOKIE"))
    except NotAuthenticated:
        actor = None
    if actor is None or str(actor.user_id) != trip.user_id:
        raise SignInFailed("oidc_state", "whoever set out is not signed in any more")
    return actor


def trip_cookie_name() -> str:
    return "__Host-berth-oidc" if settings.IS_HTTPS else "berth-oidc"


def _set_trip(response: HttpResponseBase, text: str) -> None:
    """Lax: the provider leads the browser back from another site. Empty text clears it."""
    response.set_cookie(
        trip_cookie_name(), text, max_age=oidc.TRIP_SECONDS if text else 0, path="/", secure=settings.IS_HTTPS, httponly=True,
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
