"""Kubeflow's TFJob (training-operator v1): roles are replica types by their names."""

from __future__ import annotations

from clusters.engines.interface import Workload
from clusters.engines.kubernetes.api import Json
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.definitions import Resource
from clusters.engines.kubernetes.gang import Gang
from clusters.engines.kubernetes.kind import CannotRender, Kind, parent, role_places, submitted
from clusters.engines.kubernetes.kubeflow import GROUP, VERSION, host, replicas, run_policy
from clusters.engines.kubernetes.manifests import Plan

_RESOURCE = Resource(GROUP, VERSION, "TFJob", "tfjobs")
_TYPES = {"chief": "Chief", "master": "Master", "worker": "Worker", "ps": "PS", "evaluator": "Evaluator"}


def render(plan: Plan, config: KubernetesConfig, ask: Gang) -> tuple[Json, ...]:
    """Raises CannotRender for a role that is no type, for two chiefs, and where tasks of a role have different templates."""
    roles = role_places(plan)
    if unknown := [role for role in roles if role not in _TYPES]:
        raise CannotRender(f"A TFJob has the roles {', '.join(_TYPES)}; the job has {', '.join(unknown)}.")
    if sum(len(roles.get(role, ())) for role in ("chief", "master")) > 1:
        raise CannotRender("A TFJob has one chief or master.")
    spec = {
        "runPolicy": run_policy(),
        "successPolicy": "AllWorkers",
        "tfReplicaSpecs": {_TYPES[role]: replicas(plan, places, config, ask, "tensorflow") for role, places in roles.items()},
    }
    return submitted((parent(plan, config, _RESOURCE, spec),), plan, config, ask)


def hosts(workload: Workload, namespace: str, config: KubernetesConfig) -> tuple[str, ...]:
    """Names by the operator's Services."""
    return tuple(host(workload, namespace, config, task.name.role, task.name.index) for task in workload.tasks)


KIND = Kind("tfjob", "Kubeflow training-operator v1", (_RESOURCE,), render, hosts)
