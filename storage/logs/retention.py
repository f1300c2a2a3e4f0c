"""Removes logs whose time is over: bytes first, then their index rows, a bounded number at a time."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog

from storage.bounds import LOG_KEPT
from storage.logs.store import AttemptKey, LogStore, default_store
from storage.models import AttemptLog, LogChunkIndex, LogStreamState

STUCK_PASSED = 10  # Times the limit: how many that cannot be removed are passed over in one call.

logger = structlog.get_logger("logs")


def remove_old_logs(*, now: datetime, kept: timedelta = LOG_KEPT, limit: int = 100, store: LogStore | None = None) -> int:
    """Remove up to `limit` complete logs that nothing was added to for `kept`; gives how many. May be called at any time.

    The attempt's own row stays and says when its log was removed. A crash in between leaves rows without bytes, which the
    next call removes. What cannot be removed is told and left to the next call, and keeps none behind it from its turn.
    """
    store = store or default_store()
    old = AttemptLog.objects.filter(removed_at__isnull=True, complete=True, updated_at__lt=now - kept).order_by("updated_at")
    removed = 0
    for log in old[: limit * STUCK_PASSED]:
        if removed == limit:
            break
        try:
            store.remove(AttemptKey(log.tenant_id, log.job_id, log.attempt_id))
        except OSError as error:
            logger.warning("log_not_removed", attempt_id=str(log.attempt_id), error=repr(error))
            continue
        removed += 1
        LogChunkIndex.objects.filter(attempt_id=log.attempt_id).delete()
        LogStreamState.objects.filter(attempt_id=log.attempt_id).delete()
        AttemptLog.objects.filter(attempt_id=log.attempt_id).update(removed_at=now)
    return removed
