"""The console's site: its gate, its sessions, and the policy of its pages.

Sessions of its own exist below `/admin` alone: their middleware is put around the console's views and around nothing else. No
other request pays for it, and their cookie opens nothing but these pages. Who is signed in to the portal is in here as well.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.views import PasswordChangeView
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.utils.translation import gettext_lazy
from unfold.sites import UnfoldAdminSite

from activity.services import record_audit
from controlplane.console.language import DJANGO_CODES, spoken_to
from controlplane.console.signin import ChangePassword, SignIn
from kernel.actor import Actor
from kernel.clock import database_now
from kernel.words import Language
from tenants.identity.access import operator_actor
from tenants.identity.api.sessions import clear_cookie, end_former
from tenants.identity.credentials import user_of_cookies
from webapi.wording import reader_language

# Alpine, which opens the console's menus, evaluates attributes of its own pages; nothing inline is run.
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
View = Callable[..., Any]


def with_session(view: View) -> View:
    """The view with a session, a user and messages, answered under the console's policy."""

    @functools.wraps(view)
    def around(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        with spoken_to(request):
            response = answer(request, *args, **kwargs)
        response["Content-Language"] = DJANGO_CODES[Language(reader_language(request))]
        patch_vary_headers(response, ["Accept-Language"])
        return response

    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        def inner(request: HttpRequest) -> HttpResponse:
            if not getattr(request, "user", None) or not request.user.is_authenticated:
                # The way in for those with a second factor. Forms have the console's own CSRF value.
                request.user = user_of_cookies(request.META.get("HTTP_COOKIE")) or request.user
            request.actor = _operator(request)  # type: ignore[attr-defined]  # Read back by `webapi.console.operator_of`.
            response: HttpResponse = view(request, *args, **kwargs)
            # Rendered here: what a template writes into the session must be there when it is saved.
            return response.render() if isinstance(response, TemplateResponse) else response

        response: Any = SessionMiddleware(AuthenticationMiddleware(MessageMiddleware(inner)))(request)
        response["Content-Security-Policy"] = POLICY
        response["Referrer-Policy"] = "same-origin"  # With none at all browsers send forms from `Origin: null`.
        return response

    return around


def _operator(request: HttpRequest) -> Actor | None:
    """Asked anew on every request: who is no operator any more is out with the next click."""
    return operator_actor(getattr(request, "user", None), request_id=getattr(request, "request_id", ""))


class Console(UnfoldAdminSite):
    """For operators who are people; services and members are shown the sign-in, and told nothing more."""

    login_form = SignIn
    site_title = "Berth"
    site_url = None
    site_header = "Berth"
    index_title = gettext_lazy("Console")
    enable_nav_sidebar = True

    def has_permission(self, request: HttpRequest) -> bool:
        return _operator(request) is not None

    def admin_view(self, view: View, cacheable: bool = False) -> View:
        return with_session(super().admin_view(view, cacheable))

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        return with_session(self._login)(request, extra_context)

    def _login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        with transaction.atomic():
            response = super().login(request, extra_context)
            actor = _operator(request)
            if request.method == "POST" and actor is not None:
                record_audit(
                    actor=actor, verb="console.sign_in", tenant_id=None, target_kind="user", target_id=actor.user_id,
                    target_name=actor.name, at=database_now(),
                )  # fmt: skip
        return response

    def logout(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Out of the portal as well: its session would lead straight back in here."""
        response = super().logout(request, extra_context)
        if request.method == "POST":
            end_former(request)
            clear_cookie(response)
        return response

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """By the rules and with the consequences of the API: every token of the account ends, too."""
        view = PasswordChangeView.as_view(
            form_class=ChangePassword,
            success_url=reverse("admin:password_change_done"),
            template_name="registration/password_change_form.html",
            extra_context={**self.each_context(request), **(extra_context or {})},
        )
        return view(request)
