"""One pass: which jobs start, which wait and why, and which running gangs make room.

The ideal: all waiting jobs are decided in turn, the next always by the fair order of their queues as it is after the last
decision. Steps 4 to 7 below are taken for each, for all limits and all machines, and a job that cannot start does not stop the
jobs behind it. What is done instead, and why the result is the same:

- Only what changed is asked again (`wakeups.py`): a group of equal jobs that was refused stays refused until something is freed
  in one of its pools and cheap bounds do not prove that it would be refused again. Room that shrinks changes no refusal.
- Of equal jobs in a queue only the first is asked (`state/ordering.py`), because what refuses it refuses those behind it.
- Where a gang has too little room by counting, no place is tried; the answer stands until enough becomes free (`placements.py`).

1. **Its own conditions.** What cannot start by itself is not in the order: withheld by its driver (a hold, a dependency, an
   image, a budget, a time cap), before its time, or as many of its array run as may. `Core.submit` sets it aside with
   that reason.
2. **Where it may go.** Known before a pass: the pools that are left of `eligibility.py`.
3. **Whose turn.** The queue by fair order: queues that are owed room, then the smallest weighted dominant share, with history.
   In the queue by priority with aging, own order, time of submission with shorter jobs first within a day, id.
4. **Limits.** The caps on its user, then `Shares.room`: guaranteed, deserved or borrowed, or the first limit that refuses; then
   what tenants have booked for a time (`advance.py`).
5. **Place.** The whole gang at its largest size that limits and room allow, at least at its smallest, or nothing.
6. **Take back.** A queue that is owed room which other queues borrow gets it by the fewest lost GPU-seconds (`reclaim.py`); so
   does a higher priority from a lower one in its own queue. What is freed is claimed, and goes to no other job.
7. **Reserve.** The first job that is refused in fair order in a pool gets the earliest start that the planned ends of the running
   gangs allow (`reservations.py`, `reserve.py`, `planning.py`); no job that starts before it may delay it. Jobs that have waited
   for longer than `Policy.starvation_guard_seconds` come first. Nothing is held for a job that would not start when others end,
   or whose user is at a cap.
8. **Rebalance and migrate.** Once a minute, for the jobs that were refused (`rebalance.py`): from queues that borrow a larger
   part to queues that borrow a smaller part, and small gangs elsewhere where a larger gang fits in total but not in shape.

The steps have the numbers of docs/scheduling.md. A job that waits keeps the reason of the pool where it came furthest.
"""

from __future__ import annotations

from dataclasses import replace

from jobs.lifecycle.wait_reasons import WAITS
from jobs.scheduling.core.migrate import Migrations
from jobs.scheduling.core.parts import Parts
from jobs.scheduling.core.place.gangs import GangAsk, Placed, Unplaced
from jobs.scheduling.core.place.placing import place
from jobs.scheduling.core.placements import CachedRefusal
from jobs.scheduling.core.rebalance import is_time, lacking_room
from jobs.scheduling.core.reclaim import Reclaim
from jobs.scheduling.core.reserve import Reserver
from jobs.scheduling.core.starts import Starts
from jobs.scheduling.core.state.decisions import Admit, Decision, Wait, WaitReason
from jobs.scheduling.core.state.ordering import REFUSED, Group
from jobs.scheduling.core.state.timers import NotBefore
from jobs.scheduling.core.state.user_caps import least, most, place_of, reason_of
from jobs.scheduling.core.state.work import JobAsk, Need, Running, Shape
from kernel.wait_codes import WaitCode
from tenants.capacity.quota.shares import Refusal, Standing


def run_pass(parts: Parts, now: int) -> list[Decision]:
    """All phases, until no job is left that may have a turn."""
    live, last_pass_at = parts.live, parts.live.now
    live.now = now
    current = Pass(parts)
    current.process_timers()
    current.start_claimants()
    if parts.advance:
        current.decisions += parts.advance.clear(now)
    current.reserver.begin()
    current.take_turns()
    if is_time(live, last_pass_at) and current.rebalance():
        current.take_turns()
    current.reserver.report_broken()
    return current.decisions


