"""Signing in to the console: a name, a password, and patience for neither guessing nor flooding."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _
from unfold.forms import AdminOwnPasswordChangeForm, AuthenticationForm

from kernel.clock import database_now
from kernel.errors import BerthError
from tenants.identity.access import actor_for, operator_actor
from tenants.identity.api.sessions import browser_of
from tenants.identity.services.second_factor import has_second_factor
from tenants.identity.services.sessions import Browser, tries_of
from tenants.services import set_password
from webapi.console import words


class SignIn(AuthenticationForm):
    """Operators only. Other users are told the same as at a wrong password: the form says nothing about who exists."""

    def clean(self) -> dict[str, Any]:
        """Count the try before the password is looked at, which costs a tenth of a second."""
        name = str(self.cleaned_data.get("username", ""))[:150].lower()
        tries = tries_of(name, browser_of(self.request) if self.request is not None else Browser("", ""))
        wait = tries.count()
        if wait:
            raise ValidationError(
                _("Too many tries. Try again in %(seconds)s seconds."), code="too_many_requests", params={"seconds": wait}
            )
        found = dict(super().clean() or {})
        tries.give_back()
        return found

    def confirm_login_allowed(self, user: Any) -> None:
        if operator_actor(user) is None:
            raise self.get_invalid_login_error()
        if has_second_factor(user.pk):
            raise ValidationError(
                _("This account has a second factor: sign in to the portal, then open this page again."),
                code="second_factor_required",
            )


class ChangePassword(AdminOwnPasswordChangeForm):
    """One's own password, changed by the service that the API uses."""

    def clean(self) -> dict[str, Any]:
        """All is done here, where what the service refuses still reaches the form."""
        given = dict(super().clean() or {})
        if self.errors:
            return given
        old, new = given["old_password"], given["new_password1"]
        try:
            set_password(actor=actor_for(self.user, None), user=self.user, old=old, new=new, now=database_now())
        except BerthError as error:
            self.add_error("new_password1", ValidationError(words(error), code=str(error.code)))
        return given

    def save(self, commit: bool = True) -> Any:
        return self.user
