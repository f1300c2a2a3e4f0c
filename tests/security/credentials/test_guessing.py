"""Guessing passwords and codes: bounded wherever it comes from, and never at the owner's cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from tenants.identity import login_throttle
from tenants.identity.login_throttle import ADDRESS_TRIES_PER_MINUTE
from tenants.identity.services.device_codes import CODES_PER_MINUTE
from tenants.models import User
from tests.api.tenants.test_sessions import COOKIE, PASSWORD, browser, code_of, sign_in
from tests.factories.tenants import Cast, make_session
from webapi import throttles

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("still_counts")]

NETWORK = "2001:db8:1:2"  # What one subscriber has: 2**64 addresses.


@pytest.fixture(autouse=True)
def counted_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries are counted by this process: in Redis they would add up from one test to the next."""
    monkeypatch.setattr(throttles, "_redis_rests_until", math.inf)


@pytest.fixture
def alice(cast: Cast) -> User:
    user: User = cast.alice.user
    user.set_password(PASSWORD)
    user.save()
    return user


def test_the_addresses_of_one_network_sign_in_together(alice: User) -> None:
    answers: list[str] = []
    while "locked" not in answers and len(answers) < 3 * ADDRESS_TRIES_PER_MINUTE:
        host = f"{NETWORK}::{len(answers) + 1:x}"
        answers.append(code_of(sign_in(browser(), f"nobody-{host}", REMOTE_ADDR=host)))

    assert answers[:ADDRESS_TRIES_PER_MINUTE] == ["bad_credentials"] * ADDRESS_TRIES_PER_MINUTE
    assert "locked" in answers
    assert code_of(sign_in(browser(), "somebody", REMOTE_ADDR="2001:db8:1:3::1")) == "bad_credentials"


def test_ipv4_in_ipv6_is_the_same_address(alice: User) -> None:
    hosts = ["192.0.2.7", "::ffff:192.0.2.7"] * ADDRESS_TRIES_PER_MINUTE
    answers = [code_of(sign_in(browser(), f"nobody-{at}", REMOTE_ADDR=host)) for at, host in enumerate(hosts)]

    assert "locked" in answers


def test_the_addresses_of_one_network_ask_for_codes_together() -> None:
    answers = [
        APIClient()
        .post("/api/v1/device-codes", {"client": "berth"}, format="json", REMOTE_ADDR=f"{NETWORK}::{number:x}")
        .status_code
        for number in range(1, CODES_PER_MINUTE + 4)
    ]

    assert 429 in answers


def test_the_addresses_of_one_network_guess_tokens_together(api: Callable[..., Any], configure: Callable[..., Any]) -> None:
    configure(requests_per_minute=2)
    hosts = [f"{NETWORK}::1", f"{NETWORK}::2", f"{NETWORK}::3", "2001:db8:1:3::1"]

    assert [api("guess").get("/api/v1/whoami", REMOTE_ADDR=host).status_code for host in hosts] == [401, 401, 429, 401]


# --- No stranger keeps an owner out -----------------------------------------------------------------------------------


def guess(name: str, host: str, tries: int, client: APIClient | None = None) -> list[str]:
    return [code_of(sign_in(client or browser(), name, f"wrong {n}", REMOTE_ADDR=host)) for n in range(tries)]


@pytest.fixture
def besieged(alice: User, monkeypatch: pytest.MonkeyPatch) -> APIClient:
    """Her browser, in which she signed in before strangers from everywhere used up all tries at her name."""
    monkeypatch.setattr(login_throttle, "NAME_TRIES_PER_HOUR", 8)
    hers = browser()
    assert sign_in(hers, REMOTE_ADDR="192.0.2.7").status_code == 201
    answers = guess("alice", "198.51.100.1", 5) + guess("ALICE ", "198.51.100.2", 5)
    assert answers == ["bad_credentials"] * 8 + ["locked"] * 2
    return hers


def test_whoever_tries_a_name_from_elsewhere_keeps_its_owner_not_out(alice: User) -> None:
    assert guess("alice", "198.51.100.1", 6)[-1] == "locked"

    assert sign_in(browser(), REMOTE_ADDR="198.51.100.1").status_code == 429
    assert sign_in(browser(), REMOTE_ADDR="192.0.2.7").status_code == 201


@pytest.mark.parametrize("spelling", ["ALICE@example.org", "al\u0131ce@example.org", "al\u0131ce@EXAMPLE.org"])
def test_spellings_of_an_address_that_a_database_takes_for_one_are_counted_together(alice: User, spelling: str) -> None:
    answers = guess("alice@example.org", "198.51.100.1", 5) + guess(spelling, "198.51.100.1", 1)

    assert answers == ["bad_credentials"] * 5 + ["locked"]


def test_one_place_that_goes_on_uses_nothing_up_for_the_others(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_throttle, "NAME_TRIES_PER_HOUR", 8)
    guess("alice", "198.51.100.1", 15)

    assert sign_in(browser(), REMOTE_ADDR="192.0.2.7").status_code == 201


def test_strangers_from_everywhere_together_have_a_bound(besieged: APIClient) -> None:
    assert code_of(sign_in(browser(), REMOTE_ADDR="192.0.2.99")) == "locked"


def test_a_browser_that_is_known_lets_its_owner_in_from_wherever(besieged: APIClient) -> None:
    besieged.cookies.pop(COOKIE)

    assert sign_in(besieged, REMOTE_ADDR="198.51.100.1").status_code == 201


def test_whoever_is_signed_in_changes_the_password_meanwhile(besieged: APIClient, alice: User) -> None:
    session = make_session(alice)
    answer = browser(session).post("/api/v1/password", {"current": PASSWORD, "new": "five other words of alice"}, format="json")

    assert answer.status_code == 204


def test_a_known_browser_is_known_as_its_owners_alone(besieged: APIClient, cast: Cast) -> None:
    """Whoever has an account gains nothing at the names of others."""
    cast.bob.user.set_password(PASSWORD)
    cast.bob.user.save()
    bobs = browser()
    assert sign_in(bobs, "bob", REMOTE_ADDR="192.0.2.8").status_code == 201
    forged = browser()
    forged.cookies["berth-known"] = "x" * 120

    assert [code_of(sign_in(client, REMOTE_ADDR="192.0.2.8")) for client in (bobs, forged)] == ["locked"] * 2


def test_a_known_browser_guesses_no_faster(besieged: APIClient) -> None:
    assert guess("alice", "192.0.2.7", 6, besieged)[-1] == "locked"


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_the_wait_grows_and_guessing_has_the_bound_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(throttles, "buckets", throttles.Buckets(clock))
    passed, waits = [], []
    for second in range(0, 2 * login_throttle.DAY_SECONDS, 5):
        clock.now = 1_000.0 + second
        wait = login_throttle.of_stranger("alice", "198.51.100.1").count()
        passed.append(second) if not wait else waits.append(wait)

    in_first = [second for second in passed if second < login_throttle.DAY_SECONDS]
    assert login_throttle.TRIES_PER_DAY <= len(in_first) <= 2 * login_throttle.TRIES_PER_DAY
    assert login_throttle.TRIES_PER_DAY - 1 <= len(passed) - len(in_first) <= login_throttle.TRIES_PER_DAY + 1
    assert waits[0] <= 60 < max(waits) <= login_throttle.DAY_SECONDS / login_throttle.TRIES_PER_DAY + 1


def test_a_try_that_succeeds_is_given_back(alice: User) -> None:
    assert [sign_in(browser()).status_code for _ in range(8)] == [201] * 8
