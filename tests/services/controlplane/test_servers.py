"""A PostgreSQL or a Redis that would break a promise is refused, all that is wrong with it at once, each with the mending."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from django.db import OperationalError
from structlog.testing import capture_logs

from controlplane import servers
from controlplane.instance import EXIT_CONFIG, CannotStart
from controlplane.servers import MARKER, VISIBILITY, check_claim, claim_servers, refuse_wrong_servers
from kernel.config import Config, current
from reconciling.models import Installation
from tests import servers as private
from tests.builders.breakable import Breakable
from tests.builders.prepared import short_folder

pytestmark = pytest.mark.database

GOOD_POSTGRESQL = {
    "server_version": "15.18",
    "server_version_num": 150_018,
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "max_connections": 400,
}
DATABASE_URL = "postgresql://berth:word@localhost/berth"


@pytest.fixture(scope="module")
def private_redis() -> Iterator[Breakable]:
    private.require_packages()
    root = short_folder("redis")
    root.chmod(0o711)
    server = Breakable(private.lay_out_redis(root / "redis"))
    try:
        server.start()
        yield server
    finally:
        server.end()
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def client(private_redis: Breakable) -> Iterator[redis.Redis]:
    """A Redis as it should be, and empty."""
    with redis.Redis.from_url(private_redis.url) as made:
        made.flushall()
        yield made
        made.config_set("maxmemory-policy", "noeviction")
        made.config_set("appendonly", "yes")


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What PostgreSQL says of itself, to be spoilt."""
    told = dict(GOOD_POSTGRESQL)
    monkeypatch.setattr(servers, "_ask_postgresql", lambda: told)
    return told


@pytest.fixture
def config(private_redis: Breakable, client: redis.Redis, facts: dict[str, Any], configure: Callable[..., Config]) -> Config:
    return configure(database_url=DATABASE_URL, redis_url=private_redis.url)


def refusal(config: Config) -> str:
    with pytest.raises(CannotStart) as refused:
        refuse_wrong_servers(config)
    assert refused.value.exit_code == EXIT_CONFIG
    return str(refused.value)


def test_servers_that_are_as_they_should_be_are_taken(config: Config) -> None:
    refuse_wrong_servers(config)
    claim_servers(config)
    check_claim(config)


def test_a_redis_that_throws_messages_away_is_refused(config: Config, client: redis.Redis) -> None:
    client.config_set("maxmemory-policy", "allkeys-lru")
    assert "maxmemory-policy noeviction" in refusal(config)


def test_a_redis_that_keeps_nothing_is_refused(config: Config, client: redis.Redis) -> None:
    client.config_set("appendonly", "no")
    client.config_set("save", "")
    assert "appendonly yes" in refusal(config)


@pytest.mark.parametrize("name", ["fsync", "full_page_writes", "synchronous_commit"])
def test_a_postgresql_that_forgets_what_it_confirmed_is_refused(config: Config, facts: dict[str, Any], name: str) -> None:
    facts[name] = "off"
    assert f"ALTER SYSTEM SET {name} = on" in refusal(config)


def test_an_old_postgresql_is_refused(config: Config, facts: dict[str, Any]) -> None:
    facts.update(server_version="14.9", server_version_num=140_009)
    assert "PostgreSQL 14.9 is too old: 15 or newer is needed" in refusal(config)


@pytest.mark.parametrize(("version", "is_taken"), [("6.0.16", False), ("5.0.14", False), ("6.2.20", True), ("7.4.6", True)])
def test_an_old_redis_is_refused(config: Config, version: str, is_taken: bool) -> None:
    found = servers._version_problems(config, {"redis_version": version})
    assert (found == []) == is_taken
    assert is_taken or "6.2 or newer is needed" in found[0]


def test_a_redis_with_a_known_hole_is_warned_of(config: Config) -> None:
    with capture_logs() as said:
        assert servers._version_problems(config, {"redis_version": "7.2.4"}) == []
    assert [entry["advisory"] for entry in said] == ["CVE-2025-49844"]


def test_too_few_connections_are_warned_of(config: Config, facts: dict[str, Any]) -> None:
    facts["max_connections"] = 20
    with capture_logs() as said:
        refuse_wrong_servers(config)
    assert "few_connections" in [entry["event"] for entry in said]


