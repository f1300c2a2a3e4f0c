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
from kernel.words import Saying, Text

DESCRIPTION_LENGTH = 1_000
DISPLAY_NAME_LENGTH = 63
EMAIL_LENGTH = 254  # RFC 5321, section 4.5.3.1.3, less the angle brackets; the columns of the database are that wide.
PASSWORD_LENGTH_MIN = 12  # Security C22: empty and one-letter passwords were accepted elsewhere.
PASSWORD_LENGTH_MAX = 1_000  # scrypt reads all of it: no stranger makes us hash a megabyte.
PASSWORD_CHARACTERS_MIN = 5  # Different ones: "aaaaaaaaaaaa" is no password.

_USER_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_LOOKS_LIKE_ID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)


class Problems:
    """Collects what is wrong with an input, so that all of it is said at once."""

    def __init__(self) -> None:
        self.fields: list[FieldError] = []

    def add(self, path: str, code: str, message: Saying, hint: Saying = "") -> None:
        self.fields.append(FieldError(path, code, message, hint))

    def raise_if_any(self) -> None:
        if self.fields:
            raise InvalidInput(self.fields[0].message, fields=self.fields, hint=self.fields[0].hint)


RESERVED = frozenset({"me", "all", "null", "none", "any", "self"})
"""What addresses, filters and documents mean by these words is no tenant and no queue."""


def display_name(text: str, problems: Problems, *, path: str = "/name") -> str:
    """The name of a tenant or queue in any language: 1 to 63 printable characters, no slash, no blank at either end, no hyphen at
    the beginning."""
    name = unicodedata.normalize("NFC", text)
    if not 1 <= len(name) <= DISPLAY_NAME_LENGTH:
        problems.add(
            path,
            "bad_length",
            Text(f"A name has 1 to {DISPLAY_NAME_LENGTH} characters.", f"名称应有 1 到 {DISPLAY_NAME_LENGTH} 个字符。"),
        )
    elif name != name.strip() or not name.isprintable() or set(name) & set("/\\:"):
        problems.add(
            path,
            "bad_characters",
            Text(
                "A name has printable characters, no slash or colon, and no blank at either end.",
                "名称应为可打印字符，不含斜杠或冒号，首尾无空格。",
            ),
        )
    elif not any(character.isalnum() for character in name) or name.casefold() in RESERVED:
        problems.add(
            path,
            "reserved",
            Text(
                f"A name has a letter or digit, and is none of {', '.join(sorted(RESERVED))}, which mean something else.",
                f"名称须含字母或数字，且不能是另有含义的 {'、'.join(sorted(RESERVED))}。",
            ),
        )
    elif name.startswith("-"):
        problems.add(
            path,
            "leading_hyphen",
            Text(
                "A name must not begin with a hyphen: commands would take it for an option.",
                "名称不能以连字符开头：命令行会将其视为选项。",
            ),
        )
    elif _LOOKS_LIKE_ID.fullmatch(name):
        problems.add(path, "looks_like_id", Text("A name must not look like an id.", "名称不能像 ID。"))
    return name


def user_name(text: str, problems: Problems, *, path: str = "/name") -> str:
    """A person's sign-in name: lower-case letters, digits, dot, hyphen and underscore, at most 63."""
    if not _USER_NAME.fullmatch(text):
        problems.add(
            path,
            "bad_user_name",
            Text(
                "A user name starts with a letter or digit and has only a-z, 0-9, dot, hyphen and underscore, at most 63.",
                "用户名以字母或数字开头，只含 a-z、0-9、点、连字符和下划线，最多 63 个字符。",
            ),
        )
    elif _LOOKS_LIKE_ID.fullmatch(text):
        problems.add(path, "looks_like_id", Text("A name must not look like an id.", "名称不能像 ID。"))
    return text


def secret_name(text: str, problems: Problems, *, path: str = "/name") -> str:
    """The name of a secret: like an environment variable, dot and hyphen allowed, at most 128."""
    if not _SECRET_NAME.fullmatch(text):
        problems.add(
            path,
            "bad_secret_name",
            Text(
                "A secret's name starts with a letter or underscore and has only letters, digits, _ . and -, at most 128.",
                "密钥名以字母或下划线开头，只含字母、数字、_、. 和 -，最多 128 个字符。",
            ),
            Text("HF_TOKEN is one.", "例如 HF_TOKEN。"),
        )
    return text


def email_address(text: str, problems: Problems, *, path: str = "/email", required: bool = False) -> str:
    """An e-mail address, or nothing where it is not required."""
    address = text.strip()
    if not address and not required:
        return ""
    if len(address) > EMAIL_LENGTH:
        message = Text(
            f"An e-mail address has at most {EMAIL_LENGTH} characters, and {address[:80]!r}... has {len(address)}.",
            f"电子邮件地址最多 {EMAIL_LENGTH} 个字符，而 {address[:80]!r}... 有 {len(address)} 个。",
        )
        problems.add(path, "bad_email", message)
        return address
    try:
        validate_email(address)
    except ValidationError:
        problems.add(path, "bad_email", Text(f"{address[:80]!r} is no e-mail address.", f"{address[:80]!r} 不是电子邮件地址。"))
    return address


def role_name(text: str, problems: Problems, *, path: str = "/role") -> TenantRole | None:
    """A role by its name."""
    try:
        return TenantRole(text)
    except ValueError:
        problems.add(
            path,
            "unknown_role",
            Text(
                f"{text[:40]!r} is no role. Roles are {', '.join(TenantRole)}.",
                f"{text[:40]!r} 不是角色。可用角色：{', '.join(TenantRole)}。",
            ),
        )
        return None


def password(text: str, problems: Problems, *, user_name: str = "", email: str = "", path: str = "/password") -> str:
    """A password that is long, not one letter repeated, not among those that attackers try first, and not the user's name."""
    if not PASSWORD_LENGTH_MIN <= len(text) <= PASSWORD_LENGTH_MAX:
        problems.add(
            path,
            "bad_password",
            Text(
                f"A password has {PASSWORD_LENGTH_MIN} to {PASSWORD_LENGTH_MAX} characters.",
                f"密码应有 {PASSWORD_LENGTH_MIN} 到 {PASSWORD_LENGTH_MAX} 个字符。",
            ),
        )
    if len(text) > PASSWORD_LENGTH_MAX:
        return text
    if len(set(text)) < PASSWORD_CHARACTERS_MIN:
        problems.add(
            path,
            "weak_password",
            Text(
                f"A password has at least {PASSWORD_CHARACTERS_MIN} different characters.",
                f"密码至少含 {PASSWORD_CHARACTERS_MIN} 个不同的字符。",
            ),
        )
    own = (
        (Text("user's name", "用户名"), user_name),
        (Text("e-mail address", "邮箱地址"), email),
        (Text("name in the e-mail address", "邮箱地址中的名称"), email.partition("@")[0]),
    )
    for what, word in own:
        if len(word) > 2 and word.lower() in text.lower() and len(text) < len(word) + PASSWORD_LENGTH_MIN:
            problems.add(
                path, "weak_password", Text(f"A password must not be made of the {what.en}.", f"密码不能由{what.zh}构成。")
            )
            break
    if text.lower().strip() in _common_passwords():
        problems.add(
            path, "common_password", Text("This password is one of those that are tried first.", "这是最常被猜测的密码之一。")
        )
    return text


@functools.cache
def _common_passwords() -> frozenset[str]:
    """The 20,000 most common ones, as Django ships them."""
    return frozenset(CommonPasswordValidator().passwords)
