"""Scheduler scenes with the least said: `a_scene().with_nodes(2, cores=8).with_waiting("a", cores=4, replicas=2).plan()`."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from jobs.scheduling.plan import Admit, Decision, Wait, plan
from jobs.scheduling.snapshot import NodeView, PendingJob, PoolView, RoleAsk, Snapshot
from kernel.limits import GIB
from kernel.resources import Resources
from tenants.quota.tree import QueueFacts, QueueTree

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def id_of(name: str) -> uuid.UUID:
    """The same id for the same name, in every scene."""
    return uuid.uuid5(uuid.NAMESPACE_OID, name)


def amount(*, cores: float = 0, memory_gib: float = 0, gpus: float = 0) -> Resources:
    return Resources(int(cores * 1000), int(memory_gib * GIB), int(gpus * 1000))


class Scene:
    """Pools, queues and waiting jobs by name. Everything is of tenant `t` and in queue `root` unless said otherwise."""

    def __init__(self) -> None:
        self.nodes: dict[str, list[NodeView]] = {}
        self.pools: dict[str, dict[str, Any]] = {}
        self.queues: dict[str, QueueFacts] = {"root": QueueFacts(id_of("root"), None, None, "root")}
        self.jobs: list[PendingJob] = []
        self.room: dict[uuid.UUID, int] = {}
        self.names: dict[uuid.UUID, str] = {}

    def with_nodes(
        self,
        count: int,
        *,
        pool: str = "cpu",
        cores: float = 8,
        memory_gib: float = 32,
        gpus: float = 0,
        model: str = "",
        **given: Any,
    ) -> Scene:
        held = given.pop("held", Resources())
        blocked = given.pop("blocked", "")
        nodes = self.nodes.setdefault(pool, [])
        capacity = amount(cores=cores, memory_gib=memory_gib, gpus=gpus)
        nodes += [NodeView(f"{pool}-{len(nodes) + number}", capacity, held, blocked) for number in range(count)]
        self.pools.setdefault(pool, {}).update({"gpu_model": model, **given})
        return self

    def with_queue(
        self, name: str, *, parent: str = "root", pool: str = "cpu", used: Resources | None = None, **ceiling: float
    ) -> Scene:
        limits = {key: value for key, value in amount(**ceiling).as_dict().items() if value} if ceiling else {}
        self.queues[name] = QueueFacts(
            id_of(name),
            id_of(parent),
            None,
            name,
            ceilings={id_of(f"pool {pool}"): limits} if limits else {},
            usage={id_of(f"pool {pool}"): used} if used else {},
        )
        return self

    def with_waiting(
        self,
        name: str,
        *,
        cores: float = 1,
        memory_gib: float = 1,
        gpus: float = 0,
        replicas: int = 1,
        queue: str = "root",
        age_seconds: float = 0,
        priority: int = 500,
        model: str = "",
        tenant: str = "t",
        **given: Any,
    ) -> Scene:
        ask = RoleAsk("worker", replicas, amount(cores=cores, memory_gib=memory_gib, gpus=gpus), model)
        job = PendingJob(
            id=id_of(f"job {name}"),
            tenant_id=id_of(f"tenant {tenant}"),
            queue_id=id_of(queue),
            priority=priority,
            queued_at=NOW - timedelta(seconds=age_seconds),
            roles=(ask,),
        )
        self.names[job.id] = name
        self.jobs.append(replace(job, **given))
        return self

    def snapshot(self) -> Snapshot:
        pools = tuple(
            PoolView(
                id=id_of(f"pool {name}"),
                cluster_id=id_of(f"cluster {given.get('cluster_name', 'harbour')}"),
                name=name,
                cluster_name=given.get("cluster_name", "harbour"),
                nodes=tuple(self.nodes[name]),
                **{key: value for key, value in given.items() if key != "cluster_name"},
            )
            for name, given in self.pools.items()
        )
        return Snapshot(pools, QueueTree(self.queues.values()), tuple(self.jobs), self.room)

    def decide(self) -> tuple[Decision, ...]:
        return plan(self.snapshot(), NOW)

    def plan(self) -> dict[str, str]:
        """What becomes of each job: `admit` or the code of its reason."""
        return {self.names[each.job_id]: "admit" if isinstance(each, Admit) else each.code for each in self.decide()}

    def order(self) -> list[str]:
        """Names of those admitted, in order."""
        return [self.names[each.job_id] for each in self.decide() if isinstance(each, Admit)]

    def wait(self, name: str) -> Wait:
        return next(each for each in self.decide() if isinstance(each, Wait) and self.names[each.job_id] == name)


def a_scene() -> Scene:
    return Scene()
