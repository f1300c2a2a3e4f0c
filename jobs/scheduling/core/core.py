"""The state of scheduling that is kept from pass to pass, and what changes it.

It is fed with what happens (`submit`, `withdraw`, `started`, `ended`, `machine_changed`, `limits_changed`) and asked by
`decide(now)` what to do. What it decides, it takes as done: an admitted gang runs, an evicted one is leaving. So the driver only
tells what it did not hear from here. No clock, no chance, no settings: equal input gives equal decisions, in whatever order what
happened between two passes is told.

Who was refused is looked at again only after something that may change its fate: `wakeups.py` says what, and wakes.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from jobs.scheduling.core.advance import Windows
from jobs.scheduling.core.cycle import run_pass
from jobs.scheduling.core.migrate import Moves
from jobs.scheduling.core.place.scores import Mix, PoolRules
from jobs.scheduling.core.reclaim import could_transfer, restore_transfer, transfer, undo_transfer, vanish
from jobs.scheduling.core.reservations import Promises
from jobs.scheduling.core.state.decisions import Decision, Reason
from jobs.scheduling.core.state.evictable import Evictable
from jobs.scheduling.core.state.gangs import GangAsk, Placed
from jobs.scheduling.core.state.machines import Machine, Machines
from jobs.scheduling.core.state.ordering import Lines
from jobs.scheduling.core.state.reservation import FOREVER
from jobs.scheduling.core.state.timers import Timer, Timers, What
from jobs.scheduling.core.state.user_caps import People
from jobs.scheduling.core.state.work import Claimed, Job, Need, Running, Shape, Transfer, give_shares, held_by, take_shares
from jobs.scheduling.core.wakeups import WakeUps
from tenants.quota.bookings import Booked
from tenants.quota.caps import UserCap
from tenants.quota.shares import Shares, Standing


@dataclass(frozen=True, slots=True)
class Policy:
    """How an installation wants its queues served. Times are whole seconds."""

    aging_seconds: int = 216  # What a point of priority is worth in waiting: from `low` to `normal`, 400 points, is a day.
    in_order: bool = False  # Whether nobody passes an earlier job of the same queue that waits.
    reclaims: bool = True  # Whether queues get back what they deserve.
    preempts: bool = True  # Whether a queue's own work of lower priority makes room.
    least_runtime_seconds: int = 300  # Before anything may be evicted.
    evictions_per_pass: int = 256
    evictions_per_window: int = 2048
    window_seconds: int = 3600
    grace_seconds: int = 30  # How long who is told to leave may take: so much before what is booked for a time begins.
    booked: int = 1  # How many starts are booked per pool: 1 is EASY backfill, more than ever wait is conservative; 0: none.
    rebook_seconds: int = 60  # How often it is asked whether a booked start could be earlier.
    overrun_seconds: int = 60  # For how long after its maximum run time a gang may still hold its machines.
    patience_seconds: int = 86_400  # Who has waited for longer gets the next booked start; 0: by fair order alone.
    assumed_runtime_seconds: int = 86_400  # For planning, how long a job runs of which nothing is known; 0: for ever.
    plans_after_seconds: int = 600  # How long a job has waited before room is held for it by ends that are not sure.
    shortest_first: int = 10  # How many times its expected run time a job stands further behind, in its queue; 0: not at all.
    history_seconds: int = 60  # How often history is brought up to date.
    evens: bool = False  # Whether of two queues that borrow the one with the smaller part takes from the other.
    moves: int = 0  # How many gangs at most are moved so that one can start that fits in total but not in shape; 0: none.
    moves_after_seconds: int = 300  # How long such a gang has waited before.


class Core:
    """One scheduler's state. `machines` and `shares` belong to it; nobody else changes them."""

    def __init__(
        self,
        machines: Machines,
        shares: Shares,
        policy: Policy | None = None,
        *,
        caps: Iterable[UserCap] = (),
        windows: Iterable[Booked] = (),
    ) -> None:
        self.machines = machines
        self.shares = shares
        self.policy = policy or Policy()
        self.now = 0
        self.lines = Lines(
            shares,
            aging_seconds=self.policy.aging_seconds,
            in_order=self.policy.in_order,
            shortest_first=self.policy.shortest_first,
            assumed=self.policy.assumed_runtime_seconds,
        )
        self.wakeups = WakeUps(self)
        self.running: dict[str, Running] = {}
        self.evictable = Evictable()
        self.transfers: dict[str, Transfer] = {}  # By claimant.
        self.cleared: list[str] = []  # Claimants whose room is free now.
        self.evicted_at: deque[tuple[int, int]] = deque()  # (when, how many), for the brake.
        self.history_at: int | None = None
        self._shapes: dict[tuple[GangAsk, tuple[int, ...]], Shape] = {}
        self._shape_by_identity: dict[tuple[int, tuple[int, ...]], Shape] = {}
        self._aside: dict[str, tuple[Job, Reason]] = {}
        self._array_running: dict[str, int] = {}
        self._array_waiting: dict[str, dict[str, Job]] = {}
        self.timers = Timers()
        self._trees: dict[int, list[int]] = {}
        self._unripe: list[tuple[int, str]] = []  # (when, job id) of those that may not be evicted yet.
        self.people = People(caps)
        self.promises = Promises(self)
        self.moves = Moves(self)
        self.windows = Windows(self)
        self.windows_changed(windows)

    # --- What happens -------------------------------------------------------------------------------------------------

    def submit(self, job: Job) -> None:
        """A job waits from now on."""
        assert job.id not in self.running, "it runs already"
        self.promises.comes(job)
        moving = self.moves.back(job) if self.moves else None
        if moving is not None:
            self._aside[job.id] = (job, moving)
            return
        if job.id in self.lines or job.id in self._aside:
            self.withdraw(job.id)
        if job.withheld is not None:
            self._aside[job.id] = (job, job.withheld)
        elif job.not_before > self.now:
            self._aside[job.id] = (job, Reason("not_before", until=job.not_before))
            self.timers.set(Timer(job.not_before, What.NOT_BEFORE, job_id=job.id))
        elif job.array and self._array_running.get(job.array, 0) >= job.parallel > 0:
            self.wait_for_siblings(job)
        else:
            self._line_up(job)

    def withdraw(self, job_id: str) -> None:
        """A job waits no longer, and does not run either."""
        if job_id in self._aside:
            job, _ = self._aside.pop(job_id)
            self.moves.vacate(job_id)
            if job.array:
                self._array_waiting.get(job.array, {}).pop(job_id, None)
        elif job_id in self.lines:
            self.lines.remove(job_id)
            self.promises.look_from.clear()
        elif job_id in self.transfers:
            self.ended(job_id)

    def started(self, job: Job, placed: Placed, at: int, need: Need | None = None) -> None:
        """A gang runs that was not admitted here: at the beginning, or by others' doing. `need`: what it counts for in quotas,
        where that is not what it holds on machines that are known."""
        if job.id in self.lines or job.id in self._aside:
            self.withdraw(job.id)
        for task in placed.tasks:
            self.machines.take(task.machine, task.ask, task.devices)
        self.promises.opened()
        need = self.need_of(placed) if need is None else need
        self.admit(Running(job, placed, need, at, self.standing(job.queue, need)))

    def told_to_leave(self, job_id: str) -> None:
        """A gang holds its machines until it has ended, which it was told to by others: nobody need evict it."""
        one = self.running.get(job_id)
        if one is not None and one.claim is None and not one.is_leaving:
            one.is_leaving = True
            self.evictable.leave(one)

    def claim_again(
        self, job_id: str, victims: Iterable[str], moving: Collection[str] = (), *, kept: Claimed | None = None
    ) -> bool:
        """A waiting job claims the room of those who leave for it, as was decided before; whether it still could. It starts where
        it was to start (`kept`); where that is not known any more, it is placed again, and those who are `moving`, too."""
        job = self.lines.job(job_id)
        leaving = [self.running[victim] for victim in victims if victim in self.running]
        if job is None or any(one.claim is not None for one in leaving):
            return False
        shape = self.shape_of(job.gang, job.pools)
        if kept is not None and kept.pool in shape.pools:
            restored = restore_transfer(self, job, shape, kept, leaving, self.now)
            if restored is not None:
                self._take_claim(restored)
                return True
        if not leaving:
            return False
        for pool in shape.pools:
            if could_transfer(self, job, shape, pool, leaving, moving):
                self._take_claim(transfer(self, job, shape, pool, leaving, self.now, moving))
                return True
        return False

    def _take_claim(self, made: Transfer) -> None:
        job = made.claimant.job
        self.lines.remove(job.id)
        take_shares(self.shares, job.queue, made.claimant.need)
        self.claim(made)

    def claims(self) -> tuple[Claimed, ...]:
        """The claims under way, as they are kept beyond a core."""
        return tuple(
            Claimed(name, one.placed.pool, one.placed.tasks, one.standing, made.ghosts, self.moves.claimed(name), one.placed.hops)
            for name, made in sorted(self.transfers.items())
            for one in (made.claimant,)
        )

    def ended(self, job_id: str) -> None:
        """A gang holds nothing any more. One that claims gives up its claim."""
        one = self.running.pop(job_id)
        self.evictable.leave(one)
        if self.promises.ends_of(one).planned == FOREVER:
            self.promises.forget_unplannable()  # Nothing could be planned on its end.
        self.promises.left(one)
        if self.windows:
            self.windows.left(job_id, [pool for pool, _ in one.need])
        if self.people:
            self.people.give(one)
            for place in self.people.places(one.job):
                self.wakeups.wake(self.wakeups.by_user.get(place, ()))
            if self.promises:  # Who would have taken a booked start its room in a cap may do so in any pool.
                self.wakeups.mark(self.machines.pools)
        if one.job.array:
            self._array_running[one.job.array] -= 1
            for sibling in sorted(self._array_waiting.pop(one.job.array, {})):
                waiting, _ = self._aside.pop(sibling)
                self.submit(waiting)
        if one.claim is not None and one.claim.claimant is one:
            freed = undo_transfer(self, one.claim)
        elif one.claim is not None:
            freed = vanish(self, one)
        else:
            give_shares(self.shares, one.job.queue, one.need)
            for task in one.placed.tasks:
                self.machines.give(task.machine, task.ask, task.devices)
            freed = {task.machine for task in one.placed.tasks}
        self.promises.settle(freed)
        self.freed(freed, one.need)

    def freed(self, machines: Collection[int], need: Need) -> None:
        """Nobody holds any more what was held on these machines, and of these pools."""
        pools = [pool for pool, _ in need]
        self.wakeups.note(machines)
        self.wakeups.mark(pools)
        self.promises.ended(pools, machines)

    def checkpointed(self, job_id: str, at: int) -> None:
        """From here on a gang could be resumed."""
        if job_id in self.running:
            self.running[job_id].checkpoint_at = at

    def machine_changed(self, facts: Machine) -> None:
        """A machine that is known came back, went away, or has other labels or more of something."""
        index = self.machines.find(facts.pool, facts.name)
        assert index is not None, "a new machine needs a new core"
        if self.machines.recollect(index, facts):
            return  # What it holds already makes nobody fit who did not.
        self.machines.update(index, facts)
        self.wakeups.forget(facts.pool)
        self.windows.machine_changed()
        self.promises.settle((index,), "machine")
        self.promises.opened()
        self.promises.forget_unplannable()
        self.wakeups.wake([group for group in self.lines.groups() if facts.pool in group.shape.touches])

    def mix_changed(self, pool: int, mix: Mix | None) -> None:
        """A pool usually gets other tasks: other machines are the best for the next, and nobody fits who did not."""
        self.machines.set_rules(pool, replace(self.machines.rules.get(pool) or PoolRules(), mix=mix))

    def limits_changed(self, shares: Shares) -> None:
        """Other limits of the same queues and pools; `shares` holds nothing yet."""
        assert shares.queue_ids == self.shares.queue_ids
        assert shares.pool_ids == self.shares.pool_ids
        for one in self.running.values():
            if not one.is_leaving or one.claim is None:
                take_shares(shares, one.job.queue, one.need)
        self.moves.retake(shares)
        if self.history_at is not None and not shares.history():
            shares.recall(self.shares.history(), self.history_at)
        self.shares = shares
        self.wakeups.wake(self.lines.groups())
        self.lines.follow(shares)
        self.promises.forget_unplannable()
        self.promises.recheck_limits()

    def windows_changed(self, windows: Iterable[Booked]) -> None:
        """Other bookings of tenants."""
        had_windows = bool(self.windows)
        self.windows = Windows(self, windows)
        if bool(self.windows) != had_windows:
            self._line_up_again()
        for at, pool in self.windows.moments():
            if at > self.now:
                self.timers.set(Timer(at, What.BOUNDARY, pool))
        self.wakeups.wake(self.lines.groups())
        self.promises.forget_unplannable()
        if self.windows:
            self.promises.recheck_windows()

    def caps_changed(self, caps: Iterable[UserCap]) -> None:
        """Other caps on users."""
        self.people = People(caps, self.running.values())
        self.moves.recount()
        self.wakeups.by_user.clear()
        self._line_up_again()

    def _line_up_again(self) -> None:
        """Other things decide which jobs are equal."""
        waiting = [job for group in self.lines.groups() for job in list(group.jobs())]
        for job in waiting:
            self.lines.remove(job.id)
        for job in waiting:
            self._line_up(job)

    def decide(self, now: int) -> tuple[Decision, ...]:
        """One pass at this moment."""
        return tuple(run_pass(self, now))

    # --- Questions ----------------------------------------------------------------------------------------------------

    def why(self, job_id: str) -> Reason | None:
        """Why a job waits; None when it does not, or was not looked at yet."""
        if job_id in self._aside:
            return self._aside[job_id][1]
        if job_id in self.transfers:
            return Reason("claim", need=len(self.transfers[job_id].leaving), held=self.moves.moving_for(job_id))
        group = self.lines.group(job_id)
        if group is None:
            return None
        if group.reason is None and self.lines.stopped_by(group.queue) is not None:
            return Reason("behind", queue=group.queue)
        return group.reason

    @property
    def is_anybody_aside(self) -> bool:
        """Whether somebody waits for a time, siblings, or its people."""
        return bool(self._aside)

    def waiting(self) -> list[Job]:
        """All who wait, in order of submission: also those who claim room that others are leaving."""
        found = [job for group in self.lines.groups() for job in group.jobs()]
        found += [job for job, _ in self._aside.values()]
        found += [made.claimant.job for made in self.transfers.values()]
        return sorted(found, key=lambda job: (job.submitted_at, job.id))

    def standing(self, queue: int, need: Need) -> Standing:
        """What a gang that runs already stands on; above every limit it is borrowed."""
        found = [self.shares.room(queue, pool, amount) for pool, amount in need]
        return max((one if isinstance(one, Standing) else Standing.BORROWED for one in found), default=Standing.GUARANTEED)

    def need_of(self, placed: Placed) -> Need:
        return held_by(placed, (self.machines.at[task.machine].pool for task in placed.tasks))

    # --- What a pass does with it -------------------------------------------------------------------------------------

    def admit(self, one: Running) -> None:
        """A gang, placed on the machines already, holds its share of the limits from now on."""
        take_shares(self.shares, one.job.queue, one.need)
        self.running[one.job.id] = one
        self.people.take(one)
        self.enter(one)
        if self.promises:
            self.promises.settle_with(task.machine for task in one.placed.tasks)
        self._one_more_of_array(one.job)

    def enter(self, one: Running) -> None:
        """It runs, and may be evicted once it has run for as long as everybody may."""
        self.evictable.enter(one)
        self.promises.entered(one)
        if self.windows:
            self.windows.entered(one)
        ripe_at = self._ripe_at(one)
        if ripe_at > self.now:
            heapq.heappush(self._unripe, (ripe_at, one.job.id))
        else:
            self.evictable.ripen(one)

    @property
    def young_until(self) -> int:
        """When the next of those that run may be evicted; 0 when all may."""
        while self._unripe and not self._is_unripe(*self._unripe[0]):
            heapq.heappop(self._unripe)
        return self._unripe[0][0] if self._unripe else 0

    def _is_unripe(self, ripe_at: int, job_id: str) -> bool:
        one = self.running.get(job_id)
        if one is None or one.claim is not None or one.is_leaving:
            return False
        return self._ripe_at(one) == ripe_at

    def _ripe_at(self, one: Running) -> int:
        """From when on it may be evicted: never in the pass in which it started."""
        return one.started_at + max(1, self.policy.least_runtime_seconds)

    def claim(self, made: Transfer) -> None:
        """A gang holds room that others are leaving. It cannot be evicted before it started."""
        one = made.claimant
        self.running[one.job.id] = one
        self.transfers[one.job.id] = made
        self.people.take(one)
        if self.windows:
            self.windows.entered(one)
        if self.promises:
            self.promises.settle({task.machine for each in (one, *made.victims) for task in each.placed.tasks})
        self._one_more_of_array(one.job)
        for victim in made.victims:  # Their queues hold less from now on.
            self.wakeups.mark(pool for pool, _ in victim.need)
            if self.promises.ends_if_started(victim.job, victim.started_at).planned == FOREVER:
                self.promises.forget_unplannable()  # Nothing could be planned on its end.
        if not made.leaving:
            self.cleared.append(one.job.id)

    def _one_more_of_array(self, job: Job) -> None:
        if not job.array:
            return
        self._array_running[job.array] = self._array_running.get(job.array, 0) + 1
        if self.policy.in_order and self.is_last_of_array(job):  # Siblings at which the queue stands are set aside by now.
            self.wakeups.wake(group for group, first in self.lines.stops(job.queue) if first.array == job.array)

    def is_last_of_array(self, job: Job) -> bool:
        """Whether as many of its siblings run as may."""
        return bool(job.array) and self._array_running.get(job.array, 0) >= job.parallel > 0

    def wait_for_siblings(self, job: Job) -> None:
        reason = Reason("array_parallelism", held=self._array_running.get(job.array, 0), limit=job.parallel)
        self._aside[job.id] = (job, reason)
        self._array_waiting.setdefault(job.array, {})[job.id] = job

    def ring(self, now: int) -> None:
        """What only time had to bring."""
        self.now = now
        self.promises.plan_overdue()
        self.wakeups.begin()
        while self._unripe and self._unripe[0][0] <= now:
            ripe_at, job_id = heapq.heappop(self._unripe)
            if self._is_unripe(ripe_at, job_id):
                one = self.running[job_id]
                self.evictable.ripen(one)
                self.wakeups.mark(pool for pool, _ in one.need)
        for timer in self.timers.due(now):
            if timer.what is What.NOT_BEFORE:
                job, reason = self._aside.get(timer.job_id, (None, None))
                if job is not None and reason is not None and reason.code == "not_before":
                    del self._aside[timer.job_id]
                    self.submit(replace(job, not_before=0))
            else:
                self.wakeups.mark((timer.pool,))

    def look_at(self, at: int, pool: int) -> None:
        """Look again then at who may take room back in a pool."""
        self.timers.set(Timer(at, What.LOOK, pool))

    @property
    def next_ring(self) -> int | None:
        """When time alone may change something; None when never."""
        moments = [one for one in (self.timers.next_at, self.promises.next_at) if one is not None]
        if self.wakeups.is_to_look:
            moments.append(self.now)
        if self.young_until and self.wakeups.is_anybody:
            moments.append(self.young_until)
        given_at = self.moves.next_at if self.moves else None
        if given_at is not None:
            moments.append(given_at)
        return max(min(moments), self.now + 1) if moments else None

    def tree(self, top: int) -> list[int]:
        """A queue and all below it; of root only itself."""
        found = self._trees.get(top)
        if found is None:
            found = self._trees[top] = [top]
            for queue in found:
                found += self.shares.children[queue] if top else ()
        return found

    def _line_up(self, job: Job) -> None:
        runtime = self.promises.planned_seconds(job) if self.policy.booked or self.windows else 0
        kind = 4 * self.people.number(job) + 2 * (job.max_runtime is None) + (bool(self.windows) and not job.evictable)
        self.lines.add(job, self.shape_of(job.gang, job.pools), runtime, kind)

    def shape_of(self, gang: GangAsk, pools: tuple[int, ...]) -> Shape:
        """The one shape of equal asks. Whoever submits many does well to hand in the same object for equal ones."""
        shape = self._shape_by_identity.get((id(gang), pools))
        if shape is None or shape.gang is not gang:
            shape = self._shapes.get((gang, pools))
            if shape is None:
                shape = self._shapes[gang, pools] = Shape(len(self._shapes), gang, pools)
            if shape.gang is gang:
                self._shape_by_identity[id(gang), pools] = shape
        return shape
