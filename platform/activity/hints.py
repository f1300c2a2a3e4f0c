"""Hints: "look now" across threads and processes. They make things sooner; nothing is correct because of them.

`wake(topic)` is sent after the caller's transaction commits. Holders of a `Hint` of the topic wake up, in this process at
once, and in other processes through Redis where one is configured. A hint may be lost, doubled or late: every receiver also
looks by itself from time to time. Sending never waits for Redis; a frozen Redis only delays.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator

import redis
import structlog
from django.db import transaction

from kernel.config import current

EVENTS = "events"  # Events were written that may still have no number.
SEQUENCED = "sequenced"  # Numbered events can be read.
DELIVERIES = "deliveries"  # Notifications are waiting to be sent.

CHANNEL = "berth.hints"
REDIS_TIMEOUT_SECONDS = 2.0
PING_SECONDS = 5.0
RECONNECT_SECONDS = 1.0  # Receivers poll anyway; a down Redis must not be hammered.

log = structlog.get_logger("activity")


class Hint:
    """One receiver's bell. `wait` returns True when it rang, and silences it."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._bell = threading.Event()

    def ring(self) -> None:
        self._bell.set()

    def wait(self, timeout_seconds: float) -> bool:
        """Sleep until the bell rings or the time is over."""
        rang = self._bell.wait(timeout_seconds)
        self._bell.clear()
        return rang


_lock = threading.Lock()
_receivers: dict[str, list[Callable[[], None]]] = {}
_relay: _Relay | None = None


def wake(topic: str) -> None:
    """Ring all receivers of the topic once the present transaction commits; at once when there is none."""
    transaction.on_commit(lambda: wake_now(topic), robust=True)


def wake_now(topic: str) -> None:
    """Ring without waiting for a commit."""
    _ring(topic)
    relay = _started_relay()
    if relay is not None:
        relay.send(topic)


@contextlib.contextmanager
def subscribe(topic: str) -> Iterator[Hint]:
    """Receive a topic's hints while the block runs."""
    hint = Hint(topic)
    with listen(topic, hint.ring):
        yield hint


@contextlib.contextmanager
def listen(topic: str, callback: Callable[[], None]) -> Iterator[None]:
    """Call `callback` at every hint, from whatever thread it comes; it must return at once and not raise."""
    with _lock:
        _receivers.setdefault(topic, []).append(callback)
    relay = _started_relay()
    if relay is not None:
        relay.receive()
    try:
        yield
    finally:
        with _lock:
            _receivers[topic].remove(callback)
            if not _receivers[topic]:
                del _receivers[topic]  # Topics are made at will (one per followed log); none may stay behind.


def _ring(topic: str) -> None:
    with _lock:
        callbacks = tuple(_receivers.get(topic, ()))
    for callback in callbacks:
        callback()


def _started_relay() -> _Relay | None:
    global _relay
    url = current().redis_url
    with _lock:
        if _relay is not None and _relay.url != url:
            _relay.stop()
            _relay = None
        if _relay is None and url:
            _relay = _Relay(url)
        return _relay


class _Relay:
    """Carries hints between processes: one thread sends, one receives, both start when first needed."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._origin = uuid.uuid4().hex  # Our own hints come back to us; we rang them already.
        self._outgoing: set[str] = set()  # A topic that waits to be sent is sent once.
        self._ready = threading.Condition()
        self._sender: threading.Thread | None = None
        self._receiver: threading.Thread | None = None
        self._stopped = threading.Event()
        self._troubles: set[str] = set()

    def stop(self) -> None:
        """Let both threads end; another Redis is used from now on."""
        self._stopped.set()
        with self._ready:
            self._ready.notify()

    def send(self, topic: str) -> None:
        with self._ready:
            self._outgoing.add(topic)
            if self._sender is None:
                self._sender = threading.Thread(target=self._send_forever, name="hints-send", daemon=True)
                self._sender.start()
            self._ready.notify()

    def receive(self) -> None:
        with self._ready:
            if self._receiver is None:
                self._receiver = threading.Thread(target=self._receive_forever, name="hints-receive", daemon=True)
                self._receiver.start()

    def _send_forever(self) -> None:
        with _client(self.url) as client:
            while not self._stopped.is_set():
                with self._ready:
                    while not self._outgoing and not self._stopped.is_set():
                        self._ready.wait()
                    topics, self._outgoing = self._outgoing, set()
                try:
                    for topic in topics:
                        client.publish(CHANNEL, f"{self._origin} {topic}")
                except Exception as error:  # The outermost loop. Hints that are lost cost a moment, not the loop.
                    self._note("hints_not_sent", error)
                    self._stopped.wait(RECONNECT_SECONDS)
                else:
                    self._troubles.discard("hints_not_sent")

    def _receive_forever(self) -> None:
        while not self._stopped.is_set():
            try:
                self._receive_until_failure()
            except Exception as error:  # The outermost loop: receivers poll until Redis is back.
                self._note("hints_not_received", error)
            self._stopped.wait(RECONNECT_SECONDS)

    def _note(self, trouble: str, error: Exception) -> None:
        """Say it once, not every second for as long as Redis is away."""
        if trouble not in self._troubles:
            self._troubles.add(trouble)
            log.warning(trouble, error=f"{type(error).__name__}: {error}")

    def _receive_until_failure(self) -> None:
        with _client(self.url) as client, client.pubsub(ignore_subscribe_messages=True) as messages:
            messages.subscribe(CHANNEL)
            self._troubles.discard("hints_not_received")
            for topic in tuple(_receivers):  # Hints sent while no process listened are lost: look now.
                _ring(topic)
            while not self._stopped.is_set():
                message = messages.get_message(timeout=PING_SECONDS)
                if message is None:
                    messages.ping()  # A connection that died silently shows itself.
                    continue
                if message["type"] != "message":
                    continue
                origin, _, topic = message["data"].decode(errors="replace").partition(" ")
                if origin != self._origin:
                    _ring(topic)


def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url, socket_timeout=REDIS_TIMEOUT_SECONDS, socket_connect_timeout=REDIS_TIMEOUT_SECONDS, health_check_interval=30
    )
