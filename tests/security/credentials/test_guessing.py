"""Guessing passwords and codes: bounded wherever it comes from, and never at the owner's cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from tenants.attempts import ADDRESS_TRIES_PER_MINUTE
from tenants.models import User
from tenants.services.device_codes import CODES_PER_MINUTE
from tests.api.tenants.test_sessions import PASSWORD, browser, code_of, sign_in
from tests.factories.tenants import Cast
from webapi import throttles

pytestmark = pytest.mark.database

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
    hosts = [f"{NETWORK}::{number:x}" for number in range(1, ADDRESS_TRIES_PER_MINUTE + 6)]
    answers = [code_of(sign_in(browser(), f"nobody-{host}", REMOTE_ADDR=host)) for host in hosts]

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
