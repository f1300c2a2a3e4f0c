"""Signing in by an LDAP directory: at a real slapd."""

from __future__ import annotations

import importlib.util
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pyotp
import pytest

from activity.models import AuditEvent
from tenants.models import ExternalIdentity, Membership, Token, User
from tests.api.tenants.test_sessions import browser, code_of
from tests.builders import slapd
from tests.builders.slapd import BASE, PASSWORD, READER_PASSWORD, Directory
from tests.factories.tenants import Cast, make_member, make_session, make_user
from webapi import throttles

pytestmark = [
    pytest.mark.database,
    pytest.mark.skipif(
        not all(importlib.util.find_spec(name) for name in ("ldap", "django_auth_ldap")),
        reason="the extra `ldap` is not installed: pip install --require-hashes -r requirements-ldap.lock",
    ),
    pytest.mark.skipif(not slapd.SLAPD.exists(), reason="Debian's slapd is not installed"),
]

OWN = "four words of one's own"


@pytest.fixture(scope="module")
def server() -> Iterator[Directory]:
    with slapd.running() as directory:
        yield directory


@pytest.fixture
def directory(server: Directory, cast: Cast, configure: Callable[..., Any]) -> Iterator[Directory]:
    configure(**server.settings, ldap_creates_users=True)
    yield server
    server.clear()


def sign_in(name: str, password: str = PASSWORD, *, code: str | None = None, client: Any = None) -> Any:
    body = {"name": name, "password": password} | ({"code": code} if code else {})
    return (client or browser()).post("/api/v1/session", body, format="json")


def user_of(answer: Any) -> User:
    assert answer.status_code == 201, answer.content
    found: User = User.objects.get(id=answer.json()["user"]["id"])
    return found


# --- Who comes in -----------------------------------------------------------------------------------------------------


def test_a_person_of_the_directory_signs_in_and_gets_an_account(directory: Directory) -> None:
    directory.person("zoe", email="zoe@example.org")
    user = user_of(sign_in("zoe"))

    assert (user.name, user.email, user.is_operator, user.has_usable_password()) == ("zoe", "zoe@example.org", False, False)
    assert AuditEvent.objects.get(verb="session.create").after["by"] == "directory"
    made = AuditEvent.objects.get(verb="user.create")
    assert (made.actor_name, made.after["issuer"]) == ("system:directory", f"{directory.url}/{BASE}")
    assert made.after["subject"].startswith("entryuuid=")
    assert user_of(sign_in("zoe@example.org")) == user
    assert browser().get("/api/v1/sign-in-methods").json()["directory"] is True


def test_where_accounts_are_not_made_a_person_is_told_so(directory: Directory, configure: Callable[..., Any]) -> None:
    configure(ldap_creates_users=False)
    directory.person("zoe")

    assert (sign_in("zoe").status_code, code_of(sign_in("zoe"))) == (403, "directory_refused")
    assert code_of(sign_in("zoe", "wrong")) == "bad_credentials"
    assert not ExternalIdentity.objects.exists()


@pytest.mark.parametrize("name", ["jörg.müller", "a*b(c)d\\e", "李雷"])
def test_names_with_any_characters_come_in(directory: Directory, name: str) -> None:
    directory.person(name)
    directory.person("abcde")

    assert user_of(sign_in(name)).name != "abcde"
    assert user_of(sign_in(name)) == user_of(sign_in(name))


@pytest.mark.parametrize("name", ["*", "zo*", "zoe)(uid=*", "zoe)(|(uid=*", "*)(userPassword=*", "%(user)s", "{name}", "zoe\\2a"])
def test_a_name_is_no_filter(directory: Directory, name: str) -> None:
    directory.person("zoe")

    assert code_of(sign_in(name)) == "bad_credentials"


@pytest.mark.parametrize("password", ["wrong", " ", PASSWORD + " ", PASSWORD.upper(), "x" * 1_024, "*"])
def test_any_other_password_is_wrong(directory: Directory, password: str) -> None:
    directory.person("zoe")

    assert sign_in("zoe", password).status_code in {401, 422}
    assert not User.objects.filter(name="zoe").exists()


def test_no_password_is_no_password_for_whoever_asks(directory: Directory) -> None:
    """A bind without one succeeds at the directory."""
    from kernel.config import current
    from tenants.identity import directory as asked

    directory.person("zoe")
    assert asked.ask(current(), name="zoe", password="") is None
    assert sign_in("zoe", "").status_code == 422


def test_two_who_fit_are_nobody(directory: Directory) -> None:
    directory.person("zoe", email="shared@example.org")
    directory.person("yan", email="shared@example.org")

    assert code_of(sign_in("shared@example.org")) == "bad_credentials"


