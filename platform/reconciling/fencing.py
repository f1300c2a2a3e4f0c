"""Results that came too late: a process paused past its lease finds another token, and its results are dropped and counted.

A few of them are what fencing is for. Many mean that leases are shorter than the work that they are taken for, or that a machine
stands still; `berth_stale_results_total` says how many there were, by the work that they came from.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection

import structlog
from django.db import models
from django.db.models import F

from reconciling.models import StaleResults

log = structlog.get_logger("reconciling")


def note_dropped(
    work: str, model: type[models.Model], *, token: uuid.UUID, brought: Collection[uuid.UUID], written: Collection[uuid.UUID]
) -> int:
    """Count the rows that were brought back, not written, and belong to another token now; how many.

    A row that was not written although its token is still ours was changed by code that needs no lease: it is not counted.
    """
    missing = set(brought) - set(written)
    if not missing:
        return 0
    stale = model._default_manager.filter(pk__in=missing).exclude(lease_token=token).count()
    if stale:
        log.warning("stale_results_dropped", work=work, rows=stale)
        StaleResults.objects.bulk_create([StaleResults(work=work)], ignore_conflicts=True)
        StaleResults.objects.filter(work=work).update(rows=F("rows") + stale)
    return stale


def dropped() -> dict[str, int]:
    """How many results were dropped since the installation began, by the work that they came from."""
    return dict(StaleResults.objects.order_by("work").values_list("work", "rows"))
