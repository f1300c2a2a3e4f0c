"""What the kinds of Kubeflow's training-operator v1 have alike."""

from __future__ import annotations

from collections.abc import Sequence

from clusters.engines.interface import Workload
from clusters.engines.kubernetes import names
from clusters.engines.kubernetes.api import Json
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.gang import Gang
from clusters.engines.kubernetes.kind import named_container, shared_template
from clusters.engines.kubernetes.manifests import Plan

GROUP, VERSION = "kubeflow.org", "v1"
_INDEX_LABEL = "training.kubeflow.org/replica-index"


def replicas(plan: Plan, places: Sequence[int], config: KubernetesConfig, ask: Gang, container: str, *ports: Json) -> Json:
    """The replicas of one type; the operator looks for its container by name. Raises CannotRender."""
    found = shared_template(plan, places, config, ask, _INDEX_LABEL)
    return {
        "replicas": len(places),
        "restartPolicy": "Never",
        "template": named_container(found, container, *ports),
    }


def run_policy() -> Json:
    """Nothing is restarted and no pod is removed: how each ended has yet to be seen."""
    return {"backoffLimit": 0, "cleanPodPolicy": "None"}


def host(workload: Workload, namespace: str, config: KubernetesConfig, kind: str, index: int) -> str:
    """The name of a replica, by the Service that the operator makes for it."""
    return f"{names.service_name(workload.attempt_id)}-{kind}-{index}.{namespace}.svc.{config.cluster_domain}"
