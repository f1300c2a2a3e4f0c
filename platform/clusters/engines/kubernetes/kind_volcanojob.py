"""Volcano's Job: a task of one replica for each of ours, all or none."""

from __future__ import annotations

from clusters.engines.kubernetes.api import Json
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.definitions import Resource
from clusters.engines.kubernetes.gang import DEFAULT_QUEUE, VOLCANO, Gang
from clusters.engines.kubernetes.kind import Kind, parent, refuse_kueue, templates
from clusters.engines.kubernetes.manifests import Plan

_RESOURCE = Resource("batch.volcano.sh", "v1alpha1", "Job", "jobs")


def render(plan: Plan, config: KubernetesConfig, ask: Gang) -> tuple[Json, ...]:
    """Scheduled by Volcano whatever else is chosen: its controller makes the PodGroup. Without policies it waits for all tasks,
    whatever became of the others. Raises CannotRender for Kueue, which does not know this kind."""
    refuse_kueue(ask, "Volcano's Job")
    spec: Json = {
        "schedulerName": VOLCANO,
        "minAvailable": len(plan.workload.tasks),
        "queue": ask.queue or DEFAULT_QUEUE,
        "tasks": [
            {
                "name": f"task-{place}",
                "replicas": 1,
                "minAvailable": 1,
                "template": {**found, "spec": {**found["spec"], "schedulerName": VOLCANO}},
            }
            for place, found in enumerate(templates(plan, config, ask))
        ],
    }
    if config.priority_class:
        spec["priorityClassName"] = config.priority_class
    return (parent(plan, config, _RESOURCE, spec),)


KIND = Kind("volcanojob", "Volcano", (_RESOURCE,), render)
