"""kombu: connections that are tried for ever, and channels that may go while others use them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import redis
from kombu import Connection
from kombu.transport import redis as redis_transport

from upstream.hooks import CORRECTNESS, Hook

RECONNECT_SECONDS = 2.0
_TEST = "unit/controlplane/test_broker.py::"

HOOKS = (
    Hook(
        upstream="kombu.connection.Connection._ensure_connection",
        parameters="self, errback, max_retries, interval_start, interval_step, interval_max, callback, "
        "reraise_as_library_errors, timeout",
        ours="PatientConnection._ensure_connection",
        why="Celery's consumer gives the number of tries and kombu waits longer after each: a worker that lost Redis ends "
        "after a hundred, and comes back half a minute late. Settings reach neither.",
        gain="back within 2 s of Redis, where it was up to 32 s (docs/reliability.md, what rounds have found)",
        test=_TEST + "test_a_lost_connection_is_made_again_soon_and_without_end",
    ),
    Hook(
        upstream="kombu.connection.Connection.get_transport_cls",
        parameters="self",
        ours="PatientConnection.get_transport_cls",
        why="The transport of an address is chosen by a table inside kombu; ours takes the place of Redis's.",
        gain=f"{CORRECTNESS}: brings in the channels below",
        test=_TEST + "test_a_channel_whose_transport_is_gone_says_that_its_connection_is_lost",
    ),
    Hook(
        upstream="kombu.transport.redis.Channel._get_pool",
        parameters="self, asynchronous",
        ours="PatientChannel._get_pool",
        why="kombu 5.7 acknowledges and gives back messages late, over a transport that was taken apart when the connection "
        "broke, and fails with an AttributeError that no caller expects.",
        gain=f"{CORRECTNESS}: the worker ended when Redis did",
        test=_TEST + "test_a_channel_whose_transport_is_gone_says_that_its_connection_is_lost",
    ),
    Hook(
        upstream="kombu.transport.redis.MultiChannelPoller._channels",
        ours="PatientTransport.__init__",
        why="kombu's loop goes through this set while another thread that stops the worker takes channels out of it.",
        gain=f"{CORRECTNESS}: the loop ended with a RuntimeError",
        test=_TEST + "test_channels_may_be_closed_while_the_loop_goes_through_them",
    ),
)


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
    """Says that its connection is lost where one is asked for after its transport ended.

    Late acknowledgements of kombu expect that and nothing else. Redis delivers such messages again, and the sweep finds their
    work before that.
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
