"""The gate of an attempt: one ConfigMap in the control namespace, and the engine's whole memory of the attempt.

It is written by plain `create`, so exactly one caller starts an attempt, and changed with its resourceVersion, so exactly one
of two callers that change it at once goes on:

- *open*: objects are being made; pods of it have a scheduling gate, so nothing of them can run.
- *released*: all pods were made. Only now are the pods' gates taken away. A pod that a sleeping caller makes later keeps its
  gate for ever.
- *stopping*: with the first cause and the earliest end of the grace.
- *tombstone*: stopped before it was seen, or forgotten. Nothing runs and nothing will; deleted after its days. One that was
  stopped before its release names its objects until it is forgotten: a caller that slept may make them once more, and die.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any

from clusters.engines.interface import AttemptLabels, StopCause, TaskName, Workload
from clusters.engines.kubernetes import names
from clusters.engines.kubernetes.api import Json
from kernel.resources import RESOURCE_NAMES, ZERO, Resources
from kernel.signals import SignalTarget

_KEY = "attempt.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class StopRecord:
    """A stop that was asked for. `tasks` are those that were alive then; times are by the platform's clock. `is_told`: all of
    them know of it, with this end of their grace, or their pods are being deleted."""

    cause: StopCause
    signal: str
    asked_at: datetime
    kill_at: datetime
    tasks: tuple[TaskName, ...]
    target: SignalTarget = SignalTarget.ALL  # A stop that an older release recorded.
    is_told: bool = False


@dataclass(frozen=True, slots=True)
class GateTask:
    """What is fixed of a task when it is started."""

    name: TaskName
    ports: Mapping[str, int] = field(default_factory=dict)
    resources: Resources = ZERO


@dataclass(frozen=True, slots=True)
class PodId:
    """One pod, and none that a controller makes in its place. Without a UID there is none, and will be none."""

    name: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Gate:
    """See the module. `version` is the resourceVersion that a change needs."""

    attempt_id: uuid.UUID
    is_tombstone: bool = False
    released: bool = False
    job_id: uuid.UUID | None = None
    number: int | None = None
    name: str = ""
    isolation_key: str = ""
    namespace: str = ""
    tasks: tuple[GateTask, ...] = ()
    log_quota_bytes: int = 0
    together: bool = False  # Its tasks wait for the start object.
    framed: bool = True  # Its containers' logs are written by the wrapper.
    keeps_outputs: bool = False  # Its pods have a keeper beside the task.
    code: str = ""  # The platform's file that is carried into its pods.
    objects: tuple[str, ...] = ()  # The kinds of what it has beside pods, as the API calls them.
    hosts: tuple[str, ...] = ()  # Addresses by names, in the order of the tasks; empty: pods' addresses.
    parent: str = ""  # The kind of object whose controller makes the pods; "": the engine makes them.
    scheduler: str = ""  # Which scheduler of the cluster places the tasks together, and in which queue; "": none.
    queue: str = ""
    chosen: tuple[PodId, ...] = ()  # By place, the pods of the controller's that are the tasks; empty: not all were seen yet.
    stop: StopRecord | None = None
    verdicts: Mapping[TaskName, str] = field(default_factory=dict)  # Tasks that the engine gave up, and why.
    forgotten_on: date | None = None
    version: str = ""

    def task(self, name: TaskName) -> int | None:
        """The place of a task."""
        return next((place for place, task in enumerate(self.tasks) if task.name == name), None)

    @property
    def has_pods(self) -> bool:
        """Whether all pods were made that ever will be: one that is missing now is gone."""
        return self.released and (not self.parent or bool(self.chosen))

    @property
    def labels(self) -> AttemptLabels:
        amounts = {task.name: task.resources for task in self.tasks}
        return AttemptLabels(self.job_id, self.number, self.name, self.isolation_key, amounts)

    def buried(self, today: date) -> Gate:
        """Nothing but a tombstone is left, and objects if it was not released."""
        kept = ("", ()) if self.released or self.is_tombstone else (self.namespace, self.objects)
        return Gate(
            self.attempt_id, is_tombstone=True, forgotten_on=today, version=self.version, namespace=kept[0], objects=kept[1]
        )


def new_gate(
    workload: Workload,
    *,
    namespace: str,
    ports: Mapping[TaskName, Mapping[str, int]],
    quota: int,
    framed: bool,
    objects: tuple[str, ...],
    hosts: tuple[str, ...],
    parent: str = "",
    scheduler: str = "",
    queue: str = "",
    code: str = "",
) -> Gate:
    """The gate of a workload that is about to be started."""
    return Gate(
        attempt_id=workload.attempt_id,
        job_id=workload.job_id,
        number=workload.number,
        name=workload.name,
        isolation_key=workload.isolation_key,
        namespace=namespace,
        tasks=tuple(GateTask(task.name, ports.get(task.name, {}), task.resources) for task in workload.tasks),
        log_quota_bytes=quota,
        together=len(workload.tasks) > 1,
        framed=framed,
        keeps_outputs=framed and workload.keeps_outputs,
        objects=objects,
        hosts=hosts,
        parent=parent,
        scheduler=scheduler,
        queue=queue,
        code=code,
    )


def gate_document(gate: Gate, *, cluster_id: str, namespace: str) -> Json:
    """The ConfigMap of a gate."""
    labels = {
        names.MANAGED_BY: names.BERTH,
        names.CLUSTER: cluster_id,
        names.KIND: names.GATE,
        names.ATTEMPT: str(gate.attempt_id),
    }
    if gate.job_id is not None:
        labels[names.JOB] = str(gate.job_id)
    if gate.forgotten_on is not None:
        labels[names.FORGOTTEN_ON] = gate.forgotten_on.isoformat()
    metadata: Json = {"name": names.gate_name(gate.attempt_id), "namespace": namespace, "labels": labels}
    if gate.version:
        metadata["resourceVersion"] = gate.version
    document = {"namespace": gate.namespace, "objects": gate.objects} if gate.is_tombstone else _attempt_document(gate)
    data = {_KEY: json.dumps(document, sort_keys=True)} if gate.objects or not gate.is_tombstone else {}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


class GateUnreadable(Exception):
    """A ConfigMap with a gate's name that this engine did not write, or cannot read: nothing is done with it."""


