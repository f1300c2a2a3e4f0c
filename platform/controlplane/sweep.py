"""The sweep: whatever a lost hint, a dead process or a bug left behind is found here, in time, and said aloud."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import structlog

from activity import retention, tickets
from clusters import telemetry
from controlplane import logs
from controlplane.instance import CLOSED_FOLDERS, OPEN_FOLDERS
from images.services import remove_unused_images
from jobs.loading.in_use import images_in_use, volumes_in_use
from jobs.reconcile import checkpoints
from jobs.reconcile.stopping import enforce_desired
from jobs.selectors.charges import known_until, live_holdings
from jobs.services.counts import fold_counts
from jobs.services.decision_records import forget_old_decisions
from jobs.services.predicted_starts import predict_starts
from jobs.services.priority_requests import sweep_requests
from kernel.config import current
from reconciling import poison
from storage.logs import remove_old_logs
from storage.services.artifacts import remove_old_artifacts
from storage.services.uploads import remove_expired_uploads
from storage.services.volumes import remove_deleted_volumes
from storage.space import troubles
from tenants.billing.services.budgets import measure_budgets
from tenants.billing.services.ledger import close_months, fold_days
from tenants.billing.services.ledger.check import check_hourly
from tenants.billing.services.shares import close_weeks
from tenants.capacity.services.bookings import sweep_bookings
from tenants.capacity.services.edits import apply_due_edits
from tenants.capacity.services.quota_requests import sweep_quota_requests
from tenants.capacity.services.reservations import recount_usage
from tenants.identity.services.device_codes import forget_device_codes
from tenants.identity.services.oidc_states import forget_spent_states
from tenants.identity.services.sessions import forget_sessions
from webapi import facts, idempotency

log = structlog.get_logger("sweep")
FINDINGS_TOLD = 20  # Of one look; the command shows all.


def sweep(now: datetime) -> None:
    """Run every part; one that fails does not keep the others from running."""
    for name, part in PARTS.items():
        try:
            done = part(now)
        except Exception:  # Each part is independent; the failure is logged with its traceback.
            log.exception("sweep_part_failed", part=name)
            continue
        if done:
            log.info("swept", part=name, done=done)


def _quota(now: datetime) -> int:
    drifts = recount_usage(now=now, repair=True)
    for drift in drifts:
        log.error("quota_drift", queue_id=str(drift.queue_id), pool_id=str(drift.pool_id))
    return len(drifts)


def _ledger(now: datetime) -> int:
    """Once an hour: whether the ledger, what was reserved, and the days made of it agree."""
    findings = check_hourly(now)
    for finding in findings[:FINDINGS_TOLD]:
        log.error("ledger_differs", code=finding.code, subject=finding.subject, detail=finding.detail)
    return len(findings)


def _disk(now: datetime) -> int:
    """Say aloud, sweep by sweep, what cannot be written to: until an operator frees it, logs and outputs wait."""
    data_dir = current().data_dir
    found = troubles([data_dir / name for name in (*OPEN_FOLDERS, *CLOSED_FOLDERS)])
    for name, cause in found.items():
        log.error("disk_trouble", path=str(data_dir / name), cause=cause)
    return len(found)


# Each part does a bounded amount and says how much it did; what is left waits for the next sweep.
PARTS: dict[str, Callable[[datetime], int]] = {
    "quota": _quota,
    "days": fold_days,
    "budgets": measure_budgets,
    "statements": lambda now: close_months(now, known_until=known_until(now)),
    "share_statements": lambda now: close_weeks(now, running=live_holdings, known_until=known_until(now)),
    "ledger": _ledger,
    "quota_edits": apply_due_edits,
    "quota_requests": sweep_quota_requests,
    "bookings": sweep_bookings,
    "priority_requests": sweep_requests,
    "desired": lambda now: enforce_desired(),
    "idempotency": lambda now: idempotency.delete_expired(now=now),
    "facts": facts.fold,
    "counts": fold_counts,
    "tickets": tickets.delete_expired,
    "device_codes": forget_device_codes,
    "spent_states": forget_spent_states,
    "sessions": forget_sessions,
    "events": retention.prune,
    "decisions": forget_old_decisions,
    "predictions": predict_starts,
    "telemetry": telemetry.sweep_expired,
    "logs": lambda now: remove_old_logs(now=now),
    "artifacts": lambda now: remove_old_artifacts(now=now),
    "checkpoints": checkpoints.sweep,
    "uploads": lambda now: remove_expired_uploads(now=now),
    "volumes": lambda now: remove_deleted_volumes(now=now, in_use=volumes_in_use()),
    "poison": poison.forget_old,
    "disk": _disk,
    "log_file": lambda now: logs.bound_file(current().data_dir / "log" / "platform.log"),
    "images": lambda now: remove_unused_images(now=now, in_use=images_in_use()),
}
