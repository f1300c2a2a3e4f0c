"""The broker may be away: messages are hints, so what they would have started is done without them, and nothing waits for it.

`answers` says in a moment whether sending makes sense now; whoever would send otherwise does the work itself. A worker that lost
its connection tries again every two seconds for as long as it takes: Celery by itself would wait up to half a minute, and end
after a hundred times.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import redis
from celery.app.amqp import AMQP
from kombu import Connection
from kombu.transport import redis as redis_transport

ANSWER_SECONDS = 0.5  # A broker that is slower than this is no help to anybody.
AWAY_SECONDS = 1.0  # It is not asked more often than this while it is away.
RECONNECT_SECONDS = 2.0
SOCKET_SECONDS = 5.0  # A frozen broker holds up nobody for longer than this.


class PatientConnection(Connection):
    """Tries to connect for ever, and soon again."""

    def _ensure_connection(self, *arguments: Any, **options: Any) -> Any:
        if arguments[1:2]:  # The number of tries, as Celery's consumer gives it.
            arguments = (arguments[0], None, *arguments[2:])
        return super()._ensure_connection(*arguments, **{"interval_max": RECONNECT_SECONDS, **options})

    def get_transport_cls(self) -> Any:
        kind = super().get_transport_cls()
        return PatientTransport if kind is redis_transport.Transport else kind


class PatientChannel(redis_transport.Channel):
    """Says that its connection is lost when it is asked for one after the end of its transport.

    kombu 5.7 acknowledges and gives back messages late, over a transport that was taken apart when the connection broke, and
    fails there with an AttributeError: nobody expects that, and the worker would end. Redis delivers such messages again, and
    the sweep finds their work before that.
    """

    def _get_pool(self, asynchronous: bool = False) -> Any:
        if self.connection is None or self.connection.client is None:
            raise redis.ConnectionError("the connection of this channel was lost before")
        return super()._get_pool(asynchronous)  # type: ignore[misc]  # kombu's types leave it out.


class SteadySet(set[Any]):
    """May be changed while another thread goes through it."""

    def __iter__(self) -> Iterator[Any]:
        return iter(tuple(super().__iter__()))


class PatientTransport(redis_transport.Transport):
    """Redis with such channels. kombu's loop goes through them while another thread that stops the worker closes them, and would
    end with an error by that."""

    Channel = PatientChannel

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.cycle._channels = SteadySet()  # type: ignore[union-attr]  # kombu's types leave it out.


class PatientAmqp(AMQP):
    """Celery's way to name the class of connections."""

    Connection = PatientConnection


class Broker:
    """Whether the broker answers, asked at most once a second while it does not."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client: redis.Redis | None = None
        self._away_until = 0.0
        self._lock = threading.Lock()

    def answers(self) -> bool:
        """Ask it; True at once for the broker in memory."""
        if not self.url:
            return True
        with self._lock:
            if time.monotonic() < self._away_until:
                return False
            try:
                if self._client is None:
                    self._client = redis.Redis.from_url(
                        self.url, socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS, retry=None
                    )
                self._client.ping()
            except redis.RedisError:
                self.is_away()
                return False
            return True

    def is_away(self) -> None:
        """Take note that it did not do what it was asked."""
        self._away_until = time.monotonic() + AWAY_SECONDS
