"""django-auth-ldap as Berth uses it: it searches, binds and finds groups; no row is read or written by it.

Of the extra `ldap`: imported by `tenants/identity/directory.py` alone, and only where a directory is set up.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from typing import Any

import ldap
import ldap.dn
from django_auth_ldap.backend import LDAPBackend, ldap_error
from django_auth_ldap.config import LDAPGroupType, LDAPSearch, LDAPSettings

from kernel.config import Config, words_of

SECONDS = 5  # To connect, and for each answer: a user waits, and a thread with them.
RESULTS_MAX = 1_000  # Groups of one person; a filter that fits more people than that is wrong anyway.
TLS_1_2 = 0x303
# What a directory says of a person at the bind; everything else is the directory's own trouble.
REFUSALS = (
    ldap.INAPPROPRIATE_AUTH,
    ldap.CONSTRAINT_VIOLATION,
    ldap.UNWILLING_TO_PERFORM,
    ldap.INSUFFICIENT_ACCESS,
    ldap.NO_SUCH_OBJECT,
)

logging.getLogger("django_auth_ldap").setLevel(logging.CRITICAL)  # Its lines hold what people type; failures are raised here.


class Trouble(Exception):
    """The directory did not answer as it should; the text says how, and holds nothing that was typed."""


class Person:
    """Stands for a row of users: the library leaves here what it found."""

    ldap_user: Any
    ldap_username: str


class Backend(LDAPBackend):  # type: ignore[misc]
    """Whether a password is that of the one person who is found."""

    def __init__(self, config: Config, search: LDAPSearch) -> None:
        self.base = config.ldap_base
        self.settings = LDAPSettings(
            "BERTH_AUTH_LDAP_",  # Nothing of this name stands in Django's settings: what is given here counts alone.
            {
                "SERVER_URI": config.ldap_url,
                "START_TLS": config.ldap_starttls,
                "CONNECTION_OPTIONS": _options(config),
                "BIND_DN": config.ldap_bind_dn,
                "BIND_PASSWORD": config.ldap_bind_password,
                "USER_SEARCH": search,
                "GROUP_SEARCH": _search(config.ldap_group_base, config.ldap_group_filter, ["cn"]),
                "GROUP_TYPE": Listed(config) if config.ldap_group_base else MemberOf(),
                "ALWAYS_UPDATE_USER": False,
            },
        )

    def authenticate_ldap_user(self, ldap_user: Any, password: str) -> Any:
        """An unknown person costs a bind, too: the time would tell it otherwise."""
        if ldap_user.dn is None:
            with contextlib.suppress(ldap.LDAPError):
                ldap_user.connection.simple_bind_s(f"cn=nobody-{secrets.token_hex(8)},{self.base}", password)
            return None
        return super().authenticate_ldap_user(ldap_user, password)

    def get_or_build_user(self, username: str, ldap_user: Any) -> tuple[Person, bool]:
        return Person(), False


class Listed(LDAPGroupType):  # type: ignore[misc]
    """Groups that a search finds."""

    def __init__(self, config: Config) -> None:
        super().__init__(name_attr="cn")
        self.names = words_of(config.ldap_name_attributes)

    def user_groups(self, ldap_user: Any, group_search: LDAPSearch) -> list[Any]:
        name = next((ldap_user.attrs[name][0] for name in self.names if name in ldap_user.attrs), "")
        return list(group_search.execute(ldap_user.connection, {"dn": ldap_user.dn, "user": name}))


class MemberOf(LDAPGroupType):  # type: ignore[misc]
    """Groups that the person's own entry names."""

    def user_groups(self, ldap_user: Any, group_search: LDAPSearch) -> list[Any]:
        return [(dn, {"cn": [ldap.dn.str2dn(dn)[0][0][1]]}) for dn in ldap_user.attrs.get("memberOf", [])]


def search_by_name(config: Config) -> LDAPSearch:
    return _search(config.ldap_base, config.ldap_user_filter, _attributes(config))


def search_by_id(config: Config, attribute: str, value: bytes) -> LDAPSearch:
    """The entry whose attribute has this value. Every byte is escaped."""
    escaped = "".join(f"\\{byte:02x}" for byte in value)
    return LDAPSearch(config.ldap_base, ldap.SCOPE_SUBTREE, f"({attribute}={escaped})", _attributes(config))


def search_by_dn(config: Config, dn: str) -> LDAPSearch:
    return LDAPSearch(dn, ldap.SCOPE_BASE, attrlist=_attributes(config))


def find(config: Config, search: LDAPSearch, name: str, password: str) -> Any | None:
    """The library's user, with `dn`, `attrs` and `group_names`, if the password is theirs. Trouble."""
    try:
        person = Backend(config, search).authenticate(None, username=name, password=password)
        if person is not None and config.ldap_groups:
            person.ldap_user.group_names  # noqa: B018 - asked for now, where trouble is caught.
    except (ldap.LDAPError, ValueError) as error:  # ValueError: an option that this system's TLS does not take.
        raise Trouble(type(error).__name__) from None
    return person.ldap_user if person is not None else None


def _raise(context: str, exception: Exception, **_rest: Any) -> None:
    """What the library would report and take for a wrong password."""
    if not (context == "authenticate" and isinstance(exception, REFUSALS)):
        raise Trouble(f"{type(exception).__name__} ({context})")


ldap_error.connect(_raise, sender=Backend)


def _options(config: Config) -> dict[int, Any]:
    options = {
        ldap.OPT_REFERRALS: 0,
        ldap.OPT_NETWORK_TIMEOUT: SECONDS,
        ldap.OPT_TIMEOUT: SECONDS,
        ldap.OPT_TIMELIMIT: SECONDS,
        ldap.OPT_SIZELIMIT: RESULTS_MAX,
    }
    if config.ldap_url.startswith("ldaps://"):
        options |= {ldap.OPT_CONNECT_ASYNC: 1}  # Else no time limit holds for the handshake (OpenLDAP 2.5, as tried).
    if config.ldap_url.startswith("ldaps://") or config.ldap_starttls:
        options |= {ldap.OPT_X_TLS_REQUIRE_CERT: ldap.OPT_X_TLS_DEMAND, ldap.OPT_X_TLS_PROTOCOL_MIN: TLS_1_2}
        options |= {ldap.OPT_X_TLS_CACERTFILE: config.ldap_ca_file} if config.ldap_ca_file else {}
        options |= {ldap.OPT_X_TLS_NEWCTX: 0}  # The last: it takes over what was said before.
    return options


def _search(base: str, template: str, attributes: list[str]) -> LDAPSearch:
    """A filter of the settings in the library's writing: it escapes what it puts in."""
    text = template.replace("%", "%%").replace("{name}", "%(user)s").replace("{dn}", "%(dn)s")
    return LDAPSearch(base, ldap.SCOPE_SUBTREE, text, attributes)


def _attributes(config: Config) -> list[str]:
    """Named one by one: ids are operational, and come only so."""
    listed = (config.ldap_id_attributes, config.ldap_email_attribute, config.ldap_name_attributes, "memberOf")
    return list(dict.fromkeys(word for text in listed for word in words_of(text)))
