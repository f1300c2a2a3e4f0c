"""What a scheduler remembers beyond the tables: past use, how many were evicted of late, reserved starts, claims.

Past use fades with a half-life and counts in fair shares. A sure start is a promise, and so is the room that others leave for
a job: the next leader keeps both, and a question why a job waits, or what if, is answered with them. A planned start is none, and
each core plans anew. A core keeps all this by
numbers; here it is by ids and names, so that it outlives cores, leaders and restarts.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from jobs.models import SchedulerMemory
from jobs.scheduling.core.claims import as_task
from jobs.scheduling.core.core import Core
from jobs.scheduling.core.place.gangs import PlacedTask
from jobs.scheduling.core.place.machines import TaskAsk
from jobs.scheduling.core.state.reservation import KeptReservation
from jobs.scheduling.core.state.work import Claimed, ClaimedSeat, HeldRoom
from tenants.capacity.quota.shares import Standing

ROW = "scheduler"
SAVE_SECONDS = 60

Key = tuple[uuid.UUID | None, uuid.UUID, int]
"""Queue (None: all of them together), pool and resource."""


class KeptTask(NamedTuple):
    """What one task holds, or will: on which machine, with what of it."""

    role: str
    number: int
    pool_id: uuid.UUID
    node: str
    cpu_millis: int
    memory_bytes: int
    gpu_millis: int
    devices: tuple[int, ...]


class ReservedStart(NamedTuple):
    """When and where a waiting job will surely start."""

    job_id: uuid.UUID
    pool_id: uuid.UUID
    at: int
    standing: int
    tasks: tuple[KeptTask, ...]


class KeptSeat(NamedTuple):
    """Where a gang goes on that migrates for a claim."""

    job_id: uuid.UUID
    pool_id: uuid.UUID
    tasks: tuple[KeptTask, ...]
    until: int


class ClaimedRoom(NamedTuple):
    """Where a waiting job will start once others have left for it; `left_over` is held until then, too."""

    job_id: uuid.UUID
    pool_id: uuid.UUID
    standing: int
    tasks: tuple[KeptTask, ...]
    left_over: tuple[KeptTask, ...]
    seats: tuple[KeptSeat, ...]
    since: int = 0
    hops: int = 0


class UnderWay(NamedTuple):
    """What was decided for jobs that wait."""

    reserved: tuple[ReservedStart, ...] = ()
    claimed: tuple[ClaimedRoom, ...] = ()


@dataclass(frozen=True, slots=True)
class Numbered:
    """The numbers by which another core goes. What is of a pool or a machine that is gone is gone as a whole."""

    pool_at: Mapping[uuid.UUID, int]
    machine_at: Mapping[tuple[int, str], int]

    def starts(self, under_way: UnderWay) -> tuple[KeptReservation, ...]:
        return tuple(found for start in under_way.reserved if (found := self._start(start)) is not None)

    def claims(self, under_way: UnderWay) -> tuple[Claimed, ...]:
        return tuple(found for claim in under_way.claimed if (found := self._claim(claim)) is not None)

    def _tasks(self, kept: Sequence[KeptTask]) -> tuple[PlacedTask, ...] | None:
        found = []
        for task in kept:
            machine = self.machine_at.get((self.pool_at.get(task.pool_id, -1), task.node))
            if machine is None:
                return None
            ask = TaskAsk(task.cpu_millis, task.memory_bytes, task.gpu_millis)
            found.append(PlacedTask(task.role, task.number, machine, ask, task.devices))
        return tuple(found)

    def _start(self, kept: ReservedStart) -> KeptReservation | None:
        pool, tasks = self.pool_at.get(kept.pool_id), self._tasks(kept.tasks)
        if pool is None or tasks is None:
            return None
        return KeptReservation(str(kept.job_id), pool, kept.at, tasks, Standing(kept.standing))

    def _claim(self, kept: ClaimedRoom) -> Claimed | None:
        pool, tasks, left_over = self.pool_at.get(kept.pool_id), self._tasks(kept.tasks), self._tasks(kept.left_over)
        seats = tuple(self._seat(seat) for seat in kept.seats)
        if pool is None or tasks is None or left_over is None or None in seats:
            return None
        held_rooms = tuple(
            HeldRoom(task.machine, task.ask.cpu_millis, task.ask.memory_bytes, task.ask.gpu_millis, task.devices, task.index)
            for task in left_over
        )
        known = tuple(seat for seat in seats if seat is not None)
        standing = Standing(kept.standing)
        return Claimed(str(kept.job_id), pool, tasks, standing, held_rooms, known, hops=kept.hops, since=kept.since)

    def _seat(self, kept: KeptSeat) -> ClaimedSeat | None:
        pool, tasks = self.pool_at.get(kept.pool_id), self._tasks(kept.tasks)
        return None if pool is None or tasks is None else ClaimedSeat(str(kept.job_id), pool, tasks, kept.until)


@dataclass(frozen=True, slots=True)
class Memory:
    """Amounts as `Shares.history` has them, true at `history_at`; (when, how many) of evictions; what is under way."""

    history: Mapping[Key, int]
    history_at: int
    evicted_at: tuple[tuple[int, int], ...]
    under_way: UnderWay = field(default_factory=UnderWay)

    def by_number(self, queue_at: Mapping[uuid.UUID, int], pool_at: Mapping[uuid.UUID, int]) -> dict[tuple[int, int, int], int]:
        """The history by the numbers of another core. What is of queues and pools that are gone is gone."""
        found = {}
        for (queue_id, pool_id, resource), amount in self.history.items():
            queue = 0 if queue_id is None else queue_at.get(queue_id)
            if queue is not None and pool_id in pool_at:
                found[queue, pool_at[pool_id], resource] = amount
        return found


NOTHING = Memory({}, 0, ())


def remember(core: Core) -> Memory:
    """What this core knows."""
    under_way = under_way_of(core)
    if core.live.history_at is None:
        return Memory({}, 0, tuple(core.evicted_at), under_way)
    shares = core.shares
    history = {
        (None if queue == 0 else shares.queue_ids[queue], shares.pool_ids[pool], resource): amount
        for (queue, pool, resource), amount in shares.history().items()
    }
    return Memory(history, core.live.history_at, tuple(core.evicted_at), under_way)


def under_way_of(core: Core) -> UnderWay:
    """Its sure starts, the earliest first, and its claims."""
    pool_ids, machines = core.shares.pool_ids, core.machines.at

    def tasks(placed: Iterable[PlacedTask]) -> tuple[KeptTask, ...]:
        return tuple(
            KeptTask(
                task.role, task.index, pool_ids[machines[task.machine].pool], machines[task.machine].name,
                task.ask.cpu_millis, task.ask.memory_bytes, task.ask.gpu_millis, task.devices,
            )
            for task in placed
        )  # fmt: skip

    reserved = tuple(
        ReservedStart(
            uuid.UUID(reservation.id),
            pool_ids[reservation.pool],
            reservation.at,
            int(reservation.standing),
            tasks(reservation.tasks),
        )
        for reservation in core.reservations.kept()
    )
    claimed = tuple(
        ClaimedRoom(
            uuid.UUID(claim.id),
            pool_ids[claim.pool],
            int(claim.standing),
            tasks(claim.tasks),
            tasks(map(as_task, claim.left_over)),
            tuple(KeptSeat(uuid.UUID(seat.id), pool_ids[seat.pool], tasks(seat.tasks), seat.until) for seat in claim.seats),
            claim.since,
            claim.hops,
        )
        for claim in core.claims()
    )
    return UnderWay(reserved, claimed)


def save(memory: Memory, *, now: datetime) -> None:
    """Keep it for the next leader. One statement, or two the first time."""
    SchedulerMemory.objects.update_or_create(id=ROW, defaults={"document": document_of(memory), "saved_at": now})


def document_of(memory: Memory) -> dict[str, Any]:
    """What is stored of it."""
    rows = sorted(
        [str(queue_id) if queue_id is not None else "", str(pool_id), resource, amount]
        for (queue_id, pool_id, resource), amount in memory.history.items()
    )
    return {
        "history": rows,
        "history_at": memory.history_at,
        "evicted_at": [list(entry) for entry in memory.evicted_at],
        "reserved": [
            [str(start.job_id), str(start.pool_id), start.at, start.standing, _plain(start.tasks)]
            for start in memory.under_way.reserved
        ],
        "claimed": [
            [
                str(claim.job_id), str(claim.pool_id), claim.standing, _plain(claim.tasks), _plain(claim.left_over),
                [[str(seat.job_id), str(seat.pool_id), _plain(seat.tasks), seat.until] for seat in claim.seats],
                claim.since, claim.hops,
            ]
            for claim in memory.under_way.claimed
        ],
    }  # fmt: skip


def load() -> Memory:
    """What was kept last; nothing where nothing was, or where it cannot be read."""
    document = SchedulerMemory.objects.filter(id=ROW).values_list("document", flat=True).first()
    try:
        return read(document) if document else NOTHING
    except (KeyError, TypeError, ValueError):
        return NOTHING


def read(document: Mapping[str, Any]) -> Memory:
    """What was stored. Releases before kept planned starts among the others, as `booked`, which is not read: what of it can be
    promised is reserved in the first pass."""
    history: dict[Key, int] = {}
    for queue, pool, resource, amount in document["history"]:
        history[uuid.UUID(queue) if queue else None, uuid.UUID(pool), int(resource)] = int(amount)
    evicted = tuple((int(at), int(count)) for at, count in document["evicted_at"])
    under_way = UnderWay(
        tuple(_reserved(row) for row in document.get("reserved", ())), tuple(_claimed(row) for row in document.get("claimed", ()))
    )
    return Memory(history, int(document["history_at"]), evicted, under_way)


def _plain(tasks: Iterable[KeptTask]) -> list[list[Any]]:
    return [[task.role, task.number, str(task.pool_id), *task[3:7], list(task.devices)] for task in tasks]


def _tasks(found: Iterable[Sequence[Any]]) -> tuple[KeptTask, ...]:
    return tuple(
        KeptTask(str(role), int(index), uuid.UUID(pool), str(node), int(cpu), int(memory), int(gpu), tuple(devices))
        for role, index, pool, node, cpu, memory, gpu, devices in found
    )


def _reserved(row: Sequence[Any]) -> ReservedStart:
    job_id, pool_id, at, standing, tasks = row
    return ReservedStart(uuid.UUID(job_id), uuid.UUID(pool_id), int(at), int(standing), _tasks(tasks))


def _claimed(row: Sequence[Any]) -> ClaimedRoom:
    job_id, pool_id, standing, tasks, left_over, seats, *more = row  # Releases before did not keep since when, and how far apart.
    kept = tuple(KeptSeat(uuid.UUID(job), uuid.UUID(pool), _tasks(placed), int(until)) for job, pool, placed, until in seats)
    since, hops = (int(more[at]) if len(more) > at else 0 for at in range(2))
    return ClaimedRoom(uuid.UUID(job_id), uuid.UUID(pool_id), int(standing), _tasks(tasks), _tasks(left_over), kept, since, hops)
