"""One scheduling pass, pure: the same snapshot and time give the same decisions on any machine.

The ideal: the waiting jobs are taken in order of priority, then of age; each starts whole or not at all, where every limit of
its queue and of all queues above it has room and its tasks fit on nodes of one pool. A job that cannot start does not stop
smaller ones behind it.

The shortcut: within a pass, room only shrinks. So a job of the same shape as one that was refused is refused for the same
reason without being looked at again; the result is the same, and a long queue of few shapes costs little.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from jobs.scheduling.snapshot import NodeView, PendingJob, PoolView, RoleAsk, Snapshot
from kernel.resources import RESOURCE_NAMES, Resources
from tenants.quota.tree import QueueTree


@dataclass(frozen=True, slots=True)
class Placement:
    role: str
    index: int
    node: str
    each: Resources


@dataclass(frozen=True, slots=True)
class Admit:
    """Start the whole gang in one pool, each task on the node named."""

    job_id: uuid.UUID
    pool_id: uuid.UUID
    cluster_id: uuid.UUID
    ask: Resources
    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Stay queued. `code` is an entry of jobs/lifecycle/reasons.py; `detail` holds its amounts."""

    job_id: uuid.UUID
    code: str
    detail: Mapping[str, object] = field(default_factory=dict)


BLOCKED_NODES, BLOCKED_CHARACTERS = 3, 300  # How many nodes out of service a reason tells about, and how much of each.

Decision = Admit | Wait
Refusal = tuple[str, Mapping[str, object]]


@dataclass(slots=True)
class _Room:
    """What is left during the pass; the only thing that changes while it runs."""

    nodes: dict[uuid.UUID, dict[str, Resources]]
    usage: dict[tuple[uuid.UUID, uuid.UUID], Resources]
    parent_room: dict[uuid.UUID, int]
    bound: dict[uuid.UUID, uuid.UUID]


def plan(snapshot: Snapshot, now: datetime) -> tuple[Decision, ...]:
    """Decide about every pending job, in the order in which they are considered."""
    room = _open_room(snapshot)
    refused: dict[tuple[object, ...], Refusal] = {}
    decisions: list[Decision] = []
    for job in sorted(snapshot.pending, key=lambda one: (-one.priority, one.queued_at, one.id)):
        refusal = _not_yet(job, room, now) or refused.get(job.shape)
        if refusal is None:
            answer = _try_pools(job, snapshot, room)
            if isinstance(answer, Admit):
                decisions.append(answer)
                continue
            refusal = refused[job.shape] = answer
        decisions.append(Wait(job.id, refusal[0], refusal[1]))
    return tuple(decisions)


def never(job: PendingJob, pools: Sequence[PoolView]) -> Refusal | None:
    """Why this job could not start in any of these pools even when they are empty; None when it could in one."""
    furthest: tuple[int, Refusal] = (-1, ("no_pool", {"pool": job.pool_name, "cluster": job.cluster_name}))
    for pool in pools:
        refused = _unfit(job, pool) or _too_big(job, pool)
        if refused is None:
            return None
        furthest = max(furthest, refused, key=lambda one: one[0])
    return furthest[1]


def _open_room(snapshot: Snapshot) -> _Room:
    free = {
        pool.id: {node.name: node.capacity - node.allocated for node in pool.nodes if node.accepts} for pool in snapshot.pools
    }
    usage = {(queue.id, pool_id): used for queue in snapshot.queues.nodes.values() for pool_id, used in queue.usage.items()}
    bound = {pool.cluster_id: pool.tenant_bound for pool in snapshot.pools if pool.tenant_bound is not None}
    return _Room(free, usage, dict(snapshot.parent_room), bound)


def _not_yet(job: PendingJob, room: _Room, now: datetime) -> Refusal | None:
    """Reasons that are the job's own, before any limit is asked."""
    if job.withheld is not None:
        return job.withheld
    if job.hold:
        return "held", {}
    if job.open_dependencies:
        return "dependency", {"open": job.open_dependencies}
    if job.not_before_at is not None and job.not_before_at > now:
        return "not_before", {"at": job.not_before_at.isoformat()}
    if not job.image_ready:
        return "image_building", {}
    if job.parent_id is not None and room.parent_room.get(job.parent_id, 1) <= 0:
        return "array_parallelism", {}
    return None


def _try_pools(job: PendingJob, snapshot: Snapshot, room: _Room) -> Admit | Refusal:
    """The first pool in which everything holds; else the refusal of the pool where the job came furthest."""
    furthest: tuple[int, Refusal] = (-1, ("no_pool", {"pool": job.pool_name, "cluster": job.cluster_name}))
    for pool in snapshot.pools:
        stage, answer = _try_pool(job, pool, snapshot.queues, room)
        if isinstance(answer, Admit):
            _take(job, answer, snapshot.queues, room)
            if not pool.keeps_apart:
                room.bound[pool.cluster_id] = job.tenant_id
            return answer
        if stage > furthest[0]:
            furthest = (stage, answer)
    return furthest[1]


