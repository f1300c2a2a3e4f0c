"""What a pass does once a minute for those who were refused, beyond what anybody has a right to: 8. in `cycle.py`.

- **Rebalance** (`Policy.rebalances`): of two queues that borrow, the one with the smaller part by weight may take room from the
  other until their parts are alike (`Shares.may_rebalance`). Nobody loses what it deserves by that.
- **Migrate** (`Policy.migrations`): a gang that fits in total but not in shape gets its place when small gangs go on elsewhere
  (`migrate.py`).

The ideal: both are asked of everybody who is refused, whenever that may have changed. The shortcut: the first in fair order are
asked, once a minute by the clock. So neither takes time from a pass that has just something to start, nobody is pushed around
twice in a minute, and no queue of whom to wake is needed. Minutes are those of the clock, so a core that is made anew asks at the
same moments.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

from jobs.scheduling.core.advance import AdvanceReservations
from jobs.scheduling.core.reserve import Reserver
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.ordering import REFUSED, Group
from jobs.scheduling.core.state.user_caps import least
from jobs.scheduling.core.state.work import Job
from tenants.quota.shares import Refusal

LOOK_SECONDS = 60
ASKED_MAX = 16  # Of a pool in one look: the first in fair order of those who may gain.
NOTHING_FREE, NOT_TOGETHER = range(2)  # What a gang lacks: a part of what its pool has in all, or room in the right shape.


class Lacking(NamedTuple):
    """A gang that is refused for nothing but room. `is_shape`: there would be room in total."""

    group: Group
    job: Job
    is_shape: bool


def is_time(live: Live, last_pass_at: int) -> bool:
    """Whether the first pass of a minute is at hand, and somebody might gain."""
    is_on = live.policy.rebalances or live.policy.migrations
    return bool(is_on and live.ordering) and live.now // LOOK_SECONDS > last_pass_at // LOOK_SECONDS


def lacking_room(live: Live, windows: AdvanceReservations, reserver: Reserver, pool: int) -> list[Lacking]:
    """The first of those who were refused there for nothing but room, in fair order."""
    waiting = []
    for group in live.ordering.groups():
        first = group.first()
        if group.phase == REFUSED and first is not None and pool in group.shape.pools:
            waiting.append((reserver.rank(group.queue, first[1]), group, first[1]))
    heapq.heapify(waiting)
    found: list[Lacking] = []
    while waiting and len(found) < ASKED_MAX:
        _, group, job = heapq.heappop(waiting)
        lacks = _lacks(live, windows, group, job, pool)
        if lacks is not None:
            found.append(Lacking(group, job, lacks == NOT_TOGETHER))
    return found


def _lacks(live: Live, windows: AdvanceReservations, group: Group, job: Job, pool: int) -> int | None:
    """What a refused job lacks in a pool; None where limits refuse it, or no machine is such as it asks for. What it was told
    then may be true no more; that there is no such machine holds until machines change, which asks everybody anew."""
    need = group.shape.least[pool]
    if group.reason is None or group.reason.code in ("no_machine", "no_pool") or live.is_last_of_array(job):
        return None
    if live.holdings.refusal(job, least(group.shape.gang)) is not None:
        return None
    if windows and windows.refusal(job, need, live.now) is not None:
        return None
    refused = [found for at, amount in need if isinstance(found := live.shares.room(job.queue, at, amount), Refusal)]
    if any(one.code != "capacity" for one in refused):
        return None
    return NOTHING_FREE if refused else NOT_TOGETHER
