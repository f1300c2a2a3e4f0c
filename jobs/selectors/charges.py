"""What the ledger must hold, as the attempts have it: for the check that both agree."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db.models import F
from django.db.models.functions import Least

from jobs.lifecycle.states import AttemptState
from jobs.models import Attempt
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
