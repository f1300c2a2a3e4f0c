"""Seats: room that is kept for gangs that go on elsewhere so that another gang may start (`migrate.py`).

A `Seat` is held, with its share of the limits, from the decision until the gang waits again, when it starts there at once. A seat
may overlap room that other gangs of the same migration still hold, so no gang takes its seat before the claimant has started,
when all victims are gone. A gang that does not come back within `RETURN_SECONDS` - it ended by itself, or was stopped - loses the
seat; a gang that comes back and may not start (held, or a budget is spent) waits like all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from jobs.scheduling.core.defragment import Migratable
from jobs.scheduling.core.place.gangs import Placed
from jobs.scheduling.core.place.placing import place, redo, undo
from jobs.scheduling.core.reservations import BackfillReservations
from jobs.scheduling.core.state.decisions import WaitReason
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.work import ClaimedSeat, JobAsk, Running, Seat, give_shares, take_shares
from kernel.wait_codes import WaitCode
from tenants.capacity.quota.shares import Shares, Standing

RETURN_SECONDS = 60  # An attempt that ended is put back into its queue by the same transaction; a sweep finds it within this.


class Seats:
    """All seats that are kept, by job."""

    def __init__(self, live: Live, reservations: BackfillReservations) -> None:
        self.live = live
        self.reservations = reservations
        self.by_job: dict[str, Seat] = {}

    def __bool__(self) -> bool:
        return bool(self.by_job)

    def keep(self, claimant: str, migrated: Iterable[Running]) -> list[Seat]:
        """Place gangs whose room was given back and whose shares were not, and keep the places for them. A gang without a place
        is evicted like any other."""
        live, kept = self.live, []
        for running in sorted(migrated, key=_order_of):
            placed = place(migratable_of(running, 0).as_it_is, live.machines, (running.placed.pool,))
            if isinstance(placed, Placed):
                seat = self.by_job[running.job.id] = Seat(running.job, placed, running.need, claimant)
                kept.append(seat)
            else:
                give_shares(live.shares, running.job.queue, running.need)
        return kept

    def migrating_for(self, claimant: str) -> int:
        """How many gangs migrate for a claimant."""
        return sum(seat.claimant == claimant for seat in self.by_job.values())

    def gone(self, running: Running, now: int) -> None:
        """A migrating gang has ended; from now on its seat counts for its user."""
        seat = self.by_job.get(running.job.id)
        if seat is not None:
            self.by_job[running.job.id] = replace(seat, until=now + RETURN_SECONDS)
            self.live.holdings.take(self._sitting(seat))

    def submit(self, job: JobAsk) -> None:
        """A job waits from now on: for its seat where one is kept, else with all others."""
        self.live.waiting.withdraw(job.id)
        migrating = self.back(job) if self.by_job else None
        if migrating is None:
            self.live.waiting.submit(job, self.live.now)
        else:
            self.live.waiting.set_aside(job, migrating)

    def back(self, job: JobAsk) -> WaitReason | None:
        """Why a job that migrated waits, for a moment, until it may take its seat; None where it has none."""
        seat = self.by_job.get(job.id)
        if seat is None or not seat.until:
            return None
        is_same = job.gang == seat.job.gang and job.queue == seat.job.queue and seat.placed.pool in job.pools
        if job.withheld is None and job.not_before <= self.live.now and is_same:
            return WaitReason(WaitCode.MOVING, seat.placed.pool, job.queue)
        self.by_job[job.id] = replace(seat, until=1)
        return None

    def vacate(self, job_id: str) -> None:
        """A job does not return to its seat."""
        seat = self.by_job.get(job_id)
        if seat is not None and seat.until:
            self.by_job[job_id] = replace(seat, until=1)

    def give_up(self, claimant: str) -> None:
        """A claim was given up: jobs that migrated for it and are gone already wait like all others."""
        for name in sorted(name for name, seat in self.by_job.items() if seat.claimant == claimant):
            seat = self._remove(name)
            undo(seat.placed, self.live.machines)
            self._line_up(name)

    def taken_again(self) -> Iterator[Seat]:
        """Seats whose gangs are back and may take them: they are kept no more, and their machines are left to the caller, who
        admits each gang before the next. Seats whose gangs did not come back in time are freed."""
        for name in sorted(self.by_job):
            seat = self.by_job[name]
            if seat.claimant in self.live.transfers or not seat.until:
                continue
            job = self._waiting(name)
            if job is not None and self._may_sit(seat, job):
                self._remove(name)
                self.live.waiting.withdraw(name)
                yield replace(seat, job=job)
            elif job is not None or self.live.now >= seat.until:
                self._release(name)

    def retake(self, shares: Shares) -> None:
        """Hold all seats in other limits."""
        for seat in self.by_job.values():
            take_shares(shares, seat.job.queue, seat.need)

    def recount(self) -> None:
        """Count all seats again, after other caps on users."""
        for seat in self.by_job.values():
            if seat.until:
                self.live.holdings.take(self._sitting(seat))

    def restore(self, seat: Seat) -> None:
        """Keep a seat again, for a gang that has left already."""
        live = self.live
        redo(seat.placed, live.machines)
        take_shares(live.shares, seat.job.queue, seat.need)
        self.by_job[seat.job.id] = seat
        live.holdings.take(self._sitting(seat))

    def seat_of(self, kept: ClaimedSeat, claimant: str) -> Seat | None:
        """The seat of a gang that migrates for a restored claim and still runs, or waits again; None where it does neither."""
        placed = Placed(kept.pool, kept.tasks)
        running = self.live.running.get(kept.id)
        if running is not None and not kept.until:
            return Seat(running.job, placed, running.need, claimant)
        job = self.live.ordering.job(kept.id)
        return Seat(job, placed, self.live.need_of(placed), claimant, kept.until) if job is not None and kept.until else None

    def keep_again(self, seat: Seat) -> None:
        """Keep a seat whose machines are taken already."""
        self.by_job[seat.job.id] = seat
        if seat.until:
            take_shares(self.live.shares, seat.job.queue, seat.need)
            self.live.holdings.take(self._sitting(seat))
            self.submit(seat.job)

    def claimed(self, claimant: str) -> tuple[ClaimedSeat, ...]:
        """The seats of a claim under way, as values for another core."""
        found = [seat for _, seat in sorted(self.by_job.items()) if seat.claimant == claimant]
        return tuple(ClaimedSeat(seat.job.id, seat.placed.pool, seat.placed.tasks, seat.until) for seat in found)

    def kept(self) -> tuple[Seat, ...]:
        """The seats of claims that are over. Seats of a claim under way are kept with the claim (`claimed`)."""
        return tuple(seat for _, seat in sorted(self.by_job.items()) if seat.until and seat.claimant not in self.live.transfers)

    @property
    def next_at(self) -> int | None:
        """When the first seat is freed because its gang did not come back."""
        ends = [seat.until for seat in self.by_job.values() if seat.until and seat.claimant not in self.live.transfers]
        return max(min(ends), self.live.now + 1) if ends else None

    def _sitting(self, seat: Seat) -> Running:
        return Running(seat.job, seat.placed, seat.need, self.live.now, Standing.BORROWED)

    def _waiting(self, name: str) -> JobAsk | None:
        found = self.live.waiting.aside(name)
        return found[0] if found is not None and found[1].code == WaitCode.MOVING else None

    def _may_sit(self, seat: Seat, job: JobAsk) -> bool:
        at = self.live.machines.at
        return not any(at[task.machine].blocked for task in seat.placed.tasks) and not self.live.is_last_of_array(job)

    def _remove(self, name: str) -> Seat:
        """Keep a seat no more; its machines are left to the caller."""
        seat = self.by_job.pop(name)
        give_shares(self.live.shares, seat.job.queue, seat.need)
        if seat.until:
            self.live.holdings.give(self._sitting(seat))
            self.live.changes.give_back(self.live.holdings.places(seat.job))
        return seat

    def _release(self, name: str) -> None:
        live, seat = self.live, self._remove(name)
        undo(seat.placed, live.machines)
        freed = {task.machine for task in seat.placed.tasks}
        self.reservations.settle(freed)
        self.reservations.freed(freed, seat.need)
        self._line_up(name)

    def _line_up(self, name: str) -> None:
        job = self._waiting(name)
        if job is not None:
            self.live.waiting.withdraw(name)
            self.submit(job)


def migratable_of(running: Running, cost: int) -> Migratable:
    return Migratable(running.job.id, cost, running.job.gang, running.placed.tasks, (running.placed.pool,))


def _order_of(running: Running) -> tuple[int, str]:
    """The order in which migrated gangs are placed, as `defragment` does."""
    return (-sum(task.ask.gpu_millis for task in running.placed.tasks), running.job.id)
