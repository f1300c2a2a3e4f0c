"""Signing in with a browser: the cookie, what it opens, what it does not, and when it ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rest_framework.test import APIClient

from activity.models import AuditEvent
from tenants.identity.api.authentication import csrf_of
from tenants.identity.credentials import refresh_actors
from tenants.identity.services import sessions
from tenants.models import Token, TokenKind, User
from tests.factories.tenants import Cast, actor_of, make_session, make_token, make_user
from webapi import throttles

pytestmark = pytest.mark.database


@pytest.fixture(autouse=True)
def _counted_here(still_counts: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries are counted by this process, and none comes back while a test counts."""
    monkeypatch.setattr(throttles, "_redis_rests_until", math.inf)


PASSWORD = "four words of alice"
COOKIE = "berth-session"
AGENT = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/143.0 Safari/537.36 Edg/143.0"


@pytest.fixture
def alice(cast: Cast) -> User:
    user: User = cast.alice.user
    user.set_password(PASSWORD)
    user.email = "alice@example.org"
    user.save()
    return user


def browser(session: Any = None, *, csrf: bool = True) -> APIClient:
    """A browser with a session's cookie, whose pages send the CSRF value."""
    client = APIClient(raise_request_exception=False)
    if session is not None:
        client.cookies[COOKIE] = session.text
        if csrf:
            client.credentials(HTTP_X_BERTH_CSRF=csrf_of(session.text))
            client.defaults["HTTP_SEC_FETCH_SITE"] = "same-origin"  # As browsers say it; a test may say something else.
    return client


def sign_in(client: APIClient, name: str = "alice", password: str = PASSWORD, **headers: Any) -> Any:
    return client.post("/api/v1/session", {"name": name, "password": password}, format="json", **headers)


def code_of(response: Any) -> str:
    return str(response.json()["code"])


# --- Signing in -------------------------------------------------------------------------------------------------------


@pytest.mark.capability("sign-in", "Name or address and password make a session, which its owner can end")
@pytest.mark.parametrize("name", ["alice", "ALICE", "alice@example.org", "Alice@Example.org"])
def test_a_name_or_address_and_the_password_make_a_session(name: str, alice: User) -> None:
    client = browser()
    answer = sign_in(client, name, HTTP_USER_AGENT=AGENT)
    cookie = answer.cookies[COOKIE]

    assert answer.status_code == 201
    assert answer.json()["user"]["name"] == "alice"
    assert [tenant["name"] for tenant in answer.json()["tenants"]] == ["vision"]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["domain"]) == (True, "Lax", "/", "")
    assert cookie.value not in answer.content.decode()
    again = client.get("/api/v1/session")
    assert again.status_code == 200
    assert again.json() == answer.json()
    whoami = client.get("/api/v1/whoami").json()
    assert (whoami["user"]["name"], whoami["token"]) == ("alice", None)
    row = AuditEvent.objects.get(verb="session.create")
    assert (row.target_name, row.after["by"]) == ("Edge on Windows", "password")


