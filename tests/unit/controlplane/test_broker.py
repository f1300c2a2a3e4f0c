"""A broker that is away is noticed in a moment, asked again soon, and waited for as long as it takes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection

from controlplane import broker
from controlplane.broker import Broker, PatientConnection
from controlplane.celery import app


def test_a_broker_in_memory_always_answers() -> None:
    assert Broker("").answers()


def test_a_broker_that_is_not_there_is_noticed_and_not_asked_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Broker(f"unix://{tmp_path}/redis.sock?db=0")
    began = time.monotonic()
    assert not away.answers()
    assert time.monotonic() - began < 5
    monkeypatch.setattr(broker.redis.Redis, "ping", lambda self: True)
    assert not away.answers()
    away._away_until = 0.0
    assert away.answers()


def test_a_lost_connection_is_made_again_soon_and_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, dict[str, Any]]] = []
    monkeypatch.setattr(Connection, "_ensure_connection", lambda self, *given, **named: asked.append((given, named)))
    connection = app.connection_for_read()
    assert isinstance(connection, PatientConnection)
    connection.ensure_connection(print, app.conf.broker_connection_max_retries, callback=print)
    assert asked == [((print, None), {"interval_max": broker.RECONNECT_SECONDS, "callback": print})]


def test_a_broken_channel_is_closed_without_ending_whoever_closes_it() -> None:
    """As it comes after a lost connection with unacknowledged messages: the transport has no client any more."""

    class Broken:
        def close(self) -> None:
            raise AttributeError("'NoneType' object has no attribute 'hostname'")

    connection = app.connection_for_read()
    connection.maybe_close_channel(Broken())