def read_gate(document: Json, *, cluster_id: str) -> Gate:
    """Read a gate. Raises GateUnreadable."""
    metadata = document.get("metadata") or {}
    labels = metadata.get("labels") or {}
    try:
        attempt_id = uuid.UUID(labels.get(names.ATTEMPT, ""))
    except ValueError as error:
        raise GateUnreadable(f"ConfigMap {metadata.get('name')} has no attempt among its labels.") from error
    owned = labels.get(names.CLUSTER) == cluster_id and metadata.get("name") == names.gate_name(attempt_id)
    if not owned or labels.get(names.KIND) != names.GATE:
        raise GateUnreadable(f"ConfigMap {metadata.get('name')} was not written by this cluster's engine.")
    version = str(metadata.get("resourceVersion", ""))
    day = labels.get(names.FORGOTTEN_ON)
    if day is not None:
        namespace, objects = _kept(document)
        return Gate(attempt_id, is_tombstone=True, forgotten_on=_day(day), version=version, namespace=namespace, objects=objects)
    try:
        return _read(json.loads((document.get("data") or {})[_KEY]), attempt_id, version)
    except (KeyError, TypeError, ValueError) as error:
        raise GateUnreadable(f"ConfigMap {metadata.get('name')} cannot be read: {error!r}"[:300]) from error


