"""Claims: room that victims leave and a claimant gets.

A `Transfer` moves the room at once, from the victims to the claimant, and holds what is left over until the victims are gone: no
other job gets any of it, and decisions meanwhile see the state to come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from jobs.scheduling.core.place.gangs import Placed, PlacedTask, at_least
from jobs.scheduling.core.place.machines import Machines, TaskAsk
from jobs.scheduling.core.place.placing import has_place, place, redo, undo
from jobs.scheduling.core.reservations import BackfillReservations
from jobs.scheduling.core.seats import Seats
from jobs.scheduling.core.state.held_room import hold, release
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.reservation import Room, held_rooms_of
from jobs.scheduling.core.state.work import Claimed, HeldRoom, JobAsk, Running, Shape, Transfer, give_shares, held_by, take_shares


class Claims:
    """Begin, restore, give up and complete claims."""

    def __init__(self, live: Live, reservations: BackfillReservations, seats: Seats) -> None:
        self.live = live
        self.reservations = reservations
        self.seats = seats

    def could_begin(
        self, job: JobAsk, shape: Shape, pool: int, victims: Sequence[Running], migrating: Collection[str] = ()
    ) -> bool:
        """Whether the gang, at its smallest, would fit into what the victims hold and what is free."""
        live = self.live
        leaving = [victim for victim in victims if victim.job.id not in migrating]
        for victim in leaving:
            give_shares(live.shares, victim.job.queue, victim.need)
        fits = live.has_room(job.queue, shape.least[pool])
        for victim in leaving:
            take_shares(live.shares, victim.job.queue, victim.need)
        if not fits:
            return False
        mark = live.machines.mark()
        for victim in victims:
            undo(victim.placed, live.machines)
        fits = has_place(at_least(shape.gang), live.machines, pool)
        live.machines.rewind(mark)
        return fits

    def begin(
        self, job: JobAsk, shape: Shape, pool: int, victims: Sequence[Running], now: int, migrating: Collection[str] = ()
    ) -> Transfer:
        """Move the room of the victims to the gang, at its smallest, and hold what is left over until they are gone. Victims that
        are `migrating` keep their share of the limits and get room elsewhere (`seats.py`)."""
        live = self.live
        for victim in victims:
            if victim.job.id not in migrating:
                give_shares(live.shares, victim.job.queue, victim.need)
            undo(victim.placed, live.machines)
        need = shape.least[pool]
        standing = live.standing(job.queue, need)
        placed = place(at_least(shape.gang), live.machines, (pool,))
        assert isinstance(placed, Placed), "what was found to fit does not"
        seats = self.seats.keep(job.id, [victim for victim in victims if victim.job.id in migrating])
        taken = [*placed.tasks, *(task for seat in seats for task in seat.placed.tasks)]
        held_rooms = _left_over([task for victim in victims for task in victim.placed.tasks], taken, live.machines)
        hold(live.machines, held_rooms)
        return self._transfer(Running(job, placed, need, now, standing), victims, held_rooms)

    def restore(self, job: JobAsk, shape: Shape, kept: Claimed, victims: Sequence[Running], now: int) -> Transfer | None:
        """Restore a claim in a core that was built anew. `victims`: those that have not left yet. None where its room is held by
        other work now."""
        live = self.live
        machines = live.machines
        placed = Placed(kept.pool, kept.tasks, kept.hops)
        if held_by(placed, (machines.at[task.machine].pool for task in kept.tasks)) != shape.least[kept.pool]:
            return None  # The job has changed its ask.
        migrating = {seat.id for seat in kept.seats}
        seats = [seat for claimed_seat in kept.seats if (seat := self.seats.seat_of(claimed_seat, job.id)) is not None]
        given = [task for victim in victims for task in victim.placed.tasks]
        taken = [*kept.tasks, *(task for seat in seats for task in seat.placed.tasks)]
        if not _is_free(machines, [*taken, *map(as_task, kept.left_over)], given):
            return None
        for task in given:
            machines.give(task.machine, task.ask, task.devices)
        for task in taken:
            machines.take(task.machine, task.ask, task.devices)
        hold(machines, kept.left_over)
        for victim in victims:
            if victim.job.id not in migrating:
                give_shares(live.shares, victim.job.queue, victim.need)
        for seat in seats:
            self.seats.keep_again(seat)
        claimant = Running(job, placed, shape.least[kept.pool], kept.since or now, kept.standing)
        return self._transfer(claimant, victims, kept.left_over)

    def _transfer(self, claimant: Running, victims: Sequence[Running], held_rooms: tuple[HeldRoom, ...]) -> Transfer:
        """The claim of a gang on what these hold, who leave from now on."""
        transfer = claimant.claim = Transfer(claimant, tuple(victims), held_rooms)
        for victim in victims:
            self.reservations.left(victim)
            victim.is_leaving, victim.claim = True, transfer
            self.live.evictable.leave(victim)
        return transfer

    def give_up(self, transfer: Transfer) -> set[int]:
        """End a claim without a start: the room of victims that are still leaving goes back to them. Returns the machines that
        got room."""
        live = self.live
        claimant = transfer.claimant
        del live.transfers[claimant.job.id]
        self.seats.give_up(claimant.job.id)
        give_shares(live.shares, claimant.job.queue, claimant.need)
        release(live.machines, transfer.held_rooms)
        undo(claimant.placed, live.machines)
        for victim in transfer.victims:
            if victim.job.id in transfer.leaving:
                victim.claim = None
                take_shares(live.shares, victim.job.queue, victim.need)
                redo(victim.placed, live.machines)
        return {task.machine for task in claimant.placed.tasks} | {held.machine for held in transfer.held_rooms}

    def gone(self, victim: Running) -> set[int]:
        """A victim is gone; after the last the claimant may start. Returns the machines that got room."""
        live = self.live
        transfer = victim.claim
        assert transfer is not None
        transfer.leaving.discard(victim.job.id)
        self.seats.gone(victim, live.now)
        if transfer.leaving:
            return set()
        freed = {held.machine for held in transfer.held_rooms}
        release(live.machines, transfer.held_rooms)
        transfer.held_rooms = ()  # A claim that is given up before the next pass has none to give back.
        live.cleared.append(transfer.claimant.job.id)
        return freed


def as_task(held: HeldRoom) -> PlacedTask:
    """Held room as a task that holds it; its index is the number of tasks that it is for."""
    return PlacedTask("", held.tasks, held.machine, TaskAsk(held.cpu_millis, held.memory_bytes, held.gpu_millis), held.devices)


def _is_free(machines: Machines, taken: Iterable[PlacedTask], given: Iterable[PlacedTask]) -> bool:
    """Whether there is room for the tasks `taken`, once `given` are given back."""
    rooms: dict[int, Room] = {}
    for tasks, sign in ((taken, -1), (given, 1)):
        for task in tasks:
            if task.machine not in rooms:
                left = machines.left(task.machine)
                rooms[task.machine] = Room(left.cpu_millis, left.memory_bytes, dict(enumerate(machines.devices[task.machine])))
            if any(device not in rooms[task.machine].devices for device in task.devices):
                return False
            rooms[task.machine].add(task.ask, task.devices, sign)
    return all(amount >= 0 for room in rooms.values() for amount in (room.cpu, room.memory, *room.devices.values()))


def _left_over(left: Iterable[PlacedTask], taken: Iterable[PlacedTask], machines: Machines) -> tuple[HeldRoom, ...]:
    """By machine the room that was left and not taken again."""
    rooms: dict[int, Room] = {}
    for task in left:
        rooms.setdefault(task.machine, Room(0, 0, {})).add(task.ask, task.devices)
    for task in taken:
        if task.machine in rooms:
            rooms[task.machine].add(task.ask, task.devices, -1)
    by_machine = (
        held_rooms_of(machine, room.cpu, room.memory, room.devices, 0 if machines.at[machine].tasks_max is None else room.tasks)
        for machine, room in sorted(rooms.items())
    )
    return tuple(held for held_rooms in by_machine for held in held_rooms)
