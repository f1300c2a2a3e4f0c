"""JobSet: a Job of one pod for each task."""

from __future__ import annotations

from clusters.engines.kubernetes.api import Json
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.definitions import Resource
from clusters.engines.kubernetes.gang import Gang
from clusters.engines.kubernetes.kind import Kind, parent, submitted, templates
from clusters.engines.kubernetes.manifests import Plan

RESOURCE = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")


def render(plan: Plan, config: KubernetesConfig, ask: Gang) -> tuple[Json, ...]:
    """One document. JobSet fails with its first task that fails, and then ends the others."""
    return submitted((parent(plan, config, RESOURCE, jobset_spec(plan, config, ask)),), plan, config, ask)


def jobset_spec(plan: Plan, config: KubernetesConfig, ask: Gang) -> Json:
    """Hosts are named by the attempt's own Service: names by JobSet, or by a Job with indexes, would replace them."""
    return {
        "network": {"enableDNSHostnames": False},
        "failurePolicy": {"maxRestarts": 0},
        "replicatedJobs": [
            {
                "name": f"task-{place}",
                "replicas": 1,
                "template": {
                    "spec": {
                        "parallelism": 1,
                        "completions": 1,
                        "completionMode": "NonIndexed",
                        "backoffLimit": 0,
                        "podReplacementPolicy": "Failed",
                        "template": found,
                    }
                },
            }
            for place, found in enumerate(templates(plan, config, ask))
        ],
    }


KIND = Kind("jobset", "JobSet", (RESOURCE,), render)
