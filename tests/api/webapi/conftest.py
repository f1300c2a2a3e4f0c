"""Tests of the HTTP layer run against operations of their own, so that they need no other app."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from rest_framework.test import APIClient

from webapi import asgi_auth, throttles


@pytest.fixture(autouse=True)
def test_operations(settings: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from tests.api.webapi.urls import actor_by_token

    settings.ROOT_URLCONF = "tests.api.webapi.urls"
    monkeypatch.setattr(asgi_auth, "_authenticator", actor_by_token)
    throttles.forget()
    yield
    throttles.forget()


@pytest.fixture
def client_of() -> Callable[[str], APIClient]:
    """`client_of("alice-token")`; an empty text is nobody. Faults become answers instead of exceptions."""

    def made(token: str = "") -> APIClient:
        client = APIClient(raise_request_exception=False)
        if token:
            client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        return client

    return made


@pytest.fixture
def alice(client_of: Callable[[str], APIClient]) -> APIClient:
    return client_of("alice-token")


@pytest.fixture
def bob(client_of: Callable[[str], APIClient]) -> APIClient:
    return client_of("bob-token")


@pytest.fixture
def nobody(client_of: Callable[[str], APIClient]) -> APIClient:
    return client_of("")
