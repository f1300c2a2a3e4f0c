"""A web process is told to end with requests in hand: each gets its own answer, or in the end one that says when to come back."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import Any

import pytest

from tests.builders.breakable import BreakableServers, breakable_servers
from tests.builders.live import LivePlatform, wait_until
from tests.builders.watch import Watch

pytestmark = [pytest.mark.engines, pytest.mark.database, pytest.mark.timeout(300)]

DRAIN_SECONDS = 10.0  # Time enough to mend a database in, on a loaded machine.
WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    """What a client was told."""

    status: int
    headers: dict[str, str]
    body: dict[str, Any]


class InHand:
    """A submission that the server has begun to read: it said so, by 100 Continue, before the body was sent."""

    def __init__(self, platform: LivePlatform, *, sends_body: bool = True) -> None:
        self.socket = socket.create_connection(("127.0.0.1", platform.port), timeout=WAIT_SECONDS)
        body = json.dumps({"spec": {"command": "true"}}).encode()
        head = [
            "POST /api/v1/jobs HTTP/1.1", f"Host: 127.0.0.1:{platform.port}", f"Authorization: Bearer {platform.token}",
            "Content-Type: application/json", f"Content-Length: {len(body)}", f"Idempotency-Key: {uuid.uuid4()}",
            "Expect: 100-continue", "", "",
        ]  # fmt: skip
        self.socket.sendall("\r\n".join(head).encode())
        said = b""
        while b"\r\n\r\n" not in said:
            said += self.socket.recv(4096)
        assert said.startswith(b"HTTP/1.1 100 "), said
        if sends_body:
            self.socket.sendall(body)

    def answer(self) -> Answer:
        with self.socket, contextlib.closing(HTTPResponse(self.socket)) as response:
            response.begin()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, headers, json.loads(response.read()))


@pytest.fixture(scope="module")
def servers() -> Iterator[BreakableServers]:
    if not os.environ.get("BERTH_DATABASE_URL"):
        pytest.skip("runs once, in the stage with servers: it brings its own")
    with breakable_servers() as made:
        yield made


@pytest.fixture(scope="module")
def platform(servers: BreakableServers) -> Iterator[LivePlatform]:
    one_of_each = {f"BERTH_{role}_PROCESSES": "1" for role in ("WEB", "WORKER", "SCHEDULER", "OBSERVER")}
    settings = {
        "BERTH_SERVER_PROFILE": "production",
        "BERTH_WEB_DRAIN_SECONDS": str(DRAIN_SECONDS),
        "BERTH_DATABASE_WAIT_SECONDS": "60",  # Whoever drains gives up first.
    }
    with servers.platform(**settings, **one_of_each) as made:
        yield made


@pytest.fixture
def web(platform: LivePlatform, servers: BreakableServers) -> Iterator[int]:
    """The web process that answers."""
    servers.mend()
    wait_until(platform._is_ready, "a platform that is ready")
    wait_until(platform._are_all_ready, "all of its processes")
    yield platform.processes()["web"][0]
    servers.mend()


def tell_to_end(platform: LivePlatform, web: int) -> None:
    """SIGTERM, and wait until the process has said that it ends what it has in hand."""
    said = len(platform.log_events("draining"))
    os.kill(web, signal.SIGTERM)
    wait_until(lambda: len(platform.log_events("draining")) > said, "the process to drain")


def test_requests_in_hand_of_a_frozen_database_are_told_when_to_come_back(
    platform: LivePlatform, servers: BreakableServers, web: int
) -> None:
    servers.postgresql.freeze()
    requests = [InHand(platform) for _ in range(6)]
    began = time.monotonic()
    tell_to_end(platform, web)
    answers = [request.answer() for request in requests]
    assert time.monotonic() - began >= DRAIN_SECONDS, "they were given the time"
    assert [answer.status for answer in answers] == [503] * 6
    for answer in answers:
        assert answer.headers["content-type"] == "application/problem+json"
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.body["code"] == "unavailable"
        assert "Idempotency-Key" in answer.body["hint"]


def test_requests_in_hand_get_their_own_answer_when_it_comes_in_time(
    platform: LivePlatform, servers: BreakableServers, web: int
) -> None:
    servers.postgresql.freeze()
    requests = [InHand(platform) for _ in range(6)]
    tell_to_end(platform, web)
    servers.postgresql.thaw()
    assert [request.answer().status for request in requests] == [201] * 6


def test_a_body_that_does_not_come_holds_up_no_end(platform: LivePlatform, web: int) -> None:
    request = InHand(platform, sends_body=False)
    with Watch() as watch:
        tell_to_end(platform, web)
        assert request.answer().status == 503
        assert watch.seconds < DRAIN_SECONDS
