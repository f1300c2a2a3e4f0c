"""The state of scheduling that is kept from pass to pass, and what changes it.

The driver tells it of events (`submit`, `withdraw`, `started`, `ended`, `machine_changed`, `limits_changed`) and asks for
decisions by `decide(now)`. The core takes its decisions as done: an admitted gang runs, an evicted gang is leaving. So the driver
only tells of what was not decided here. No clock, no random numbers, no settings: equal input gives equal decisions, in whatever
order the events between two passes are told.

A refused job is asked again only after a change that may help it (`wakeups.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from jobs.scheduling.core.advance import AdvanceReservations
from jobs.scheduling.core.claims import Claims
from jobs.scheduling.core.cycle import run_pass
from jobs.scheduling.core.occupancy import Occupancy
from jobs.scheduling.core.parts import Parts
from jobs.scheduling.core.place.gangs import Placed
from jobs.scheduling.core.place.machines import Machine, Machines
from jobs.scheduling.core.place.placing import redo
from jobs.scheduling.core.place.scores import Mix, PoolRules
from jobs.scheduling.core.placements import Placements
from jobs.scheduling.core.reservations import BackfillReservations
from jobs.scheduling.core.seats import Seats
from jobs.scheduling.core.state.decisions import Decision, WaitReason
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.policy import Policy as Policy
from jobs.scheduling.core.state.timers import BookingBoundary
from jobs.scheduling.core.state.work import Claimed, JobAsk, Need, Running, take_shares
from jobs.scheduling.core.wakeups import WakeUps
from kernel.wait_codes import WaitCode
from tenants.capacity.quota.bookings import Booked
from tenants.capacity.quota.caps import CapFacts
from tenants.capacity.quota.shares import Shares


class Core:
    """One scheduler. `machines` and `shares` belong to it; no other code changes them."""

    def __init__(
        self,
        machines: Machines,
        shares: Shares,
        policy: Policy | None = None,
        *,
        caps: Iterable[CapFacts] = (),
        bookings: Iterable[Booked] = (),
    ) -> None:
        self.live = live = Live(machines, shares, policy or Policy(), caps)
        self.machines = machines
        self.policy = live.policy
        self.holdings = live.holdings
        self.ordering = live.ordering
        self.running = live.running
        self.transfers = live.transfers
        self.evicted_at = live.evicted_at
        self.placements = Placements(machines)
        self.advance = AdvanceReservations(live)
        self.reservations = BackfillReservations(live, self.advance, self.placements)
        self.seats = Seats(live, self.reservations)
        claims = Claims(live, self.reservations, self.seats)
        self.occupancy = Occupancy(live, self.advance, self.reservations, self.seats, claims)
        self.wakeups = WakeUps(live, self.advance, self.reservations, self.placements)
        self._parts = Parts(
            live, self.placements, self.advance, self.reservations, self.seats, claims, self.occupancy, self.wakeups
        )
        self.bookings_changed(bookings)

    @property
    def now(self) -> int:
        """The time of the last pass."""
        return self.live.now

    @property
    def shares(self) -> Shares:
        """Limits, and what is held of them."""
        return self.live.shares

    # --- Events -------------------------------------------------------------------------------------------------------

    def submit(self, job: JobAsk) -> None:
        """A job waits from now on."""
        assert job.id not in self.running, "it runs already"
        self.seats.submit(job)

    def withdraw(self, job_id: str) -> None:
        """A job waits no longer, and does not run either."""
        self.seats.vacate(job_id)
        if not self.live.waiting.withdraw(job_id) and job_id in self.transfers:
            self.ended(job_id)

    def started(self, job: JobAsk, placed: Placed, at: int, need: Need | None = None) -> None:
        """A gang runs that was not admitted here: at the beginning, or started by other means. `need`: what it counts for in
        quotas, where that is not what it holds on known machines."""
        if job.id in self.live.waiting:
            self.withdraw(job.id)
        redo(placed, self.machines)
        self.reservations.forget_refused()
        need = self.live.need_of(placed) if need is None else need
        self.occupancy.admit(Running(job, placed, need, at, self.live.standing(job.queue, need)))

    def told_to_leave(self, job_id: str) -> None:
        """A gang was told to leave by other means: it holds its machines until it has ended, and is not evicted."""
        self.live.told_to_leave(job_id)
        running = self.running.get(job_id)
        if running is not None and self.advance:  # It may be out of the way of a booking now.
            self.advance.entered(running)
            self.live.changes.free(pool for pool, _ in running.need)

    def ended(self, job_id: str) -> None:
        """A gang holds nothing any more. A claimant gives up its claim."""
        self.occupancy.ended(job_id)

    def checkpointed(self, job_id: str, at: int) -> None:
        """A gang saved a checkpoint at `at`, from which it can be resumed."""
        if job_id in self.running:
            self.running[job_id].checkpoint_at = at

    def machine_changed(self, facts: Machine) -> None:
        """A machine that is known came back, went away, or has other labels or more of something."""
        index = self.machines.find(facts.pool, facts.name)
        assert index is not None, "a new machine needs a new core"
        if self.machines.update_contents(index, facts):
            return  # Data and images that it holds make no job fit that did not.
        self.machines.update(index, facts)
        self.placements.forget(facts.pool)
        self.advance.machine_changed()
        self.reservations.settle((index,), "machine")
        self.reservations.forget_refused()
        self.wakeups.wake([group for group in self.ordering.groups() if facts.pool in group.shape.touches])

    def mix_changed(self, pool: int, mix: Mix | None) -> None:
        """Another mix of tasks of a pool: other machines score best for the next task, and no job fits that did not."""
        self.machines.set_rules(pool, replace(self.machines.rules.get(pool) or PoolRules(), mix=mix))

    def limits_changed(self, shares: Shares) -> None:
        """Other limits of the same queues and pools; `shares` holds nothing yet."""
        assert shares.queue_ids == self.shares.queue_ids
        assert shares.pool_ids == self.shares.pool_ids
        for running in self.running.values():
            if not running.is_leaving or running.claim is None:
                take_shares(shares, running.job.queue, running.need)
        self.seats.retake(shares)
        if self.live.history_at is not None and not shares.history():
            shares.recall(self.shares.history(), self.live.history_at)
        self.live.shares = shares
        self.wakeups.wake(self.ordering.groups())
        self.ordering.follow(shares)
        self.reservations.recheck_limits()

    def bookings_changed(self, bookings: Iterable[Booked]) -> None:
        """Other bookings of tenants."""
        had_bookings = bool(self.advance)
        self.advance.set(bookings, self.reservations.by_job.values())
        if bool(self.advance) != had_bookings:
            self.live.waiting.has_bookings = bool(self.advance)
            self.live.waiting.line_up_again()
        for at, pool in self.advance.moments():
            if at > self.now:
                self.live.timers.set(BookingBoundary(at, pool))
        self.wakeups.wake(self.ordering.groups())
        if self.advance:
            self.reservations.recheck_bookings()

    def caps_changed(self, caps: Iterable[CapFacts]) -> None:
        """Other caps on users."""
        self.holdings.set(caps, self.running.values())
        self.seats.recount()
        self.wakeups.by_user.clear()
        self.live.waiting.line_up_again()

    def decide(self, now: int) -> tuple[Decision, ...]:
        """One pass at this moment."""
        return tuple(run_pass(self._parts, now))

    # --- Questions ----------------------------------------------------------------------------------------------------

    def why(self, job_id: str) -> WaitReason | None:
        """Why a job waits; None when it does not, or was not looked at yet."""
        aside = self.live.waiting.aside(job_id)
        if aside is not None:
            return aside[1]
        if job_id in self.transfers:
            return WaitReason(WaitCode.CLAIM, need=len(self.transfers[job_id].leaving), held=self.seats.migrating_for(job_id))
        group = self.ordering.group(job_id)
        if group is None:
            return None
        if group.reason is None and self.ordering.stopped_by(group.queue) is not None:
            return WaitReason(WaitCode.BEHIND, queue=group.queue)
        return group.reason

    @property
    def is_anybody_aside(self) -> bool:
        """Whether a job waits for a time, for siblings of its array, or for people."""
        return self.live.waiting.is_anybody_aside

    def waiting(self) -> list[JobAsk]:
        """All waiting jobs, in order of submission: also claimants of room that victims are leaving."""
        found = self.live.waiting.jobs() + [transfer.claimant.job for transfer in self.transfers.values()]
        return sorted(found, key=lambda job: (job.submitted_at, job.id))

    def claims(self) -> tuple[Claimed, ...]:
        """The claims under way, as values for another core."""
        return tuple(
            Claimed(
                name,
                claimant.placed.pool,
                claimant.placed.tasks,
                claimant.standing,
                transfer.held_rooms,
                self.seats.claimed(name),
                claimant.placed.hops,
                claimant.started_at,
            )
            for name, transfer in sorted(self.transfers.items())
            for claimant in (transfer.claimant,)
        )

    @property
    def next_pass_at(self) -> int | None:
        """The next moment at which time alone may change a decision; None: never."""
        live = self.live
        moments = [moment for moment in (live.timers.next_at, self.reservations.next_at) if moment is not None]
        if live.changes.is_to_look:
            moments.append(live.now)
        preemptible_at, reclaimable_at = live.evictable.next_at(claims=False), live.evictable.next_at(claims=True)
        if preemptible_at is not None and self.wakeups.has_any_refused:
            moments.append(preemptible_at)
        if reclaimable_at is not None and any(map(self.wakeups.has_claimers, self.machines.pools)):
            moments.append(reclaimable_at)
        given_at = self.seats.next_at if self.seats else None
        if given_at is not None:
            moments.append(given_at)
        return max(min(moments), live.now + 1) if moments else None
