"""A broker that is away is noticed in a moment, asked again soon, and waited for as long as it takes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection

from controlplane import broker
from controlplane.broker import Broker
from controlplane.celery import app
from upstream import kombu
from upstream.kombu import PatientChannel, PatientConnection, PatientTransport


def test_a_broker_in_memory_always_answers() -> None:
    assert Broker("").answers()


def test_a_broker_that_is_not_there_is_noticed_and_not_asked_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Broker(f"unix://{tmp_path}/redis.sock?db=0")
    began = time.monotonic()
    assert not away.answers()
    assert time.monotonic() - began < 30
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
    assert asked == [((print, None), {"interval_max": kombu.RECONNECT_SECONDS, "callback": print})]


def test_a_channel_whose_transport_is_gone_says_that_its_connection_is_lost() -> None:
    """Whoever acknowledges a message late expects that, and nothing else."""
    connection = PatientConnection("redis://127.0.0.1:1//")
    assert connection.get_transport_cls() is PatientTransport
    channel = object.__new__(PatientChannel)
    channel.connection = connection.transport
    channel.connection.client = None
    with pytest.raises(connection.connection_errors):
        channel._get_pool()


def test_memory_stays_memory() -> None:
    assert PatientConnection("memory://").get_transport_cls() is not PatientTransport


def test_channels_may_be_closed_while_the_loop_goes_through_them() -> None:
    """As kombu does it at each turn: `for channel in self._channels`."""
    transport = app.connection_for_read("redis://localhost:1/0").transport
    assert isinstance(transport, PatientTransport)
    channels = transport.cycle._channels
    channels.update({"one", "two", "three"})
    for _ in channels:
        channels.discard("two")
    assert set(channels) == {"one", "three"}