def test_who_is_renamed_stays_who_they_are(directory: Directory) -> None:
    dn = directory.person("zoe", email="zoe@example.org")
    user = user_of(sign_in("zoe"))
    directory.rename(dn, "zoe.married", mail="married@example.org")

    assert user_of(sign_in("zoe.married")) == user
    assert code_of(sign_in("zoe")) == "bad_credentials"
    assert ExternalIdentity.objects.count() == 1


def test_an_id_of_bytes_is_kept_as_text_and_asked_for_as_bytes(configure: Callable[..., Any]) -> None:
    """Active Directory's, which a test cannot start: the very bytes that it would give and be asked for."""
    from types import SimpleNamespace

    from tenants.identity import directory as asked
    from tenants.identity import ldap_backend

    config, raw = configure(ldap_base=BASE), bytes(range(0xF0, 0x100))
    subject = asked._subject(config, SimpleNamespace(dn="cn=x", attrs={"objectGUID": [raw]}))
    as_text = asked._subject(config, SimpleNamespace(dn="cn=x", attrs={"objectGUID": [bytes(range(16)).decode()]}))

    assert subject == "objectguid=f3f2f1f0-f5f4-f7f6-f8f9-fafbfcfdfeff"
    assert as_text == "objectguid=03020100-0504-0706-0809-0a0b0c0d0e0f"
    assert ldap_backend.search_by_id(config, "objectguid", raw[:2]).filterstr == "(objectguid=\\f0\\f1)"
    assert asked._subject(config, SimpleNamespace(dn="cn=x", attrs={})) == "dn=cn=x"


# --- Accounts that were there -----------------------------------------------------------------------------------------


def with_password(user: User, email: str = "") -> User:
    user.set_password(OWN)
    user.email = email
    user.save()
    return user


def test_an_account_of_the_same_name_is_not_taken_over(directory: Directory, cast: Cast) -> None:
    alice = with_password(cast.alice.user)
    directory.person("alice")

    assert code_of(sign_in("alice")) == "directory_refused"
    assert user_of(sign_in("alice", OWN)) == alice
    assert not ExternalIdentity.objects.exists()


def test_an_account_of_the_same_address_is_taken_over_by_its_owner_alone(
    directory: Directory, cast: Cast, configure: Callable[..., Any]
) -> None:
    alice = with_password(cast.alice.user, "alice@example.org")
    directory.person("al", email="alice@example.org")
    assert code_of(sign_in("al")) == "directory_refused"
    configure(ldap_links_by_email=True)

    assert user_of(sign_in("al")) == alice


def test_an_account_that_nobody_used_is_found_by_its_address(directory: Directory, cast: Cast) -> None:
    prepared = make_user("prepared")
    User.objects.filter(pk=prepared.pk).update(email="zoe@example.org")
    Token.objects.filter(user=prepared).delete()
    directory.person("zoe", email="Zoe@example.org")

    assert user_of(sign_in("zoe")) == prepared


def test_its_owner_connects_an_account_and_comes_in_by_both_passwords(directory: Directory, cast: Cast) -> None:
    alice = with_password(cast.alice.user)
    directory.person("al")
    client = browser(make_session(alice))
    url, body = "/api/v1/identities:connect-directory", {"name": "al", "password": "wrong"}
    assert client.post(url, body, format="json").json()["fields"][0]["code"] == "wrong_password"
    assert client.post(url, body | {"password": PASSWORD}, format="json").status_code == 204

    assert user_of(sign_in("al")) == alice
    assert user_of(sign_in("alice", OWN)) == alice
    assert AuditEvent.objects.get(verb="identity.link").actor_name == "alice"
    bob = browser(make_session(cast.bob.user))
    taken = bob.post(url, body | {"password": PASSWORD}, format="json")
    assert (taken.status_code, code_of(taken)) == (403, "directory_refused")


def test_who_is_disabled_here_stays_out(directory: Directory, cast: Cast) -> None:
    directory.person("zoe")
    User.objects.filter(pk=user_of(sign_in("zoe")).pk).update(is_active=False)
    directory.person("bob")
    User.objects.filter(pk=cast.bob.user.pk).update(is_active=False)

    assert [code_of(sign_in(name)) for name in ("zoe", "bob")] == ["bad_credentials", "bad_credentials"]


# --- Groups -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", ["", f"ou=groups,{BASE}"])
def test_groups_give_roles_and_take_them(directory: Directory, cast: Cast, configure: Callable[..., Any], base: str) -> None:
    configure(ldap_groups="staff=vision:viewer,leads=vision:manager", ldap_group_base=base)
    make_member(cast.tenant, make_user("second-manager"), "manager")
    dn = directory.person("a*b(c)d\\e" if base else "zoe")
    directory.group("staff", dn)
    name = "a*b(c)d\\e" if base else "zoe"
    user = user_of(sign_in(name))
    assert Membership.objects.get(user=user).role == "viewer"
    directory.group("leads", dn)
    sign_in(name)
    assert Membership.objects.get(user=user).role == "manager"
    directory.group("leads")
    directory.group("staff")
    sign_in(name)

    assert not Membership.objects.filter(user=user).exists()


