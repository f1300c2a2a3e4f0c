"""Who holds the room that waiting jobs lack: queues that the reader may read by name, all others together. Reads only."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusters.selectors import pools_named
from jobs.lifecycle.wait_reasons import WAITS
from jobs.models import Job
from kernel.actor import Actor
from kernel.resources import Resources
from kernel.wait_codes import stored_names
from tenants.selectors import held_of_pools, readable_queue_names

WANT_ROOM = stored_names(record.code for record in WAITS.values() if record.is_for_room)
"""Reasons of a wait for what others hold in the pool that the reason names."""
SHOWN_MAX = 5
NAMED_MAX = 200  # Of a pool: the queues that hold the most of it.


@dataclass(frozen=True, slots=True)
class RoomHolder:
    """What one queue holds of a pool; `queue_id` None: all that the reader may not read, together."""

    queue_id: uuid.UUID | None
    queue_name: str
    held: Resources


def room_holders(jobs: Sequence[Job], actor: Actor) -> Mapping[uuid.UUID, tuple[RoomHolder, ...]]:
    """By waiting job that lacks room: the queues that hold most of its pool, in GPUs, then in cores. Three queries at most."""
    pool_of = {job.id: str(job.reason_detail.get("pool") or "") for job in jobs if _wants_room(job)}
    if not pool_of:
        return {}
    names = pools_named(set(pool_of.values()))
    held: dict[str, dict[uuid.UUID, Resources]] = defaultdict(lambda: defaultdict(Resources))
    for (pool_id, queue_id), amount in held_of_pools(names).items():
        held[names[pool_id]][queue_id] += amount
    looked_up = {
        queue_id
        for queues in held.values()
        for queue_id in sorted(queues, key=lambda queue_id: _weight(queues[queue_id]))[:NAMED_MAX]
    }
    known = readable_queue_names(actor, looked_up)
    found = {pool: _largest(queues, known) for pool, queues in held.items()}
    return {job_id: found.get(pool, ()) for job_id, pool in pool_of.items()}


def _wants_room(job: Job) -> bool:
    return job.state == "queued" and job.reason_code in WANT_ROOM and isinstance(job.reason_detail, dict)


def _largest(queues: Mapping[uuid.UUID, Resources], known: Mapping[uuid.UUID, str]) -> tuple[RoomHolder, ...]:
    shown = [RoomHolder(queue_id, known[queue_id], held) for queue_id, held in queues.items() if queue_id in known]
    others = sum((held for queue_id, held in queues.items() if queue_id not in known), start=Resources())
    if others != Resources():
        shown.append(RoomHolder(None, "", others))
    most = sorted(
        (holder for holder in shown if holder.held != Resources()), key=lambda holder: (_weight(holder.held), holder.queue_name)
    )
    return tuple(most[:SHOWN_MAX])


def _weight(held: Resources) -> tuple[int, int, int]:
    return -held.gpu_millis, -held.cpu_millis, -held.memory_bytes
