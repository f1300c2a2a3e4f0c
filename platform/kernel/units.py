"""Running a whole unit of work again when the database ended it for the sake of another one.

A deadlock or a serialization failure is no fault of the unit: its transaction was rolled back as a whole, and run again it
succeeds. Only whole units may be run again, so this is called where they begin - the request with a key, the batch of a
reconciler - and never inside.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LOST_RACES = frozenset({"40001", "40P01"})  # serialization_failure, deadlock_detected
TRIES_MAX = 4
PAUSE_SECONDS = 0.02  # Doubles, with jitter: two units that ended each other must not meet again.


def run_unit(unit: Callable[[], T]) -> T:
    """Run the unit, and again if it lost a race; the last failure is raised. Inside a transaction it is run once."""
    for number in range(1, TRIES_MAX):
        if _in_transaction():
            break
        try:
            return unit()
        except Exception as error:
            if not lost_race(error):
                raise
            time.sleep(PAUSE_SECONDS * 2**number * random.uniform(0.5, 1.5))  # noqa: S311  (spread, no secret)
    return unit()


def lost_race(error: BaseException) -> bool:
    """Whether the database ended a transaction for another one's sake, so that all of it may be run again."""
    return sqlstate_of(error) in LOST_RACES


def sqlstate_of(error: BaseException | None) -> str:
    """The SQLSTATE of a database error or of what it wraps; empty for one that never reached a server, and for any other."""
    while error is not None:
        state = getattr(error, "sqlstate", None)
        if state:
            return str(state)
        error = error.__cause__
    return ""


def _in_transaction() -> bool:
    from django.db import connection  # The kernel stays importable without Django; only this function needs it.

    return bool(connection.in_atomic_block)