# --- As for passwords of our own --------------------------------------------------------------------------------------


def test_a_second_factor_is_set_up_by_the_directory_s_password_and_asked_for(directory: Directory, clock: Any) -> None:
    dn = directory.person("zoe")
    user = user_of(sign_in("zoe"))
    directory.rename(dn, "zoe.married")
    client = browser(make_session(user))
    refused = client.post("/api/v1/totp", {"password": "wrong"}, format="json")
    assert refused.json()["fields"][0]["code"] == "wrong_password"
    secret = client.post("/api/v1/totp", {"password": PASSWORD}, format="json").json()["secret"]
    confirmed = client.post("/api/v1/totp:confirm", {"code": pyotp.TOTP(secret).now()}, format="json")
    assert confirmed.status_code == 200
    assert code_of(sign_in("zoe.married")) == "second_factor_required"
    clock.shift(30)

    assert user_of(sign_in("zoe.married", code=pyotp.TOTP(secret).now())) == user


def test_the_password_is_changed_where_it_is_kept(directory: Directory) -> None:
    directory.person("zoe")
    client = browser(make_session(user_of(sign_in("zoe"))))
    refused = client.post("/api/v1/password", {"current": PASSWORD, "new": OWN}, format="json")

    assert (refused.status_code, code_of(refused)) == (409, "password_elsewhere")
    assert "organisation" in refused.json()["hint"]
    assert client.get("/api/v1/session").json()["user"]["password_in"] == "directory"


def test_tries_are_counted_as_for_everybody(directory: Directory) -> None:
    directory.person("zoe")
    codes = [code_of(sign_in("zoe", "wrong")) for _ in range(40)]

    assert (codes[0], codes[-1]) == ("bad_credentials", "locked")
    assert code_of(sign_in("zoe")) == "locked"


# --- The way there ----------------------------------------------------------------------------------------------------


def test_where_the_directory_is_away_people_with_a_password_here_come_in(
    directory: Directory, cast: Cast, configure: Callable[..., Any]
) -> None:
    alice = with_password(cast.alice.user)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    configure(ldap_url=f"ldap://127.0.0.1:{port}")

    assert user_of(sign_in("alice", OWN)) == alice
    answer = sign_in("zoe")
    assert (answer.status_code, code_of(answer)) == (503, "directory_unavailable")
    assert answer.json()["retryable"] is True


def test_a_directory_that_says_nothing_is_waited_for_no_longer_than_a_few_seconds(
    directory: Directory, configure: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tenants.identity import ldap_backend

    monkeypatch.setattr(ldap_backend, "SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for url in (f"ldap://127.0.0.1:{silent.getsockname()[1]}", f"ldaps://127.0.0.1:{silent.getsockname()[1]}"):
            configure(ldap_url=url)
            assert code_of(sign_in("zoe")) == "directory_unavailable"


def test_a_search_account_that_is_refused_is_no_wrong_password(directory: Directory, configure: Callable[..., Any]) -> None:
    directory.person("zoe")
    configure(ldap_bind_password="not it")

    assert code_of(sign_in("zoe")) == "directory_unavailable"


@pytest.mark.parametrize("is_starttls", [False, True])
def test_over_tls_the_certificate_is_checked(directory: Directory, configure: Callable[..., Any], is_starttls: bool) -> None:
    directory.person("zoe")
    url = directory.url if is_starttls else f"ldaps://127.0.0.1:{directory.tls_port}"
    configure(ldap_url=url, ldap_starttls=is_starttls)
    assert code_of(sign_in("zoe")) == "directory_unavailable"
    configure(ldap_ca_file=str(directory.home / "cert.pem"))

    assert user_of(sign_in("zoe")).name == "zoe"
    configure(ldap_url=url.replace("127.0.0.1", "localhost"))
    assert code_of(sign_in("zoe")) == "directory_unavailable"


def test_no_secret_is_in_a_log(
    directory: Directory, configure: Callable[..., Any], caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    directory.person("zoe")
    sign_in("zoe")
    sign_in("zoe", "a wrong password")
    configure(ldap_url="ldap://127.0.0.1:1")
    sign_in("zoe")

    said = caplog.text + "".join(capsys.readouterr())
    assert "directory_unavailable" in said
    assert not [secret for secret in (PASSWORD, READER_PASSWORD, "a wrong password") if secret in said]


@pytest.fixture(autouse=True)
def fresh_tries(counted_here: None) -> Iterator[None]:
    throttles.buckets.clear()
    yield
    throttles.buckets.clear()
