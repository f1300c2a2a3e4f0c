"""FrameworkController's Framework: a task role of one task for each of ours.

Its releases are built with Kubernetes 1.16's types: of a template they lose what is newer, the seccomp profile and the
scheduling gate among it, so that restricted Pod Security refuses the pods. It also replaces `{{FC_...}}` in every text.
"""

from __future__ import annotations

import uuid

from clusters.engines.kubernetes.api import Json
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.definitions import Resource
from clusters.engines.kubernetes.gang import Gang, groups
from clusters.engines.kubernetes.kind import CannotRender, Kind, parent, refuse_kueue, templates, texts_in
from clusters.engines.kubernetes.manifests import Plan

_RESOURCE = Resource("frameworkcontroller.microsoft.com", "v1", "Framework", "frameworks")
_NEVER = {"fancyRetryPolicy": False, "maxRetryCount": 0}
_PLACEHOLDER = "{{FC_"
_WAIT_FOR_ALL = {"minFailedTaskCount": -1, "minSucceededTaskCount": -1}


def render(plan: Plan, config: KubernetesConfig, ask: Gang) -> tuple[Json, ...]:
    """It completes when all tasks have: which end counts is the job's completion policy. Its names have no hyphens. Raises
    CannotRender for Kueue, which does not know this kind."""
    refuse_kueue(ask, "FrameworkController's Framework")
    each = templates(plan, config, ask)
    if any(_PLACEHOLDER in text for pod in each for text in texts_in(pod)):
        raise CannotRender(f"The job has {_PLACEHOLDER}, which FrameworkController would replace by a name of its own.")
    roles = [
        {
            "name": f"task{place}",
            "taskNumber": 1,
            "frameworkAttemptCompletionPolicy": dict(_WAIT_FOR_ALL),
            "task": {"retryPolicy": dict(_NEVER), "pod": pod},
        }
        for place, pod in enumerate(each)
    ]
    spec = {"executionType": "Start", "retryPolicy": dict(_NEVER), "taskRoles": roles}
    document = parent(plan, config, _RESOURCE, spec, name=object_name(plan.workload.attempt_id))
    return (*groups(plan, config, ask), document)


def object_name(attempt_id: uuid.UUID) -> str:
    """The Framework of an attempt."""
    return f"b{attempt_id.hex}"


KIND = Kind("framework", "FrameworkController", (_RESOURCE,), render, object_name=object_name)
