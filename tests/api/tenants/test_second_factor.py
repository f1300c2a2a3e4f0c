"""An authenticator beside the password: setting it up, signing in with it, losing it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyotp
import pytest
from rest_framework.test import APIClient

from activity.models import AuditEvent, Event
from tenants.identity.services.second_factor import FAILURES_MAX, rotate_second_factors
from tenants.models import RecoveryCode, SecondFactor, User
from tests.api.tenants.test_sessions import PASSWORD, browser, code_of, sign_in
from tests.factories.tenants import Cast, make_session, make_token
from webapi import throttles

pytestmark = pytest.mark.database


@pytest.fixture
def alice(clock: Any, cast: Cast) -> User:
    user: User = cast.alice.user
    user.set_password(PASSWORD)
    user.save()
    return user


def enrol(user: User) -> tuple[str, list[str]]:
    """The secret and the recovery codes."""
    client = browser(make_session(user))
    secret = client.post("/api/v1/totp", {"password": PASSWORD}, format="json").json()["secret"]
    done = client.post("/api/v1/totp:confirm", {"code": digits(secret)}, format="json")
    assert done.status_code == 200, done.content
    throttles.buckets.clear()
    return secret, done.json()["recovery_codes"]


def digits(secret: str, *, later: int = 0) -> str:
    return pyotp.TOTP(secret).at(datetime.now(UTC) + timedelta(seconds=later))


def with_code(code: str | None) -> Any:
    throttles.buckets.clear()
    body = {"name": "alice", "password": PASSWORD} | ({} if code is None else {"code": code})
    return browser().post("/api/v1/session", body, format="json")


@pytest.mark.capability("sign-in", "A second factor is asked for, and each of its codes works once")
def test_a_second_factor_is_set_up_and_asked_for(alice: User, clock: Any) -> None:
    client = browser(make_session(alice))
    assert client.get("/api/v1/totp").json() == {"enabled": False, "recovery_codes_left": 0}
    made = client.post("/api/v1/totp", {"password": PASSWORD}, format="json").json()
    assert made["uri"].startswith("otpauth://totp/Berth:alice?secret=")
    assert made["qr_svg"].startswith("data:image/svg+xml")
    assert with_code(None).status_code == 201  # It counts once it is confirmed.
    wrong = client.post("/api/v1/totp:confirm", {"code": "000000"}, format="json")
    assert wrong.json()["fields"][0]["code"] == "bad_code"
    done = client.post("/api/v1/totp:confirm", {"code": digits(made["secret"])}, format="json").json()

    assert len(set(done["recovery_codes"])) == 10
    assert client.get("/api/v1/totp").json() == {"enabled": True, "recovery_codes_left": 10}
    assert code_of(with_code(None)) == "second_factor_required"
    assert code_of(with_code("000000")) == "bad_code"
    clock.shift(30)
    assert with_code(digits(made["secret"])).status_code == 201
    assert set(AuditEvent.objects.values_list("verb", flat=True)) >= {"second_factor.begin", "second_factor.confirm"}
    assert made["secret"] not in SecondFactor.objects.get().ciphertext


def test_a_second_factor_ends_the_sessions_that_were_opened_without_it(alice: User, cast: Cast, api: Callable[..., Any]) -> None:
    own, other, token = make_session(alice), make_session(alice), make_token(alice)
    foreign = make_session(cast.bob.user)
    begun = browser(own).post("/api/v1/totp", {"password": PASSWORD}, format="json").json()
    assert browser(other).get("/api/v1/whoami").status_code == 200  # Beginning ends nothing.
    done = browser(own).post("/api/v1/totp:confirm", {"code": digits(begun["secret"])}, format="json").json()

    assert done["sessions_ended"] == 1
    assert AuditEvent.objects.get(verb="second_factor.confirm").after == {"sessions_ended": 1}
    assert Event.objects.filter(kind="token.revoked", subject_id=other.token.pk).count() == 1
    assert [browser(session).get("/api/v1/whoami").status_code for session in (own, other, foreign)] == [200, 401, 200]
    assert api(token.text).get("/api/v1/whoami").status_code == 200


@pytest.mark.capability("sign-in", "A second factor is asked for, and each of its codes works once")
def test_no_code_is_taken_twice(alice: User, clock: Any) -> None:
    secret, _ = enrol(alice)
    assert code_of(with_code(digits(secret))) == "bad_code"  # It confirmed the authenticator.
    clock.shift(60)
    assert with_code(digits(secret)).status_code == 201
    assert code_of(with_code(digits(secret))) == "bad_code"
    assert code_of(with_code(digits(secret, later=-30))) == "bad_code"  # Nor an older one.


def test_a_clock_may_be_half_a_minute_off_and_no_more(alice: User, clock: Any) -> None:
    secret, _ = enrol(alice)
    clock.shift(300)
    assert code_of(with_code(digits(secret, later=-60))) == "bad_code"
    assert code_of(with_code(digits(secret, later=60))) == "bad_code"
    assert with_code(digits(secret, later=-30)).status_code == 201
    assert with_code(digits(secret, later=30)).status_code == 201


@pytest.mark.capability("sign-in", "A second factor is asked for, and each of its codes works once")
def test_a_recovery_code_works_once(alice: User) -> None:
    _, codes = enrol(alice)

    assert with_code(codes[0].upper().replace("-", " ")).status_code == 201
    assert code_of(with_code(codes[0])) == "bad_code"
    assert with_code(codes[1]).status_code == 201
    assert browser(make_session(alice)).get("/api/v1/totp").json()["recovery_codes_left"] == 8
    assert codes[2] not in set(RecoveryCode.objects.values_list("digest", flat=True))


def test_a_wrong_password_says_nothing_of_the_second_factor(alice: User) -> None:
    enrol(alice)

    assert code_of(sign_in(browser(), password="wrong")) == "bad_credentials"


def test_patience_does_not_find_a_code(alice: User, clock: Any) -> None:
    secret, _ = enrol(alice)
    clock.shift(60)
    for _ in range(FAILURES_MAX):
        assert code_of(with_code("000000")) == "bad_code"
    assert code_of(with_code(digits(secret))) == "bad_code"
    clock.shift(16 * 60)
    assert with_code(digits(secret)).status_code == 201
    assert SecondFactor.objects.get().failures == 0


def test_removing_takes_the_password_and_a_code(alice: User, clock: Any) -> None:
    secret, codes = enrol(alice)
    client = browser(make_session(alice))
    clock.shift(60)

    def remove(password: str, code: str) -> Any:
        throttles.buckets.clear()
        return client.delete("/api/v1/totp", {"password": password, "code": code}, format="json")

    assert remove("wrong", codes[0]).status_code == 422
    assert code_of(remove(PASSWORD, "000000")) == "bad_code"
    assert remove(PASSWORD, digits(secret)).status_code == 204
    assert with_code(None).status_code == 201
    assert AuditEvent.objects.filter(verb="second_factor.delete").count() == 1
    assert RecoveryCode.objects.count() == 0


def test_an_operator_takes_it_away_from_who_lost_it(alice: User, cast: Cast, api: Callable[..., APIClient]) -> None:
    enrol(alice)

    assert api(cast.bob).delete(f"/api/v1/users/{alice.pk}/totp").status_code == 403
    assert api(cast.otto).delete(f"/api/v1/users/{alice.pk}/totp").status_code == 204
    assert with_code(None).status_code == 201
    assert AuditEvent.objects.get(verb="second_factor.reset").target_name == "alice"


def test_a_second_one_needs_the_first_removed(alice: User) -> None:
    enrol(alice)

    assert browser(make_session(alice)).post("/api/v1/totp", {"password": PASSWORD}, format="json").status_code == 409


def test_secrets_move_to_a_new_key(alice: User, clock: Any, settings: Any) -> None:
    secret, _ = enrol(alice)
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another key of the installation, long enough"
    assert rotate_second_factors() == 1
    settings.SECRET_KEY_FALLBACKS = []
    clock.shift(60)

    assert with_code(digits(secret)).status_code == 201


def test_the_console_lets_nobody_in_by_the_password_alone(alice: User, clock: Any) -> None:
    User.objects.filter(pk=alice.pk).update(is_operator=True)
    enrol(alice)
    client = APIClient()
    answer = client.post("/admin/login/", {"username": "alice", "password": PASSWORD, "next": "/admin/"})
    assert answer.status_code == 200
    assert "second factor" in answer.content.decode()

    assert browser(make_session(alice)).get("/admin/").status_code == 200


def test_the_console_does_not_open_to_sessions_of_others(alice: User) -> None:
    assert browser(make_session(alice)).get("/admin/").status_code == 302