def test_a_password_that_is_changed_while_somebody_signs_in_lets_nobody_in(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process changes it between the look at the password and the session's row."""

    def meanwhile(user: User, code: str | None, *, now: datetime) -> None:
        other = User.objects.get(id=user.pk)
        other.set_password("four words of somebody else")
        other.save()

    monkeypatch.setattr(sessions, "demand_second_factor", meanwhile)

    assert code_of(sign_in(browser())) == "bad_credentials"
    assert not Token.objects.filter(user=alice, kind=TokenKind.SESSION).exists()


def test_over_https_the_cookie_belongs_to_this_host_alone(alice: User, configure: Callable[..., Any], settings: Any) -> None:
    configure(public_url="https://berth.example.org")
    settings.IS_HTTPS = True
    answer = sign_in(browser(), HTTP_ORIGIN="https://berth.example.org")
    cookie = answer.cookies["__Host-berth-session"]

    assert (cookie["secure"], cookie["path"], cookie["domain"]) == (True, "/", "")


@pytest.mark.parametrize(("name", "password"), [("alice", "wrong"), ("nobody", PASSWORD), ("alice", ""), ("svc", PASSWORD)])
def test_what_is_wrong_is_not_told(name: str, password: str, alice: User) -> None:
    answer = sign_in(browser(), name, password or " ")

    assert (answer.status_code, code_of(answer)) == (401, "bad_credentials")
    assert not answer.cookies


def test_who_is_disabled_is_told_the_same(alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)

    assert code_of(sign_in(browser())) == "bad_credentials"


@pytest.mark.capability("sign-in", "Guessing is locked for a moment, and reveals no account")
def test_nobody_unknown_is_found_out_by_the_time(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """For whatever name, one password is hashed: that is where the time goes."""
    from django.contrib.auth.hashers import ScryptPasswordHasher

    hashed: list[str] = []
    encode = ScryptPasswordHasher.encode

    def counted(self: Any, password: str, salt: str, *rest: Any, **options: Any) -> str:
        hashed.append(password)
        return str(encode(self, password, salt, *rest, **options))

    monkeypatch.setattr(ScryptPasswordHasher, "encode", counted)
    make_user("outside")
    counts = []
    for name in ("alice", "nobody", "outside"):
        hashed.clear()
        sign_in(browser(), name, "some wrong password")
        counts.append(len(hashed))

    assert counts == [1, 1, 1]


@pytest.mark.capability("sign-in", "Guessing is locked for a moment, and reveals no account")
def test_guessing_is_locked_for_a_moment(alice: User) -> None:
    answers = [sign_in(browser(), password=f"wrong {number}") for number in range(6)]
    right = sign_in(browser())

    assert [code_of(answer) for answer in answers] == ["bad_credentials"] * 5 + ["locked"]
    assert right.status_code == 429
    assert 0 < int(right["Retry-After"]) <= 60


def test_an_address_tries_so_often_whatever_the_names(alice: User, configure: Callable[..., Any]) -> None:
    """Behind a trusted proxy the address is what the proxy says, and only there."""
    configure(trusted_proxies="127.0.0.1")
    asked = {"HTTP_X_FORWARDED_FOR": "10.9.9.9, 192.0.2.1", "REMOTE_ADDR": "127.0.0.1"}
    names = (f"nobody-{number}" for number in range(200))
    answers: list[str] = []
    while "locked" not in answers and len(answers) < 60:  # One more is let in every three seconds; a busy machine takes its time.
        answers.append(code_of(sign_in(browser(), next(names), **asked)))

    assert answers[:20] == ["bad_credentials"] * 20
    assert "locked" in answers
    assert code_of(sign_in(browser(), next(names), HTTP_X_FORWARDED_FOR="192.0.2.2")) == "bad_credentials"
    spoofed = {"HTTP_X_FORWARDED_FOR": "192.0.2.3", "REMOTE_ADDR": "9.9.9.9"}
    answers = []
    while "locked" not in answers and len(answers) < 60:
        told = {**spoofed, "HTTP_X_FORWARDED_FOR": f"192.0.2.{len(answers)}"}
        answers.append(code_of(sign_in(browser(), next(names), **told)))
    assert "locked" in answers


def test_each_sign_in_makes_another_session_and_ends_the_one_before(alice: User) -> None:
    client = browser()
    sign_in(client)
    first = client.cookies[COOKIE].value
    sign_in(client)
    second = client.cookies[COOKIE].value
    old = APIClient()
    old.cookies[COOKIE] = first

    assert first != second
    assert old.get("/api/v1/session").status_code == 401
    assert client.get("/api/v1/session").status_code == 200


def test_a_cookie_that_somebody_planted_is_never_taken_over(alice: User) -> None:
    client = browser()
    client.cookies[COOKIE] = planted = "berthsession_0123456789ab_" + "x" * 43
    sign_in(client)

    assert client.cookies[COOKIE].value != planted


def test_two_cookies_of_the_name_count_for_none(alice: User) -> None:
    session = make_session(alice)
    client = APIClient()

    assert client.get("/api/v1/whoami", HTTP_COOKIE=f"{COOKIE}={session.text}").status_code == 200
    assert client.get("/api/v1/whoami", HTTP_COOKIE=f"{COOKIE}=x; {COOKIE}={session.text}").status_code == 401


@pytest.mark.parametrize("page", [{"HTTP_ORIGIN": "https://evil.example"}, {"HTTP_SEC_FETCH_SITE": "cross-site"}])
def test_no_other_page_signs_somebody_in(page: dict[str, str], alice: User) -> None:
    answer = sign_in(browser(), **page)

    assert (answer.status_code, code_of(answer)) == (403, "csrf_failed")


def test_the_ways_in_are_told_to_everybody(alice: User) -> None:
    assert browser().get("/api/v1/sign-in-methods").json()["password"] is True


# --- Two kinds of credential ------------------------------------------------------------------------------------------


def test_one_is_told_whether_there_is_a_password_to_change(alice: User, cast: Cast, api: Callable[..., APIClient]) -> None:
    """Bob came in by an identity provider, or by nothing yet."""
    assert sign_in(browser()).json()["user"]["password_in"] == "here"
    assert browser(make_session(cast.bob.user)).get("/api/v1/session").json()["user"]["password_in"] is None
    assert api(cast.bob).get("/api/v1/whoami").json()["user"]["password_in"] is None


def test_a_session_is_no_token_and_a_token_no_session(alice: User, api: Callable[..., APIClient]) -> None:
    session, token = make_session(alice), make_token(alice)
    renamed = "berth" + session.text.removeprefix("berthsession")
    as_session = "berthsession" + token.text.removeprefix("berth")

    assert api(session.text).get("/api/v1/whoami").status_code == 401
    assert api(renamed).get("/api/v1/whoami").status_code == 401
    for text in (token.text, as_session):
        client = APIClient()
        client.cookies[COOKIE] = text
        assert client.get("/api/v1/whoami").status_code == 401


def test_sessions_and_tokens_are_listed_apart(alice: User, cast: Cast, api: Callable[..., APIClient]) -> None:
    session = make_session(alice)
    tokens = api(cast.alice).get("/api/v1/tokens").json()["items"]
    sessions = browser(session).get("/api/v1/sessions").json()["items"]

    assert str(session.token.pk) not in {token["id"] for token in tokens}
    assert [entry["id"] for entry in sessions] == [str(session.token.pk)]
    shown = sessions[0]
    assert (shown["is_current"], shown["device"], shown["address"]) == (True, "Firefox on Linux", "192.0.2.7")
    assert api(cast.alice).delete(f"/api/v1/tokens/{session.token.pk}").status_code == 404
    token = Token.objects.filter(user=alice, kind="personal")[0]
    assert browser(session).delete(f"/api/v1/sessions/{token.pk}").status_code == 404


def test_with_a_header_the_cookie_counts_for_nothing(alice: User) -> None:
    client = browser(make_session(alice))

    assert client.get("/api/v1/whoami", HTTP_AUTHORIZATION="Bearer nonsense").status_code == 401


# --- Changes come from our own pages ----------------------------------------------------------------------------------


@pytest.mark.capability("sign-in", "No page of another origin acts for a person who is signed in")
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "TRACE", "QUERY"])
def test_whatever_changes_anything_brings_the_value(method: str, alice: User) -> None:
    session = make_session(alice)
    for headers in ({}, {"HTTP_X_BERTH_CSRF": ""}, {"HTTP_X_BERTH_CSRF": csrf_of(make_session(alice).text)}):
        answer = browser(session, csrf=False).generic(method, "/api/v1/sessions:end-others", **headers)
        assert (answer.status_code, code_of(answer)) == (403, "csrf_failed"), (method, headers)


