"""Whose password it is: one kept here, or the directory's."""

from __future__ import annotations

from django.contrib.auth.hashers import make_password

from kernel.config import current
from kernel.errors import BerthError
from tenants import directory
from tenants.models import ExternalIdentity, User
from tenants.services.names import PASSWORD_LENGTH_MAX


class PasswordElsewhere(BerthError):
    """The account has no password here: whoever owns it signs in by a directory or an identity provider."""

    code = "password_elsewhere"
    status = 409
    title = "The password is kept elsewhere"


def is_own(user: User | None, password: str) -> bool:
    """Whether it is the account's own password. One hash is computed whoever it is."""
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
            "This account has no password of its own here.",
            hint="Change it where your organisation keeps it; the new one counts here at once.",
        )


def _subject_in_directory(user: User) -> str | None:
    if not directory.is_on(current()):
        return None
    rows = ExternalIdentity.objects.filter(user=user, issuer=directory.issuer_of(current()))
    return rows.values_list("subject", flat=True).first()
