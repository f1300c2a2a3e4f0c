"""What a workload can be rendered as beside plain pods: objects whose pods a controller of the cluster makes.

Every kind takes its pod templates from `manifests.pod`, with the labels of the attempt, the finalizer and the scheduling gate: a
pod that a controller makes later, or once more, runs no sooner than the engine lets it. Controllers are told to restart nothing:
attempts are the platform's.

Where a controller takes one template for each task, the template is the pod. Where it takes one for several tasks, the template
has what these pods have alike; nodes become alternatives, and variables with other values in each task are there for all of them,
chosen by the task's index in a label that the controller sets.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from clusters.engines.interface import Workload
from clusters.engines.kubernetes import manifests, names
from clusters.engines.kubernetes.api import Json
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.definitions import Resource
from clusters.engines.kubernetes.gang import KUEUE, Gang, any_node, groups, placed, queued
from clusters.engines.kubernetes.manifests import Plan

_AT, _REPLICA, _REPLICAS = "BERTH_AT", "BERTH_REPLICA", "BERTH_REPLICAS"
_ADDRESSES = "BERTH_ADDRESS_"
_NAMES = ("hostname", "subdomain")  # Of a plain pod; a controller gives others.

SELECT_SCRIPT = f"""\
_berth_n=0
while [ "$1" != -- ]; do
  eval "_berth_v=\\${{{_AT}_${{{_REPLICA}}}_${{_berth_n}}-}} _berth_s=\\${{{_AT}_${{{_REPLICA}}}_${{_berth_n}}+x}}"
  if [ -n "$_berth_s" ]; then export "$1=$_berth_v"; else unset "$1"; fi
  _berth_c=0
  while [ "$_berth_c" -lt "${_REPLICAS}" ]; do
    unset "{_AT}_${{_berth_c}}_${{_berth_n}}"
    _berth_c=$((_berth_c + 1))
  done
  _berth_n=$((_berth_n + 1))
  shift
done
shift
unset {_REPLICA} {_REPLICAS} _berth_n _berth_c _berth_v _berth_s
exec "$@"
"""
"""Gives the variables that are named before `--` the values of the task's index, removes the others', and becomes the program.
Only names and numbers of ours are evaluated; values are assigned as they stand."""


class CannotRender(Exception):
    """The workload cannot be an object of this kind; the text says why."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object; the module `kind_NAME` makes it.

    `resources` are those of its documents, in the order in which they are made; the controller makes pods of the last one.
    `render` raises CannotRender. `hosts` gives the tasks' names where the controller names them otherwise than plain pods are.
    """

    name: str
    program: str  # What has to be installed in the cluster.
    resources: tuple[Resource, ...]
    render: Callable[[Plan, KubernetesConfig, Gang], tuple[Json, ...]]
    hosts: Callable[[Workload, str, KubernetesConfig], tuple[str, ...]] | None = None
    object_name: Callable[[uuid.UUID], str] = names.service_name


def parent(plan: Plan, config: KubernetesConfig, resource: Resource, spec: Json, *, name: str = "") -> Json:
    """An object that has the attempt's name and labels."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": name or names.service_name(plan.workload.attempt_id),
            "namespace": plan.gate.namespace,
            "labels": manifests.labels(plan.gate, config, names.PARENT),
        },
        "spec": spec,
    }


def path_of_parent(kind: Kind, namespace: str, attempt_id: uuid.UUID) -> str:
    """Where the API has the object whose controller makes the pods of an attempt."""
    return f"{kind.resources[-1].collection(namespace)}/{kind.object_name(attempt_id)}"


def submitted(documents: Sequence[Json], plan: Plan, config: KubernetesConfig, ask: Gang) -> tuple[Json, ...]:
    """Documents of which the last is one that Kueue knows, with what the chosen scheduler needs."""
    *before, last = documents
    return (*groups(plan, config, ask), *before, queued(last, ask))


def refuse_kueue(ask: Gang, what: str) -> None:
    """Raises CannotRender where Kueue is chosen, for a kind that it does not know."""
    if ask.scheduler == KUEUE:
        raise CannotRender(f"Kueue does not hold {what}: use another scheduler, or another kind of object.")


