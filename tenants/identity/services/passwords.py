"""Whose password it is: one kept here, or the directory's."""

from __future__ import annotations

from django.contrib.auth.hashers import make_password

from kernel.config import current
from kernel.errors import BerthError
from kernel.words import Text
from tenants.identity import directory
from tenants.identity.models import ExternalIdentity, User
from tenants.identity.services.names import PASSWORD_LENGTH_MAX


class PasswordElsewhere(BerthError):
    """The account has no password in Berth; its owner signs in through a directory or an identity provider."""

    code = "password_elsewhere"
    status = 409
    title = Text("The password is kept elsewhere", "密码不在此处保存")


def is_own(user: User | None, password: str) -> bool:
    """Whether it is the account's own password. One hash is computed in any case."""
    if len(password) > PASSWORD_LENGTH_MAX:
        return False
    if user is None or not user.has_usable_password():
        make_password(password)  # As long as a comparison takes.
        return False
    return user.check_password(password)


def has_one(user: User) -> bool:
    """Whether there is a password, here or in the directory, by which the user shows who they are."""
    return user.has_usable_password() or _subject_in_directory(user) is not None


def kept_in(user: User) -> str | None:
    """Where the password is, by which the user shows who they are: `here` or `directory`. None: there is none."""
    if user.has_usable_password():
        return "here"
    return "directory" if has_one(user) else None


def belongs_to(user: User, password: str) -> bool:
    """Whether it is the user's own password, or the one that the directory keeps of them. DirectoryUnavailable."""
    if user.has_usable_password() or len(password) > PASSWORD_LENGTH_MAX:
        return is_own(user, password)
    subject = _subject_in_directory(user)
    return subject is not None and directory.ask_again(current(), subject=subject, password=password)


def demand_kept_here(user: User) -> None:
    """PasswordElsewhere for who cannot change a password here."""
    if not user.has_usable_password():
        raise PasswordElsewhere(
            Text("This account has no password of its own here.", "此账户在此没有自己的密码。"),
            hint=Text(
                "Change it where your organisation keeps it; the new one counts here at once.",
                "请在贵机构保存密码处修改；新密码在此立即生效。",
            ),
        )


def _subject_in_directory(user: User) -> str | None:
    if not directory.is_on(current()):
        return None
    rows = ExternalIdentity.objects.filter(user=user, issuer=directory.issuer_of(current()))
    return rows.values_list("subject", flat=True).first()
