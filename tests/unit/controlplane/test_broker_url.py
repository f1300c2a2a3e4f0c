from __future__ import annotations

import pytest
from kombu import Connection

from controlplane.celery import broker_url


@pytest.mark.parametrize(
    ("redis_url", "expected"),
    [
        ("", "memory://localhost/"),
        ("redis://:word@host:6379/3", "redis://:word@host:6379/3"),
        ("rediss://host/0", "rediss://host/0"),
        ("unix://:word@/run/berth/redis.sock?db=3", "redis+socket://:word@/run/berth/redis.sock?virtual_host=3"),
        ("unix:///run/berth/redis.sock", "redis+socket:///run/berth/redis.sock?virtual_host=0"),
    ],
)
def test_every_address_of_redis_is_one_that_the_broker_knows(redis_url: str, expected: str) -> None:
    assert broker_url(redis_url) == expected
    assert "word" not in Connection(expected).as_uri()
