"""Kubeflow's MPIJob (training-operator v1): the role `launcher`, or else the first task, launches; the others are workers.

Ranks are started by Berth's own agent, as in plain pods. The operator puts an init container before the launcher that restricted
Pod Security refuses: such a job is accepted, and its launcher starts only where the namespace admits it.
"""

from __future__ import annotations

from clusters.engines.kubernetes.api import Json
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.definitions import Resource
from clusters.engines.kubernetes.gang import Gang
from clusters.engines.kubernetes.kind import CannotRender, Kind, parent, role_places, submitted
from clusters.engines.kubernetes.kubeflow import GROUP, VERSION, replicas, run_policy
from clusters.engines.kubernetes.manifests import Plan

_RESOURCE = Resource(GROUP, VERSION, "MPIJob", "mpijobs")
_CONTAINER = "mpi"
LAUNCHER = "launcher"


def render(plan: Plan, config: KubernetesConfig, ask: Gang) -> tuple[Json, ...]:
    """Raises CannotRender for several launchers, where workers have different templates, and where tasks are told names: the
    operator makes no Services for them."""
    if plan.gate.hosts:
        raise CannotRender("Tasks of an MPIJob have no names: the cluster needs pod_addresses.")
    launchers = role_places(plan).get(LAUNCHER, [0])
    if len(launchers) != 1:
        raise CannotRender(f"An MPIJob has one launcher; the role `{LAUNCHER}` has {len(launchers)} tasks.")
    found = {"Launcher": replicas(plan, launchers, config, ask, _CONTAINER)}
    if others := [place for place in range(len(plan.workload.tasks)) if place not in launchers]:
        found["Worker"] = replicas(plan, others, config, ask, _CONTAINER)
    spec = {"cleanPodPolicy": "None", "runPolicy": run_policy(), "mainContainer": _CONTAINER, "mpiReplicaSpecs": found}
    return submitted((parent(plan, config, _RESOURCE, spec),), plan, config, ask)


KIND = Kind("mpijob", "Kubeflow training-operator v1", (_RESOURCE,), render)
