"""Whose account it is that the LDAP directory speaks of, and how an account that was there is connected with it."""

from __future__ import annotations

from datetime import datetime

import structlog

from kernel.actor import Actor
from kernel.config import Config, current
from kernel.errors import BerthError, FieldError, InvalidInput, Unavailable
from kernel.words import Text
from tenants.identity import directory
from tenants.identity.access import demand
from tenants.identity.identity_claims import Claims, SignInFailed
from tenants.identity.models import User
from tenants.identity.services.external import connect, of_directory, person_of
from tenants.identity.services.names import PASSWORD_LENGTH_MAX

REASONS = {
    "link_needed": Text(
        "An account here has this person's name or address, and it is not connected with them.",
        "此处已有账户使用该用户的名称或邮箱，但尚未与其关联。",
    ),
    "oidc_taken": Text("This person of the directory is connected with another account.", "目录中的该用户已与其他账户关联。"),
    "no_account": Text(
        "The directory knows this person, and there is no account for them here.", "目录中有该用户，但此处没有其账户。"
    ),
    "account_disabled": Text("The account is disabled.", "该账户已被停用。"),
}

log = structlog.get_logger("tenants")


class DirectoryRefused(BerthError):
    """Name and password are valid, but the user has no account in Berth yet."""

    code = "directory_refused"
    status = 403
    title = Text("The directory's user cannot sign in", "目录中的用户不能登录")


def user_by_directory(name: str, password: str, *, namesake: User | None, now: datetime) -> User | None:
    """The active person of whom the directory, where there is one, says that name and password belong together. `namesake` has
    the account of that name. DirectoryRefused for another person of the directory, DirectoryUnavailable."""
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
        raise Unavailable(
            Text("This server has no directory.", "本服务器没有目录服务。"),
            hint=Text("Ask an operator; BERTH_LDAP_URL sets one.", "请联系运维人员；由 BERTH_LDAP_URL 设置。"),
        )
    claims = _ask(config, name, password)
    if claims is None:
        message = Text("The directory does not know this name with this password.", "目录中没有与此名称和密码相符的用户。")
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
        hint=Text(
            "A user with an account signs in by its own password and connects it once; else ask an operator.",
            "已有账户的用户请用自己的密码登录并关联一次；否则请联系运维人员。",
        ),
    )
