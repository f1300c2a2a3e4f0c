"""Evidence against GPUs becomes a cordon of their node, once; the operator who returns the node to service resolves it.

A cordon of a person stays that person's, and one of a maintenance window becomes ours: the window's end must not return a node
whose device is out of order.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from activity.notifications.notices import new_notice
from activity.services import NewAudit, NewEvent, record_audits, record_events
from clusters.engines.interface import EngineUnreachable, GpuFault, SupportsGpuFaults
from clusters.gpu_faults import calls_for_cordon, moves_jobs, open_faults, with_fault, words_of
from clusters.models import Node
from clusters.notices import CAPACITY
from clusters.services.cordons import set_cordons
from clusters.services.engines import engine_for
from clusters.services.maintenance import ACTOR as MAINTENANCE
from kernel.actor import system_actor
from kernel.limits import NOTE_LENGTH
from reconciling import bulk

ACTOR = system_actor("gpu-health")


@dataclass(frozen=True, slots=True)
class FaultyNode:
    """A node with devices from which jobs must go. `devices` has the evidence in words, by identifier."""

    cluster_id: uuid.UUID
    name: str
    devices: dict[str, str]


def look_for_faults(cluster_id: uuid.UUID, now: datetime) -> int:
    """Ask an engine for evidence and act on what is new; returns how many nodes that concerned."""
    try:
        engine = engine_for(cluster_id)
        if not isinstance(engine, SupportsGpuFaults):
            return 0
        faults = engine.gpu_faults()
    except EngineUnreachable:
        return 0
    return record_gpu_faults(cluster_id, faults, now) if faults else 0


def record_gpu_faults(cluster_id: uuid.UUID, faults: Sequence[GpuFault], now: datetime) -> int:
    """Keep evidence that is new and cordon its nodes; returns how many nodes had news. Repeating it changes nothing."""
    serious = [fault for fault in faults if calls_for_cordon(fault)]
    if not serious:
        return 0
    with transaction.atomic():
        rows = list(
            Node.objects.select_for_update(of=("self",))
            .filter(cluster_id=cluster_id, name__in={fault.node for fault in serious})
            .order_by("id")
        )
        news = [(node, told) for node in rows if (told := _take(node, serious, now))]
        if not news:
            return 0
        ids = [node.pk for node, _ in news]
        bulk.update(Node, [{"id": node.pk, "gpu_faults": node.gpu_faults} for node, _ in news])
        _take_over(news, now)
        reasons = {node.pk: reason_of(node.gpu_faults) for node, _ in news}
        set_cordons(
            actor=ACTOR, nodes=Node.objects.filter(id__in=ids), is_cordoned=True, reason_of=lambda n: reasons[n.pk], now=now
        )
        record_events([_event(node, fault, now) for node, told in news for fault in told])
        record_events([_notice(node, told, now) for node, told in news])
        record_audits([_audit(node, told, now) for node, told in news])
    return len(news)


def faulty_nodes() -> list[FaultyNode]:
    """Nodes with devices that jobs must leave. One query; without any evidence it finds nothing."""
    rows = Node.objects.exclude(gpu_faults=[]).filter(cordoned=True).values_list("cluster_id", "name", "gpu_faults")
    found = []
    for cluster_id, name, documents in rows:
        devices = {str(fault["gpu"]): words_of(fault) for fault in open_faults(documents) if moves_jobs(fault)}
        if devices:
            found.append(FaultyNode(cluster_id, name, devices))
    return found


def reason_of(documents: object) -> str:
    """Why a node is cordoned, for operators: the evidence, the newest last."""
    told = "; ".join(words_of(fault) for fault in open_faults(documents))
    return f"GPU out of order: {told}"[:NOTE_LENGTH]


def _take(node: Node, faults: Sequence[GpuFault], now: datetime) -> list[dict[str, Any]]:
    """Add what is new to a node's evidence; returns it."""
    before = list(node.gpu_faults)
    for fault in faults:
        if fault.node == node.name:
            node.gpu_faults = with_fault(node.gpu_faults, fault, now)
    return [document for document in node.gpu_faults if document not in before]


def _take_over(news: Sequence[tuple[Node, list[dict[str, Any]]]], now: datetime) -> None:
    """Nodes that are cordoned already, by us or by a maintenance window, keep the cordon for this reason from now on."""
    ours = [node for node, _ in news if node.cordoned and node.cordoned_by in (ACTOR.name, MAINTENANCE.name)]
    bulk.update(
        Node,
        [
            {
                "id": node.pk,
                "cordon_reason": reason_of(node.gpu_faults),
                "cordoned_by": ACTOR.name,
                "version": node.version + 1,
            }
            for node in ours
        ],
    )


def _event(node: Node, document: dict[str, Any], now: datetime) -> NewEvent:
    data = {"name": node.name, "gpu": document["gpu"], "kind": document["kind"], "number": document["number"]}
    return NewEvent(
        kind="node.gpu_fault",
        tenant_id=None,
        subject_kind="node",
        subject_id=node.pk,
        data={**data, "reason": words_of(document)},
        at=now,
    )


def _notice(node: Node, told: Sequence[dict[str, Any]], now: datetime) -> NewEvent:
    """For operators: the node gets no work until one of them has looked at it."""
    return new_notice(
        CAPACITY,
        tenant_id=None,
        subject_kind="node",
        subject_id=node.pk,
        title=f"GPU out of order on node {node.name}: it is cordoned",
        text=(
            f"{'; '.join(words_of(fault) for fault in told)}. Jobs leave the GPUs that cannot go on. Return the node to service "
            "once its hardware is checked or replaced."
        ),
        command=f"berth nodes show {node.name}",
        at=now,
    )


def _audit(node: Node, told: Sequence[dict[str, Any]], now: datetime) -> NewAudit:
    return NewAudit(
        actor=ACTOR,
        verb="node.cordon",
        tenant_id=None,
        target_kind="node",
        target_id=node.pk,
        target_name=node.name,
        before={"cordoned": node.cordoned},
        after={"cordoned": True, "evidence": list(told)},
        at=now,
    )
