"""The database as Django's `ENGINE = "upstream.postgresql"`: the stock backend, and bounds on every wait.

A connection that the server has closed is found before it is used. While the server is away, callers are refused within a
fraction of a second instead of queueing behind others who wait, and new connections are tried about once a second, however
long it was away. A statement, a wait for a lock and an idle transaction end by themselves, by settings. A request whose time is
over asks nothing more (`kernel.deadlines`).
"""

from __future__ import annotations

import select
from typing import Any

from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.postgresql import base
from psycopg import Connection, Cursor, OperationalError
from psycopg_pool import ConnectionPool

from kernel import deadlines
from kernel.config import current
from upstream.hooks import CORRECTNESS, Hook

AWAY_SECONDS = 0.3  # What one asker waits while the server is known to be away.
RECONNECT_SECONDS = 1.0  # How long the pool tries for one connection before the next asker makes it try anew.


_WRAPPER = "django.db.backends.postgresql.base.DatabaseWrapper."
_TEST = "unit/upstream/test_postgresql.py::"
HOOKS = (
    Hook(
        upstream=_WRAPPER + "pool",
        ours="DatabaseWrapper.pool",
        why="Django makes the pool itself, and passes on neither a check nor what is to happen when the server is away.",
        gain=f"{CORRECTNESS}: while the server is away, who asks is refused in 0.3 s and does not queue",
        test=_TEST + "test_who_asks_while_the_server_is_away_is_refused_soon",
    ),
    Hook(
        upstream=_WRAPPER + "_connection_pools",
        ours="DatabaseWrapper.pool",
        why="Where Django keeps its pools and closes them (`close_pool`).",
        gain=f"{CORRECTNESS}: `close_pool` closes ours",
        test=_TEST + "test_the_pool_is_ours_and_is_closed_by_django",
    ),
    Hook(
        upstream=_WRAPPER + "_configure_connection",
        parameters="self, connection",
        ours="DatabaseWrapper._configure_connection",
        why="The one moment at which each connection of a pool is set up: bounds on statements, locks and idle transactions.",
        gain=f"{CORRECTNESS}: a frozen process would hold locks without end",
        test="services/controlplane/test_patience.py::test_every_connection_has_the_bounds_of_the_settings",
    ),
    Hook(
        upstream="django.db.backends.base.base.BaseDatabaseWrapper._cursor",
        parameters="self, name",
        ours="DatabaseWrapper._cursor",
        why="Every statement passes it: a request whose time is over asks nothing more.",
        gain=f"{CORRECTNESS}: work for clients that have gone is left undone",
        test="services/controlplane/test_patience.py::test_a_request_whose_time_is_over_asks_nothing_more",
    ),
    Hook(
        upstream="django.db.backends.base.base.BaseDatabaseWrapper._prepare_cursor",
        parameters="self, cursor",
        ours="DatabaseWrapper.prepared_cursor",
        why="Django's cursors put values into the text, so that the server plans each statement anew.",
        gain="PostgreSQL 2.5 to 1.5 ms of a core for a submission (bench/RESULTS.md, P1)",
        test=_TEST + "test_the_server_keeps_the_plan_of_a_prepared_statement",
    ),
    Hook(
        upstream="psycopg_pool.ConnectionPool.getconn",
        parameters="self, timeout",
        ours="Pool.getconn",
        why="psycopg's pool lets everybody wait the whole time, although it knows that the server is away.",
        gain=f"{CORRECTNESS}: threads of the web server are free again in 0.3 s",
        test=_TEST + "test_who_asks_while_the_server_is_away_is_refused_soon",
    ),
)


class Pool(ConnectionPool[Connection[Any]]):
    """A pool that knows whether the server was there when it last asked."""

    is_away = False

    def getconn(self, timeout: float | None = None) -> Connection[Any]:
        """A connection that is still open, within `timeout` or the pool's own; a moment only while the server is away."""
        if timeout is None and self.is_away:
            timeout = AWAY_SECONDS
        return super().getconn(timeout)


class DatabaseWrapper(base.DatabaseWrapper):
    """One thread's access to the database."""

    @property
    def pool(self) -> Pool | None:
        """The process's pool. As in Django's own, one per alias, made when it is first asked for."""
        pools: dict[str, Pool] = self._connection_pools  # type: ignore[attr-defined]
        options = dict(self.settings_dict["OPTIONS"].get("pool") or {})
        if self.alias == NO_DB_ALIAS or not options:
            return None
        if self.alias not in pools:

            def configure(connection: Connection[Any]) -> None:
                self._configure_connection(connection)
                made.is_away = False

            def note_away(pool: ConnectionPool[Any]) -> None:
                made.is_away = True

            made = Pool(
                kwargs={**self.get_connection_params(), "autocommit": True},
                open=False,
                configure=configure,
                check=check,
                reconnect_timeout=RECONNECT_SECONDS,
                reconnect_failed=note_away,
                **options,
            )
            pools.setdefault(self.alias, made)
        return pools[self.alias]

    def _configure_connection(self, connection: Connection[Any]) -> bool:
        has_changed: bool = super()._configure_connection(connection)  # type: ignore[misc]  # Django's own hook, missing in its stubs.
        config = current()
        patience = {
            "statement_timeout": config.database_statement_seconds,
            "lock_timeout": config.database_lock_seconds,
            # Our transactions wait for nothing but the database. One that says nothing for so long belongs to a process that is
            # frozen, and holds locks that others wait for: a scheduler's, those of every queue's use.
            "idle_in_transaction_session_timeout": config.database_lock_seconds,
        }
        with connection.cursor() as cursor:
            for name, seconds in patience.items():
                cursor.execute("SELECT set_config(%s, %s, false)", [name, f"{int(seconds * 1000)}ms"])
        return has_changed or not connection.autocommit

    def prepared_cursor(self) -> Any:
        """A cursor for the few statements that are made all the time: the server keeps their plans, and values travel apart.

        Django's own puts values into the text, so that the server reads and plans each statement anew: a third of its work for
        a submission.
        """
        if self.queries_logged:
            return self.cursor()  # Whose texts can be read afterwards.
        deadlines.check()
        self.ensure_connection()
        with self.wrap_database_errors:
            return self._prepare_cursor(Cursor(self.connection))  # type: ignore[attr-defined]  # Django's own, as above.

    def _cursor(self, name: str | None = None) -> Any:
        deadlines.check()
        return super()._cursor(name)  # type: ignore[misc]  # As above.

    def close_if_hung_up(self) -> None:
        """Close a kept connection that the server has closed already, so that its next user gets a fresh one."""
        if self.connection is not None and not self.in_atomic_block and is_hung_up(self.connection):
            self.close()


def check(connection: Connection[Any]) -> None:
    """Raise OperationalError for a connection that the server has closed; the pool then gives another one."""
    if is_hung_up(connection):
        connection.close()
        raise OperationalError("the server closed the connection while nobody used it")


def is_hung_up(connection: Connection[Any]) -> bool:
    """Whether the server has ended this idle connection. It asks the kernel, not the server: that costs microseconds.

    An idle connection that can be read holds a notice, which is rare and harmless to lose with it, or its end.
    """
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
    return bool(poll.poll(0))
