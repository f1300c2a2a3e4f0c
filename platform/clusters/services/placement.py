"""An operator's word on placement: taints of a node, a pool's name, and the rules by which it is filled."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from activity.services import record_audit
from clusters.abilities import read_abilities
from clusters.models import Node, Pool
from clusters.placement import read_pool_changes, read_taints
from kernel.actor import Actor
from kernel.errors import Conflict, FieldError, InvalidInput, PreconditionFailed
from kernel.words import Text
from reconciling import bulk


def taint_node(*, actor: Actor, node_id: uuid.UUID, taints: object, expected_version: int | None = None, now: datetime) -> Node:
    """Replace an operator's taints of a node by these effects by name; those that the cluster gives it stay. What runs stays."""
    after = read_taints(taints)
    with transaction.atomic():
        node = Node.objects.select_for_update(of=("self",)).select_related("cluster", "pool").get(pk=node_id)
        _expect(Text("Node", "节点"), node.name, node.version, expected_version)
        before = dict(node.taints or {})
        if before != after:
            node.taints = after
            node.version += 1
            bulk.update(Node, [{"id": node.pk, "taints": after, "version": node.version}])
        record_audit(
            actor=actor, verb="node.taint", tenant_id=None, target_kind="node", target_id=node.pk, target_name=node.name,
            before={"taints": before}, after={"taints": after}, at=now,
        )  # fmt: skip
    return node


def edit_pool(*, actor: Actor, pool_id: uuid.UUID, changes: object, expected_version: int | None = None, now: datetime) -> Pool:
    """Change the rules that are named, and the name; None puts a rule back to its default. They hold from the scheduler's next
    pass on. A pool is named when its first machine is met, and keeps its name when GPUs are added or replaced."""
    name, read = read_pool_changes(changes)
    with transaction.atomic():
        pool = Pool.objects.select_for_update(of=("self",)).select_related("cluster").get(pk=pool_id)
        _expect(Text("Pool", "资源池"), pool.name, pool.version, expected_version)
        before: Mapping[str, Any] = dict(pool.rules or {})
        after = {name: value for name, value in {**before, **read}.items() if value is not None}
        if after.get("gpu_shares") and not read_abilities(pool.cluster.abilities).shares_gpus:
            message = Text(
                f"Clusters of kind {pool.cluster.kind} give a GPU to one task only, so pool {pool.name} cannot lend parts.",
                f"{pool.cluster.kind} 类集群的一块 GPU 只给一个任务使用，因此资源池 {pool.name} 不能共享 GPU。",
            )
            raise InvalidInput(
                message,
                fields=[
                    FieldError("/gpu_shares", "not_supported", message, Text("Leave gpu_shares out.", "请省略 gpu_shares。"))
                ],
            )
        old = pool.name
        if name not in (None, old):
            _expect_free(pool, str(name))
            pool.name = str(name)
        if before != after or pool.name != old:
            pool.rules = after
            pool.version += 1
            bulk.update(Pool, [{"id": pool.pk, "name": pool.name, "rules": after, "version": pool.version}])
        told = ({"name": old}, {"name": pool.name}) if pool.name != old else ({}, {})
        record_audit(
            actor=actor, verb="pool.edit", tenant_id=None, target_kind="pool", target_id=pool.pk, target_name=pool.name,
            before={"rules": before, **told[0]}, after={"rules": after, **told[1]}, at=now,
        )  # fmt: skip
    return pool


def _expect_free(pool: Pool, name: str) -> None:
    # The inventory makes pools too, so the constraint is what guards; this is for the words.
    if Pool.objects.filter(cluster_id=pool.cluster_id, name=name).exists():
        raise Conflict(
            Text(f"Cluster {pool.cluster.name} has a pool {name} already.", f"集群 {pool.cluster.name} 已有资源池 {name}。"),
            hint=Text("Choose another name.", "请换一个名称。"),
        )


def _expect(kind: Text[str], name: str, version: int, expected: int | None) -> None:
    if expected is not None and version != expected:
        raise PreconditionFailed(
            Text(
                f"{kind.en} {name} has version {version} now, not {expected}.",
                f"{kind.zh} {name} 当前版本为 {version}，而非 {expected}。",
            ),
            hint=Text(
                "Read it again, apply your change to the new version, and send its ETag.",
                "请重新读取，在新版本上修改，并发送其 ETag。",
            ),
        )
