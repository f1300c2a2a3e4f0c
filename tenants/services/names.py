"""The grammars of names and passwords: what people may call things, checked before anything is written."""

from __future__ import annotations

import functools
import re
import unicodedata

from django.contrib.auth.password_validation import CommonPasswordValidator
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from kernel.actor import TenantRole
from kernel.errors import FieldError, InvalidInput

DISPLAY_NAME_LENGTH = 63
PASSWORD_LENGTH_MIN = 12  # Security C22: empty and one-letter passwords were accepted elsewhere.
PASSWORD_LENGTH_MAX = 1_000  # scrypt reads all of it: nobody unknown makes us hash a megabyte.
PASSWORD_CHARACTERS_MIN = 5  # Different ones: "aaaaaaaaaaaa" is no password.

_USER_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_LOOKS_LIKE_ID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)


class Problems:
    """Collects what is wrong with an input, so that all of it is said at once."""

    def __init__(self) -> None:
        self.fields: list[FieldError] = []

    def add(self, path: str, code: str, message: str, hint: str = "") -> None:
        self.fields.append(FieldError(path, code, message, hint))

    def raise_if_any(self) -> None:
        if self.fields:
            raise InvalidInput(self.fields[0].message, fields=self.fields, hint=self.fields[0].hint)


def display_name(text: str, problems: Problems, *, path: str = "/name") -> str:
    """The name of a tenant or queue in any language: 1 to 63 printable characters, no slash, no blank at either end, no hyphen at
    the beginning."""
    name = unicodedata.normalize("NFC", text)
    if not 1 <= len(name) <= DISPLAY_NAME_LENGTH:
        problems.add(path, "bad_length", f"A name has 1 to {DISPLAY_NAME_LENGTH} characters.")
    elif name != name.strip() or not name.isprintable() or set(name) & set("/\\:"):
        problems.add(path, "bad_characters", "A name has printable characters, no slash or colon, and no blank at either end.")
    elif name.startswith("-"):
        problems.add(path, "leading_hyphen", "A name must not begin with a hyphen: commands would take it for an option.")
    elif _LOOKS_LIKE_ID.fullmatch(name):
        problems.add(path, "looks_like_id", "A name must not look like an id.")
    return name


def user_name(text: str, problems: Problems, *, path: str = "/name") -> str:
    """A person's sign-in name: lower-case letters, digits, dot, hyphen and underscore, at most 63."""
    if not _USER_NAME.fullmatch(text):
        problems.add(
            path,
            "bad_user_name",
            "A user name starts with a letter or digit and has only a-z, 0-9, dot, hyphen and underscore, at most 63.",
        )
    elif _LOOKS_LIKE_ID.fullmatch(text):
        problems.add(path, "looks_like_id", "A name must not look like an id.")
    return text


def secret_name(text: str, problems: Problems, *, path: str = "/name") -> str:
    """The name of a secret: like an environment variable, dot and hyphen allowed, at most 128."""
    if not _SECRET_NAME.fullmatch(text):
        problems.add(
            path,
            "bad_secret_name",
            "A secret's name starts with a letter or underscore and has only letters, digits, _ . and -, at most 128.",
            "HF_TOKEN is one.",
        )
    return text


def email_address(text: str, problems: Problems, *, path: str = "/email", required: bool = False) -> str:
    """An e-mail address, or nothing where it is not required."""
    address = text.strip()
    if not address and not required:
        return ""
    try:
        validate_email(address)
    except ValidationError:
        problems.add(path, "bad_email", f"{address[:80]!r} is no e-mail address.")
    return address


def role_name(text: str, problems: Problems, *, path: str = "/role") -> TenantRole | None:
    """A role by its name."""
    try:
        return TenantRole(text)
    except ValueError:
        problems.add(path, "unknown_role", f"{text[:40]!r} is no role. Roles are {', '.join(TenantRole)}.")
        return None


def password(text: str, problems: Problems, *, user_name: str = "", email: str = "", path: str = "/password") -> str:
    """A password that is long, not one letter repeated, not among those that everybody tries, and not the user's name."""
    if not PASSWORD_LENGTH_MIN <= len(text) <= PASSWORD_LENGTH_MAX:
        problems.add(path, "bad_password", f"A password has {PASSWORD_LENGTH_MIN} to {PASSWORD_LENGTH_MAX} characters.")
    if len(text) > PASSWORD_LENGTH_MAX:
        return text
    if len(set(text)) < PASSWORD_CHARACTERS_MIN:
        problems.add(path, "weak_password", f"A password has at least {PASSWORD_CHARACTERS_MIN} different characters.")
    own = {"user's name": user_name, "e-mail address": email, "name in the e-mail address": email.partition("@")[0]}
    for what, word in own.items():
        if len(word) > 2 and word.lower() in text.lower() and len(text) < len(word) + PASSWORD_LENGTH_MIN:
            problems.add(path, "weak_password", f"A password must not be made of the {what}.")
            break
    if text.lower().strip() in _common_passwords():
        problems.add(path, "common_password", "This password is one of those that are tried first.")
    return text


@functools.cache
def _common_passwords() -> frozenset[str]:
    """The 20,000 most common ones, as Django ships them."""
    return frozenset(CommonPasswordValidator().passwords)
