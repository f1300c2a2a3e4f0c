"""Room that some leave and one claims.

A `Transfer` moves the room at once, from those who leave to the one that claims it, and holds what is left over until they are
gone: nobody else gets any of it, and what is decided meanwhile sees the state to come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from jobs.scheduling.core.place.gangs import Placed, PlacedTask, at_least
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Machines, TaskAsk
from jobs.scheduling.core.place.placing import place
from jobs.scheduling.core.reservations import BackfillReservations
from jobs.scheduling.core.seats import Seats
from jobs.scheduling.core.state.held_room import hold, release
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.work import Claimed, HeldRoom, Job, Running, Shape, Transfer, give_shares, held_by, take_shares
from tenants.quota.shares import Refusal, Standing


class Claims:
    """The claims under way: how they begin, are restored, are given up, and come true."""

    def __init__(self, live: Live, reservations: BackfillReservations, seats: Seats) -> None:
        self.live = live
        self.reservations = reservations
        self.seats = seats

    def could_begin(self, job: Job, shape: Shape, pool: int, victims: Sequence[Running], moving: Collection[str] = ()) -> bool:
        """Whether the gang, at its smallest, could have what these hold and what is free."""
        live = self.live
        leaving = [one for one in victims if one.job.id not in moving]
        for one in leaving:
            give_shares(live.shares, one.job.queue, one.need)
        fits = not any(isinstance(live.shares.room(job.queue, at, amount), Refusal) for at, amount in shape.least[pool])
        for one in leaving:
            take_shares(live.shares, one.job.queue, one.need)
        if not fits:
            return False
        mark = live.machines.mark()
        for one in victims:
            for task in one.placed.tasks:
                live.machines.give(task.machine, task.ask, task.devices)
        fits = isinstance(place(at_least(shape.gang), live.machines, (pool,)), Placed)
        live.machines.rewind(mark)
        return fits

    def begin(
        self, job: Job, shape: Shape, pool: int, victims: Sequence[Running], now: int, moving: Collection[str] = ()
    ) -> Transfer:
        """Move the room of the victims to the gang, at its smallest, and hold what is left over until they are gone. Those who
        are `moving` keep their share of the limits and get room elsewhere (`seats.py`)."""
        live = self.live
        for one in victims:
            if one.job.id not in moving:
                give_shares(live.shares, one.job.queue, one.need)
            for task in one.placed.tasks:
                live.machines.give(task.machine, task.ask, task.devices)
        need = shape.least[pool]
        standings = [live.shares.room(job.queue, at, amount) for at, amount in need]
        placed = place(at_least(shape.gang), live.machines, (pool,))
        assert isinstance(placed, Placed), "what was found to fit does not"
        seats = self.seats.keep(job.id, [one for one in victims if one.job.id in moving])
        taken = [*placed.tasks, *(task for seat in seats for task in seat.placed.tasks)]
        held_rooms = _left_over(live.machines, [task for one in victims for task in one.placed.tasks], taken)
        hold(live.machines, held_rooms)
        standing = max(one for one in standings if isinstance(one, Standing))
        claimant = Running(job, placed, need, now, standing)
        made = claimant.claim = Transfer(claimant, tuple(victims), held_rooms)
        for one in victims:
            self.reservations.left(one)
            one.is_leaving, one.claim = True, made
            live.evictable.leave(one)
        return made

    def restore(self, job: Job, shape: Shape, kept: Claimed, victims: Sequence[Running], now: int) -> Transfer | None:
        """The same claim as before, in a core that was built anew: `victims` are those who have not left yet. None where
        something else holds by now what it claimed."""
        live = self.live
        machines = live.machines
        placed = Placed(kept.pool, kept.tasks, kept.hops)
        if held_by(placed, (machines.at[task.machine].pool for task in kept.tasks)) != shape.least[kept.pool]:
            return None  # It asks for something else by now.
        moving = {seat.id for seat in kept.seats}
        seats = [seat for one in kept.seats if (seat := self.seats.seat_of(one, job.id)) is not None]
        given = [task for one in victims for task in one.placed.tasks]
        taken = [*kept.tasks, *(task for seat in seats for task in seat.placed.tasks), *map(as_task, kept.left_over)]
        if not _is_free(machines, taken, given):
            return None
        for task in given:
            machines.give(task.machine, task.ask, task.devices)
        for task in taken:
            machines.take(task.machine, task.ask, task.devices)
        for one in victims:
            if one.job.id not in moving:
                give_shares(live.shares, one.job.queue, one.need)
        for seat in seats:
            self.seats.keep_again(seat)
        claimant = Running(job, placed, shape.least[kept.pool], now, kept.standing)
        made = claimant.claim = Transfer(claimant, tuple(victims), kept.left_over)
        for one in victims:
            self.reservations.left(one)
            one.is_leaving, one.claim = True, made
            live.evictable.leave(one)
        return made

    def give_up(self, made: Transfer) -> set[int]:
        """The claimant gave up: what is left goes back to those who are still leaving. Returns the machines that got room."""
        live = self.live
        claimant = made.claimant
        del live.transfers[claimant.job.id]
        self.seats.give_up(claimant.job.id)
        give_shares(live.shares, claimant.job.queue, claimant.need)
        release(live.machines, made.held_rooms)
        for task in claimant.placed.tasks:
            live.machines.give(task.machine, task.ask, task.devices)
        for one in made.victims:
            if one.job.id in made.leaving:
                one.claim = None
                take_shares(live.shares, one.job.queue, one.need)
                for task in one.placed.tasks:
                    live.machines.take(task.machine, task.ask, task.devices)
        return {task.machine for task in claimant.placed.tasks} | {held.machine for held in made.held_rooms}

    def gone(self, one: Running) -> set[int]:
        """One who had to leave is gone; after the last the claimant may start. Returns the machines that got room."""
        live = self.live
        made = one.claim
        assert made is not None
        made.leaving.discard(one.job.id)
        self.seats.gone(one, live.now)
        if made.leaving:
            return set()
        freed = {held.machine for held in made.held_rooms}
        release(live.machines, made.held_rooms)
        made.held_rooms = ()  # Who gives up the claim before the next pass has none to give back.
        live.cleared.append(made.claimant.job.id)
        return freed


def as_task(held: HeldRoom) -> PlacedTask:
    """What is held for nobody, as if a task held it."""
    return PlacedTask("", 0, held.machine, TaskAsk(held.cpu_millis, held.memory_bytes, held.gpu_millis), held.devices)


def _is_free(machines: Machines, taken: Iterable[PlacedTask], given: Iterable[PlacedTask]) -> bool:
    """Whether there is room for these, once those are given back."""
    room: dict[int, tuple[list[int], list[int]]] = {}  # Cores and memory, and each device.
    for tasks, sign in ((taken, -1), (given, 1)):
        for task in tasks:
            if task.machine not in room:
                left = machines.left(task.machine)
                room[task.machine] = [left.cpu_millis, left.memory_bytes], list(machines.devices_left(task.machine))
            amounts, devices = room[task.machine]
            amounts[0] += sign * task.ask.cpu_millis
            amounts[1] += sign * task.ask.memory_bytes
            for device in task.devices:
                if device >= len(devices):
                    return False
                devices[device] += sign * min(task.ask.gpu_millis, WHOLE_MILLIS)
    return all(amount >= 0 for amounts, devices in room.values() for amount in (*amounts, *devices))


def _left_over(machines: Machines, left: Iterable[PlacedTask], taken: Iterable[PlacedTask]) -> tuple[HeldRoom, ...]:
    """By machine what was left and not taken again."""
    sums: dict[int, list[int]] = {}
    devices: dict[tuple[int, int], int] = {}
    for tasks, sign in ((left, 1), (taken, -1)):
        for task in tasks:
            if sign < 0 and task.machine not in sums:
                continue
            here = sums.setdefault(task.machine, [0, 0])
            here[0] += sign * task.ask.cpu_millis
            here[1] += sign * task.ask.memory_bytes
            for device in task.devices:
                at = (task.machine, device)
                devices[at] = devices.get(at, 0) + sign * min(task.ask.gpu_millis, WHOLE_MILLIS)
    held_rooms = []
    for machine, (cpu, memory) in sorted(sums.items()):
        over = {device: millis for (at, device), millis in sorted(devices.items()) if at == machine and millis > 0}
        whole = tuple(device for device, millis in over.items() if millis == WHOLE_MILLIS)
        if cpu > 0 or memory > 0 or whole:
            held_rooms.append(HeldRoom(machine, max(0, cpu), max(0, memory), len(whole) * WHOLE_MILLIS, whole))
        held_rooms += [HeldRoom(machine, 0, 0, millis, (device,)) for device, millis in over.items() if millis < WHOLE_MILLIS]
    return tuple(held_rooms)
