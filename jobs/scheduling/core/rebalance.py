"""Which refused jobs a pass asks once a minute for room to which no queue has a right: step 8 of `cycle.py`.

- **Rebalance** (`Policy.rebalances`): of two queues that borrow, the queue with the smaller part by weight may take room from the
  other until their parts are alike (`Shares.may_rebalance`). No queue loses what it deserves by that.
- **Migrate** (`Policy.migrations`): a gang that fits in total but not in shape gets its place when small gangs go on elsewhere
  (`migrate.py`).

The ideal: every refused job is asked both, whenever the answer may have changed. The shortcut: once a minute by the clock, the
first in fair order are asked, and of those behind them as many again, each minute the next ones. So other passes are not delayed,
no job is evicted twice in a minute, no wake-ups are needed, and a group is still asked that stands behind many for which there is
never room. Minutes are those of the clock, so a core that is built anew asks the same groups at the same moments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jobs.lifecycle.wait_reasons import WAITS
from jobs.scheduling.core.advance import AdvanceReservations
from jobs.scheduling.core.reserve import Rank, Reserver
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.ordering import REFUSED, Group
from jobs.scheduling.core.state.user_caps import least
from jobs.scheduling.core.state.work import JobAsk
from kernel.wait_codes import WaitCode
from tenants.capacity.quota.shares import Refusal

LOOK_SECONDS = 60
ASKED_MAX = 16  # Groups of a pool that are asked: the first in fair order that may gain, and as many of those behind them.
NOTHING_FREE, NOT_TOGETHER = range(2)  # What a gang lacks: room in total, or room in the right shape.


Waiting = tuple[Rank, Group, JobAsk]


class Lacking(NamedTuple):
    """A gang that is refused for nothing but room. `is_shape`: there would be room in total."""

    group: Group
    job: JobAsk
    is_shape: bool


def is_time(live: Live, last_pass_at: int) -> bool:
    """Whether this is the first pass of a minute, and a job might gain."""
    is_on = live.policy.rebalances or live.policy.migrations
    return bool(is_on and live.ordering) and live.now // LOOK_SECONDS > last_pass_at // LOOK_SECONDS


def lacking_room(live: Live, advance: AdvanceReservations, reserver: Reserver, pool: int) -> list[Lacking]:
    """Jobs that were refused in a pool for nothing but room: the first in fair order, and this minute's part of the others."""
    waiting = []
    for group in live.ordering.groups():
        first = group.first()
        if group.phase == REFUSED and first is not None and pool in group.shape.pools:
            stop = live.ordering.stopped_by(group.queue)
            if stop is not None and first[0] > stop:
                continue  # Its queue is served in order, and stands.
            waiting.append((reserver.rank(group.queue, first[1]), group, first[1]))
    waiting.sort()
    places = iter(range(len(waiting)))
    found = _take(live, advance, waiting, places, pool)
    behind = list(places)
    if behind:
        begin = live.now // LOOK_SECONDS * ASKED_MAX % len(behind)
        found += _take(live, advance, waiting, iter(behind[begin:] + behind[:begin]), pool)
    return found


def _take(
    live: Live, advance: AdvanceReservations, waiting: Sequence[Waiting], places: Iterator[int], pool: int
) -> list[Lacking]:
    """The next `ASKED_MAX` jobs that lack nothing but room. `places` is consumed up to the last of them."""
    found: list[Lacking] = []
    while len(found) < ASKED_MAX and (place := next(places, None)) is not None:
        _, group, job = waiting[place]
        lacks = _lacks(live, advance, group, job, pool)
        if lacks is not None:
            found.append(Lacking(group, job, lacks == NOT_TOGETHER))
    return found


def _lacks(live: Live, advance: AdvanceReservations, group: Group, job: JobAsk, pool: int) -> int | None:
    """What a refused job lacks in a pool; None where limits refuse it, or no machine is of the kind that it asks for. The reason
    of its refusal may be outdated, except that there is no such machine: a change of machines wakes all."""
    need = group.shape.least[pool]
    if group.reason is None or WAITS[group.reason.code].is_unfit or live.is_last_of_array(job):
        return None
    if live.holdings.refusal(job, least(group.shape.gang)) is not None:
        return None
    if advance and advance.refusal(job, need, live.now) is not None:
        return None
    refused = [found for at, amount in need if isinstance(found := live.shares.room(job.queue, at, amount), Refusal)]
    if any(refusal.code != WaitCode.CAPACITY for refusal in refused):
        return None
    return NOTHING_FREE if refused else NOT_TOGETHER
