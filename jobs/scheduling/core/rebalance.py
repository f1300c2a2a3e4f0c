"""What a pass does once a minute for those who were refused, beyond what anybody has a right to: 8. in `decide.py`.

- **Even out** (`Policy.evens`): of two queues that borrow, the one with the smaller part by weight may take room from the other
  until their parts are alike (`Shares.may_even`). Nobody loses what it deserves by that.
- **Move** (`Policy.moves`): a gang that fits in total but not in shape gets its place when small gangs go on elsewhere
  (`moving.py`).

The ideal: both are asked of everybody who is refused, whenever that may have changed. The shortcut: the first in fair order are
asked, once a minute by the clock. So neither takes time from a pass that has just something to start, nobody is pushed around
twice in a minute, and no queue of whom to wake is needed. Minutes are those of the clock, so a core that is made anew asks at the
same moments.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from jobs.scheduling.core.reclaim import Search
from jobs.scheduling.core.state.ordering import REFUSED, Group
from jobs.scheduling.core.state.user_caps import least
from jobs.scheduling.core.state.work import Job
from tenants.quota.shares import Refusal

if TYPE_CHECKING:
    from jobs.scheduling.core.cycle import Pass

LOOK_SECONDS = 60
ASKED_MAX = 16  # Of a pool in one look: the first in fair order of those who may gain.
NOTHING_FREE, NOT_TOGETHER = range(2)  # What a gang lacks: a part of what its pool has in all, or room in the right shape.


def look(made: Pass, last_pass_at: int) -> bool:
    """Ask for those who may gain; whether anything was decided."""
    core = made.core
    policy = core.policy
    if not (policy.evens or policy.moves) or not core.lines or made.now // LOOK_SECONDS <= last_pass_at // LOOK_SECONDS:
        return False
    before = len(made.decisions)
    for pool in sorted(core.machines.pools):
        for group, job, lacks in _lacking_room(made, pool):
            if group.phase == REFUSED and job.id in core.lines:
                _ask(made, group, job, pool, lacks)
    return len(made.decisions) > before


def _ask(made: Pass, group: Group, job: Job, pool: int, lacks: int) -> None:
    policy = made.core.policy
    if policy.evens and _even(made, group, job, pool):
        return
    if policy.moves and lacks == NOT_TOGETHER:
        made.core.moves.try_for(made, group, job, pool)


def _even(made: Pass, group: Group, job: Job, pool: int) -> bool:
    core, shape = made.core, group.shape
    search = Search(core, job, shape, pool, made.now, evens=True)
    return made.take_back(search, job, shape, pool) is None


def _lacking_room(made: Pass, pool: int) -> list[tuple[Group, Job, int]]:
    """The first of those who were refused there for nothing but room, in fair order, with what they lack."""
    waiting = []
    for group in made.core.lines.groups():
        first = group.first()
        if group.phase == REFUSED and first is not None and pool in group.shape.pools:
            waiting.append((made.booker.rank(group.queue, first[1]), group, first[1]))
    heapq.heapify(waiting)
    found: list[tuple[Group, Job, int]] = []
    while waiting and len(found) < ASKED_MAX:
        _, group, job = heapq.heappop(waiting)
        lacks = _lacks(made, group, job, pool)
        if lacks is not None:
            found.append((group, job, lacks))
    return found


def _lacks(made: Pass, group: Group, job: Job, pool: int) -> int | None:
    """What a refused job lacks in a pool; None where limits refuse it, or no machine is such as it asks for. What it was told
    then may be true no more; that there is no such machine holds until machines change, which asks everybody anew."""
    core, need = made.core, group.shape.least[pool]
    if group.reason is None or group.reason.code in ("no_machine", "no_pool") or core.is_last_of_array(job):
        return None
    if core.people.refusal(job, least(group.shape.gang)) is not None:
        return None
    if core.windows and core.windows.refusal(job, need, made.now) is not None:
        return None
    refused = [found for at, amount in need if isinstance(found := core.shares.room(job.queue, at, amount), Refusal)]
    if any(one.code != "capacity" for one in refused):
        return None
    return NOTHING_FREE if refused else NOT_TOGETHER