@pytest.mark.capability("sign-in", "No page of another origin acts for a person who is signed in")
@pytest.mark.parametrize(
    "page",
    [
        {"HTTP_ORIGIN": "https://evil.example"},
        {"HTTP_ORIGIN": "null"},
        {"HTTP_ORIGIN": "http://127.0.0.1:8620.evil.example"},
        {"HTTP_SEC_FETCH_SITE": "cross-site"},
        {"HTTP_SEC_FETCH_SITE": "same-site"},
    ],
)
def test_the_value_alone_does_not_do_from_another_origin(page: dict[str, str], alice: User) -> None:
    answer = browser(make_session(alice)).post("/api/v1/sessions:end-others", **page)

    assert (answer.status_code, code_of(answer)) == (403, "csrf_failed")


def test_our_own_page_changes_things(alice: User) -> None:
    page = {"HTTP_ORIGIN": "http://127.0.0.1:8620", "HTTP_SEC_FETCH_SITE": "same-origin"}

    assert browser(make_session(alice)).post("/api/v1/sessions:end-others", **page).status_code == 200


def test_a_token_needs_no_value(cast: Cast, api: Callable[..., APIClient]) -> None:
    answer = api(cast.alice).post("/api/v1/sessions:end-others", HTTP_ORIGIN="https://evil.example")

    assert answer.status_code == 200


# --- The end ----------------------------------------------------------------------------------------------------------


def is_in(session: Any) -> bool:
    return bool(browser(session).get("/api/v1/whoami").status_code == 200)


def test_signing_out_ends_the_session_and_clears_the_cookie(alice: User) -> None:
    session = make_session(alice)
    actor = actor_of(alice, session)
    answer = browser(session).delete("/api/v1/session")

    assert answer.status_code == 204
    assert (answer.cookies[COOKIE].value, answer.cookies[COOKIE]["max-age"]) == ("", 0)
    assert AuditEvent.objects.filter(verb="session.delete", target_id=str(session.token.pk)).count() == 1
    assert not is_in(session)
    assert refresh_actors([actor]) == [None]