def _attempt_document(gate: Gate) -> Json:
    stop = gate.stop
    return {
        "format": _FORMAT,
        "released": gate.released,
        "job_id": str(gate.job_id) if gate.job_id is not None else None,
        "number": gate.number,
        "name": gate.name,
        "isolation_key": gate.isolation_key,
        "namespace": gate.namespace,
        "log_quota_bytes": gate.log_quota_bytes,
        "together": gate.together,
        "framed": gate.framed,
        **({"keeps_outputs": True} if gate.keeps_outputs else {}),
        **({"code": gate.code} if gate.code else {}),
        "objects": list(gate.objects),
        "hosts": list(gate.hosts),
        **({"parent": gate.parent, "chosen": [[pod.name, pod.uid] for pod in gate.chosen]} if gate.parent else {}),
        **({"scheduler": gate.scheduler, "queue": gate.queue} if gate.scheduler or gate.queue else {}),
        "tasks": [
            {"role": task.name.role, "index": task.name.index, "ports": dict(task.ports), "resources": task.resources.as_dict()}
            for task in gate.tasks
        ],
        "stop": None
        if stop is None
        else {
            "cause": stop.cause.value,
            "signal": stop.signal,
            "target": stop.target.value,
            "asked_at": stop.asked_at.isoformat(),
            "kill_at": stop.kill_at.isoformat(),
            "tasks": [[task.role, task.index] for task in stop.tasks],
            "told": stop.is_told,
        },
        "verdicts": [[task.role, task.index, why] for task, why in sorted(gate.verdicts.items(), key=lambda item: str(item[0]))],
    }


def _read(data: Any, attempt_id: uuid.UUID, version: str) -> Gate:
    stop = data.get("stop")
    return Gate(
        attempt_id=attempt_id,
        released=bool(data["released"]),
        job_id=uuid.UUID(data["job_id"]) if data.get("job_id") else None,
        number=data.get("number"),
        name=str(data.get("name", "")),
        isolation_key=str(data.get("isolation_key", "")),
        namespace=str(data["namespace"]),
        tasks=tuple(
            GateTask(
                TaskName(str(task["role"]), int(task["index"])),
                {str(name): int(port) for name, port in task.get("ports", {}).items()},
                Resources(**{name: int(task["resources"].get(name, 0)) for name in RESOURCE_NAMES}),
            )
            for task in data["tasks"]
        ),
        log_quota_bytes=int(data.get("log_quota_bytes", 0)),
        together=bool(data.get("together")),
        framed=bool(data.get("framed", True)),
        keeps_outputs=bool(data.get("keeps_outputs")),
        code=str(data.get("code", "")),
        objects=tuple(str(kind) for kind in data.get("objects", ())),
        hosts=tuple(str(host) for host in data.get("hosts", ())),
        parent=str(data.get("parent", "")),
        scheduler=str(data.get("scheduler", "")),
        queue=str(data.get("queue", "")),
        chosen=tuple(PodId(str(name), str(uid)) for name, uid in data.get("chosen", ())),
        stop=None
        if stop is None
        else StopRecord(
            StopCause(stop["cause"]),
            str(stop["signal"]),
            datetime.fromisoformat(stop["asked_at"]),
            datetime.fromisoformat(stop["kill_at"]),
            tuple(TaskName(str(role), int(index)) for role, index in stop["tasks"]),
            SignalTarget(stop.get("target", SignalTarget.ALL)),
            bool(stop.get("told")),
        ),
        verdicts={TaskName(str(role), int(index)): str(why) for role, index, why in data.get("verdicts", ())},
        version=version,
    )


def _kept(document: Json) -> tuple[str, tuple[str, ...]]:
    """Namespace and objects that a tombstone names; one that cannot be read names none."""
    try:
        data = json.loads((document.get("data") or {}).get(_KEY, "{}"))
        return str(data.get("namespace", "")), tuple(str(kind) for kind in data.get("objects", ()))
    except (AttributeError, TypeError, ValueError):
        return "", ()


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def with_stop(gate: Gate, intent: StopRecord) -> Gate:
    """Add a stop: the first cause stands, and the earliest end of the grace counts."""
    if gate.stop is None:
        return replace(gate, stop=intent)
    if intent.kill_at >= gate.stop.kill_at:
        return gate
    return replace(gate, stop=replace(gate.stop, kill_at=intent.kill_at, is_told=False))


def today() -> date:
    """Today, in UTC: what tombstones are labelled with."""
    return datetime.now(UTC).date()
