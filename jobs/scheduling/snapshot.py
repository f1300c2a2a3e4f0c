"""What a scheduling pass looks at: plain, complete, and the same for live decisions, questions and replays."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kernel.resources import Resources
from tenants.quota.tree import QueueTree


@dataclass(frozen=True, slots=True)
class NodeView:
    """A machine and what live tasks hold of it."""

    name: str
    capacity: Resources
    allocated: Resources
    blocked: str = ""  # Why nothing may start there, in words: not ready, or cordoned. Empty when something may.

    @property
    def accepts(self) -> bool:
        return not self.blocked


@dataclass(frozen=True, slots=True)
class PoolView:
    """`tenant_bound` names the only tenant that the cluster may run now, where it cannot keep tenants apart."""

    id: uuid.UUID
    cluster_id: uuid.UUID
    name: str
    cluster_name: str
    gpu_model: str
    nodes: tuple[NodeView, ...]
    reachable: bool = True
    keeps_apart: bool = True
    tenant_bound: uuid.UUID | None = None
    image_kinds: frozenset[str] = frozenset({"host", "python"})
    gpus_simulated: bool = False
    isolation: str = ""


@dataclass(frozen=True, slots=True)
class RoleAsk:
    """`replicas` equal tasks of one role. `gpu_model` "" accepts any."""

    role: str
    replicas: int
    each: Resources
    gpu_model: str = ""


@dataclass(frozen=True, slots=True)
class PendingJob:
    """One waiting gang. `parent_room` is how many more children of its array may run now; None: no such limit."""

    id: uuid.UUID
    tenant_id: uuid.UUID
    queue_id: uuid.UUID
    priority: int
    queued_at: datetime
    roles: tuple[RoleAsk, ...]
    pool_name: str = ""
    cluster_name: str = ""
    image_kind: str = "host"
    image_ready: bool = True
    parent_id: uuid.UUID | None = None
    hold: bool = False
    not_before_at: datetime | None = None
    open_dependencies: int = 0
    withheld: tuple[str, Mapping[str, object]] | None = None  # A reason that nothing here can remove, with its amounts.

    @property
    def shape(self) -> tuple[object, ...]:
        """Jobs with equal shapes meet the same fate in one pass as long as nothing is freed."""
        return (
            self.tenant_id,
            self.queue_id,
            self.roles,
            self.pool_name,
            self.cluster_name,
            self.image_kind,
        )

    @property
    def ask(self) -> Resources:
        whole = Resources()
        for role in self.roles:
            whole += role.each * role.replicas
        return whole


@dataclass(frozen=True, slots=True)
class Snapshot:
    pools: tuple[PoolView, ...]
    queues: QueueTree
    pending: tuple[PendingJob, ...]
    parent_room: Mapping[uuid.UUID, int] = field(default_factory=dict)
