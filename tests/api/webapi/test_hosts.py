"""Which names this server answers to, and what it tells browsers about https."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from kernel.config import Config

pytestmark = pytest.mark.database


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "127.0.0.1:8620:1", "", "[::2]"]
)
def test_a_host_of_somebody_else_is_not_answered(host: str) -> None:
    answer = APIClient(raise_request_exception=False).get("/api/v1/info", HTTP_HOST=host)

    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    assert "evil" not in answer.content.decode()


@pytest.mark.parametrize("host", ["127.0.0.1:8620", "localhost", "[::1]:8620", "LOCALHOST"])
def test_the_loopback_is_always_answered(host: str) -> None:
    assert APIClient().get("/api/v1/info", HTTP_HOST=host).status_code == 200


def test_probes_come_by_whatever_address(db: None) -> None:
    assert APIClient().get("/livez", HTTP_HOST="10.1.2.3:8620").status_code == 200


def test_the_names_are_those_of_the_settings() -> None:
    config = Config(public_url="https://berth.example.org:8443", allowed_hosts="gpu.example.org, [fd00::1]", host="0.0.0.0")
    loopback = {"127.0.0.1", "localhost", "[::1]"}

    assert set(config.hosts) == loopback | {"berth.example.org", "gpu.example.org", "[fd00::1]"}
    assert set(Config().hosts) == loopback


def test_browsers_are_told_to_come_by_https_where_the_public_address_is_one(settings: Any) -> None:
    assert "Strict-Transport-Security" not in APIClient().get("/api/v1/info")
    settings.IS_HTTPS = True
    assert APIClient().get("/api/v1/info")["Strict-Transport-Security"] == "max-age=31536000"
