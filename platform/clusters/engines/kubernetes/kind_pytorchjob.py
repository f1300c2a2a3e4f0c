"""Kubeflow's PyTorchJob (training-operator v1): the first task is the master, the others are workers.

The operator's rank, world size and master are the ones that Berth's framework gives. It puts an init container before workers;
restricted Pod Security admits it only with the operator's own template for it (`--pytorch-init-container-template-file`).
"""

from __future__ import annotations

from clusters.engines.interface import Workload
from clusters.engines.kubernetes.api import Json
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.definitions import Resource
from clusters.engines.kubernetes.gang import Gang
from clusters.engines.kubernetes.kind import Kind, parent, submitted
from clusters.engines.kubernetes.kubeflow import GROUP, VERSION, host, replicas, run_policy
from clusters.engines.kubernetes.manifests import Plan

_RESOURCE = Resource(GROUP, VERSION, "PyTorchJob", "pytorchjobs")
_CONTAINER, _PORT = "pytorch", "pytorchjob-port"
_FRAMEWORK_PORT = "berth-torch"  # As the framework calls it.


def render(plan: Plan, config: KubernetesConfig, ask: Gang) -> tuple[Json, ...]:
    """Raises CannotRender where workers have different templates."""
    number = plan.gate.tasks[0].ports.get(_FRAMEWORK_PORT)
    ports = () if number is None else ({"name": _PORT, "containerPort": number},)
    found = {"Master": replicas(plan, [0], config, ask, _CONTAINER, *ports)}
    if others := list(range(1, len(plan.workload.tasks))):
        found["Worker"] = replicas(plan, others, config, ask, _CONTAINER)
    spec = {"runPolicy": run_policy(), "pytorchReplicaSpecs": found}
    return submitted((parent(plan, config, _RESOURCE, spec),), plan, config, ask)


def hosts(workload: Workload, namespace: str, config: KubernetesConfig) -> tuple[str, ...]:
    """Names by the operator's Services."""
    places = [("master", 0), *(("worker", index) for index in range(len(workload.tasks) - 1))]
    return tuple(host(workload, namespace, config, kind, index) for kind, index in places)


KIND = Kind("pytorchjob", "Kubeflow training-operator v1", (_RESOURCE,), render, hosts)
