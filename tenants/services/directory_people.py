"""Whose account it is that the LDAP directory speaks of, and how an account that was there is connected with it."""

from __future__ import annotations

from datetime import datetime

import structlog

from kernel.actor import Actor
from kernel.config import Config, current
from kernel.errors import BerthError, FieldError, InvalidInput, Unavailable
from tenants import directory
from tenants.access import demand
from tenants.identity_claims import Claims, SignInFailed
from tenants.models import User
from tenants.services.external import connect, of_directory, person_of
from tenants.services.names import PASSWORD_LENGTH_MAX

REASONS = {
    "link_needed": "An account here has this person's name or address, and it is not connected with them.",
    "oidc_taken": "This person of the directory is connected with another account.",
    "no_account": "The directory knows this person, and there is no account for them here.",
    "account_disabled": "The account is disabled.",
}

log = structlog.get_logger("tenants")


class DirectoryRefused(BerthError):
    """The directory knows name and password, and the person may not come in here yet."""

    code = "directory_refused"
    status = 403
    title = "The directory's person has no way in"


def user_by_directory(name: str, password: str, *, namesake: User | None, now: datetime) -> User | None:
    """The active person of whom the directory, where there is one, says that name and password belong together. `namesake` has
    the account of that name. DirectoryRefused for somebody else of the directory, DirectoryUnavailable."""
    config = current()
    claims = _ask(config, name, password) if directory.is_on(config) else None
    if claims is None:
        return None
    try:
        return person_of(claims, policy=of_directory(config), now=now, namesake=namesake)
    except SignInFailed as failure:
        if failure.code == "account_disabled":  # Told as for a password of our own: nothing.
            log.warning("directory_sign_in_failed", code=failure.code, reason=str(failure))
            return None
        raise _refused(failure) from None


def connect_directory(*, actor: Actor, name: str, password: str, now: datetime) -> None:
    """Let a person of the directory be the user who asks, from now on: they come in by the directory's password, too."""
    demand(actor, None, "user.edit_self")
    config = current()
    if not directory.is_on(config):
        raise Unavailable("This server has no directory.", hint="Ask an operator; BERTH_LDAP_URL sets one.")
    claims = _ask(config, name, password)
    if claims is None:
        message = "The directory does not know this name with this password."
        raise InvalidInput(message, fields=[FieldError("/password", "wrong_password", message)])
    try:
        connect(claims, actor=actor, policy=of_directory(config), now=now)
    except SignInFailed as failure:
        raise _refused(failure) from None


def _ask(config: Config, name: str, password: str) -> Claims | None:
    return directory.ask(config, name=name.strip(), password=password) if len(password) <= PASSWORD_LENGTH_MAX else None


def _refused(failure: SignInFailed) -> DirectoryRefused:
    log.warning("directory_sign_in_failed", code=failure.code, reason=str(failure))
    return DirectoryRefused(
        REASONS.get(failure.code, str(failure)),
        hint="Whoever has an account signs in by its own password and connects it once; else ask an operator.",
    )
