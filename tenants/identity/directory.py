"""What an LDAP directory says of a name and a password, in the shape of what an identity provider says.

Off unless `BERTH_LDAP_URL` is set. A directory that does not answer refuses its own people only.
"""

from __future__ import annotations

import uuid
from types import ModuleType
from typing import Any

import structlog

from kernel.config import Config, words_of
from kernel.errors import BerthError
from kernel.words import Text
from tenants.identity.identity_claims import Claims

VALUE_LENGTH = 200  # With its attribute's name within what an identity's subject may be.
GUID = "objectguid"  # Of Active Directory: sixteen bytes and no text.

log = structlog.get_logger("tenants")


class DirectoryUnavailable(BerthError):
    """The LDAP directory does not answer as expected. Accounts with a password in Berth can still sign in."""

    code = "directory_unavailable"
    status = 503
    title = Text("The directory does not answer", "目录服务没有响应")
    retryable = True


def is_on(config: Config) -> bool:
    return bool(config.ldap_url)


def issuer_of(config: Config) -> str:
    """Which directory it is. Ids of another one, or of another part of it, are other people."""
    return f"{config.ldap_url.rstrip('/')}/{config.ldap_base}".lower()


def ask(config: Config, *, name: str, password: str) -> Claims | None:
    """The one person who is found by the name, if the password is theirs. DirectoryUnavailable."""
    return _claims(config, name, password, _backend().search_by_name(config))


def ask_again(config: Config, *, subject: str, password: str) -> bool:
    """Whether the password is that of a person who was known before, by whatever name now. DirectoryUnavailable."""
    backend = _backend()
    attribute, _, value = subject.partition("=")
    if attribute == "dn":
        search = backend.search_by_dn(config, value)
    else:
        raw = uuid.UUID(value).bytes_le if attribute == GUID else value.encode()
        search = backend.search_by_id(config, attribute, raw)
    found = _claims(config, subject, password, search)
    return found is not None and found.subject == subject


def _backend() -> ModuleType:
    """Imported where it is used: most installations do not have the extra."""
    from tenants.identity import ldap_backend

    return ldap_backend


def _claims(config: Config, name: str, password: str, search: Any) -> Claims | None:
    if not password:  # A bind without one succeeds under any name (RFC 4513, section 5.1.2).
        return None
    backend = _backend()
    try:
        found = backend.find(config, search, name, password)
        if found is None:
            return None
        groups = tuple(sorted(filter(None, found.group_names))) if config.ldap_groups else ()
    except backend.Trouble as trouble:
        log.error("directory_unavailable", directory=issuer_of(config), reason=str(trouble))
        raise DirectoryUnavailable(
            Text("The directory does not answer as it should.", "目录服务没有正常应答。"),
            hint=Text(
                "Try again in a minute. Accounts with a password of their own here come in by it meanwhile.",
                "请一分钟后重试。在本系统设有密码的账户仍可用该密码登录。",
            ),
        ) from None
    email = _first(found.attrs, config.ldap_email_attribute)
    return Claims(
        issuer=issuer_of(config),
        subject=_subject(config, found),
        email=email,
        email_verified=bool(email),  # By the directory's administrators.
        name=_first(found.attrs, config.ldap_name_attributes),
        groups=groups,
    )


def _subject(config: Config, found: Any) -> str:
    """What names the person for good, with the attribute that says it."""
    for attribute in words_of(config.ldap_id_attributes):
        value = next(iter(found.attrs.get(attribute, ())), "")
        if attribute.lower() == GUID and value:
            raw = value if isinstance(value, bytes) else value.encode()
            return f"{GUID}={uuid.UUID(bytes_le=raw)}"
        if _is_text(value):
            return f"{attribute.lower()}={value}"
    return f"dn={found.dn}"


def _first(attributes: Any, names: str) -> str:
    values = (next(iter(attributes.get(name, ())), "") for name in words_of(names))
    return next((value for value in values if _is_text(value)), "")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value.isprintable() and 0 < len(value) <= VALUE_LENGTH
