"""A workload, its gate and pods as the API shows them, with as little said as a test needs."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from clusters.engines.interface import ImageKind, ImageRef, TaskName, TaskWorkload, Workload
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.manifests import Plan
from clusters.engines.kubernetes.record import Gate, new_gate
from kernel.resources import Resources

CLUSTER = "11111111-1111-1111-1111-111111111111"
ATTEMPT = uuid.UUID("22222222-2222-2222-2222-222222222222")
JOB = uuid.UUID("33333333-3333-3333-3333-333333333333")
CONFIG = KubernetesConfig(CLUSTER, default_image="base:1", pod_addresses=True)
NAMESPACE = "berth-t-blue"


def workload(number: int = 1, **changes: Any) -> Workload:
    each = TaskWorkload(
        TaskName("worker", 0), (("train",), ("--cost", "=$5")), {"LEVEL": ("1",)}, resources=Resources(2_000, 1 << 30, 1_000)
    )
    first = Workload(
        attempt_id=ATTEMPT,
        job_id=JOB,
        number=1,
        name="digits",
        isolation_key="blue",
        isolation_number=7,
        user_key="alice",
        labels={},
        image=ImageRef(ImageKind.REGISTRY, "", "registry/digits@sha256:1"),
        tasks=tuple(replace(each, name=TaskName("worker", index)) for index in range(number)),
    )
    return replace(first, **changes)


def gate(asked: Workload, **changes: Any) -> Gate:
    made = new_gate(asked, namespace=NAMESPACE, ports={}, quota=1_000, framed=True, objects=(), hosts=())
    return replace(made, **{"released": True, **changes})


def plan(asked: Workload, **changes: Any) -> Plan:
    return replace(Plan(asked, gate(asked), "registry/digits@sha256:1"), **changes)


def pod(*, state: dict[str, Any] | None = None, phase: str = "Running", **changes: Any) -> dict[str, Any]:
    """`metadata`, `spec` and `status` add to what a running pod has."""
    status: dict[str, Any] = {"phase": phase, "podIP": "10.0.0.7", **changes.pop("status", {})}
    if state is not None:
        status["containerStatuses"] = [{"name": "task", "state": state}]
    found = {
        "metadata": {"name": f"b-{ATTEMPT}-0", "namespace": NAMESPACE, "uid": "u", **changes.pop("metadata", {})},
        "spec": {"nodeName": "node-1", "containers": [{"name": "task", "image": "x:1"}], **changes.pop("spec", {})},
        "status": status,
    }
    assert not changes
    return found