@pytest.mark.parametrize(
    ("name", "url", "word"),
    [
        ("redis_url", "redis://localhost:6379/0", "requirepass"),
        ("database_url", "postgresql://berth@localhost/berth", "Give the role a password"),
    ],
)
def test_an_open_door_is_refused(name: str, url: str, word: str, config: Config, configure: Callable[..., Config],
                                 monkeypatch: pytest.MonkeyPatch, client: redis.Redis) -> None:  # fmt: skip
    monkeypatch.setattr(servers, "_client", lambda config: client)  # Nobody listens there: how it is reached is in question.
    assert word in refusal(configure(**{name: url}))


def test_everything_that_is_wrong_is_said_at_once(config: Config, client: redis.Redis, facts: dict[str, Any],
                                                  configure: Callable[..., Config]) -> None:  # fmt: skip
    client.config_set("maxmemory-policy", "allkeys-lru")
    facts.update(fsync="off", synchronous_commit="off")
    words = refusal(configure(visibility_seconds=1.0))
    for word in ("SET fsync = on", "SET synchronous_commit = on", "maxmemory-policy noeviction", "BERTH_VISIBILITY_SECONDS"):
        assert word in words
    assert len(words.splitlines()) == 4


# --- Whose Redis it is ------------------------------------------------------------------------------------------------


def test_a_redis_with_keys_of_something_else_is_refused(config: Config, client: redis.Redis) -> None:
    client.set("somebody:elses", "1")
    with pytest.raises(CannotStart, match=r"keys of something else \(somebody:elses\).*FLUSHDB"):
        claim_servers(config)
    assert client.get(MARKER) is None


def test_keys_that_a_release_of_ours_left_are_no_hindrance(config: Config, client: redis.Redis) -> None:
    client.sadd("_kombu.binding.default", "x")
    claim_servers(config)
    assert client.get(MARKER) == str(Installation.objects.get().id).encode()


def test_a_redis_of_another_installation_is_refused(config: Config, client: redis.Redis) -> None:
    client.set(MARKER, "another")
    with pytest.raises(CannotStart, match="belongs to another installation of Berth \\(another"):
        claim_servers(config)


def test_a_lower_visibility_timeout_than_the_others_is_refused(config: Config, configure: Callable[..., Config]) -> None:
    claim_servers(config)
    higher = current().visibility_seconds
    with pytest.raises(CannotStart, match=f"the lowest counts for all messages.*DEL {VISIBILITY}"):
        check_claim(configure(visibility_seconds=higher - 1))
    check_claim(configure(visibility_seconds=higher + 1))


def test_a_database_that_is_not_prepared_is_refused(config: Config) -> None:
    with pytest.raises(CannotStart, match=r"manage\.py prepare"):
        check_claim(config)


# --- Servers that are away --------------------------------------------------------------------------------------------


def test_a_database_that_is_away_is_waited_for_and_told_of_once(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    tries, pauses = iter([OperationalError("refused")] * 6), list[float]()

    def ask() -> dict[str, Any]:
        for error in tries:
            raise error
        return GOOD_POSTGRESQL

    monkeypatch.setattr(servers, "_ask_postgresql", ask)
    monkeypatch.setattr(servers.time, "sleep", pauses.append)
    with capture_logs() as said:
        refuse_wrong_servers(config)
    assert [entry["event"] for entry in said].count("waiting_for_server") == 1
    assert len(pauses) == 6
    assert pauses == sorted(pauses)
    assert pauses[-1] > pauses[0]


def test_a_database_that_stays_away_may_be_tried_again(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask() -> dict[str, Any]:
        raise OperationalError("refused")

    monkeypatch.setattr(servers, "_ask_postgresql", ask)
    monkeypatch.setattr(servers, "AWAY_SECONDS", 0.0)
    with pytest.raises(CannotStart, match="PostgreSQL does not answer: refused") as refused:
        refuse_wrong_servers(config)
    assert refused.value.exit_code == 1


def test_a_redis_that_is_away_keeps_no_process_from_starting(config: Config, configure: Callable[..., Config]) -> None:
    away = configure(redis_url=f"unix://:word@{os.devnull}-none?db=0")
    with capture_logs() as said:
        refuse_wrong_servers(away)
    assert "redis_not_checked" in [entry["event"] for entry in said]
