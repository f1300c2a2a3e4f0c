"""What the ledger must hold, as the attempts have it: for the check that both agree, and of those that still run."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime

from django.db.models import F, Sum
from django.db.models.functions import Least

from jobs.lifecycle.states import AttemptState
from jobs.models import Attempt, Task
from kernel.resources import Resources
from tenants.ledger.fairness import Holding
from tenants.quota.accounting import mark
from tenants.services.ledger import Charge

ROWS_AT_ONCE = 2_000


def ended_charges(*, since: datetime | None = None) -> Iterator[Charge]:
    """Attempts that ended since then and that their engine had: each is in the ledger once, from the one moment to the other."""
    rows = Attempt.objects.filter(state=AttemptState.ENDED, launched_at__isnull=False, ended_at__isnull=False)
    if since is not None:
        rows = rows.filter(ended_at__gte=since)
    began = Least(F("launched_at"), F("ended_at"))
    columns = ("id", "tenant_id", "pool_id", "began", "ended_at")
    for row in rows.annotate(began=began).order_by().values_list(*columns).iterator(chunk_size=ROWS_AT_ONCE):
        yield Charge(*row)


FOREVER = 2**40  # Seconds: as long as it runs, nobody knows until when.


def live_holdings() -> dict[uuid.UUID, Holding]:
    """What runs, by attempt: pool, amounts and beginning as the ledger will have them when it has ended. Two queries."""
    live = Attempt.objects.exclude(state=AttemptState.ENDED).filter(launched_at__isnull=False).order_by()
    rows = list(live.values_list("id", "job__queue_id", "pool_id", "launched_at"))
    tasks = Task.objects.filter(attempt__in=live).order_by().values_list("attempt_id")
    sums = tasks.annotate(cpu=Sum("cpu_millis"), memory=Sum("memory_bytes"), gpu=Sum("gpu_millis"))
    held = {attempt_id: Resources(cpu, memory, gpu) for attempt_id, cpu, memory, gpu in sums}
    return {
        attempt_id: Holding(queue_id, pool_id, held[attempt_id], mark(began), FOREVER)
        for attempt_id, queue_id, pool_id, began in rows
        if attempt_id in held and began is not None
    }
