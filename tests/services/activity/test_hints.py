"""Hints wake whoever waits, in this process and others, and never hold anybody up."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from django.db import transaction

from activity import hints
from kernel.config import Config, current

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]

SOON_SECONDS = 60.0


def test_a_hint_wakes_whoever_waits() -> None:
    with hints.subscribe("a") as hint:
        threading.Timer(0.02, lambda: hints.wake_now("a")).start()
        assert hint.wait(SOON_SECONDS)
        assert not hint.wait(0)


def test_a_hint_that_came_before_the_waiting_is_not_lost() -> None:
    with hints.subscribe("a") as hint:
        hints.wake_now("a")
        assert hint.wait(0)


def test_a_hint_is_sent_after_the_commit_and_not_before() -> None:
    with hints.subscribe("a") as hint:
        with transaction.atomic():
            hints.wake("a")
            assert not hint.wait(0)
        assert hint.wait(0)


def test_what_is_rolled_back_wakes_nobody() -> None:
    with hints.subscribe("a") as hint:
        with transaction.atomic():
            hints.wake("a")
            transaction.set_rollback(True)
        assert not hint.wait(0)


def test_another_topic_wakes_nobody() -> None:
    with hints.subscribe("a") as hint:
        hints.wake_now("b")
        assert not hint.wait(0)


def test_nothing_stays_behind_of_a_topic_that_nobody_listens_to() -> None:
    with hints.subscribe("log.1"), hints.subscribe("log.1"):
        pass
    assert "log.1" not in hints._receivers


@pytest.fixture
def frozen_redis() -> Iterator[str]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


def test_a_frozen_redis_holds_nobody_up(
    frozen_redis: str, configure: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "REDIS_TIMEOUT_SECONDS", 2 * SOON_SECONDS)
    configure(redis_url=frozen_redis)
    with hints.subscribe("a") as hint:
        begin = time.monotonic()
        for _ in range(200):
            hints.wake_now("a")
        assert time.monotonic() - begin < SOON_SECONDS
        assert hint.wait(0)


def test_an_absent_redis_costs_nothing_here(configure: Callable[..., Config]) -> None:
    configure(redis_url="redis://127.0.0.1:1/0")
    with hints.subscribe("a") as hint:
        hints.wake_now("a")
        assert hint.wait(0)


def test_another_process_hears_through_redis() -> None:
    url = current().redis_url
    if not url:
        pytest.skip("BERTH_REDIS_URL is not set; tests/servers.py sets it.")
    elsewhere = hints._Relay(url)  # What another process would have: its own origin and connections.
    with hints.subscribe("a") as hint:
        end = time.monotonic() + SOON_SECONDS
        while not hint.wait(0.05):  # The first ones may be sent before our receiver has subscribed.
            assert time.monotonic() < end
            elsewhere.send("a")
