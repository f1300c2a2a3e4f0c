"""What a scheduler goes by at this moment: machines, limits, what runs, who waits. Data alone; phases change it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from jobs.scheduling.core.place.gangs import Placed
from jobs.scheduling.core.place.machines import Machines
from jobs.scheduling.core.state.changes import Changes
from jobs.scheduling.core.state.evictable import Evictable
from jobs.scheduling.core.state.policy import Policy
from jobs.scheduling.core.state.timers import Timers
from jobs.scheduling.core.state.user_caps import UserHoldings
from jobs.scheduling.core.state.waiting import Waiting
from jobs.scheduling.core.state.work import Job, Need, Running, Shapes, Transfer, held_by
from tenants.quota.caps import UserCap
from tenants.quota.shares import Refusal, Shares, Standing


class Live:
    """`machines` and `shares` belong to it; nobody else changes them."""

    def __init__(self, machines: Machines, shares: Shares, policy: Policy, caps: Iterable[UserCap]) -> None:
        self.now = 0
        self.policy = policy
        self.machines = machines
        self.shares = shares
        self.holdings = UserHoldings(caps)
        self.timers = Timers()
        self.shapes = Shapes()
        self.changes = Changes()
        self.waiting = Waiting(shares, policy, self.holdings, self.timers, self.shapes)
        self.ordering = self.waiting.ordering
        self.running: dict[str, Running] = {}
        self.evictable = Evictable()
        self.transfers: dict[str, Transfer] = {}  # By claimant.
        self.cleared: list[str] = []  # Claimants whose room is free now.
        self.evicted_at: deque[tuple[int, int]] = deque()  # (when, how many), for the brake.
        self.history_at: int | None = None
        self._trees: dict[int, list[int]] = {}

    def room(self, queue: int, need: Need) -> Standing | Refusal:
        """What a gang of a queue would stand on, or the first limit that refuses it."""
        weakest = Standing.GUARANTEED
        for pool, amount in need:
            found = self.shares.room(queue, pool, amount)
            if not isinstance(found, Standing):
                return found
            weakest = max(weakest, found)
        return weakest

    def standing(self, queue: int, need: Need) -> Standing:
        """What a gang that runs already stands on; above every limit it is borrowed."""
        found = [self.shares.room(queue, pool, amount) for pool, amount in need]
        return max((one if isinstance(one, Standing) else Standing.BORROWED for one in found), default=Standing.GUARANTEED)

    def need_of(self, placed: Placed) -> Need:
        return held_by(placed, (self.machines.at[task.machine].pool for task in placed.tasks))

    def is_last_of_array(self, job: Job) -> bool:
        return self.waiting.is_last_of_array(job)

    def told_to_leave(self, job_id: str) -> None:
        """A gang holds its machines until it has ended, which it was told to by others: nobody need evict it."""
        one = self.running.get(job_id)
        if one is not None and one.claim is None and not one.is_leaving:
            one.is_leaving = True
            self.evictable.leave(one)

    def tree(self, top: int) -> list[int]:
        """A queue and all below it; of root only itself."""
        found = self._trees.get(top)
        if found is None:
            found = self._trees[top] = [top]
            for queue in found:
                found += self.shares.children[queue] if top else ()
        return found
