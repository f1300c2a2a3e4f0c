"""What the ledger must hold, as the attempts have it: for the check that both agree, and of those that still run."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from django.db.models import F, Min, Sum
from django.db.models.functions import Least

from jobs.lifecycle.states import AttemptState
from jobs.models import Attempt, Task
from jobs.selectors.ran import last_looks, ran_between
from kernel.resources import Resources
from tenants.billing.ledger.fairness import Holding
from tenants.billing.services.ledger import Charge
from tenants.capacity.quota.accounting import mark

ROWS_AT_ONCE = 2_000


def ended_charges(*, since: datetime | None = None) -> Iterator[Charge]:
    """Attempts that ended since then and that their engine had: each is in the ledger once, for as long as its tasks ran."""
    rows = Attempt.objects.filter(state=AttemptState.ENDED, launched_at__isnull=False, ended_at__isnull=False)
    if since is not None:
        rows = rows.filter(ended_at__gte=since)
    began = Least(F("launched_at"), F("ended_at"))
    columns = ("id", "tenant_id", "pool_id", "began", "ended_at")
    found = rows.annotate(began=began).order_by().values_list(*columns).iterator(chunk_size=ROWS_AT_ONCE)
    while chunk := list(islice(found, ROWS_AT_ONCE)):
        ran = ran_between([row[0] for row in chunk])
        for attempt_id, tenant_id, pool_id, launched_at, noticed_at in chunk:
            yield Charge(attempt_id, tenant_id, pool_id, *ran.get(attempt_id, (None, None)), launched_at, noticed_at)


def known_until(now: datetime) -> datetime:
    """Until when it is known what ran: the oldest last look at a cluster of which attempts are taken to run. Two queries.

    Closed books hold what ran until their end; before that is known they stay open.
    """
    live = Attempt.objects.exclude(state=AttemptState.ENDED).filter(launched_at__isnull=False)
    clusters = set(live.order_by().values_list("cluster_id", flat=True).distinct())
    looks = last_looks(clusters) if clusters else {}
    return min((looks.get(cluster_id, now) for cluster_id in clusters), default=now)


FOREVER = 2**40  # Seconds: as long as it runs, its end is unknown.


def live_holdings() -> dict[uuid.UUID, Holding]:
    """What runs, by attempt: pool, amounts and beginning as the ledger will have them when it has ended. Two queries."""
    live = Attempt.objects.exclude(state=AttemptState.ENDED).filter(launched_at__isnull=False).order_by()
    rows = list(live.values_list("id", "job__queue_id", "pool_id"))
    tasks = Task.objects.filter(attempt__in=live).order_by().values_list("attempt_id")
    sums = tasks.annotate(
        cpu=Sum("cpu_millis"), memory=Sum("memory_bytes"), gpu=Sum("gpu_millis"), began=Min("started_at")
    )  # fmt: skip
    held = {attempt_id: (Resources(cpu, memory, gpu), began) for attempt_id, cpu, memory, gpu, began in sums if began is not None}
    return {
        attempt_id: Holding(queue_id, pool_id, held[attempt_id][0], mark(held[attempt_id][1]), FOREVER)
        for attempt_id, queue_id, pool_id in rows
        if attempt_id in held
    }
