"""The state of scheduling that is kept from pass to pass, and what changes it.

It is fed with what happens (`submit`, `withdraw`, `started`, `ended`, `machine_changed`, `limits_changed`) and asked by
`decide(now)` what to do. What it decides, it takes as done: an admitted gang runs, an evicted one is leaving. So the driver only
tells what it did not hear from here. No clock, no chance, no settings: equal input gives equal decisions, in whatever order what
happened between two passes is told.

A refused group of jobs is looked at again only after something that may change its fate: room that one of its tasks fits into, a
limit on its way that has more left, work that may be evicted by now. Who waits for what is kept in the sets
`by_room`, `by_limit`, `by_pool`, `claimers` and `preempters`.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass, replace

from jobs.scheduling.backfill import Promises
from jobs.scheduling.decide import run_pass
from jobs.scheduling.decisions import Decision, Reason
from jobs.scheduling.ends import Ends
from jobs.scheduling.evictable import Evictable
from jobs.scheduling.gangs import GangAsk, Placed, Unplaced
from jobs.scheduling.machines import Machine, Machines
from jobs.scheduling.memory import Known
from jobs.scheduling.moving import Moves
from jobs.scheduling.people import People, Place
from jobs.scheduling.preempters import Preempters
from jobs.scheduling.scores import Mix, PoolRules
from jobs.scheduling.turn import OPEN, REFUSED, Group, Lines
from jobs.scheduling.victims import could_transfer, transfer, undo_transfer, vanish
from jobs.scheduling.windows import Windows
from jobs.scheduling.work import Job, Need, Running, Shape, Transfer, give_shares, held_by, take_shares
from tenants.quota.bookings import Booked
from tenants.quota.caps import UserCap
from tenants.quota.shares import Refusal, Shares, Standing

PoolAmount = tuple[int, int, int]
"""A resource of a pool, how much of it a gang needs, and how much of it there is for it at most."""
PATIENCE = -2  # Marks the timers of jobs that nobody may pass from then on.
BOUNDARY = -3  # Those at which what is booked for a time changes.


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
    patience_seconds: int = 86_400  # For how long others of its queue may pass one that waits; 0: for ever.
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
            patience_seconds=self.policy.patience_seconds,
        )
        self.lines.rouse = self._rouse
        self.running: dict[str, Running] = {}
        self.evictable = Evictable()
        self.ends = Ends(self)
        self.transfers: dict[str, Transfer] = {}  # By claimant.
        self.cleared: list[str] = []  # Claimants whose room is free now.
        self.evicted_at: deque[tuple[int, int]] = deque()  # (when, how many), for the brake.
        self.history_at: int | None = None
        self.several: list[Shape] = []  # The shapes of several tasks.
        self._shapes: dict[tuple[GangAsk, tuple[int, ...]], Shape] = {}
        self._shape_by_identity: dict[tuple[int, tuple[int, ...]], Shape] = {}
        self._aside: dict[str, tuple[Job, Reason]] = {}
        self._array_running: dict[str, int] = {}
        self._array_waiting: dict[str, dict[str, Job]] = {}
        self._timers: list[tuple[int, int, str]] = []  # (when, pool or -1, job id or "").
        self._trees: dict[int, list[int]] = {}
        self._unripe: list[tuple[int, str]] = []  # (when, job id) of those that may not be evicted yet.
        self._rings: set[tuple[int, int]] = set()
        self.by_room: dict[int, dict[int, set[Group]]] = {}  # Pool -> number of shape -> who has no room there.
        self.by_limit: dict[tuple[int, int], set[Group]] = {}  # (pool, queue) -> whom its ceiling refused.
        self.by_pool: dict[int, dict[PoolAmount | None, set[Group]]] = {}  # Pool -> whom promises to others, or its end, refused.
        self.claimers: dict[int, set[Group]] = {}  # Pool -> who may take room back there, but found too few to take it from.
        self.preempters = Preempters()
        self.roomy: dict[tuple[int, int], list[Group]] = {}  # (pool, number of shape) -> whom room woke.
        self.freed: dict[tuple[int, int], list[Group]] = {}  # The same of those whom only the end of the pool had refused.
        self.by_booked: dict[int, set[Group]] = {}  # Pool -> whom only a booked start keeps out, or may.
        self.unplaced: dict[tuple[int, int], Known] = {}  # (pool, number of shape) -> what `place` said.
        self.by_user: dict[Place, set[Group]] = {}  # (tenant, user) -> whom a cap on the user refused.
        self.people = People(caps)
        self.by_reserved: dict[int, set[Group]] = {}  # Pool -> whom what others have booked for a time refused.
        self.promises = Promises(self)
        self.moves = Moves(self)
        self.windows = Windows(self)
        self.plan_after: dict[int, int] = {}  # Pool -> when it is asked again who else could have a booked start.
        self.windows_changed(windows)

    # --- What happens -------------------------------------------------------------------------------------------------

    def submit(self, job: Job) -> None:
        """A job waits from now on."""
        assert job.id not in self.running, "it runs already"
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
            heapq.heappush(self._timers, (job.not_before, -1, job.id))
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
            group = self.lines.group(job_id)
            self.lines.remove(job_id)
            self.watch(group)
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

    def claim_again(self, job_id: str, victims: Iterable[str], moving: Collection[str] = ()) -> bool:
        """A waiting job claims the room of those who leave for it, as was decided before; whether it still could. Those of them
        who are `moving` get room elsewhere."""
        job = self.lines.job(job_id)
        leaving = [self.running[victim] for victim in victims if victim in self.running]
        if job is None or not leaving or any(one.claim is not None for one in leaving):
            return False
        shape = self.shape_of(job.gang, job.pools)
        for pool in shape.pools:
            if could_transfer(self, job, shape, pool, leaving, moving):
                self.lines.remove(job_id)
                made = transfer(self, job, shape, pool, leaving, self.now, moving)
                take_shares(self.shares, job.queue, made.claimant.need)
                self.claim(made)
                return True
        return False

    def ended(self, job_id: str) -> None:
        """A gang holds nothing any more. One that claims gives up its claim."""
        one = self.running.pop(job_id)
        self.evictable.leave(one)
        self.promises.left(one)
        if self.windows:
            self.windows.left(job_id, [pool for pool, _ in one.need])
        if self.people:
            self.people.give(one)
            for place in self.people.places(one.job):
                self.wake(self.by_user.get(place, ()))
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
        self.ends.note(freed, one.job.queue, [pool for pool, _ in one.need])

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
        self.unplaced = {at: known for at, known in self.unplaced.items() if at[0] != facts.pool}
        self.windows.machine_changed()
        self.promises.settle((index,), "machine")
        self.promises.opened()
        self.wake([group for group in self.lines.groups() if facts.pool in group.shape.least])

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
        self.wake(self.lines.groups())
        self.lines.follow(shares)
        self.promises.recheck_limits()

    def windows_changed(self, windows: Iterable[Booked]) -> None:
        """Other bookings of tenants."""
        had_windows = bool(self.windows)
        self.windows = Windows(self, windows)
        if bool(self.windows) != had_windows:
            self._line_up_again()
        for at, pool in self.windows.moments():
            if at > self.now:
                heapq.heappush(self._timers, (at, BOUNDARY, str(pool)))
        for groups in self.by_reserved.values():
            self.wake(groups)
        if self.windows:
            self.promises.recheck_windows()

    def caps_changed(self, caps: Iterable[UserCap]) -> None:
        """Other caps on users."""
        self.people = People(caps, self.running.values())
        self.moves.recount()
        self.by_user.clear()
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
        self.ends.tell()
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
        if one.job.array:
            self._array_running[one.job.array] = self._array_running.get(one.job.array, 0) + 1

    def enter(self, one: Running) -> None:
        """It runs, and may be evicted once it has run for as long as everybody may."""
        self.evictable.enter(one)
        self.promises.entered(one)
        if self.windows:
            self.windows.entered(one)
        ripe_at = one.started_at + self.policy.least_runtime_seconds
        if ripe_at > self.now:
            heapq.heappush(self._unripe, (ripe_at, one.job.id))
        else:
            self.evictable.ripen(one)
            for pool, _ in one.need:
                if self.preempters.has_above(pool, one.job.queue, one.job.priority):
                    self.ring_at(self.now + 1, pool)

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
        return one.started_at + self.policy.least_runtime_seconds == ripe_at

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
        if one.job.array:
            self._array_running[one.job.array] = self._array_running.get(one.job.array, 0) + 1
        for victim in made.victims:  # Their queues hold less from now on.
            for pool, _ in victim.need:
                for node in self.shares.path[victim.job.queue]:
                    self.wake(self.by_limit.get((pool, node), ()))
                self.wake(self.may_have_amount(pool))
        if not made.leaving:
            self.cleared.append(one.job.id)

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
        while self._unripe and self._unripe[0][0] <= now:
            ripe_at, job_id = heapq.heappop(self._unripe)
            if self._is_unripe(ripe_at, job_id):
                one = self.running[job_id]
                self.evictable.ripen(one)
                for pool, _ in one.need:
                    for priority, shapes in self.preempters.above(pool, one.job.queue, one.job.priority):
                        self.wake(self.ends.who_could_preempt(pool, one.job.queue, priority, shapes))
                    self.wake(self.claimers.get(pool, ()))
        while self._timers and self._timers[0][0] <= now:
            at, pool, job_id = heapq.heappop(self._timers)
            if pool == PATIENCE:
                self.lose_patience(job_id)
            elif pool == BOUNDARY:
                self.wake(self.by_reserved.get(int(job_id), ()))
                self.wake(group for queue in self.windows.owners(int(job_id)) for group in self.lines.groups_of(queue))
            elif job_id:
                job, reason = self._aside.get(job_id, (None, None))
                if job is not None and reason is not None and reason.code == "not_before":
                    del self._aside[job_id]
                    self.submit(replace(job, not_before=0))
            else:
                self._rings.discard((at, pool))
                self.wake(self.claimers.get(pool, ()))
                for queue, priority, shapes in self.preempters.of(pool):
                    self.wake(self.ends.who_could_preempt(pool, queue, priority, shapes))

    def ring_at(self, at: int, pool: int) -> None:
        """Look again then at who may take room back in a pool."""
        if (at, pool) not in self._rings:
            self._rings.add((at, pool))
            heapq.heappush(self._timers, (at, pool, ""))

    @property
    def next_ring(self) -> int | None:
        """When time alone may change something; None when never."""
        moments = [self._timers[0][0]] if self._timers else []
        if any(self.claimers.values()) or self.preempters:
            moments += [self.young_until] if self.young_until else []
        given_at = self.moves.next_at if self.moves else None
        if given_at is not None:
            moments.append(given_at)
        booked_at = self.promises.next_at
        if booked_at is not None:
            moments.append(max(booked_at, self.now + 1))
        return min(moments, default=None)

    def lose_patience(self, job_id: str) -> None:
        """Nobody of its queue passes a job any more that has waited for long and has no booked start."""
        job, patience = self.lines.job(job_id), self.policy.patience_seconds
        if job is not None and 0 < patience <= self.now - job.submitted_at and job_id not in self.promises.by_job:
            self.lines.lose_patience(job_id)

    def refuse(self, group: Group, reason: Reason, places: Iterable[set[Group]]) -> None:
        """A group waits until one of these sets is woken."""
        first = group.first()
        self.lines.refuse(group, first, reason, self.now, is_sure=first is not None and first[1].id in self.promises.by_job)
        loses_at = first[1].submitted_at + self.policy.patience_seconds if first is not None else 0
        if self.policy.patience_seconds and first is not None and loses_at > self.now and group.impatient_for != first[1].id:
            group.impatient_for = first[1].id
            heapq.heappush(self._timers, (loses_at, PATIENCE, first[1].id))
        for others in places:
            others.add(group)
            group.waits_in.append(others)

    def watch(self, group: Group | None) -> None:
        """Somebody else may be the first of a group that waits: it loses its patience as well."""
        first = group.first() if group is not None and group.phase == REFUSED and self.policy.patience_seconds else None
        if group is not None and first is not None and group.impatient_for != first[1].id:
            group.impatient_for = first[1].id
            heapq.heappush(self._timers, (first[1].submitted_at + self.policy.patience_seconds, PATIENCE, first[1].id))

    def wake(self, groups: Iterable[Group]) -> None:
        for group in list(groups):
            group.is_for_room = group.is_asleep = False
            self.lines.wake(group)

    def wake_for_room(self, groups: Iterable[Group], pool: int, woken: dict[tuple[int, int], list[Group]] | None = None) -> None:
        """Only room for them grew: whom they may evict is as it was. `woken`: where that is remembered until the pass is over."""
        woken = self.roomy if woken is None else woken
        is_eager = self.policy.in_order or woken is not self.roomy
        for group in list(groups):
            if group.phase != REFUSED:
                continue
            if is_eager or len(group.shape.pools) > 1 or group.reason is None or group.reason.code == "booked":
                self._wake_for_room(group, pool, woken)
            else:
                self.lines.let_sleep(group, pool)

    def _wake_for_room(self, group: Group, pool: int, woken: dict[tuple[int, int], list[Group]]) -> None:
        group.is_for_room = True
        self.lines.wake(group)
        woken.setdefault((pool, group.shape.number), []).append(group)

    def _rouse(self, asleep: list[tuple[Group, int]]) -> None:
        """The turn of a queue has come: those of it wake for whom there is room, or may be what is hidden for booked starts."""
        is_room: dict[tuple[int, int], bool] = {}
        for group, pool in asleep:
            if not group.is_asleep:
                continue
            group.is_asleep = False
            at = pool, group.shape.number
            if at not in is_room:
                is_room[at] = self.known_unplaced(*at) is None
            if group.phase == REFUSED and (is_room[at] or self._may_take_booked(group, pool)):
                self._wake_for_room(group, pool, self.roomy)

    def close(self) -> None:
        """Room was taken: whoever was woken for it, and does not fit any more, waits on without being asked."""
        if self.policy.in_order:
            return
        for pool, number in [*self.roomy, *self.freed]:
            self._close_shape(pool, number)

    def close_like(self, group: Group) -> None:
        """One was refused: so are all others of its shape that room woke, where it has none and nobody has a booked start."""
        if not self.policy.in_order and not self.promises and len(group.shape.pools) == 1:
            self._close_shape(group.shape.pools[0], group.shape.number)

    def _close_shape(self, pool: int, number: int) -> None:
        at = pool, number
        roomy, freed = self.roomy.get(at), self.freed.get(at)
        if not roomy and not freed:
            return
        if self.known_unplaced(pool, number) is not None:
            places = self.by_room.setdefault(pool, {}).setdefault(number, set())
            for group in (*self.roomy.pop(at, ()), *self.freed.pop(at, ())):
                if group.reason is not None and group.reason.code != "booked":
                    self._put_aside_again(group, pool, places)
        elif freed and self._is_used_up(pool, freed[0]):
            for group in self.freed.pop(at):
                if group.reason is not None and group.reason.code in ("capacity", "withheld") and group.reason.pool == pool:
                    self._put_aside_again(group, pool, self.place_by_amount(group, group.reason))

    def _put_aside_again(self, group: Group, pool: int, places: set[Group]) -> None:
        if group.phase != OPEN or not group.is_for_room or group.reason is None or len(group.shape.pools) > 1:
            return
        if not self._may_take_booked(group, pool):
            also = (self.by_booked.setdefault(pool, set()),) if self.policy.booked else ()
            self.refuse(group, group.reason, (places, *also))

    def _may_take_booked(self, group: Group, pool: int) -> bool:
        """Whether a group that has no room may have some of what is hidden for booked starts, or has such a start."""
        if not self.promises:
            return False
        first, booked = group.first(), self.promises.of(pool)
        if first is None or first[1].id in self.promises.by_job:
            return True
        if self.policy.preempts and any(one.job.queue == group.queue and one.job.priority < group.priority for one in booked):
            return True
        last = max((one.at for one in booked), default=0)
        return bool(last) and self.promises.end_if_started(first[1], self.now) <= last  # It fits in before them.

    def _is_used_up(self, pool: int, group: Group) -> bool:
        """Whether a pool has not what a gang needs, and no booked start to give to whoever is refused."""
        need = group.shape.inside.get(pool)
        return need is not None and not self.promises.may_plan(pool) and self.shares.is_beyond(pool, need)

    def room_grew(self, machines: Iterable[int], *, for_a_try: bool = False) -> dict[int, set[int]]:
        """There is more room on these machines, by pool: wake who may fit now."""
        by_pool: dict[int, set[int]] = {}
        for machine in machines:
            by_pool.setdefault(self.machines.at[machine].pool, set()).add(machine)
        for (pool, _), known in list(self.unplaced.items()):
            if pool in by_pool and not known.grow(by_pool[pool], self.machines, pool):
                del self.unplaced[pool, known.shape.number]
        for pool in () if for_a_try else by_pool:
            for number, groups in list(self.by_room.get(pool, {}).items()):
                refused = self.unplaced.get((pool, number)) if groups else None
                if groups and (refused is None or not refused.is_true(self.machines, pool)):
                    self.wake_for_room(groups, pool)
        return by_pool

    def wake_reserved(self, pool: int) -> None:
        """Less is held, so that some may not be in the way of what is booked for a time any more."""
        for group in list(self.by_reserved.get(pool, ())) if self.windows else ():
            first = group.first()
            if first is not None and self.windows.refusal(first[1], group.shape.least[pool], self.now) is None:
                self.wake((group,))

    def wake_booked(self, pool: int, machines: Set[int]) -> None:
        """Room that is hidden for a booked start may be enough for the start itself, or for who ends before it."""
        promises = self.promises
        if not promises:
            return
        promises.opened()
        booked = promises.of(pool)
        for one in booked:
            one.may_be_earlier = True
            group = self.lines.group(one.job.id)
            if group is not None and group.phase == REFUSED:  # By what is hidden for it, nobody may put it aside again.
                group.is_for_room = True
                self.lines.wake(group)
        if booked and promises.is_any_on(machines):
            last = booked[-1].at
            brief = [
                group
                for group in self.by_booked.get(pool, ())
                if group.phase == REFUSED
                and (first := group.first()) is not None
                and promises.end_if_started(first[1], self.now) <= last
            ]
            for group in brief:
                group.is_for_room = True
                self.lines.wake(group)

    def known_unplaced(self, pool: int, number: int) -> Unplaced | None:
        """The answer of `place` for this shape, where it is still true whatever became free since."""
        known = self.unplaced.get((pool, number))
        return known.answer if known is not None and known.is_true(self.machines, pool) else None

    def place_by_amount(self, group: Group, refused: Refusal | Reason) -> set[Group]:
        """Where a group waits that the end of a pool, or promises to others, refused: with those who lack as much of the same."""
        at = (refused.resource, refused.need, refused.limit) if len(group.shape.pools) == 1 else None
        return self.by_pool.setdefault(refused.pool, {}).setdefault(at, set())

    def may_have_amount(self, pool: int) -> list[Group]:
        """Those of them for whom what is not held of the pool is enough; who may go to others is not looked at."""
        used = self.shares.used(0, pool)
        waiting = self.by_pool.get(pool, {})
        found: list[Group] = []
        for at, groups in list(waiting.items()):
            if not groups:
                del waiting[at]
            elif at is None or at[1] <= at[2] - used[at[0]]:
                found += groups
        return found

    def tree(self, top: int) -> list[int]:
        """A queue and all below it; of root only itself."""
        found = self._trees.get(top)
        if found is None:
            found = self._trees[top] = [top]
            for queue in found:
                found += self.shares.children[queue] if top else ()
        return found

    def _line_up(self, job: Job) -> None:
        runtime = job.runtime(trusted=True) or 0 if self.policy.booked or self.windows else 0
        kind = 2 * self.people.number(job) + (bool(self.windows) and not job.evictable)
        self.lines.add(job, self.shape_of(job.gang, job.pools), runtime, kind)
        self.watch(self.lines.group(job.id))

    def shape_of(self, gang: GangAsk, pools: tuple[int, ...]) -> Shape:
        """The one shape of equal asks. Whoever submits many does well to hand in the same object for equal ones."""
        shape = self._shape_by_identity.get((id(gang), pools))
        if shape is None or shape.gang is not gang:
            shape = self._shapes.get((gang, pools))
            if shape is None:
                shape = self._shapes[gang, pools] = Shape(len(self._shapes), gang, pools)
                if sum(role.minimum for role in gang.roles) > 1:
                    self.several.append(shape)
            if shape.gang is gang:
                self._shape_by_identity[id(gang), pools] = shape
        return shape
