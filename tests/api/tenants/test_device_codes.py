"""Letting a command line in by a browser (RFC 8628)."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from rest_framework.test import APIClient

from activity.models import AuditEvent
from tenants.identity.services import device_codes
from tenants.identity.services.device_codes import CODES_PER_MINUTE, LOOKS_PER_MINUTE, forget_device_codes
from tenants.identity.services.tokens import revoke_all
from tenants.models import DeviceCode, Token, User
from tests.api.tenants.test_sessions import PASSWORD, browser, code_of
from tests.factories.tenants import Cast, make_session
from webapi import throttles

pytestmark = pytest.mark.database


@pytest.fixture(autouse=True)
def _counted_here(still_counts: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries are counted by this process, and none comes back while a test counts."""
    monkeypatch.setattr(throttles, "_redis_rests_until", math.inf)


@pytest.fixture
def alice(clock: Any, cast: Cast) -> APIClient:
    """Her browser."""
    return browser(make_session(cast.alice.user))


def ask() -> dict[str, Any]:
    answer = APIClient().post("/api/v1/device-codes", {"client": "berth 0.2.0 on laptop"}, format="json")
    assert answer.status_code == 201, answer.content
    return dict(answer.json())


def redeem(asked: dict[str, Any]) -> Any:
    return APIClient().post("/api/v1/device-codes:redeem", {"device_code": asked["device_code"]}, format="json")


@pytest.mark.capability("sign-in", "A command line is approved in a browser")
def test_a_command_line_gets_the_rights_of_whoever_approves(alice: APIClient, clock: Any, api: Callable[..., Any]) -> None:
    asked = ask()
    assert asked["verification_url_complete"] == f"http://127.0.0.1:8620/device?code={asked['user_code']}"
    assert (asked["expires_in"], asked["interval"]) == (600, 5)
    assert code_of(redeem(asked)) == "authorization_pending"
    shown = alice.get(f"/api/v1/device-codes/{asked['user_code']}").json()
    assert (shown["client"], shown["address"]) == ("berth 0.2.0 on laptop", "127.0.0.1")
    assert asked["device_code"] not in str(shown)
    clock.shift(5)
    assert alice.post(f"/api/v1/device-codes/{asked['user_code'].lower()}/approve").status_code == 204
    answer = redeem(asked).json()

    assert answer["user"]["name"] == "alice"
    assert answer["name"] == "berth login: berth 0.2.0 on laptop"
    assert api(answer["token"]).get("/api/v1/whoami").json()["user"]["name"] == "alice"
    assert code_of(redeem(asked)) == "expired_code"  # Once.
    assert AuditEvent.objects.filter(verb="device_code.approve").count() == 1
    assert AuditEvent.objects.get(verb="token.create").after["by"] == "device code"


def test_what_is_denied_or_over_gives_nothing(alice: APIClient, clock: Any) -> None:
    denied, late = ask(), ask()
    assert alice.post(f"/api/v1/device-codes/{denied['user_code']}/deny").status_code == 204
    assert (redeem(denied).status_code, code_of(redeem(denied))) == (403, "access_denied")
    assert alice.post(f"/api/v1/device-codes/{denied['user_code']}/approve").status_code == 404
    clock.shift(601)
    assert code_of(redeem(late)) == "expired_code"
    assert alice.get(f"/api/v1/device-codes/{late['user_code']}").status_code == 404
    clock.shift(2 * 86_400)
    assert forget_device_codes(datetime.now(UTC)) == 2
    assert AuditEvent.objects.filter(verb="device_code.deny").count() == 1


def test_a_code_that_is_taken_back_while_it_is_redeemed_gives_nothing(
    alice: APIClient, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process ends all tokens between the look at the code and its use."""
    asked = ask()
    alice.post(f"/api/v1/device-codes/{asked['user_code']}/approve")
    issue = device_codes._issue

    def late(row: DeviceCode, user: User, *rest: Any) -> Any:
        revoke_all(user, now=datetime.now(UTC))
        return issue(row, user, *rest)

    monkeypatch.setattr(device_codes, "_issue", late)

    assert code_of(redeem(asked)) == "expired_code"
    assert not Token.objects.filter(user=cast.alice.user, kind="personal", name__startswith="berth login").exists()


def test_whoever_is_in_a_hurry_waits_longer(alice: APIClient, clock: Any) -> None:
    asked = ask()
    redeem(asked)
    hasty = redeem(asked)

    assert (code_of(hasty), hasty["Retry-After"]) == ("slow_down", "10")
    clock.shift(10)
    assert code_of(redeem(asked)) == "authorization_pending"


def test_an_approval_ends_with_what_it_rests_on(alice: APIClient, cast: Cast) -> None:
    cast.alice.user.set_password(PASSWORD)
    cast.alice.user.save()
    changed, disabled = ask(), ask()
    alice.post(f"/api/v1/device-codes/{changed['user_code']}/approve")
    alice.post("/api/v1/password", {"current": PASSWORD, "new": "five other words of alice"}, format="json")
    assert code_of(redeem(changed)) == "access_denied"
    alice.post(f"/api/v1/device-codes/{disabled['user_code']}/approve")
    User.objects.filter(pk=cast.alice.user.pk).update(is_active=False)

    assert code_of(redeem(disabled)) == "access_denied"
    assert not Token.objects.filter(name__startswith="berth login").exists()


def test_a_token_approves_nothing(alice: APIClient, cast: Cast, api: Callable[..., Any]) -> None:
    asked = ask()

    assert api(cast.alice).post(f"/api/v1/device-codes/{asked['user_code']}/approve").status_code == 401


def test_another_page_approves_nothing(alice: APIClient) -> None:
    asked = ask()
    alice.credentials()
    answer = alice.post(f"/api/v1/device-codes/{asked['user_code']}/approve")

    assert code_of(answer) == "csrf_failed"
    assert DeviceCode.objects.get().decided_at is None


def test_codes_are_not_guessed(alice: APIClient) -> None:
    answers = [alice.get(f"/api/v1/device-codes/BBBB-BBB{sign}").status_code for sign in "BCDFGHJKLMNPQRSTVWXZBC"]

    assert answers == [404] * LOOKS_PER_MINUTE + [429] * 2


def test_an_address_asks_so_often(alice: APIClient) -> None:
    client = APIClient()
    answers = [
        client.post("/api/v1/device-codes", {"client": "x"}, format="json").status_code for _ in range(CODES_PER_MINUTE + 1)
    ]

    assert answers == [201] * CODES_PER_MINUTE + [429]


@pytest.mark.parametrize("client", ["", "a\nb", "\x1b[31mred", "x" * 101, None, 7.5, "名"])
def test_a_client_says_who_it_is_in_plain_words(client: Any, alice: APIClient) -> None:
    answer = APIClient().post("/api/v1/device-codes", {"client": client}, format="json")

    assert answer.status_code == (201 if client == 7.5 else 422)
