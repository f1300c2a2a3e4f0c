"""What waits, written down once a minute: the accounts of shares ask who wanted more than they got."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import structlog

from jobs.lifecycle.wait_reasons import WAITS
from jobs.loading.around import Numbers
from jobs.scheduling.core.core import Core
from kernel.wait_codes import WaitCode
from tenants.billing.services.shares import Demand, record_demand

log = structlog.get_logger("scheduler")

EVERY_SECONDS = 60
OWN = frozenset({WaitCode.USER_CAP, *(code for code, record in WAITS.items() if record.is_unfit)})
"""Who waits for these waits for their own tenant's caps, or for what no pool has: no share would start them."""


def keep(core: Core, numbers: Numbers, *, since: int | None, now: int) -> int:
    """Write down what waits, if it was longer ago than a minute; returns up to when it is written down.

    What waits at the end of such a time counts for all of it. A job that waits for less than a minute is met by chance only,
    and then counts for a whole one: in the sum that is what such jobs waited.
    """
    if since is None or now < since:
        return now
    if now - since < EVERY_SECONDS:
        return since
    try:
        record_demand(_demand(core, numbers), since=since, until=now)
    except Exception:  # An account with a gap is no reason to let jobs wait.
        log.exception("demand_not_recorded", since=since, until=now)
    return now


def _demand(core: Core, numbers: Numbers) -> Iterator[Demand]:
    """By queue and pool. Who may go to several pools wants an equal part in each. Costs the number of different asks."""
    wanted: dict[tuple[int, int], tuple[int, int]] = {}
    for queue, pool, more_cpu, more_gpu in _asks(core):
        cpu, gpu = wanted.get((queue, pool), (0, 0))
        wanted[queue, pool] = (cpu + more_cpu, gpu + more_gpu)
    for (queue, pool), (cpu, gpu) in sorted(wanted.items()):
        queue_id = numbers.queues[queue]
        if queue_id is not None:
            yield Demand(queue_id, numbers.pools[pool], cpu, gpu)


def _asks(core: Core) -> Iterable[tuple[int, int, int, int]]:
    """Queue, pool, thousandths of cores and of GPUs."""
    for group in core.ordering.groups():
        if group.reason is not None and group.reason.code in OWN:
            continue
        parts = len(group.shape.least)
        for need in group.shape.least.values():
            for pool, (cpu, _, gpu) in need:
                yield group.queue, pool, cpu * len(group) // parts, gpu * len(group) // parts
    for made in core.transfers.values():  # Who waits until others have left.
        for pool, (cpu, _, gpu) in made.claimant.need:
            yield made.claimant.job.queue, pool, cpu, gpu
