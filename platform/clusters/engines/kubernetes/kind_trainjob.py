"""Kubeflow Trainer's TrainJob, with a runtime of its own that is the attempt's JobSet."""

from __future__ import annotations

from clusters.engines.kubernetes.api import Json
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.definitions import Resource
from clusters.engines.kubernetes.gang import Gang
from clusters.engines.kubernetes.kind import Kind, parent, submitted
from clusters.engines.kubernetes.kind_jobset import jobset_spec
from clusters.engines.kubernetes.manifests import Plan

_GROUP, _VERSION = "trainer.kubeflow.org", "v1alpha1"
_RUNTIME = Resource(_GROUP, _VERSION, "TrainingRuntime", "trainingruntimes")
_JOB = Resource(_GROUP, _VERSION, "TrainJob", "trainjobs")


def render(plan: Plan, config: KubernetesConfig, ask: Gang) -> tuple[Json, ...]:
    """The runtime, then the job that refers to it. No step of the runtime is marked as the trainer's, so that Trainer changes
    nothing of the templates."""
    runtime = parent(plan, config, _RUNTIME, {"template": {"spec": jobset_spec(plan, config, ask)}})
    reference = {"apiGroup": _GROUP, "kind": _RUNTIME.kind, "name": runtime["metadata"]["name"]}
    return submitted((runtime, parent(plan, config, _JOB, {"runtimeRef": reference})), plan, config, ask)


KIND = Kind("trainjob", "Kubeflow Trainer v2 with JobSet", (_RUNTIME, _JOB), render)
