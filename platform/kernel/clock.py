"""Time, as an argument. `database_now` is the one clock that leases and due times are compared with.

Processes on several hosts disagree about the time; the database does not disagree with itself. A service reads it once
per transaction and passes it down. Simulations and tests replace it with `frozen`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from kernel import ids, limits

WRITTEN_LENGTH_MAX = 40  # Of a time as text.

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


def read_moment(text: str) -> datetime:
    """A written time, ISO 8601 with an offset or `Z`, in UTC. The one way by which a time comes in from outside.

    ValueError for anything else, for a time without an offset, and for years before 2000 or after 2199: those are mistakes, and
    arithmetic with them leaves the range of `datetime` and of the database.
    """
    moment = datetime.fromisoformat(text[:WRITTEN_LENGTH_MAX])
    if moment.tzinfo is None:
        raise ValueError("a time without an offset means something else on every machine")
    if not limits.YEAR_MIN <= moment.year <= limits.YEAR_MAX:
        raise ValueError(f"the year is not between {limits.YEAR_MIN} and {limits.YEAR_MAX}")
    return moment.astimezone(UTC)


def utc_text(moment: datetime | None) -> str | None:
    """A time as `2026-11-20T08:15:30.123456Z`; None stays None."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


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
