"""The pool and the cursors that Django's backend takes from Berth."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from psycopg_pool import ConnectionPool

from upstream.postgresql.base import AWAY_SECONDS, DatabaseWrapper, Pool


@pytest.fixture
def wrapper() -> DatabaseWrapper:
    """Of a server that is not there: no connection is made by looking at the pool."""
    settings = {
        "NAME": "x", "USER": "", "PASSWORD": "", "HOST": "127.0.0.1", "PORT": "1", "TIME_ZONE": None, "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": False, "AUTOCOMMIT": True, "ATOMIC_REQUESTS": False, "TEST": {},
        "OPTIONS": {"pool": {"min_size": 1, "max_size": 2, "timeout": 30}},
    }  # fmt: skip
    return DatabaseWrapper(settings, "hooks")


def test_the_pool_is_ours_and_is_closed_by_django(wrapper: DatabaseWrapper) -> None:
    pool = wrapper.pool
    assert isinstance(pool, Pool)
    assert wrapper.pool is pool
    wrapper.close_pool()
    assert pool.closed
    assert wrapper.pool is not pool
    wrapper.close_pool()


def test_who_asks_while_the_server_is_away_is_refused_soon(wrapper: DatabaseWrapper, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float | None] = []
    monkeypatch.setattr(ConnectionPool, "getconn", lambda self, timeout=None: asked.append(timeout))
    pool: Any = wrapper.pool
    pool.getconn()
    assert pool._reconnect_failed is not None
    pool._reconnect_failed(pool)
    pool.getconn()
    pool.getconn(5.0)
    wrapper.close_pool()
    assert asked == [None, AWAY_SECONDS, 5.0]


@pytest.mark.database
@pytest.mark.django_db
def test_the_server_keeps_the_plan_of_a_prepared_statement() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("about a server")
    for number in range(3):  # psycopg prepares what it has seen twice.
        with connection.prepared_cursor() as cursor:
            cursor.execute("SELECT %s::int + 4711", [number])
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%%+ 4711%%'")
        assert cursor.fetchone()[0] == 1
