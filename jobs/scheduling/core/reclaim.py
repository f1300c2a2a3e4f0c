"""Step 5 of a pass: room is cleared for gangs that are owed it, by evicting the victims that `victims.py` finds.

A gang may have the room that is kept for reserved starts of jobs that it could evict if they ran, and delays no other reserved
start, by machines or by limits. What is freed is claimed, and goes to no other job.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum

from jobs.scheduling.core.parts import Parts
from jobs.scheduling.core.place.gangs import Placed, at_least
from jobs.scheduling.core.place.placing import place
from jobs.scheduling.core.reserve import Reserver
from jobs.scheduling.core.starts import Starts
from jobs.scheduling.core.state.decisions import Claim, Decision, Evict, WaitReason
from jobs.scheduling.core.state.reservation import BackfillReservation
from jobs.scheduling.core.state.timers import EvictionsAllowed
from jobs.scheduling.core.state.work import JobAsk, Running, Shape
from jobs.scheduling.core.victims import Search
from kernel.wait_codes import WaitCode
from tenants.capacity.quota.shares import Standing


class ReclaimRefusal(Enum):
    """Why a search for room to take back found none, where time alone brings none either."""

    NO_VICTIMS = "no_victims"


class Reclaim:
    """The evictions of one pass."""

    def __init__(self, parts: Parts, reserver: Reserver, starts: Starts, decisions: list[Decision]) -> None:
        self.live = parts.live
        self.advance = parts.advance
        self.placements = parts.placements
        self.reservations = parts.reservations
        self.seats = parts.seats
        self.claims = parts.claims
        self.occupancy = parts.occupancy
        self.reserver = reserver
        self.starts = starts
        self.decisions = decisions
        self.now = parts.live.now
        self.evictions = 0

    def search(self, job: JobAsk, shape: Shape, pool: int, *, rebalances: bool = False) -> Search:
        """The search for victims for a job in a pool."""
        return Search(self.live, self.advance, self.placements, job, shape, pool, rebalances=rebalances)

    def take_back(self, search: Search, job: JobAsk, shape: Shape, pool: int) -> WaitReason | ReclaimRefusal | None:
        """Clear room for a gang that is owed it; None when that was decided, else why not."""
        reservations = self.reservations
        if not reservations:
            return self._take_from(search, job, shape, pool)
        standing = Standing.DESERVED if search.may_claim and not search.rebalances else None
        weaker = reservations.weaker(job, pool, standing)
        if job.id in reservations.by_job:
            weaker.append(job.id)
        # A queue that takes back what it deserves waits for no starts but those of its own higher priorities.
        yielding = {*weaker, *(reservations.below(job) if standing is Standing.DESERVED else ())}
        search.is_spared = lambda running: reservations.counts_on_end(running, yielding)
        with reservations.without(weaker, job.id, yielding) as sight:
            answered = self._take_from(search, job, shape, pool, weaker, yielding)
            sight.stands = answered is None
        return answered

    def _take_from(
        self,
        search: Search,
        job: JobAsk,
        shape: Shape,
        pool: int,
        weaker: Collection[str] = (),
        yielding: Collection[str] = (),
    ) -> WaitReason | ReclaimRefusal | None:
        """The same; the gang may have the room held for `weaker` reserved starts, and delays none but `yielding` ones."""
        victims = search.run()
        delayed = self._delayed_by_evicting(job, shape, pool, victims or (), yielding)
        while victims and delayed is not None:
            counted = self.reservations.freed_for(delayed)
            if counted.isdisjoint(victim.job.id for victim in victims):
                return WaitReason(WaitCode.BACKFILL_RESERVATION, pool, job.queue, until=delayed.at)
            search.spared |= counted
            victims = search.run()
            delayed = self._delayed_by_evicting(job, shape, pool, victims or (), yielding)
        if victims is None:
            until = search.old_enough_at()
            return WaitReason(WaitCode.TOO_YOUNG, pool=pool, queue=job.queue, until=until) if until else ReclaimRefusal.NO_VICTIMS
        if not victims:  # What reserved starts of others kept is enough; it is taken by right.
            return self._start_by_right(job, shape, pool, weaker)
        refusal = self.eviction_refusal(job, len(victims))
        if refusal is not None:
            self.live.timers.set(EvictionsAllowed(max(refusal.until, self.now + 1), pool))
            return refusal
        self.clear(job, shape, pool, victims, search.cost, rebalances=search.rebalances)
        return None

    def clear(
        self,
        job: JobAsk,
        shape: Shape,
        pool: int,
        victims: Sequence[Running],
        cost: Mapping[str, int],
        *,
        rebalances: bool = False,
        migrates: bool = False,
    ) -> None:
        """Evict these victims for a gang. `migrates`: they go on elsewhere, and their room there is kept."""
        self.reservations.drop(job.id)
        migrating = frozenset(victim.job.id for victim in victims) if migrates else frozenset()
        transfer = self.claims.begin(job, shape, pool, victims, self.now, migrating)
        self.occupancy.claim(transfer)
        self.reserver.plan_anew(at for victim in victims for at, _ in victim.need)
        self.evictions += len(victims)
        self.live.evicted_at.append((self.now, len(victims)))
        for victim in victims:
            seat = self.seats.by_job.get(victim.job.id)
            self.decisions.append(
                Evict(victim.job.id, job.id, cost[victim.job.id], "", None if seat is None else seat.placed, rebalances)
            )
        total = sum(cost[victim.job.id] for victim in victims)
        self.decisions.append(Claim(job.id, transfer.claimant.placed, tuple(victim.job.id for victim in victims), total))

    def _delayed_by_evicting(
        self, job: JobAsk, shape: Shape, pool: int, victims: Sequence[Running], weaker: Collection[str]
    ) -> BackfillReservation | None:
        """The reserved start, not of these, that a gang would delay which starts in place of its victims."""
        if not self.reservations or not victims:
            return None
        tasks = sum(role.minimum for role in shape.gang.roles)
        return self.reservations.denies_evicting(job, shape.least[pool], tasks, victims, weaker)

    def _start_by_right(self, job: JobAsk, shape: Shape, pool: int, weaker: Collection[str]) -> WaitReason | None:
        """Start on what the search found to be enough without victims."""
        live = self.live
        group, room = live.ordering.group(job.id), live.room(job.queue, shape.least[pool])
        placed = place(at_least(shape.gang), live.machines, (pool,))
        assert group is not None
        assert isinstance(room, Standing), "limits that were found to allow it do not"
        assert isinstance(placed, Placed), "what was found to fit does not"
        delayed = self.starts.delayed(job, shape, placed, weaker)
        if delayed is not None:
            return delayed
        self.starts.admit(group, job, placed, room)
        return None

    def eviction_refusal(self, job: JobAsk, count: int) -> WaitReason | None:
        """Whether so many more evictions are too many for this pass or window. A claim that the window refuses keeps what is left
        of it from those behind it in fair order: else small claims would for ever use up what a wide one waits for."""
        policy, recent = self.live.policy, self.live.evicted_at
        while recent and recent[0][0] + policy.window_seconds <= self.now:
            recent.popleft()
        lately = sum(many for _, many in recent)
        if count + self.evictions > policy.evictions_per_pass and self.evictions:
            return WaitReason(
                WaitCode.BRAKE, need=count, held=self.evictions, limit=policy.evictions_per_pass, until=self.now + 1
            )
        kept = self._kept_from(job)
        if count + lately + kept > policy.evictions_per_window and lately:
            until = recent[0][0] + policy.window_seconds
            if not kept:
                self.live.limited_claim = (job.id, count, until)
            return WaitReason(WaitCode.BRAKE, need=count, held=lately, limit=policy.evictions_per_window, until=until)
        return None

    def _kept_from(self, job: JobAsk) -> int:
        """How many evictions of the window are kept from a job for a job before it, until that job is asked again."""
        first_id, count, until = self.live.limited_claim
        first = self.live.ordering.job(first_id)
        if first is None or first_id == job.id or self.now >= until:
            return 0
        return count if self.reserver.rank(first.queue, first) < self.reserver.rank(job.queue, job) else 0
