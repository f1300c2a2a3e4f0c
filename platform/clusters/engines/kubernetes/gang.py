"""The tasks of an attempt as one gang for a scheduler of the cluster: Volcano's PodGroup, Kueue's pod group.

Berth places tasks itself and releases the pods of an attempt only when all were made; this is for clusters whose other users
share the nodes through such a scheduler. Pure, as `manifests` is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from clusters.engines.kubernetes import manifests, names
from clusters.engines.kubernetes.api import Json
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.definitions import Resource
from clusters.engines.kubernetes.manifests import Plan

VOLCANO, KUEUE = "volcano", "kueue"
DEFAULT_QUEUE = "default"  # Volcano makes it.

LOCAL_QUEUE = Resource("kueue.x-k8s.io", "v1beta1", "LocalQueue", "localqueues")
POD_GROUP = Resource("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups")

_GROUP_NAME = "scheduling.k8s.io/group-name"
_KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
_KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
_KUEUE_COUNT = "kueue.x-k8s.io/pod-group-total-count"
_KUEUE_RETRIABLE = "kueue.x-k8s.io/retriable-in-group"


@dataclass(frozen=True, slots=True)
class Gang:
    """Which scheduler of the cluster places the tasks of an attempt together. "": none."""

    scheduler: str = ""  # VOLCANO or KUEUE.
    queue: str = ""  # Volcano's Queue, or the LocalQueue in the tenant's namespace.


def pods(plan: Plan, config: KubernetesConfig, ask: Gang) -> tuple[Json, ...]:
    """The attempt as plain pods, with what the scheduler needs beside them before them."""
    each = [manifests.pod(plan, place, config) for place in range(len(plan.workload.tasks))]
    if ask.scheduler == KUEUE:
        return tuple(_in_kueue(plan, each, ask))
    return (*groups(plan, config, ask), *(placed(pod, plan, ask) for pod in each))


def placed(pod: Json, plan: Plan, ask: Gang) -> Json:
    """A pod, or the template of one, as Volcano needs it; without Volcano as it is."""
    if ask.scheduler != VOLCANO:
        return pod
    annotations = {**pod["metadata"]["annotations"], _GROUP_NAME: names.service_name(plan.workload.attempt_id)}
    return {
        **pod,
        "metadata": {**pod["metadata"], "annotations": annotations},
        "spec": {**pod["spec"], "schedulerName": VOLCANO},
    }


def groups(plan: Plan, config: KubernetesConfig, ask: Gang) -> tuple[Json, ...]:
    """Volcano's PodGroup of all tasks: none is bound before there is room for each. Nothing without Volcano."""
    if ask.scheduler != VOLCANO:
        return ()
    tasks = len(plan.workload.tasks)
    total: Counter[str] = Counter()
    for place in range(tasks):
        for container in manifests.pod(plan, place, config)["spec"]["containers"]:
            for resource, amount in container["resources"]["requests"].items():
                total[resource] += int(amount.removesuffix("m"))
    spec: Json = {
        "minMember": tasks,
        "queue": ask.queue or DEFAULT_QUEUE,
        "minResources": {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in total.items()},
    }
    if config.priority_class:
        spec["priorityClassName"] = config.priority_class
    document = {
        "apiVersion": POD_GROUP.api_version,
        "kind": POD_GROUP.kind,
        "metadata": {
            "name": names.service_name(plan.workload.attempt_id),
            "namespace": plan.gate.namespace,
            "labels": manifests.labels(plan.gate, config, names.GROUP),
        },
        "spec": spec,
    }
    return (document,)


def queued(document: Json, ask: Gang) -> Json:
    """An object of a kind that Kueue knows, in its queue; Kueue holds it until there is room for all its pods."""
    if ask.scheduler != KUEUE:
        return document
    metadata = document["metadata"]
    return {**document, "metadata": {**metadata, "labels": {**metadata["labels"], _KUEUE_QUEUE: ask.queue}}}


def _in_kueue(plan: Plan, each: Sequence[Json], ask: Gang) -> list[Json]:
    """A single pod is a workload by itself, more are a group. Kueue counts pods with other nodes as other roles, of which a
    group has few, so that the tasks of a role have all its nodes as alternatives. Failed pods have no successors: attempts are
    Berth's."""
    found = []
    for pod, task in zip(each, plan.workload.tasks, strict=True):
        labels = {**pod["metadata"]["labels"], _KUEUE_QUEUE: ask.queue}
        annotations = dict(pod["metadata"]["annotations"])
        spec = pod["spec"]
        if len(each) > 1:
            labels[_KUEUE_GROUP] = names.service_name(plan.workload.attempt_id)
            annotations |= {_KUEUE_COUNT: str(len(each)), _KUEUE_RETRIABLE: "false"}
            alike = [other for other, of in zip(each, plan.workload.tasks, strict=True) if of.name.role == task.name.role]
            spec = {name: value for name, value in spec.items() if name != "affinity"}
            if affinity := any_node(alike):
                spec["affinity"] = affinity
        found.append({**pod, "metadata": {**pod["metadata"], "labels": labels, "annotations": annotations}, "spec": spec})
    return found


def any_node(each: Sequence[Json]) -> Json | None:
    """The nodes of all these pods as alternatives; None where one of them may be anywhere."""
    terms: list[Json] = []
    for pod in each:
        if "affinity" not in pod["spec"]:
            return None
        required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        terms += [term for term in required["nodeSelectorTerms"] if term not in terms]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
