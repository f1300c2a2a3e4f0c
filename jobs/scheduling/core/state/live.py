"""The live state of a core: machines, limits, running gangs, waiting jobs. Data alone; the phases of a pass change it."""

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
from jobs.scheduling.core.state.work import JobAsk, Need, Running, Shapes, Transfer, held_by
from tenants.capacity.quota.caps import CapFacts
from tenants.capacity.quota.shares import Refusal, Shares, Standing


class Live:
    """The live state. `machines` and `shares` belong to it; no other code changes them."""

    def __init__(self, machines: Machines, shares: Shares, policy: Policy, caps: Iterable[CapFacts]) -> None:
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
        self.evicted_at: deque[tuple[int, int]] = deque()  # (when, how many), for the limit of evictions.
        self.limited_claim = (
            "",
            0,
            0,
        )  # The first claim in order that this limit refused: job, evictions, when it is asked again.
        self.history_at: int | None = None
        self._trees: dict[int, list[int]] = {}

    def room(self, queue: int, need: Need) -> Standing | Refusal:
        """The standing of a gang if it started, or the first limit that refuses it."""
        weakest = Standing.GUARANTEED
        for pool, amount in need:
            found = self.shares.room(queue, pool, amount)
            if not isinstance(found, Standing):
                return found
            weakest = max(weakest, found)
        return weakest

    def has_room(self, queue: int, need: Need) -> bool:
        """Whether limits allow a gang to start."""
        return isinstance(self.room(queue, need), Standing)

    def standing(self, queue: int, need: Need) -> Standing:
        """The standing of a gang that runs already; above every limit it is borrowed."""
        found = [self.shares.room(queue, pool, amount) for pool, amount in need]
        return max(
            (answer if isinstance(answer, Standing) else Standing.BORROWED for answer in found), default=Standing.GUARANTEED
        )

    def need_of(self, placed: Placed) -> Need:
        return held_by(placed, (self.machines.at[task.machine].pool for task in placed.tasks))

    def is_last_of_array(self, job: JobAsk) -> bool:
        return self.waiting.is_last_of_array(job)

    def told_to_leave(self, job_id: str) -> None:
        """A gang was told to leave by other means: it holds its machines until it has ended, and is not evicted."""
        running = self.running.get(job_id)
        if running is not None and running.claim is None and not running.is_leaving:
            running.is_leaving = True
            self.evictable.leave(running)

    def tree(self, top: int) -> list[int]:
        """A queue and all below it; of root only itself."""
        found = self._trees.get(top)
        if found is None:
            found = self._trees[top] = [top]
            for queue in found:
                found += self.shares.children[queue] if top else ()
        return found