def _try_pool(job: PendingJob, pool: PoolView, queues: QueueTree, room: _Room) -> tuple[int, Admit | Refusal]:
    """Stages in the order in which a person would ask; a later stage is a more telling refusal."""
    unfit = _unfit(job, pool)
    if unfit is not None:
        return unfit
    if not pool.reachable:
        return 2, ("cluster_unreachable", {"cluster": pool.cluster_name})
    bound = room.bound.get(pool.cluster_id)
    if not pool.keeps_apart and bound is not None and bound != job.tenant_id:
        return 3, ("one_tenant_only", {"cluster": pool.cluster_name})
    kept_out = _too_big(job, pool) or _out_of_service(job, pool)
    if kept_out is not None:
        return kept_out
    over = _over_ceiling(job, pool, queues, room)
    if over is not None:
        return 5, over
    placements = _place(job.roles, room.nodes[pool.id])
    if placements is None:
        return 6, _no_room(job, pool, room)
    return 7, Admit(job.id, pool.id, pool.cluster_id, job.ask, placements)


def _unfit(job: PendingJob, pool: PoolView) -> tuple[int, Refusal] | None:
    """Whether the pool is not what the job asks for."""
    if job.pool_name and job.pool_name != pool.name:
        return 0, ("no_pool", {"pool": job.pool_name})
    if job.cluster_name and job.cluster_name != pool.cluster_name:
        return 0, ("no_pool", {"cluster": job.cluster_name})
    models = {role.gpu_model for role in job.roles if role.gpu_model}
    if models - {pool.gpu_model}:
        return 1, ("gpu_model", {"need": sorted(models), "have": pool.gpu_model, "pool": pool.name})
    if job.image_kind not in pool.image_kinds:
        return 1, ("image_kind", {"need": job.image_kind, "pool": pool.name})
    return None


def _too_big(job: PendingJob, pool: PoolView) -> tuple[int, Refusal] | None:
    """Whether even an empty pool with all its nodes in service could not hold the gang: waiting would be in vain."""
    if _place(job.roles, {node.name: node.capacity for node in pool.nodes}) is not None:
        return None
    biggest = _largest(pool.nodes)
    return 4, ("larger_than_pool", {"pool": pool.name, "need": job.ask.as_dict(), "largest_node": biggest.as_dict()})


def _out_of_service(job: PendingJob, pool: PoolView) -> tuple[int, Refusal] | None:
    """Whether it has to wait until nodes are ready again, however much of the others gets free."""
    if all(node.accepts for node in pool.nodes):
        return None
    if _place(job.roles, {node.name: node.capacity for node in pool.nodes if node.accepts}) is not None:
        return None
    why = [node.blocked[:BLOCKED_CHARACTERS] for node in pool.nodes if node.blocked]
    return 4, ("no_ready_node", {"pool": pool.name, "why": why[:BLOCKED_NODES]})


def _largest(nodes: tuple[NodeView, ...]) -> Resources:
    return Resources(*(max((getattr(node.capacity, name) for node in nodes), default=0) for name in RESOURCE_NAMES))


def _over_ceiling(job: PendingJob, pool: PoolView, queues: QueueTree, room: _Room) -> Refusal | None:
    ask = job.ask
    for queue in queues.path(job.queue_id):
        ceiling = queue.ceilings.get(pool.id, {})
        used = room.usage.get((queue.id, pool.id), Resources())
        for name, limit in ceiling.items():
            need, have = getattr(ask, name), getattr(used, name)
            if need and have + need > limit:
                code = "ceiling_too_low" if need > limit else "ceiling"
                return code, {
                    "queue": queue.name,
                    "pool": pool.name,
                    "resource": name,
                    "need": need,
                    "used": have,
                    "ceiling": limit,
                }
    return None


def _place(roles: tuple[RoleAsk, ...], nodes: Mapping[str, Resources]) -> tuple[Placement, ...] | None:
    """Largest tasks first, each on the node with the least left that still takes it; None if the gang does not fit whole."""
    free = dict(nodes)
    placements: list[Placement] = []
    for role in sorted(roles, key=lambda one: (-one.each.gpu_millis, -one.each.cpu_millis, -one.each.memory_bytes, one.role)):
        for index in range(role.replicas):
            node = _best_node(role.each, free)
            if node is None:
                return None
            free[node] -= role.each
            placements.append(Placement(role.role, index, node, role.each))
    return tuple(placements)


def _best_node(each: Resources, free: Mapping[str, Resources]) -> str | None:
    fitting = [name for name, left in free.items() if each.fits_in(left)]
    if not fitting:
        return None
    return min(fitting, key=lambda name: (free[name].gpu_millis, free[name].cpu_millis, free[name].memory_bytes, name))


def _no_room(job: PendingJob, pool: PoolView, room: _Room) -> Refusal:
    free = Resources()
    for left in room.nodes[pool.id].values():
        free += left
    return "no_room", {"pool": pool.name, "need": job.ask.as_dict(), "free": free.as_dict()}


def _take(job: PendingJob, admit: Admit, queues: QueueTree, room: _Room) -> None:
    nodes = room.nodes[admit.pool_id]
    for placement in admit.placements:
        nodes[placement.node] -= placement.each
    for queue in queues.path(job.queue_id):
        key = (queue.id, admit.pool_id)
        room.usage[key] = room.usage.get(key, Resources()) + admit.ask
    if job.parent_id is not None and job.parent_id in room.parent_room:
        room.parent_room[job.parent_id] -= 1
