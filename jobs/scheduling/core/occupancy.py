"""Occupancy of machines and limits: a gang starts, claims, leaves or ends, and all that counts it follows."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from jobs.scheduling.core.advance import AdvanceReservations
from jobs.scheduling.core.claims import Claims
from jobs.scheduling.core.place.placing import undo
from jobs.scheduling.core.reservations import BackfillReservations
from jobs.scheduling.core.seats import Seats
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.work import Claimed, JobAsk, Running, Transfer, give_shares, take_shares


class Occupancy:
    """Updates all that changes when gangs come and go: machines and limits, evictable gangs, reserved starts, and wake-ups."""

    def __init__(
        self, live: Live, advance: AdvanceReservations, reservations: BackfillReservations, seats: Seats, claims: Claims
    ) -> None:
        self.live = live
        self.advance = advance
        self.reservations = reservations
        self.seats = seats
        self.claims = claims

    def admit(self, running: Running) -> None:
        """A gang, placed on the machines already, holds its share of the limits from now on."""
        live = self.live
        take_shares(live.shares, running.job.queue, running.need)
        live.running[running.job.id] = running
        live.holdings.take(running)
        self.enter(running)
        if self.reservations:
            self.reservations.settle_with(task.machine for task in running.placed.tasks)
        self._one_more_of_array(running.job)

    def enter(self, running: Running) -> None:
        """A gang runs, and may be evicted: never in the pass in which it started."""
        live = self.live
        self.reservations.entered(running)
        if self.advance:
            self.advance.entered(running)
        live.evictable.enter(running, live.policy, live.now)

    def ended(self, job_id: str) -> None:
        """A gang holds nothing any more. A claimant gives up its claim."""
        live, reservations = self.live, self.reservations
        running = live.running.pop(job_id)
        live.evictable.leave(running)
        reservations.left(running)
        if self.advance:
            self.advance.left(job_id, [pool for pool, _ in running.need])
        if live.holdings:
            live.holdings.give(running)
            live.changes.give_back(live.holdings.places(running.job))
            if reservations:  # A job that would have taken the room in a cap from a reserved start may start now, in any pool.
                live.changes.free(live.machines.pools)
        for sibling in live.waiting.one_ended(running.job):
            self.seats.submit(sibling)
        if running.claim is not None and running.claim.claimant is running:
            freed = self.claims.give_up(running.claim)
        elif running.claim is not None:
            freed = self.claims.gone(running)
        else:
            give_shares(live.shares, running.job.queue, running.need)
            undo(running.placed, live.machines)
            freed = {task.machine for task in running.placed.tasks}
        reservations.settle(freed)
        reservations.freed(freed, running.need)

    # --- Claims -------------------------------------------------------------------------------------------------------

    def claim(self, transfer: Transfer) -> None:
        """A gang holds room that others are leaving. It cannot be evicted before it started."""
        live, claimant = self.live, transfer.claimant
        live.ordering.remove(claimant.job.id)
        self.reservations.drop(claimant.job.id)
        take_shares(live.shares, claimant.job.queue, claimant.need)
        live.running[claimant.job.id] = claimant
        live.transfers[claimant.job.id] = transfer
        live.holdings.take(claimant)
        if self.advance:
            self.advance.entered(claimant)
        if self.reservations:
            self.reservations.settle({task.machine for running in (claimant, *transfer.victims) for task in running.placed.tasks})
        self._one_more_of_array(claimant.job)
        for victim in transfer.victims:  # The queues of victims hold less from now on.
            live.changes.free(pool for pool, _ in victim.need)
        if not transfer.leaving:
            live.cleared.append(claimant.job.id)

    def claim_again(self, job_id: str, victims: Iterable[str], migrating: Collection[str] = (), *, kept: Claimed | None) -> bool:
        """Restore the claim of a waiting job on the room of `victims`, as was decided before. Returns whether it still could. The
        job starts where it was to start (`kept`); where that is not known, it is placed again, and the `migrating` gangs, too."""
        live, claims = self.live, self.claims
        job = live.ordering.job(job_id)
        leaving = [live.running[victim] for victim in victims if victim in live.running]
        if job is None or any(running.claim is not None for running in leaving):
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
            if claims.could_begin(job, shape, pool, leaving, migrating):
                self.claim(claims.begin(job, shape, pool, leaving, live.now, migrating))
                return True
        return False

    def _one_more_of_array(self, job: JobAsk) -> None:
        for group in self.live.waiting.one_runs(job):  # Siblings at the head of the queue are set aside by now.
            self.live.ordering.wake(group)
