"""What a scheduler remembers beyond the tables: who used how much in the past, and how many were evicted of late.

Past use fades with a half-life and counts in fair shares. A core keeps it by numbers; here it is by ids, so that it outlives
cores, leaders and restarts.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs.models import SchedulerMemory
from jobs.scheduling.core import Core

ROW = "scheduler"
SAVE_SECONDS = 60

Key = tuple[uuid.UUID | None, uuid.UUID, int]
"""Queue (None: all of them together), pool and resource."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Amounts as `Shares.history` has them, true at `history_at`; (when, how many) of evictions."""

    history: Mapping[Key, int]
    history_at: int
    evicted_at: tuple[tuple[int, int], ...]

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
    if core.history_at is None:
        return Memory({}, 0, tuple(core.evicted_at))
    shares = core.shares
    history = {
        (None if queue == 0 else shares.queue_ids[queue], shares.pool_ids[pool], resource): amount
        for (queue, pool, resource), amount in shares.history().items()
    }
    return Memory(history, core.history_at, tuple(core.evicted_at))


def save(memory: Memory, *, now: datetime) -> None:
    """Keep it for the next leader. One statement, or two the first time."""
    rows = sorted(
        [str(queue_id) if queue_id is not None else "", str(pool_id), resource, amount]
        for (queue_id, pool_id, resource), amount in memory.history.items()
    )
    document = {"history": rows, "history_at": memory.history_at, "evicted_at": [list(one) for one in memory.evicted_at]}
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
    return Memory(history, int(document["history_at"]), evicted)
