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
from jobs.scheduling.core.state.work import Job

if TYPE_CHECKING:
    from jobs.scheduling.core.cycle import Pass

LOOK_SECONDS = 60
ASKED_MAX = 16  # Of a pool in one look: the first in fair order of those who may gain.
EVENABLE = frozenset({"capacity", "no_room", "not_together", "too_young", "brake"})
MOVABLE = frozenset({"no_room", "not_together", "too_young"})


def look(made: Pass, last_pass_at: int) -> bool:
    """Ask for those who may gain; whether anything was decided."""
    core = made.core
    policy = core.policy
    if not (policy.evens or policy.moves) or not core.lines or made.now // LOOK_SECONDS <= last_pass_at // LOOK_SECONDS:
        return False
    before = len(made.decisions)
    for pool in sorted(core.machines.pools):
        for group, job in _refused_in(made, pool):
            if group.phase == REFUSED and job.id in core.lines:
                _ask(made, group, job, pool)
    return len(made.decisions) > before


def _ask(made: Pass, group: Group, job: Job, pool: int) -> None:
    core, reason = made.core, group.reason
    assert reason is not None
    if core.policy.evens and reason.code in EVENABLE and _even(made, group, job, pool):
        return
    if core.policy.moves and reason.code in MOVABLE:
        core.moves.try_for(made, group, job, pool)


def _even(made: Pass, group: Group, job: Job, pool: int) -> bool:
    core, shape = made.core, group.shape
    search = Search(core, job, shape, pool, made.now, evens=True)
    return made.take_back(search, job, shape, pool) is None


def _refused_in(made: Pass, pool: int) -> list[tuple[Group, Job]]:
    """The first of those who were refused there, in fair order."""
    found = []
    for group in made.core.lines.groups():
        first = group.first()
        if group.phase != REFUSED or first is None or group.reason is None or pool not in group.shape.pools:
            continue
        if group.reason.code in EVENABLE:
            found.append((made.booker.rank(group.queue, first[1]), group, first[1]))
    return [(group, job) for _, group, job in heapq.nsmallest(ASKED_MAX, found, key=lambda one: one[0])]
