"""Which pages may open a live connection (security T12)."""

from __future__ import annotations

import pytest

from activity.origins import allowed_origins, is_allowed
from kernel.config import Config

PUBLIC = Config(public_url="https://berth.example.org")


def test_the_own_origin_is_allowed() -> None:
    assert is_allowed(["https://berth.example.org"], PUBLIC)


def test_a_program_without_an_origin_is_allowed() -> None:
    assert is_allowed([], PUBLIC)


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.org",
        "https://berth.example.org.evil.org",
        "https://evilberth.example.org",
        "http://berth.example.org",
        "https://berth.example.org:8443",
        "https://berth.example.org/",
        "https://berth.example.org@evil.org",
        "null",
        "file://",
        "https://sub.berth.example.org",
        "https://BERTH.example.org.",
        "",
        " https://berth.example.org",
    ],
)
def test_any_other_origin_is_refused(origin: str) -> None:
    assert not is_allowed([origin], PUBLIC)


def test_two_origins_are_refused_even_when_both_are_ours() -> None:
    assert not is_allowed(["https://berth.example.org"] * 2, PUBLIC)


def test_a_server_on_loopback_is_known_by_all_its_names() -> None:
    assert allowed_origins(Config(host="127.0.0.1", port=8620)) == {
        "http://127.0.0.1:8620",
        "http://localhost:8620",
        "http://[::1]:8620",
    }


def test_loopback_is_not_an_origin_of_a_public_server() -> None:
    assert allowed_origins(PUBLIC) == {"https://berth.example.org"}