def template(plan: Plan, place: int, config: KubernetesConfig, ask: Gang) -> Json:
    """The pod of one task as a template: without a name, which the controller gives."""
    pod = placed(manifests.pod(plan, place, config), plan, ask)
    metadata = {name: value for name, value in pod["metadata"].items() if name not in ("name", "namespace")}
    return {"metadata": metadata, "spec": pod["spec"]}


def templates(plan: Plan, config: KubernetesConfig, ask: Gang) -> list[Json]:
    """A template for each task, in their order."""
    return [template(plan, place, config, ask) for place in range(len(plan.workload.tasks))]


def shared_template(plan: Plan, places: Sequence[int], config: KubernetesConfig, ask: Gang, index_label: str) -> Json:
    """One template for the tasks at these places, whose pods have their place's index in `index_label`.

    Raises CannotRender where they differ in more than variables and nodes.
    """
    each = [template(plan, place, config, ask) for place in places]
    if len(each) == 1:
        return each[0]
    found = _bare(each[0])
    for place, other in zip(places, each, strict=True):
        if _bare(other) != found:
            raise CannotRender(
                f"Task {plan.workload.tasks[place].name} differs from task {plan.workload.tasks[places[0]].name} in more than"
                " variables and nodes, and this kind of object has one template for both."
            )
    if affinity := any_node(each):
        found["spec"]["affinity"] = affinity
    container = found["spec"]["containers"][0]
    common, varying = _sort_variables([pod["spec"]["containers"][0]["env"] for pod in each])
    if not varying:
        container["env"] = common
        return found
    if not plan.gate.framed:
        raise CannotRender("Tasks with variables of their own need /bin/sh in the image for this kind of object.")
    own = [
        {**entry, "name": f"{_AT}_{index}_{number}"}
        for number, values in enumerate(varying.values())
        for index, entry in enumerate(values)
        if entry is not None
    ]
    chosen = [
        {"name": _REPLICA, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{index_label}']"}}},
        {"name": _REPLICAS, "value": str(len(each))},
    ]
    container["env"] = [*common, *chosen, *own]
    words = ["/bin/sh", "-c", manifests.literal(SELECT_SCRIPT), "berth", *varying, "--"]
    container["command"] = [*words, *container["command"]]
    return found


def named_container(found: Json, name: str, *ports: Json) -> Json:
    """The same template with its container called otherwise, where a controller looks for a name."""
    container = {**found["spec"]["containers"][0], "name": name, **({"ports": list(ports)} if ports else {})}
    return {**found, "spec": {**found["spec"], "containers": [container]}}


def texts_in(value: object) -> Iterator[str]:
    """All texts of a document, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from texts_in(item)


def role_places(plan: Plan) -> dict[str, list[int]]:
    """The places of each role's tasks, roles in the order of their first task."""
    found: dict[str, list[int]] = {}
    for place, task in enumerate(plan.workload.tasks):
        found.setdefault(task.name.role, []).append(place)
    return found


def _bare(pod: Json) -> Json:
    """A template without what may differ."""
    annotations = {key: value for key, value in pod["metadata"]["annotations"].items() if key != names.INDEX}
    spec = {key: value for key, value in pod["spec"].items() if key not in ("affinity", *_NAMES)}
    container = {key: value for key, value in spec["containers"][0].items() if key != "env"}
    return {
        "metadata": {**pod["metadata"], "annotations": annotations},
        "spec": {**spec, "containers": [container]},
    }


def _sort_variables(each: Sequence[Sequence[Json]]) -> tuple[list[Json], dict[str, list[Json | None]]]:
    """What all tasks have alike, and of the others the entry of each task. Addresses that others refer to are no task's own."""
    by_name = [{entry["name"]: entry for entry in entries} for entries in each]
    common: list[Json] = []
    varying: dict[str, list[Json | None]] = {}
    for name in dict.fromkeys(name for entries in by_name for name in entries):
        values = [entries.get(name) for entries in by_name]
        present = [value for value in values if value is not None]
        alike = all(value == present[0] for value in present)
        if alike and (len(present) == len(values) or name.startswith(_ADDRESSES)):
            common.append(present[0])
        else:
            varying[name] = values
    common.sort(key=lambda entry: not entry["name"].startswith(_ADDRESSES))  # Others refer to what stands before them.
    return common, varying
