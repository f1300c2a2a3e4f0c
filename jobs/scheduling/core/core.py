"""The state of scheduling that is kept from pass to pass, and what changes it.

It is fed with what happens (`submit`, `withdraw`, `started`, `ended`, `machine_changed`, `limits_changed`) and asked by
`decide(now)` what to do. What it decides, it takes as done: an admitted gang runs, an evicted one is leaving. So the driver only
tells what it did not hear from here. No clock, no chance, no settings: equal input gives equal decisions, in whatever order what
happened between two passes is told.

Who was refused is looked at again only after something that may change its fate: `wakeups.py` says what, and wakes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from jobs.scheduling.core.advance import AdvanceReservations
from jobs.scheduling.core.claims import Claims
from jobs.scheduling.core.cycle import Parts, run_pass
from jobs.scheduling.core.occupancy import Occupancy
from jobs.scheduling.core.place.gangs import Placed
from jobs.scheduling.core.place.machines import Machine, Machines
from jobs.scheduling.core.place.scores import Mix, PoolRules
from jobs.scheduling.core.placements import Placements
from jobs.scheduling.core.reservations import BackfillReservations
from jobs.scheduling.core.seats import Seats
from jobs.scheduling.core.state.decisions import Decision, Reason
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.policy import Policy as Policy
from jobs.scheduling.core.state.timers import Timer, What
from jobs.scheduling.core.state.work import Claimed, Job, Need, Running, take_shares
from jobs.scheduling.core.wakeups import WakeUps
from tenants.quota.bookings import Booked
from tenants.quota.caps import UserCap
from tenants.quota.shares import Shares


class Core:
    """One scheduler. `machines` and `shares` belong to it; nobody else changes them."""

    def __init__(
        self,
        machines: Machines,
        shares: Shares,
        policy: Policy | None = None,
        *,
        caps: Iterable[UserCap] = (),
        windows: Iterable[Booked] = (),
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
        self.windows = AdvanceReservations(live)
        self.reservations = BackfillReservations(live, self.windows, self.placements)
        self.seats = Seats(live, self.reservations)
        claims = Claims(live, self.reservations, self.seats)
        self.occupancy = Occupancy(live, self.windows, self.reservations, self.seats, claims)
        self.wakeups = WakeUps(live, self.windows, self.reservations, self.placements)
        self._parts = Parts(
            live, self.placements, self.windows, self.reservations, self.seats, claims, self.occupancy, self.wakeups
        )
        self.windows_changed(windows)

    @property
    def now(self) -> int:
        """The time of the last pass."""
        return self.live.now

    @property
    def shares(self) -> Shares:
        """Limits, and what is held of them."""
        return self.live.shares

    # --- What happens -------------------------------------------------------------------------------------------------

    def submit(self, job: Job) -> None:
        """A job waits from now on."""
        assert job.id not in self.running, "it runs already"
        self.seats.submit(job)

    def withdraw(self, job_id: str) -> None:
        """A job waits no longer, and does not run either."""
        self.seats.vacate(job_id)
        if self.live.waiting.withdraw(job_id):
            self.reservations.look_from.clear()
        elif job_id in self.transfers:
            self.ended(job_id)

    def started(self, job: Job, placed: Placed, at: int, need: Need | None = None) -> None:
        """A gang runs that was not admitted here: at the beginning, or by others' doing. `need`: what it counts for in quotas,
        where that is not what it holds on machines that are known."""
        if job.id in self.live.waiting:
            self.withdraw(job.id)
        for task in placed.tasks:
            self.machines.take(task.machine, task.ask, task.devices)
        self.reservations.opened()
        need = self.live.need_of(placed) if need is None else need
        self.occupancy.admit(Running(job, placed, need, at, self.live.standing(job.queue, need)))

    def told_to_leave(self, job_id: str) -> None:
        """A gang holds its machines until it has ended, which it was told to by others: nobody need evict it."""
        self.live.told_to_leave(job_id)

    def claim_again(
        self, job_id: str, victims: Iterable[str], moving: Collection[str] = (), *, kept: Claimed | None = None
    ) -> bool:
        """A waiting job claims the room of those who leave for it, as was decided before; whether it still could."""
        return self.occupancy.claim_again(job_id, victims, moving, kept=kept)

    def ended(self, job_id: str) -> None:
        """A gang holds nothing any more. One that claims gives up its claim."""
        self.occupancy.ended(job_id)

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
        self.placements.forget(facts.pool)
        self.windows.machine_changed()
        self.reservations.settle((index,), "machine")
        self.reservations.opened()
        self.reservations.forget_unplannable()
        self.wakeups.wake([group for group in self.ordering.groups() if facts.pool in group.shape.touches])

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
        self.seats.retake(shares)
        if self.live.history_at is not None and not shares.history():
            shares.recall(self.shares.history(), self.live.history_at)
        self.live.shares = shares
        self.wakeups.wake(self.ordering.groups())
        self.ordering.follow(shares)
        self.reservations.forget_unplannable()
        self.reservations.recheck_limits()

    def windows_changed(self, windows: Iterable[Booked]) -> None:
        """Other bookings of tenants."""
        had_windows = bool(self.windows)
        self.windows.set(windows, self.reservations.by_job.values())
        if bool(self.windows) != had_windows:
            self.live.waiting.has_windows = bool(self.windows)
            self.live.waiting.line_up_again()
        for at, pool in self.windows.moments():
            if at > self.now:
                self.live.timers.set(Timer(at, What.BOUNDARY, pool))
        self.wakeups.wake(self.ordering.groups())
        self.reservations.forget_unplannable()
        if self.windows:
            self.reservations.recheck_windows()

    def caps_changed(self, caps: Iterable[UserCap]) -> None:
        """Other caps on users."""
        self.holdings.set(caps, self.running.values())
        self.seats.recount()
        self.wakeups.by_user.clear()
        self.live.waiting.line_up_again()

    def decide(self, now: int) -> tuple[Decision, ...]:
        """One pass at this moment."""
        return tuple(run_pass(self._parts, now))

    # --- Questions ----------------------------------------------------------------------------------------------------

    def why(self, job_id: str) -> Reason | None:
        """Why a job waits; None when it does not, or was not looked at yet."""
        aside = self.live.waiting.aside(job_id)
        if aside is not None:
            return aside[1]
        if job_id in self.transfers:
            return Reason("claim", need=len(self.transfers[job_id].leaving), held=self.seats.moving_for(job_id))
        group = self.ordering.group(job_id)
        if group is None:
            return None
        if group.reason is None and self.ordering.stopped_by(group.queue) is not None:
            return Reason("behind", queue=group.queue)
        return group.reason

    @property
    def is_anybody_aside(self) -> bool:
        """Whether somebody waits for a time, siblings, or its people."""
        return self.live.waiting.is_anybody_aside

    def waiting(self) -> list[Job]:
        """All who wait, in order of submission: also those who claim room that others are leaving."""
        found = self.live.waiting.jobs() + [made.claimant.job for made in self.transfers.values()]
        return sorted(found, key=lambda job: (job.submitted_at, job.id))

    def claims(self) -> tuple[Claimed, ...]:
        """The claims under way, as they are kept beyond a core."""
        return tuple(
            Claimed(
                name, one.placed.pool, one.placed.tasks, one.standing, made.held_rooms, self.seats.claimed(name), one.placed.hops
            )
            for name, made in sorted(self.transfers.items())
            for one in (made.claimant,)
        )

    @property
    def next_ring(self) -> int | None:
        """When time alone may change something; None when never."""
        live = self.live
        moments = [one for one in (live.timers.next_at, self.reservations.next_at) if one is not None]
        if live.changes.is_to_look:
            moments.append(live.now)
        young_until, unclaimed_until = live.evictable.next_at(claims=False), live.evictable.next_at(claims=True)
        if young_until is not None and self.wakeups.is_anybody:
            moments.append(young_until)
        if unclaimed_until is not None and any(map(self.wakeups.has_claimers, self.machines.pools)):
            moments.append(unclaimed_until)
        given_at = self.seats.next_at if self.seats else None
        if given_at is not None:
            moments.append(given_at)
        return max(min(moments), live.now + 1) if moments else None
