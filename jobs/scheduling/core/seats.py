"""The room that is kept for gangs that go on elsewhere so that another may start (`migrate.py`).

It is a `Seat`: held, with its share of the limits, from the decision until the gang waits again, when it starts there at once. A
seat may overlap what others of the same migration still hold, so nobody sits down before the gang that claims has started, when
all who had to go are gone. A gang that does not come back within `RETURN_SECONDS` - it ended by itself, or was stopped - loses
the seat; one that comes back and may not start (held, or a budget is spent) waits like all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from jobs.scheduling.core.defragment import Movable
from jobs.scheduling.core.place.gangs import Placed
from jobs.scheduling.core.place.placing import place
from jobs.scheduling.core.reservations import BackfillReservations
from jobs.scheduling.core.state.decisions import Reason
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.work import ClaimedSeat, Job, Running, Seat, give_shares, take_shares
from tenants.quota.shares import Shares, Standing

RETURN_SECONDS = 60  # An attempt that ended is put back into its queue by the same transaction; a sweep finds it within this.


class Seats:
    """All seats that are kept, by job."""

    def __init__(self, live: Live, reservations: BackfillReservations) -> None:
        self.live = live
        self.reservations = reservations
        self.by_job: dict[str, Seat] = {}

    def __bool__(self) -> bool:
        return bool(self.by_job)

    def keep(self, claimant: str, moved: Iterable[Running]) -> list[Seat]:
        """Place these, whose room was given back and whose shares were not, and keep that for them; who has no place any more
        is evicted like any other."""
        live, kept = self.live, []
        for one in sorted(moved, key=_order_of):
            placed = place(movable_of(one, 0).as_it_is, live.machines, (one.placed.pool,))
            if isinstance(placed, Placed):
                seat = self.by_job[one.job.id] = Seat(one.job, placed, one.need, claimant)
                kept.append(seat)
            else:
                give_shares(live.shares, one.job.queue, one.need)
        return kept

    def moving_for(self, claimant: str) -> int:
        """How many move so that this one can start."""
        return sum(seat.claimant == claimant for seat in self.by_job.values())

    def gone(self, one: Running, now: int) -> None:
        """One that moves has ended; its user holds what is kept for it."""
        seat = self.by_job.get(one.job.id)
        if seat is not None:
            self.by_job[one.job.id] = replace(seat, until=now + RETURN_SECONDS)
            self.live.holdings.take(self._sitting(seat))

    def submit(self, job: Job) -> None:
        """A job waits from now on: for its seat where one is kept, else with all others."""
        if self.live.waiting.withdraw(job.id):
            self.reservations.look_from.clear()
        self.reservations.comes(job)
        moving = self.back(job) if self.by_job else None
        if moving is None:
            self.live.waiting.submit(job, self.live.now)
        else:
            self.live.waiting.set_aside(job, moving)

    def back(self, job: Job) -> Reason | None:
        """Why a job that moved waits, for a moment, until it may sit down; None where nothing is kept for it."""
        seat = self.by_job.get(job.id)
        if seat is None or not seat.until:
            return None
        is_same = job.gang == seat.job.gang and job.queue == seat.job.queue and seat.placed.pool in job.pools
        if job.withheld is None and job.not_before <= self.live.now and is_same:
            return Reason("moving", seat.placed.pool, job.queue)
        self.by_job[job.id] = replace(seat, until=1)
        return None

    def vacate(self, job_id: str) -> None:
        """A job does not come back for its seat."""
        seat = self.by_job.get(job_id)
        if seat is not None and seat.until:
            self.by_job[job_id] = replace(seat, until=1)

    def give_up(self, claimant: str) -> None:
        """The one that claimed does not: who moved for it and is gone already waits like everybody."""
        for name in sorted(name for name, seat in self.by_job.items() if seat.claimant == claimant):
            seat = self._remove(name)
            for task in seat.placed.tasks:
                self.live.machines.give(task.machine, task.ask, task.devices)
            self._line_up(name)

    def taken_again(self) -> Iterator[Seat]:
        """Seats whose gangs are back and may sit down: they are kept no more, and their machines are left to the caller, who
        admits each before the next. What nobody comes back for is given to others."""
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
        """Hold in other limits what is kept."""
        for seat in self.by_job.values():
            take_shares(shares, seat.job.queue, seat.need)

    def recount(self) -> None:
        """After other caps on users."""
        for seat in self.by_job.values():
            if seat.until:
                self.live.holdings.take(self._sitting(seat))

    def restore(self, seat: Seat) -> None:
        """Keep a seat that was kept before, for one that is gone."""
        live = self.live
        for task in seat.placed.tasks:
            live.machines.take(task.machine, task.ask, task.devices)
        take_shares(live.shares, seat.job.queue, seat.need)
        self.by_job[seat.job.id] = seat
        live.holdings.take(self._sitting(seat))

    def seat_of(self, kept: ClaimedSeat, claimant: str) -> Seat | None:
        """The seat of one that moves for a claim that is restored: it runs still, or waits again; None where it does neither."""
        placed = Placed(kept.pool, kept.tasks)
        one = self.live.running.get(kept.id)
        if one is not None and not kept.until:
            return Seat(one.job, placed, one.need, claimant)
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
        """Those of a claim under way, as they are kept beyond a live."""
        found = [seat for _, seat in sorted(self.by_job.items()) if seat.claimant == claimant]
        return tuple(ClaimedSeat(seat.job.id, seat.placed.pool, seat.placed.tasks, seat.until) for seat in found)

    def kept(self) -> tuple[Seat, ...]:
        """Those that outlive a core: of claims that are over. Those of a claim under way are kept with it."""
        return tuple(seat for _, seat in sorted(self.by_job.items()) if seat.until and seat.claimant not in self.live.transfers)

    @property
    def next_at(self) -> int | None:
        """When the first seat is given to others."""
        ends = [one.until for one in self.by_job.values() if one.until and one.claimant not in self.live.transfers]
        return max(min(ends), self.live.now + 1) if ends else None

    def _sitting(self, seat: Seat) -> Running:
        return Running(seat.job, seat.placed, seat.need, self.live.now, Standing.BORROWED)

    def _waiting(self, name: str) -> Job | None:
        found = self.live.waiting.aside(name)
        return found[0] if found is not None and found[1].code == "moving" else None

    def _may_sit(self, seat: Seat, job: Job) -> bool:
        at = self.live.machines.at
        return not any(at[task.machine].blocked for task in seat.placed.tasks) and not self.live.is_last_of_array(job)

    def _remove(self, name: str) -> Seat:
        """Keep a seat no more; what it holds of machines is left to the caller."""
        seat = self.by_job.pop(name)
        give_shares(self.live.shares, seat.job.queue, seat.need)
        if seat.until:
            self.live.holdings.give(self._sitting(seat))
        return seat

    def _release(self, name: str) -> None:
        live, seat = self.live, self._remove(name)
        for task in seat.placed.tasks:
            live.machines.give(task.machine, task.ask, task.devices)
        freed = {task.machine for task in seat.placed.tasks}
        self.reservations.settle(freed)
        self.reservations.freed(freed, seat.need)
        self._line_up(name)

    def _line_up(self, name: str) -> None:
        job = self._waiting(name)
        if job is not None:
            self.live.waiting.withdraw(name)
            self.submit(job)


def movable_of(one: Running, cost: int) -> Movable:
    return Movable(one.job.id, cost, one.job.gang, one.placed.tasks, (one.placed.pool,))


def _order_of(one: Running) -> tuple[int, str]:
    """The order in which moved gangs are placed, as `defragment` does."""
    return (-sum(task.ask.gpu_millis for task in one.placed.tasks), one.job.id)
