"""Who holds what: a gang that starts, claims, leaves or ends, with all that counts it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from jobs.scheduling.core.advance import AdvanceReservations
from jobs.scheduling.core.claims import Claims
from jobs.scheduling.core.reservations import BackfillReservations
from jobs.scheduling.core.seats import Seats
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.reservation import FOREVER, ends_if_started
from jobs.scheduling.core.state.work import Claimed, Job, Running, Transfer, give_shares, take_shares


class Occupancy:
    """What changes when gangs come and go: machines and limits, who may be evicted, booked starts, and what others wait for."""

    def __init__(
        self, live: Live, windows: AdvanceReservations, reservations: BackfillReservations, seats: Seats, claims: Claims
    ) -> None:
        self.live = live
        self.windows = windows
        self.reservations = reservations
        self.seats = seats
        self.claims = claims

    def admit(self, one: Running) -> None:
        """A gang, placed on the machines already, holds its share of the limits from now on."""
        live = self.live
        take_shares(live.shares, one.job.queue, one.need)
        live.running[one.job.id] = one
        live.holdings.take(one)
        self.enter(one)
        if self.reservations:
            self.reservations.settle_with(task.machine for task in one.placed.tasks)
        self._one_more_of_array(one.job)

    def enter(self, one: Running) -> None:
        """It runs, and may be evicted: never in the pass in which it started."""
        live = self.live
        self.reservations.entered(one)
        if self.windows:
            self.windows.entered(one)
        live.evictable.enter(one, live.policy, live.now)

    def ended(self, job_id: str) -> None:
        """A gang holds nothing any more. One that claims gives up its claim."""
        live, reservations = self.live, self.reservations
        one = live.running.pop(job_id)
        live.evictable.leave(one)
        if reservations.ends_of(one).planned == FOREVER:
            reservations.forget_unplannable()  # Nothing could be planned on its end.
        reservations.left(one)
        if self.windows:
            self.windows.left(job_id, [pool for pool, _ in one.need])
        if live.holdings:
            live.holdings.give(one)
            live.changes.give_back(live.holdings.places(one.job))
            if reservations:  # Who would have taken a booked start its room in a cap may do so in any pool.
                live.changes.mark(live.machines.pools)
        for sibling in live.waiting.one_ended(one.job):
            self.seats.submit(sibling)
        if one.claim is not None and one.claim.claimant is one:
            freed = self.claims.give_up(one.claim)
        elif one.claim is not None:
            freed = self.claims.gone(one)
        else:
            give_shares(live.shares, one.job.queue, one.need)
            for task in one.placed.tasks:
                live.machines.give(task.machine, task.ask, task.devices)
            freed = {task.machine for task in one.placed.tasks}
        reservations.settle(freed)
        reservations.freed(freed, one.need)

    # --- Claims -------------------------------------------------------------------------------------------------------

    def claim(self, made: Transfer) -> None:
        """A gang holds room that others are leaving. It cannot be evicted before it started."""
        live, one = self.live, made.claimant
        live.ordering.remove(one.job.id)
        self.reservations.drop(one.job.id)
        take_shares(live.shares, one.job.queue, one.need)
        live.running[one.job.id] = one
        live.transfers[one.job.id] = made
        live.holdings.take(one)
        if self.windows:
            self.windows.entered(one)
        if self.reservations:
            self.reservations.settle({task.machine for each in (one, *made.victims) for task in each.placed.tasks})
        self._one_more_of_array(one.job)
        for victim in made.victims:  # Their queues hold less from now on.
            live.changes.mark(pool for pool, _ in victim.need)
            if ends_if_started(victim.job, victim.started_at, live.policy).planned == FOREVER:
                self.reservations.forget_unplannable()  # Nothing could be planned on its end.
        if not made.leaving:
            live.cleared.append(one.job.id)

    def claim_again(self, job_id: str, victims: Iterable[str], moving: Collection[str] = (), *, kept: Claimed | None) -> bool:
        """A waiting job claims the room of those who leave for it, as was decided before; whether it still could. It starts where
        it was to start (`kept`); where that is not known any more, it is placed again, and those who are `moving`, too."""
        live, claims = self.live, self.claims
        job = live.ordering.job(job_id)
        leaving = [live.running[victim] for victim in victims if victim in live.running]
        if job is None or any(one.claim is not None for one in leaving):
            return False
        shape = live.shapes.of(job.gang, job.pools)
        if kept is not None and kept.pool in shape.pools:
            restored = claims.restore(job, shape, kept, leaving, live.now)
            if restored is not None:
                self.claim(restored)
                return True
        if not leaving:
            return False
        for pool in shape.pools:
            if claims.could_begin(job, shape, pool, leaving, moving):
                self.claim(claims.begin(job, shape, pool, leaving, live.now, moving))
                return True
        return False

    def _one_more_of_array(self, job: Job) -> None:
        for group in self.live.waiting.one_runs(job):  # Siblings at which the queue stands are set aside by now.
            self.live.ordering.wake(group)
