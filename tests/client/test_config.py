"""Where server, token and tenant come from, and how the file is kept."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from berth.config import (
    ConfigFile,
    Profile,
    config_path,
    normal_server,
    read_config,
    resolve_settings,
    travels_in_clear,
    write_config,
)
from berth.errors import ConfigurationInvalid

KEPT = ConfigFile(
    "work", {"work": Profile("https://berth.example.org", "secret", "vision"), "home": Profile("http://127.0.0.1:8400", "other")}
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "config/berth/config.toml"
    write_config(place, KEPT)
    return place


def test_the_file_is_for_its_owner_alone(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_what_is_written_is_read(path: Path) -> None:
    odd = ConfigFile("a", {"a": Profile("https://x.test", 'quo"te\\\x7f\n', "中文")})
    assert read_config(path) == KEPT
    write_config(path, odd)
    assert read_config(path) == odd


def test_a_file_that_others_can_read_is_refused(path: Path) -> None:
    path.chmod(0o644)
    with pytest.raises(ConfigurationInvalid) as caught:
        read_config(path)
    assert "chmod 600" in caught.value.hint


def test_a_broken_file_is_named(path: Path) -> None:
    path.write_text("current = [")
    with pytest.raises(ConfigurationInvalid, match=r"config\.toml"):
        read_config(path)


def test_file_yields_to_environment_and_environment_to_arguments(path: Path) -> None:
    environ = {"BERTH_TENANT": "from-environment", "BERTH_TOKEN": "environment-token"}

    assert resolve_settings(path=path, environ={}).tenant == "vision"
    assert resolve_settings(path=path, environ=environ).tenant == "from-environment"
    assert resolve_settings(path=path, environ=environ, tenant="argument").tenant == "argument"
    assert resolve_settings(path=path, environ=environ).token == "environment-token"


def test_profiles_are_chosen_by_environment_and_argument(path: Path) -> None:
    assert resolve_settings(path=path, environ={"BERTH_PROFILE": "home"}).token == "other"
    assert resolve_settings(path=path, environ={"BERTH_PROFILE": "home"}, profile="work").token == "secret"
    with pytest.raises(ConfigurationInvalid, match="known: home, work"):
        resolve_settings(path=path, environ={}, profile="none")


def test_a_token_is_never_taken_to_another_server(path: Path) -> None:
    settings = resolve_settings(path=path, environ={"BERTH_SERVER": "https://evil.test"})
    assert (settings.token, settings.tenant) == ("", "")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("berth.example.org", "https://berth.example.org"),
        ("localhost:8400", "http://localhost:8400"),
        ("https://a/b/", "https://a/b"),
    ],
)
def test_addresses_are_brought_into_one_form(text: str, wanted: str) -> None:
    assert normal_server(text) == wanted


@pytest.mark.parametrize("text", ["ftp://a", "https://", "https://user:pass@a", "https://a?x=1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationInvalid):
        normal_server(text)


def test_only_plain_http_to_another_machine_is_readable_on_the_way() -> None:
    assert travels_in_clear("http://berth.example.org")
    assert not travels_in_clear("http://127.0.0.1:8400")
    assert not travels_in_clear("https://berth.example.org")


def test_a_token_is_not_in_what_is_printed_of_settings(path: Path) -> None:
    assert "secret" not in repr(resolve_settings(path=path, environ={}))
    assert "secret" not in repr(KEPT)


def test_the_path_follows_the_desktop_convention(tmp_path: Path) -> None:
    assert config_path({"XDG_CONFIG_HOME": str(tmp_path)}) == tmp_path / "berth/config.toml"
    assert config_path({"BERTH_CONFIG": "/x/y.toml"}) == Path("/x/y.toml")