class Pass:
    """The state of one pass."""

    def __init__(self, parts: Parts) -> None:
        self.live = live = parts.live
        self.placements = parts.placements
        self.advance = parts.advance
        self.reservations = parts.reservations
        self.seats = parts.seats
        self.claims = parts.claims
        self.occupancy = parts.occupancy
        self.wakeups = parts.wakeups
        self.now = now = live.now
        self.decisions: list[Decision] = []
        self.reserver = Reserver(
            live, parts.advance, parts.reservations, parts.occupancy, parts.wakeups.wake_queue, now, self.decisions
        )
        self.starts = Starts(parts, self.decisions)
        self.reclaim = Reclaim(parts, self.reserver, self.starts, self.decisions)

    def process_timers(self) -> None:
        """Apply what time alone changes: history, planned ends that have passed, least run times, and due timers."""
        live, now = self.live, self.now
        if live.ordering and (live.history_at is None or now - live.history_at >= live.policy.history_seconds):
            live.shares.advance(now)
            live.history_at = now
        self.reservations.plan_overdue()
        self.wakeups.begin()
        live.changes.marked |= live.evictable.make_due_evictable(now)
        for timer in live.timers.due(now):
            if isinstance(timer, NotBefore):
                job = live.waiting.begin(timer.job_id)
                if job is not None:
                    self.seats.submit(job)
            else:
                live.changes.free((timer.pool,))

    def take_turns(self) -> None:
        """Decide jobs in fair order, until no job is left that may have a turn."""
        lines, wakeups = self.live.ordering, self.wakeups
        while True:
            wakeups.distribute_marks()
            turn = lines.next(wakeups.wake_queue, wakeups.may_go_on)
            if turn is None:
                self.reserver.reserve_rest()
                if not wakeups.is_marked:
                    break
                continue
            group, job = turn
            lines.ask(group)
            if self.reservations.known_ends:
                self.reserver.before(group, job)
            self.decide_job(group, job)

    def start_claimants(self) -> None:
        """Start the claimants whose room is clear by now, before all other jobs."""
        live = self.live
        for job_id in sorted(live.cleared):
            transfer = live.transfers.pop(job_id, None)
            if transfer is not None:
                running = transfer.claimant
                running.claim, running.started_at = None, self.now
                self.occupancy.enter(running)
                self.starts.mark_reclaimable(running)
                self.decisions.append(Admit(job_id, running.placed, running.standing))
        live.cleared.clear()
        for seat in self.seats.taken_again() if self.seats else ():
            running = Running(seat.job, seat.placed, seat.need, self.now, live.standing(seat.job.queue, seat.need))
            self.occupancy.admit(running)
            self.decisions.append(Admit(running.job.id, running.placed, running.standing))

    def decide_job(self, group: Group, job: JobAsk) -> None:
        """Steps 4 to 7 for the job whose turn it is."""
        live, wakeups, shape = self.live, self.wakeups, group.shape
        if live.is_last_of_array(job):
            live.ordering.remove(job.id)
            live.waiting.wait_for_siblings(job)
            self._report(group, job, WaitReason(WaitCode.ARRAY_PARALLELISM, limit=job.parallel))
            return
        capped = live.holdings.refusal(job, least(shape.gang)) if live.holdings else None
        if capped is not None and job.user is not None:
            refusal = reason_of(capped, job.queue)
            wakeups.refuse(group, refusal, at=place_of(capped, job.user))
            self._report(group, job, refusal)
            return
        reason: WaitReason | None = None
        entitled: list[int] = []
        for pool in shape.pools:
            room = live.room(job.queue, shape.least[pool])
            if isinstance(room, Refusal):
                refusal = self._limit_reason(room)
            elif self.advance and (reserved := self.advance.refusal(job, shape.least[pool], self.now)) is not None:
                refusal = reserved
            else:
                answer = self._place(job, shape, pool)
                denied = self.starts.delayed(job, shape, answer) if isinstance(answer, Placed) else self._unplaced(shape, answer)
                if denied is None and isinstance(answer, Placed):
                    self.starts.admit(group, job, answer, room)
                    return
                if denied is None or (self.reservations and self._take_reserved(group, job, pool, room)):
                    return
                refusal = denied
            if not WAITS[refusal.code].is_unfit:
                entitled.append(pool)
            if reason is None or WAITS[refusal.code].stage > WAITS[reason.code].stage:
                reason = refusal
        for pool in entitled:
            search = self.reclaim.search(job, shape, pool)
            if not search.may_claim and not search.may_preempt:
                continue
            answered = self.reclaim.take_back(search, job, shape, pool)
            if answered is None:
                return
            if isinstance(answered, WaitReason):
                reason = answered
        reason = reason or WaitReason(WaitCode.NO_POOL)
        if self.reservations.known_ends:
            self.reserver.refused(group, job)
        wakeups.refuse(group, reason)
        self._report(group, job, reason)

    # 3. Limits.

    def _within_limits(self, job: JobAsk, shape: Shape, pool: int) -> GangAsk:
        """The gang with as many tasks at most as limits allow: roles grow in the order in which they are listed."""
        if self._has_room(job, shape.gang, shape.most[pool]):
            return shape.gang
        roles = [replace(role, maximum=role.minimum) for role in shape.gang.roles]
        for position, wanted in enumerate(shape.gang.roles):
            low, high = wanted.minimum, wanted.maximum
            while low < high:
                middle = (low + high + 1) // 2
                roles[position] = replace(wanted, maximum=middle)
                tried = Shape(-1, replace(shape.gang, roles=tuple(roles)), (pool,))
                if self._has_room(job, tried.gang, tried.most[pool]):
                    low = middle
                else:
                    high = middle - 1
            roles[position] = replace(wanted, maximum=low)
        return replace(shape.gang, roles=tuple(roles))

    def _has_room(self, job: JobAsk, gang: GangAsk, need: Need) -> bool:
        """Whether limits and caps allow the gang at its largest."""
        live = self.live
        if self.advance and self.advance.refusal(job, need, self.now) is not None:
            return False
        return not isinstance(live.room(job.queue, need), Refusal) and live.holdings.refusal(job, most(gang)) is None

    # 4. Place.

    def _place(self, job: JobAsk, shape: Shape, pool: int) -> Placed | Unplaced:
        answer: Placed | Unplaced | None = self.placements.unplaced(pool, shape)
        if answer is None:
            gang = self._within_limits(job, shape, pool) if shape.is_elastic else shape.gang
            answer = place(gang, self.live.machines, (pool,))
            if isinstance(answer, Unplaced) and CachedRefusal.may_keep(shape, answer):
                self.placements.remember(pool, shape, answer)
                self.wakeups.forget(pool, shape)
        if isinstance(answer, Unplaced) and self.reservations:
            return self._place_before(job, shape, pool) or answer
        return answer

    def _place_before(self, job: JobAsk, shape: Shape, pool: int) -> Placed | None:
        """Where the gang has its place in room that is hidden for later starts, which it will not be in the way of."""
        reservations = self.reservations
        if reservations.is_known_refused(job, shape, pool):
            return None
        with reservations.seen_by(job, pool) as sight:
            if not sight.is_wider:
                return None
            gang = self._within_limits(job, shape, pool) if shape.is_elastic else shape.gang
            answer = place(gang, self.live.machines, (pool,))
            sight.stands = isinstance(answer, Placed)
        if isinstance(answer, Placed):
            return answer
        reservations.remember_refused(job, shape, pool)
        return None

    def _take_reserved(self, group: Group, job: JobAsk, pool: int, room: Standing) -> bool:
        """Start on what is kept for reserved starts of jobs that this job could evict if they ran."""
        reservations, shape = self.reservations, group.shape
        weaker = reservations.weaker(job, pool, room)
        if not weaker:
            return False
        with reservations.without(weaker, job.id) as sight:
            answer = self._place(job, shape, pool)
            if isinstance(answer, Placed) and self.starts.delayed(job, shape, answer, weaker) is None:
                self.starts.admit(group, job, answer, room)
                sight.stands = True
        return sight.stands

    # 8. Rebalance and migrate.

    def rebalance(self) -> bool:
        """Look for room for the jobs that may gain by it; whether anything was decided."""
        live, before = self.live, len(self.decisions)
        for pool in sorted(live.machines.pools):
            for group, job, is_shape in lacking_room(live, self.advance, self.reserver, pool):
                if group.phase != REFUSED or job.id not in live.ordering:
                    continue
                if live.policy.rebalances:
                    search = self.reclaim.search(job, group.shape, pool, rebalances=True)
                    if self.reclaim.take_back(search, job, group.shape, pool) is None:
                        continue
                if live.policy.migrations and is_shape:
                    self._migrate(job, group.shape, pool)
        return len(self.decisions) > before

    def _migrate(self, job: JobAsk, shape: Shape, pool: int) -> None:
        """Migrate other gangs so that this job can start."""
        reservations = self.reservations
        with reservations.without([job.id] if job.id in reservations.by_job else [], job.id) as sight:
            plan = Migrations(self.live, self.advance, reservations).find(job, shape, pool)
            if plan is not None and self.reclaim.eviction_refusal(job, len(plan.migrated)) is None:
                self.reclaim.clear(job, shape, pool, plan.migrated, plan.cost, migrates=True)
                sight.stands = True

    # 7. Explain.

    @staticmethod
    def _limit_reason(room: Refusal) -> WaitReason:
        return WaitReason(room.code, room.pool, room.queue, room.resource, room.need, room.used, room.limit, room.kept)

    def _unplaced(self, shape: Shape, answer: Unplaced) -> WaitReason:
        until = self.reservations.blocked_until(shape, answer.pool) if self.reservations else 0
        if until:
            return WaitReason(WaitCode.BACKFILL_RESERVATION, answer.pool, need=answer.needed, fitting=answer.fitting, until=until)
        return WaitReason(answer.code, answer.pool, need=answer.needed, fitting=answer.fitting, filters=answer.refusals)

    def _report(self, group: Group, job: JobAsk, reason: WaitReason) -> None:
        reported = (job.id, reason)
        if group.told != reported:
            group.told = reported
            self.decisions.append(Wait(job.id, reason, max(1, len(group))))