@pytest.mark.capability("sign-in", "Name or address and password make a session, which its owner can end")
def test_one_session_ends_another_and_all_others(alice: User, cast: Cast) -> None:
    own, second, third = (make_session(alice) for _ in range(3))
    foreign = make_session(cast.bob.user)

    assert browser(own).delete(f"/api/v1/sessions/{foreign.token.pk}").status_code == 404
    assert browser(own).delete(f"/api/v1/sessions/{second.token.pk}").status_code == 204
    assert not is_in(second)
    assert browser(own).post("/api/v1/sessions:end-others").json() == {"ended": 1}
    assert (is_in(own), is_in(third), is_in(foreign)) == (True, False, True)


def test_a_session_ends_unused_and_in_any_case(alice: User, configure: Callable[..., Any]) -> None:
    idle, old, busy = (make_session(alice) for _ in range(3))
    past = datetime.now(UTC) - timedelta(hours=13)
    Token.objects.filter(pk=idle.token.pk).update(last_used_at=past)
    Token.objects.filter(pk=old.token.pk).update(created_at=past - timedelta(days=14), expires_at=past)

    assert [is_in(session) for session in (idle, old, busy)] == [False, False, True]
    actors = [actor_of(alice, session) for session in (idle, old, busy)]
    assert [actor is None for actor in refresh_actors(actors)] == [True, True, False]
    assert len(browser(busy).get("/api/v1/sessions").json()["items"]) == 1


def test_use_in_another_process_keeps_a_session(alice: User) -> None:
    """This process remembers the row; what it does not know of is looked up before it refuses."""
    session = make_session(alice)
    assert is_in(session)
    from tenants.identity import credentials

    remembered = credentials.authenticate(session.text, TokenKind.SESSION)
    assert remembered.user.pk == alice.pk
    remembered.facts.find(("token", session.token.prefix), lambda: None)[0].last_used_at = datetime.now(UTC) - timedelta(hours=13)

    assert is_in(session)


def test_another_password_ends_all_other_sessions_and_tokens(alice: User, cast: Cast, api: Callable[..., APIClient]) -> None:
    own, other = make_session(alice), make_session(alice)
    answer = browser(own).post("/api/v1/password", {"current": PASSWORD, "new": "five other words of alice"}, format="json")

    assert answer.status_code == 204
    row = AuditEvent.objects.get(verb="user.edit_self", target_id=str(alice.pk))
    assert row.after == {"password": "[redacted]", "sessions_and_tokens_ended": 2}
    assert (is_in(own), is_in(other)) == (True, False)
    assert api(cast.alice).get("/api/v1/whoami").status_code == 401
    assert sign_in(browser(), password="five other words of alice").status_code == 201


def test_a_bad_new_password_is_told_all_that_is_wrong(alice: User) -> None:
    answer = browser(make_session(alice)).post("/api/v1/password", {"current": "wrong", "new": "alice"}, format="json")
    fields = {(field["path"], field["code"]) for field in answer.json()["fields"]}

    assert answer.status_code == 422
    assert fields == {("/current", "wrong_password"), *(("/new", f"{word}_password") for word in ("bad", "weak", "common"))}


@pytest.mark.parametrize("new", ["", "x", "aaaaaaaaaaaaaaaa", "alice@example.org", "1234567890123", "alice-alice-a"])
def test_weak_passwords_are_refused(new: str, alice: User) -> None:
    answer = browser(make_session(alice)).post("/api/v1/password", {"current": PASSWORD, "new": new}, format="json")

    assert answer.status_code == 422, new
    assert {field["path"] for field in answer.json()["fields"]} == {"/new"}


def test_disabling_ends_the_session(alice: User, cast: Cast, api: Callable[..., APIClient]) -> None:
    session = make_session(alice)
    actor = actor_of(alice, session)
    assert api(cast.otto).patch(f"/api/v1/users/{alice.pk}", {"is_active": False}, format="json").status_code == 200

    assert not is_in(session)
    assert refresh_actors([actor]) == [None]


def test_a_user_has_so_many_sessions_at_most(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    from tenants.identity.services import sessions

    monkeypatch.setattr(sessions, "SESSIONS_PER_USER", 2)
    for _ in range(4):
        assert sign_in(browser()).status_code == 201

    assert Token.objects.filter(user=alice, kind=TokenKind.SESSION, revoked_at__isnull=True).count() == 2


def test_sessions_that_are_long_over_are_forgotten(alice: User) -> None:
    from tenants.identity.services.sessions import forget_sessions

    live, ended, token = make_session(alice), make_session(alice), make_token(alice)
    past = datetime.now(UTC) - timedelta(days=31)
    Token.objects.filter(pk__in=[ended.token.pk, token.token.pk]).update(revoked_at=past)

    assert forget_sessions(datetime.now(UTC)) == 1
    assert Token.objects.filter(pk__in=[live.token.pk, token.token.pk]).count() == 2
