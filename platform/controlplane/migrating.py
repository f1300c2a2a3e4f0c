"""Migrations beside a platform that works: they wait for a table's lock a moment only, let the others through, and try again.

A statement that changes a table waits for all who use it, and all who come after wait behind it: one long query
would stop the platform for as long as it lasts. So the wait is short, and a migration that could not have its lock is tried
again; each is one transaction, or repeats harmlessly (`webapi.online`).
"""

from __future__ import annotations

import random
import time

import structlog
from django.core.management import call_command
from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper

from upstream.postgresql import lock_timeout

LOCK_SECONDS = 2  # How long others wait behind us at most.
PATIENCE_SECONDS = 900.0
BACKOFF_SECONDS_MAX = 10.0
AGAIN = frozenset({"55P03", "40P01"})  # lock_not_available, deadlock_detected.

log = structlog.get_logger("migrating")


def migrate_patiently(connection: BaseDatabaseWrapper, *, patience_seconds: float = PATIENCE_SECONDS) -> int:
    """Apply every migration that is missing; returns how often a lock was not to be had. Raises what else goes wrong."""
    deadline = time.monotonic() + patience_seconds
    refused = 0
    while True:
        try:
            with lock_timeout(connection, f"{LOCK_SECONDS}s"):
                call_command("migrate", verbosity=0, interactive=False, database=connection.alias)
        except OperationalError as error:
            if _state_of(error) not in AGAIN or time.monotonic() > deadline:
                raise
            refused += 1
            wait = min(BACKOFF_SECONDS_MAX, 0.2 * 2 ** min(refused, 6)) * random.uniform(0.5, 1.0)  # noqa: S311 - spreads waits.
            log.warning("migration_waits_for_lock", refused=refused, wait_seconds=round(wait, 2))
            time.sleep(wait)
        else:
            return refused


def _state_of(error: OperationalError) -> str:
    return str(getattr(error.__cause__, "sqlstate", "") or "")
