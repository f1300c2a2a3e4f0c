"""Time, as an argument. `database_now` is the one clock that leases and due times are compared with.

Processes on several hosts disagree about the time; the database does not disagree with itself. A service reads it once
per transaction and passes it down. Simulations and tests replace it with `frozen`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from kernel import ids

_override: Callable[[], datetime] | None = None


def database_now(using: str = "default") -> datetime:
    """The database's present time in UTC. On SQLite, which has no clock of its own, this host's."""
    if _override is not None:
        return _override()
    from django.db import connections  # The kernel stays importable without Django; only this function needs it.

    connection = connections[using]
    if connection.vendor != "postgresql":
        return datetime.now(UTC)
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    ids.follow(moment)
    return moment.astimezone(UTC)


def host_now() -> datetime:
    """This host's time, which may be set at any moment: for nothing but the age of what was read on this very host."""
    return datetime.now(UTC) if _override is None else _override()


def virtual_now() -> datetime | None:
    """The time that a simulation or test has set; None while time is real."""
    return None if _override is None else _override()


@contextlib.contextmanager
def virtual(source: Callable[[], datetime]) -> Iterator[None]:
    """Take the time from `source` while the block runs: simulations move it by hand."""
    global _override
    previous, _override = _override, source
    try:
        yield
    finally:
        _override = previous
