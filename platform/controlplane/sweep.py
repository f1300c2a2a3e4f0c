"""The sweep: whatever a lost hint, a dead process or a bug left behind is found here, in time, and said aloud."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import structlog

from jobs.reconcile.stopping import enforce_desired
from tenants.services.reservations import recount_usage

log = structlog.get_logger("sweep")


def sweep(now: datetime) -> None:
    """Run every part; one that fails does not keep the others from running."""
    for name, part in PARTS.items():
        try:
            part(now)
        except Exception:  # Each part is independent; the failure is logged with its traceback.
            log.exception("sweep_part_failed", part=name)


def _quota(now: datetime) -> None:
    for drift in recount_usage(now=now):
        log.error("quota_drift", queue_id=str(drift.queue_id), pool_id=str(drift.pool_id))


def _desired(now: datetime) -> None:
    enforced = enforce_desired()
    if enforced:
        log.info("desired_enforced", jobs=enforced)


PARTS: dict[str, Callable[[datetime], None]] = {"quota": _quota, "desired": _desired}
