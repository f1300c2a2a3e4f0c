"""Small gangs go on elsewhere so that a gang starts that fits in total but not in shape; and the room that is kept for them.

Nobody has a right to such a move, so it has to be worth it, and harm nobody:

- Only gangs that are smaller than the one that waits, of no higher priority, that may be evicted and have run for twice the least
  run time: so nothing is moved more than a few times an hour.
- Across tenants never what runs on a guarantee, nor what a tenant has booked for a time.
- Nothing that booked starts of others count on; where such a start is known, only gangs without a known end move.
- What all of them lose (since their last checkpoint, and their grace) is less than what the gang has waited in GPU-seconds, or
  still would have to until its own booked start.
- A bounded number (`Policy.moves`), within the brake on evictions, and only where all of them have a place, too
  (`defragment.py`); only those are considered that would have one as things are.

The room that a moved gang gets is its `Seat`: held, with its share of the limits, from the decision until it waits again, when it
starts there at once. It may overlap what others of the same move still hold, so nobody sits down before the one that claims has
started, when all who had to go are gone. Who does not come back within `RETURN_SECONDS` - it ended by itself, or was stopped -
loses the seat; who comes back and may not start (held, or a budget is spent) waits like everybody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from jobs.scheduling.core.defragment import Defragmented, Movable, defragment
from jobs.scheduling.core.place.placing import place
from jobs.scheduling.core.state.decisions import Admit, Decision, Reason
from jobs.scheduling.core.state.gangs import GangAsk, Placed
from jobs.scheduling.core.state.machines import WHOLE_MILLIS
from jobs.scheduling.core.state.work import ClaimedSeat, Job, Running, Seat, Shape, give_shares, take_shares
from tenants.quota.shares import Refusal, Shares, Standing

if TYPE_CHECKING:
    from jobs.scheduling.core.core import Core
    from jobs.scheduling.core.cycle import Pass
    from jobs.scheduling.core.state.ordering import Group

RETURN_SECONDS = 60  # An attempt that ended is put back into its queue by the same transaction; a sweep finds it within this.
MACHINES_MAX = 24  # Of a pool that are considered for one gang: those that few and cheap moves make fit for one task more.
TRIES_MAX = 64


class Moves:
    """The seats of one core, and the search for moves."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.seats: dict[str, Seat] = {}

    def __bool__(self) -> bool:
        return bool(self.seats)

    # --- Seats --------------------------------------------------------------------------------------------------------

    def keep(self, claimant: str, moved: Iterable[Running]) -> list[Seat]:
        """Place these, whose room was given back and whose shares were not, and keep that for them; who has no place any more
        is evicted like any other."""
        core, kept = self.core, []
        for one in sorted(moved, key=_order_of):
            placed = place(movable_of(one, 0).as_it_is, core.machines, (one.placed.pool,))
            if isinstance(placed, Placed):
                seat = self.seats[one.job.id] = Seat(one.job, placed, one.need, claimant)
                kept.append(seat)
            else:
                give_shares(core.shares, one.job.queue, one.need)
        return kept

    def moving_for(self, claimant: str) -> int:
        """How many move so that this one can start."""
        return sum(seat.claimant == claimant for seat in self.seats.values())

    def gone(self, one: Running, now: int) -> None:
        """One that moves has ended; its user holds what is kept for it."""
        seat = self.seats.get(one.job.id)
        if seat is not None:
            self.seats[one.job.id] = replace(seat, until=now + RETURN_SECONDS)
            self.core.people.take(self._sitting(seat))

    def back(self, job: Job) -> Reason | None:
        """Why a job that moved waits, for a moment, until it may sit down; None where nothing is kept for it."""
        seat = self.seats.get(job.id)
        if seat is None or not seat.until:
            return None
        is_same = job.gang == seat.job.gang and job.queue == seat.job.queue and seat.placed.pool in job.pools
        if job.withheld is None and job.not_before <= self.core.now and is_same:
            return Reason("moving", seat.placed.pool, job.queue)
        self.seats[job.id] = replace(seat, until=1)
        return None

    def vacate(self, job_id: str) -> None:
        """A job does not come back for its seat."""
        seat = self.seats.get(job_id)
        if seat is not None and seat.until:
            self.seats[job_id] = replace(seat, until=1)

    def give_up(self, claimant: str) -> None:
        """The one that claimed does not: who moved for it and is gone already waits like everybody."""
        for name in sorted(name for name, seat in self.seats.items() if seat.claimant == claimant):
            seat = self._remove(name)
            for task in seat.placed.tasks:
                self.core.machines.give(task.machine, task.ask, task.devices)
            self._line_up(name)

    def honour(self, now: int, decisions: list[Decision]) -> None:
        """Whoever is back starts where its seat is; a seat that nobody comes back for is given to others."""
        core = self.core
        for name in sorted(self.seats):
            seat = self.seats[name]
            if seat.claimant in core.transfers or not seat.until:
                continue
            job = self._waiting(name)
            if job is not None and self._may_sit(seat, job):
                self._remove(name)
                del core._aside[name]
                core.admit(Running(job, seat.placed, seat.need, now, core.standing(job.queue, seat.need)))
                decisions.append(Admit(name, seat.placed, core.running[name].standing))
            elif job is not None or now >= seat.until:
                self._release(name)

    def retake(self, shares: Shares) -> None:
        """Hold in other limits what is kept."""
        for seat in self.seats.values():
            take_shares(shares, seat.job.queue, seat.need)

    def recount(self) -> None:
        """After other caps on users."""
        for seat in self.seats.values():
            if seat.until:
                self.core.people.take(self._sitting(seat))

    def restore(self, seat: Seat) -> None:
        """Keep a seat that was kept before, for one that is gone."""
        core = self.core
        for task in seat.placed.tasks:
            core.machines.take(task.machine, task.ask, task.devices)
        take_shares(core.shares, seat.job.queue, seat.need)
        self.seats[seat.job.id] = seat
        core.people.take(self._sitting(seat))

    def seat_of(self, kept: ClaimedSeat, claimant: str) -> Seat | None:
        """The seat of one that moves for a claim that is restored: it runs still, or waits again; None where it does neither."""
        placed = Placed(kept.pool, kept.tasks)
        one = self.core.running.get(kept.id)
        if one is not None and not kept.until:
            return Seat(one.job, placed, one.need, claimant)
        job = self.core.lines.job(kept.id)
        return Seat(job, placed, self.core.need_of(placed), claimant, kept.until) if job is not None and kept.until else None

    def keep_again(self, seat: Seat) -> None:
        """Keep a seat whose machines are taken already."""
        self.seats[seat.job.id] = seat
        if seat.until:
            take_shares(self.core.shares, seat.job.queue, seat.need)
            self.core.people.take(self._sitting(seat))
            self.core.withdraw(seat.job.id)
            self.core.submit(seat.job)

    def claimed(self, claimant: str) -> tuple[ClaimedSeat, ...]:
        """Those of a claim under way, as they are kept beyond a core."""
        found = [seat for _, seat in sorted(self.seats.items()) if seat.claimant == claimant]
        return tuple(ClaimedSeat(seat.job.id, seat.placed.pool, seat.placed.tasks, seat.until) for seat in found)

    def kept(self) -> tuple[Seat, ...]:
        """Those that outlive a core: of claims that are over. Those of a claim under way are kept with it."""
        return tuple(seat for _, seat in sorted(self.seats.items()) if seat.until and seat.claimant not in self.core.transfers)

    @property
    def next_at(self) -> int | None:
        """When the first seat is given to others."""
        ends = [one.until for one in self.seats.values() if one.until and one.claimant not in self.core.transfers]
        return max(min(ends), self.core.now + 1) if ends else None

    def _sitting(self, seat: Seat) -> Running:
        return Running(seat.job, seat.placed, seat.need, self.core.now, Standing.BORROWED)

    def _waiting(self, name: str) -> Job | None:
        job, reason = self.core._aside.get(name, (None, None))
        return job if reason is not None and reason.code == "moving" else None

    def _may_sit(self, seat: Seat, job: Job) -> bool:
        at = self.core.machines.at
        return not any(at[task.machine].blocked for task in seat.placed.tasks) and not self.core.is_last_of_array(job)

    def _remove(self, name: str) -> Seat:
        """Keep a seat no more; what it holds of machines is left to the caller."""
        seat = self.seats.pop(name)
        give_shares(self.core.shares, seat.job.queue, seat.need)
        if seat.until:
            self.core.people.give(self._sitting(seat))
        return seat

    def _release(self, name: str) -> None:
        core, seat = self.core, self._remove(name)
        for task in seat.placed.tasks:
            core.machines.give(task.machine, task.ask, task.devices)
        freed = {task.machine for task in seat.placed.tasks}
        core.promises.settle(freed)
        core.freed(freed, seat.need)
        self._line_up(name)

    def _line_up(self, name: str) -> None:
        job = self._waiting(name)
        if job is not None:
            del self.core._aside[name]
            self.core.submit(job)

    # --- Moves --------------------------------------------------------------------------------------------------------

    def try_for(self, made: Pass, group: Group, job: Job, pool: int) -> bool:
        """Move others so that this one can start; whether that was decided."""
        core, shape, now = self.core, group.shape, made.now
        if now - job.submitted_at < core.policy.moves_after_seconds or not self._could_fit(shape, pool):
            return False
        need = shape.least[pool]
        if any(isinstance(core.shares.room(job.queue, at, amount), Refusal) for at, amount in need):
            return False
        if core.windows and core.windows.refusal(job, need, now, delay=core.policy.grace_seconds) is not None:
            return False
        own = [job.id] if job.id in core.promises.by_job else []
        if core.promises.denies(job, need, sum(role.minimum for role in shape.gang.roles), own) is not None:
            return False
        core.promises.suspend(own)
        try:
            moved = self._find(job, shape, pool, now)
            if not moved or made.brake(len(moved)) is not None:
                return False
            made.clear(job, shape, pool, moved, {one.job.id: self._cost(one, now) for one in moved}, moves=True)
            return True
        finally:
            core.promises.resume()

    def _could_fit(self, shape: Shape, pool: int) -> bool:
        """Whether there is room in total, which a gang within one pool needs."""
        need = dict(shape.least[pool])
        if set(need) != {pool}:
            return False
        free = self.core.machines.free(pool)
        left = (free.cpu_millis, free.memory_bytes, free.gpu_millis)
        return all(ask <= there for ask, there in zip(need[pool], left, strict=True))

    def _find(self, job: Job, shape: Shape, pool: int, now: int) -> list[Running]:
        """Who moves; nobody where no moves do, or where they are not worth it."""
        core = self.core
        able = self._near(shape, pool, self._placeable(self._movable(job, shape, pool, now)))
        if not able:
            return []
        movables = [movable_of(one, self._cost(one, now)) for one in able]
        found = defragment(shape.gang, core.machines, (pool,), movables, moves_max=core.policy.moves, tries_max=TRIES_MAX)
        if not isinstance(found, Defragmented) or not found.moves or found.cost > self._gain(job, shape, now):
            return []
        chosen = {move.name for move in found.moves}
        return sorted((one for one in able if one.job.id in chosen), key=lambda one: one.key)

    def _gain(self, job: Job, shape: Shape, now: int) -> int:
        """What a start now is worth, as a cost is counted: as long again as it has waited, or until its booked start."""
        booked = self.core.promises.by_job.get(job.id)
        seconds = now - job.submitted_at if booked is None else booked.at - now - self.core.policy.grace_seconds
        return max(0, seconds) * max(shape.gpu_millis, 1)

    def _cost(self, one: Running, now: int) -> int:
        return one.cost(now) + self.core.policy.grace_seconds * max(one.gpu_millis, 1)

    def _movable(self, job: Job, shape: Shape, pool: int, now: int) -> Iterable[Running]:
        """Everybody who may be asked to move, in no order."""
        core = self.core
        top = self._top(job.queue)
        others_booked = any(name != job.id for name in core.promises.by_job)
        since = now - max(2 * core.policy.least_runtime_seconds, 1)  # Whoever starts in this very pass does not move in it.
        for queue in core.evictable.queues(pool):
            for one in core.evictable.leavers(pool, queue, None).gangs:
                if one.started_at > since or one.gpu_millis >= shape.gpu_millis > 0:
                    continue
                if one.job.priority > job.priority or (one.job.array and one.job.parallel):
                    continue
                if one.placed.pool != pool or not one.job.gang.roles or core.need_of(one.placed) != one.need:
                    continue
                if others_booked and core.promises.counts_on(one, job):
                    continue
                if core.windows and self._is_booked(one, job, now):
                    continue
                if self._top(queue) != top and self._is_guaranteed(one):
                    continue
                yield one

    def _top(self, queue: int) -> int:
        """The queue below root, which is the tenant's."""
        path = self.core.shares.path[queue]
        return path[-2] if len(path) > 1 else queue

    def _is_booked(self, one: Running, job: Job, now: int) -> bool:
        """Whether it runs on what a tenant has booked, or would be in the way of that when it starts again."""
        windows, grace = self.core.windows, self.core.policy.grace_seconds
        return windows.keeps(one, job) or windows.refusal(one.job, one.need, now, delay=grace) is not None

    def _is_guaranteed(self, one: Running) -> bool:
        """Whether it stands on a guarantee as things are now."""
        shares, queue = self.core.shares, one.job.queue
        give_shares(shares, queue, one.need)
        standing = self.core.standing(queue, one.need)
        take_shares(shares, queue, one.need)
        return standing is Standing.GUARANTEED

    def _placeable(self, movable: Iterable[Running]) -> list[Running]:
        """Those that would have a place as things are. Equal ones are asked once."""
        machines, known, found = self.core.machines, dict[tuple[GangAsk, int], bool](), []
        for one in movable:
            gang, pool = movable_of(one, 0).as_it_is, one.placed.pool
            fits = known.get((gang, pool))
            if fits is None:
                mark = machines.mark()
                fits = known[gang, pool] = isinstance(place(gang, machines, (pool,)), Placed)
                machines.rewind(mark)
            if fits:
                found.append(one)
        return found

    def _near(self, shape: Shape, pool: int, able: list[Running]) -> list[Running]:
        """Those on the machines that the fewest and cheapest moves make fit for one task more, as far as sums tell."""
        on: dict[int, list[tuple[int, int, Running]]] = {}
        each = max(role.ask.gpu_millis for role in shape.gang.roles)
        for one in able:
            sums: dict[int, int] = {}
            for task in one.placed.tasks:
                sums[task.machine] = sums.get(task.machine, 0) + (task.ask.gpu_millis if each else task.ask.cpu_millis)
            for machine, amount in sums.items():
                on.setdefault(machine, []).append((amount, one.cost(self.core.now), one))
        ranked = []
        for machine, here in on.items():
            moves, cost = self._least_moves(machine, here, shape, each)
            if moves <= self.core.policy.moves:
                ranked.append((moves, cost, machine))
        found = {one.job.id: one for _, _, machine in sorted(ranked)[:MACHINES_MAX] for _, _, one in on[machine]}
        return [found[name] for name in sorted(found)]

    def _least_moves(self, machine: int, here: Collection[tuple[int, int, Running]], shape: Shape, each: int) -> tuple[int, int]:
        """How many have to leave a machine at least until it takes a task more, and what the largest of them cost."""
        one = self.core.machines.class_of[machine]
        if each >= WHOLE_MILLIS:
            missing = each - one.whole * WHOLE_MILLIS % each
        elif each:
            missing = each
        else:
            ask = max(role.ask.cpu_millis for role in shape.gang.roles)
            missing = ask - one.cpu % ask if ask else 0
        moves = cost = 0
        for amount, price, _ in sorted(here, key=lambda entry: (-entry[0], entry[1], entry[2].key)):
            if missing <= 0:
                break
            missing -= amount
            moves, cost = moves + 1, cost + price
        return (moves, cost) if missing <= 0 else (1 << 30, 0)


def movable_of(one: Running, cost: int) -> Movable:
    return Movable(one.job.id, cost, one.job.gang, one.placed.tasks, (one.placed.pool,))


def _order_of(one: Running) -> tuple[int, str]:
    """The order in which moved gangs are placed, as `defragment` does."""
    return (-sum(task.ask.gpu_millis for task in one.placed.tasks), one.job.id)
