"""What a scheduler remembers beyond the tables: who used how much in the past, how many were evicted of late, booked starts.

Past use fades with a half-life and counts in fair shares. A booked start is a promise: the next leader keeps it, and whoever asks
why a job waits or what if is answered with it. A core keeps all this by numbers; here it is by ids and names, so that it outlives
cores, leaders and restarts.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from jobs.models import SchedulerMemory
from jobs.scheduling.core import Core
from jobs.scheduling.gangs import PlacedTask
from jobs.scheduling.machines import TaskAsk
from jobs.scheduling.promise import Promised
from tenants.quota.shares import Standing

ROW = "scheduler"
SAVE_SECONDS = 60

Key = tuple[uuid.UUID | None, uuid.UUID, int]
"""Queue (None: all of them together), pool and resource."""


class BookedTask(NamedTuple):
    """One task of a booked start: on which machine, with what of it."""

    role: str
    number: int
    pool_id: uuid.UUID
    node: str
    cpu_millis: int
    memory_bytes: int
    gpu_millis: int
    devices: tuple[int, ...]


class BookedStart(NamedTuple):
    """When and where a waiting job will start."""

    job_id: uuid.UUID
    pool_id: uuid.UUID
    at: int
    standing: int
    tasks: tuple[BookedTask, ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """Amounts as `Shares.history` has them, true at `history_at`; (when, how many) of evictions; who will start when."""

    history: Mapping[Key, int]
    history_at: int
    evicted_at: tuple[tuple[int, int], ...]
    booked: tuple[BookedStart, ...] = ()

    def booked_by_number(
        self, pool_at: Mapping[uuid.UUID, int], machine_at: Mapping[tuple[int, str], int]
    ) -> tuple[Promised, ...]:
        """The booked starts by the numbers of another core. One on a machine that is gone is gone."""
        found = []
        for one in self.booked:
            tasks = []
            for task in one.tasks:
                machine = machine_at.get((pool_at.get(task.pool_id, -1), task.node))
                if machine is not None:
                    ask = TaskAsk(task.cpu_millis, task.memory_bytes, task.gpu_millis)
                    tasks.append(PlacedTask(task.role, task.number, machine, ask, task.devices))
            if one.pool_id in pool_at and len(tasks) == len(one.tasks):
                found.append(Promised(str(one.job_id), pool_at[one.pool_id], one.at, tuple(tasks), Standing(one.standing)))
        return tuple(found)

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
    booked = booked_of(core)
    if core.history_at is None:
        return Memory({}, 0, tuple(core.evicted_at), booked)
    shares = core.shares
    history = {
        (None if queue == 0 else shares.queue_ids[queue], shares.pool_ids[pool], resource): amount
        for (queue, pool, resource), amount in shares.history().items()
    }
    return Memory(history, core.history_at, tuple(core.evicted_at), booked)


def booked_of(core: Core) -> tuple[BookedStart, ...]:
    """Its booked starts, the earliest first."""
    pool_ids, machines = core.shares.pool_ids, core.machines.at
    return tuple(
        BookedStart(
            uuid.UUID(one.id),
            pool_ids[one.pool],
            one.at,
            int(one.standing),
            tuple(
                BookedTask(
                    task.role, task.index, pool_ids[machines[task.machine].pool], machines[task.machine].name,
                    task.ask.cpu_millis, task.ask.memory_bytes, task.ask.gpu_millis, task.devices,
                )
                for task in one.tasks
            ),
        )
        for one in core.promises.kept()
    )  # fmt: skip


def save(memory: Memory, *, now: datetime) -> None:
    """Keep it for the next leader. One statement, or two the first time."""
    rows = sorted(
        [str(queue_id) if queue_id is not None else "", str(pool_id), resource, amount]
        for (queue_id, pool_id, resource), amount in memory.history.items()
    )
    document = {
        "history": rows,
        "history_at": memory.history_at,
        "evicted_at": [list(one) for one in memory.evicted_at],
        "booked": [
            [
                str(one.job_id), str(one.pool_id), one.at, one.standing,
                [[task.role, task.number, str(task.pool_id), *task[3:7], list(task.devices)] for task in one.tasks],
            ]
            for one in memory.booked
        ],
    }  # fmt: skip
    SchedulerMemory.objects.update_or_create(id=ROW, defaults={"document": document, "saved_at": now})


def load() -> Memory:
    """What was kept last; nothing where nothing was, or where it cannot be read."""
    document = SchedulerMemory.objects.filter(id=ROW).values_list("document", flat=True).first()
    try:
        return _read(document) if document else NOTHING
    except (KeyError, TypeError, ValueError):
        return NOTHING


def _read(document: Mapping[str, Any]) -> Memory:
    history: dict[Key, int] = {}
    for queue, pool, resource, amount in document["history"]:
        history[uuid.UUID(queue) if queue else None, uuid.UUID(pool), int(resource)] = int(amount)
    evicted = tuple((int(at), int(count)) for at, count in document["evicted_at"])
    return Memory(history, int(document["history_at"]), evicted, tuple(_booked(one) for one in document.get("booked", ())))


def _booked(one: Sequence[Any]) -> BookedStart:
    job_id, pool_id, at, standing, tasks = one
    return BookedStart(
        uuid.UUID(job_id),
        uuid.UUID(pool_id),
        int(at),
        int(standing),
        tuple(
            BookedTask(str(role), int(index), uuid.UUID(pool), str(node), int(cpu), int(memory), int(gpu), tuple(devices))
            for role, index, pool, node, cpu, memory, gpu, devices in tasks
        ),
    )
