"""KubeRay's RayJob: the task of the role `head` is the head, each other task a group of one worker.

Pods run the tasks' own commands, which start Ray: KubeRay puts the one that it would have run into KUBERAY_GEN_RAY_START_CMD.
Nothing is submitted to Ray's dashboard, so the job ends with its tasks.
"""

from __future__ import annotations

from clusters.engines.kubernetes.api import Json
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.definitions import Resource
from clusters.engines.kubernetes.gang import Gang
from clusters.engines.kubernetes.kind import CannotRender, Kind, parent, role_places, submitted, template
from clusters.engines.kubernetes.manifests import Plan

_RESOURCE = Resource("ray.io", "v1", "RayJob", "rayjobs")
_OWN_COMMAND = {"ray.io/overwrite-container-cmd": "true"}
HEAD = "head"


def render(plan: Plan, config: KubernetesConfig, ask: Gang) -> tuple[Json, ...]:
    """Raises CannotRender without a role `head` of one task."""
    heads = role_places(plan).get(HEAD, [])
    if len(heads) != 1:
        raise CannotRender(f"A RayJob has one head: the job needs a role `{HEAD}` with one replica.")
    workers = [place for place in range(len(plan.workload.tasks)) if place != heads[0]]
    spec = {
        "submissionMode": "InteractiveMode",
        "shutdownAfterJobFinishes": False,
        "backoffLimit": 0,
        "rayClusterSpec": {
            "headGroupSpec": {"rayStartParams": {}, "template": _template(plan, heads[0], config, ask)},
            "workerGroupSpecs": [
                {
                    "groupName": f"task-{place}",
                    "replicas": 1,
                    "minReplicas": 1,
                    "maxReplicas": 1,
                    "rayStartParams": {},
                    "template": _template(plan, place, config, ask),
                }
                for place in workers
            ],
        },
    }
    documents = submitted((parent(plan, config, _RESOURCE, spec),), plan, config, ask)
    for document in documents:
        if document["kind"] == _RESOURCE.kind:  # KubeRay hands them on to the cluster that it makes.
            document["metadata"]["annotations"] = dict(_OWN_COMMAND)
    return documents


def _template(plan: Plan, place: int, config: KubernetesConfig, ask: Gang) -> Json:
    found = template(plan, place, config, ask)
    annotations = {**found["metadata"]["annotations"], **_OWN_COMMAND}
    return {**found, "metadata": {**found["metadata"], "annotations": annotations}}


KIND = Kind("rayjob", "KubeRay", (_RESOURCE,), render)
