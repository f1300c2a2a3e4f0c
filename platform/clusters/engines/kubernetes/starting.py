"""`ensure`: from a workload to objects, so that a call that died, slept or was repeated can never start anything twice.

The gate first, by plain create. Then all objects; pods with a scheduling gate, so that nothing runs. Then the gate is marked as
released, by its resourceVersion: of a stop and a start that meet here one wins, and a caller that comes late finds a tombstone.
Then the pods' gates are taken away. What a dead caller left undone after that is done by `observe`.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from clusters.engines.interface import (
    WAITING_TEXT_LENGTH,
    Ensured,
    GiveUp,
    ImageKind,
    Retry,
    StartStep,
    TaskName,
    TaskWaiting,
    Workload,
)
from clusters.engines.kubernetes import choices, gang, manifests, names, storage, tenancy, wrapper
from clusters.engines.kubernetes.api import AlreadyExists, Api, ApiRefused, Conflict, Forbidden, Json, NotFound
from clusters.engines.kubernetes.cache import Cache
from clusters.engines.kubernetes.config import PODS, KubernetesConfig
from clusters.engines.kubernetes.definitions import is_served
from clusters.engines.kubernetes.gates import Gates
from clusters.engines.kubernetes.kind import CannotRender
from clusters.engines.kubernetes.pods import Pods, in_parallel, is_ours
from clusters.engines.kubernetes.record import Gate, GateUnreadable, new_gate, read_gate, today

_FORGOTTEN = "This attempt was stopped before it started, or has ended and been forgotten."
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,200}")
_WHOLE = 1000
_QUOTA = "exceeded quota"  # How the API server refuses what a ResourceQuota leaves no room for.
_RULE = "admission webhook"  # How a refusal begins that is a rule of the cluster's, such as a queue of Volcano's that is closed.
_DOCUMENT_BYTES_MAX = 1_400_000  # etcd takes requests of 1.5 MiB, and the API server calls what is larger an error of its own.
_OBJECT_BYTES_MAX = 1_000_000  # Of a ConfigMap or Secret; the API server refuses more than 1 MiB.


class _Foreign(Exception):
    """An object with a name of ours that is not ours."""


class _Missing(Exception):
    """The cluster lacks a kind of object that the operator chose."""


_CODES: Mapping[type[Exception], str] = {
    _Foreign: "foreign_object",
    CannotRender: "workload_invalid",
    _Missing: "engine_gave_up",
}


class Starter:
    """Starts workloads on one cluster. Threads share it."""

    def __init__(
        self, api: Api, config: KubernetesConfig, spaces: tenancy.Tenancy, gates: Gates, pods: Pods, known: Cache
    ) -> None:
        self._api, self._config, self._spaces = api, config, spaces
        self._gates, self._pods, self._known = gates, pods, known

    def ensure(self, workload: Workload) -> Ensured | Retry | GiveUp:
        """Raises EngineUnreachable."""
        attempt_id = workload.attempt_id
        try:
            return self._ensure(workload)
        except (GateUnreadable, _Foreign) as error:
            return GiveUp(attempt_id, "foreign_object", str(error))
        except tenancy.NamespaceNotReady as error:
            return Retry(attempt_id, "namespace_not_ready", str(error), 2.0)
        except Forbidden as error:
            quota = TaskWaiting(StartStep.QUOTA, error.message[:WAITING_TEXT_LENGTH]) if _QUOTA in error.message else None
            return Retry(attempt_id, "cluster_refuses", str(error), 10.0, quota)
        except (NotFound, Conflict) as error:  # The namespace went, or the gate changed under us: look again.
            self._spaces.forget(names.tenant_namespace(self._config.namespace_prefix, workload.isolation_key))
            self._spaces.forget(names.control_namespace(self._config.namespace_prefix))
            return Retry(attempt_id, "cluster_changed", str(error))
        except OSError as error:
            return Retry(attempt_id, "code_unreadable", f"The code snapshot cannot be read: {error.strerror}.", 5.0)

    def _ensure(self, workload: Workload) -> Ensured | Retry | GiveUp:
        attempt_id = workload.attempt_id
        refused = refuse(workload, self._config)
        if refused is not None:
            return self._give_up(attempt_id, *refused)
        try:
            self._spaces.control()
            namespace = self._spaces.tenant(workload.isolation_key)
        except tenancy.NamespaceForeign as error:
            return self._give_up(attempt_id, "foreign_object", str(error))
        except tenancy.NamespaceNotReady:
            if self._config.gang_scheduler == gang.KUEUE and not is_served(self._api, gang.LOCAL_QUEUE):
                return self._give_up(attempt_id, _CODES[_Missing], choices.missing(gang.LOCAL_QUEUE))
            raise
        created = True
        try:
            gate = self._gates.create(self._new_gate(workload, namespace))
        except AlreadyExists:
            created = False
            found = self._gates.read(workload.attempt_id)
            if found is None:
                return Retry(workload.attempt_id, "cluster_changed", "The attempt's gate went away while it was read.")
            gate = found
        if gate.is_tombstone:
            return GiveUp(workload.attempt_id, "attempt_forgotten", _FORGOTTEN)
        if gate.released or gate.stop is not None:
            return Ensured(workload.attempt_id, created=False)
        try:
            self._make_objects(self._plan(workload, gate))
        except (_Foreign, CannotRender, _Missing) as error:
            self._undo(gate)
            return GiveUp(workload.attempt_id, _CODES[type(error)], str(error))
        except ApiRefused as error:
            if error.status in (400, 413, 422):
                self._undo(gate)
                code = "engine_gave_up" if _RULE in error.message else "workload_invalid"
                return GiveUp(workload.attempt_id, code, str(error))
            raise
        return self._release(gate, created=created)

    def _give_up(self, attempt_id: uuid.UUID, code: str, text: str) -> Ensured | GiveUp:
        """Not without a look at the gate: an earlier call may have started it, under settings that were changed since."""
        gate = self._gates.read(attempt_id)
        if gate is not None and not gate.is_tombstone:
            if gate.released or gate.stop is not None:
                return Ensured(attempt_id, created=False)
            self._undo(gate)
        return GiveUp(attempt_id, code, text)

    def _release(self, gate: Gate, *, created: bool) -> Ensured | Retry | GiveUp:
        try:
            gate = self._gates.replace(replace(gate, released=True))
        except (Conflict, NotFound):
            found = self._gates.read(gate.attempt_id)
            if found is None or found.is_tombstone:
                self._let_all_go(gate)
                return GiveUp(gate.attempt_id, "attempt_forgotten", _FORGOTTEN)
            return Ensured(gate.attempt_id, created=False)
        if gate.parent:  # Its controller has only begun to make pods: `observe` goes on.
            return Ensured(gate.attempt_id, created=created)
        pods = [names.pod_name(gate.attempt_id, place) for place in range(len(gate.tasks))]
        in_parallel(partial(self._pods.release, gate.namespace), pods, self._config.parallel)
        return Ensured(gate.attempt_id, created=created)

    def _make_objects(self, plan: manifests.Plan) -> None:
        workload, config = plan.workload, self._config
        for document in storage.claims_of(workload, plan.gate.namespace, config):
            self._create_shared(document)
        for document in _objects(plan, config):
            self._create(document, workload)
        pods = []
        for document in choices.documents(plan, config):
            if (size := len(json.dumps(document, ensure_ascii=False).encode())) > _DOCUMENT_BYTES_MAX:
                what = f"{document['kind']} with {len(workload.tasks)} tasks" if document["kind"] != "Pod" else "pod of a task"
                raise CannotRender(f"The {what} would have {size} bytes; the cluster stores at most {_DOCUMENT_BYTES_MAX}.")
            if document["kind"] == "Pod":
                pods.append(document)
            else:
                self._create_defined(document, plan)
        in_parallel(partial(self._create_pod, workload), pods, config.parallel)

    def _create_pod(self, workload: Workload, document: Json) -> None:
        try:
            self._pods.create(document)
        except AlreadyExists as error:
            metadata = document["metadata"]
            self._adopt(document, self._pods.read(metadata["namespace"], metadata["name"]), workload, error)

    def _create(self, document: Json, workload: Workload) -> None:
        self._create_in(tenancy.collection_of(document), document, workload)

    def _create_defined(self, document: Json, plan: manifests.Plan) -> None:
        """Make an object of a kind that not every cluster has. Raises _Missing."""
        resource = choices.resource_of(document)
        try:
            self._create_in(resource.collection(plan.gate.namespace), document, plan.workload)
        except NotFound as error:
            if not is_served(self._api, resource):
                raise _Missing(choices.missing(resource)) from error
            raise

    def _create_in(self, collection: str, document: Json, workload: Workload) -> None:
        try:
            self._api.create(collection, document)
        except AlreadyExists as error:
            self._adopt(document, self._api.get(f"{collection}/{document['metadata']['name']}"), workload, error)

    def _adopt(self, document: Json, found: Json, workload: Workload, error: AlreadyExists) -> None:
        if not is_ours(found, workload.attempt_id, self._config.cluster_id):
            name = f"{document['kind']} {document['metadata'].get('namespace', '')}/{document['metadata']['name']}"
            raise _Foreign(f"{name} is there and was not made for this attempt.") from error

    def _create_shared(self, document: Json) -> None:
        """Make what several attempts use; there already is well, if it is ours."""
        try:
            self._api.create(tenancy.collection_of(document), document)
        except AlreadyExists as error:
            labels = (self._api.get(tenancy.path_of(document)).get("metadata") or {}).get("labels") or {}
            if labels.get(names.CLUSTER) != self._config.cluster_id:
                raise _Foreign(
                    f"{document['kind']} {document['metadata']['name']} is there and is not this cluster's."
                ) from error

    def _undo(self, gate: Gate) -> None:
        """Nothing was released: turn the gate into a tombstone, then remove what was made."""
        self._gates.replace(gate.buried(today()))
        self._let_all_go(gate)

    def _let_all_go(self, gate: Gate) -> None:
        for pod in self._pods.of(gate):
            self._pods.let_go(pod)
        self._pods.remove_objects(gate)

    # --- What is decided here ----------------------------------------------------------------------------------------

    def _plan(self, workload: Workload, gate: Gate) -> manifests.Plan:
        return manifests.Plan(
            workload=workload,
            gate=gate,
            image=image_of(workload, self._config),
            volumes=storage.volumes_of(workload, self._config),
            groups=tuple(sorted({mount.group for mount in workload.mounts if mount.group})),
            code=storage.read_code(workload, self._config),
            code_path=_code_path(workload, gate),
        )

    def _new_gate(self, workload: Workload, namespace: str) -> Gate:
        ask = choices.scheduler(self._config)
        domain = f"{names.service_name(workload.attempt_id)}.{namespace}.svc.{self._config.cluster_domain}"
        hosts = [f"{names.host_name(task.name, place)}.{domain}" for place, task in enumerate(workload.tasks)]
        return new_gate(
            workload,
            namespace=namespace,
            ports=self._choose_ports(workload),
            quota=workload.log_quota_bytes or self._config.log_quota_bytes,
            framed=not self._config.is_direct(image_of(workload, self._config)),
            objects=self._kinds(workload),
            hosts=tuple(hosts) if not self._config.pod_addresses and _has_names(workload) else (),
            parent="" if self._config.object_kind == PODS else self._config.object_kind,
            scheduler=ask.scheduler,
            queue=ask.queue,
            code=storage.carried_code(workload, self._config),
        )

    def _kinds(self, workload: Workload) -> tuple[str, ...]:
        """What there may be beside pods, before any of it is made."""
        together = len(workload.tasks) > 1
        wanted = {
            "configmaps": together or bool(workload.files) or workload.code is not None,
            "secrets": workload.image.pull is not None or any(task.secret_env for task in workload.tasks),
            "services": not self._config.pod_addresses and _has_names(workload),
            "networkpolicies": together,
            self._config.object_kind: self._config.object_kind != PODS,
            gang.POD_GROUP.plural: self._config.object_kind == PODS and self._config.gang_scheduler == gang.VOLCANO,
        }
        return tuple(kind for kind, is_wanted in wanted.items() if is_wanted)

    def _choose_ports(self, workload: Workload) -> Mapping[TaskName, Mapping[str, int]]:
        """Pods have addresses of their own, so any port would do. Different ones are given as far as this process knows, so
        that a number means one task, as on every engine."""
        wanted = [(task.name, port) for task in workload.tasks for port in task.ports]
        if not wanted:
            return {}
        free = self._free_ports(workload)
        found: dict[TaskName, dict[str, int]] = {}
        for task, port in wanted:
            found.setdefault(task, {})[port] = next(free)
        return found

    def _free_ports(self, workload: Workload) -> Iterator[int]:
        taken = set()
        for document in self._known.objects().values():
            try:
                gate = read_gate(document, cluster_id=self._config.cluster_id)
            except GateUnreadable:
                continue
            taken |= {port for task in gate.tasks for port in task.ports.values()}
        low, high = self._config.ports
        first = workload.attempt_id.int % (high - low)
        order = [low + (first + step) % (high - low) for step in range(high - low)]
        yield from (port for port in order if port not in taken)
        yield from order  # More ports are in use than there are: a number means several tasks then.


def _code_path(workload: Workload, gate: Gate) -> str:
    if workload.code is None:
        return ""
    return f"{wrapper.CARRIED if gate.code else wrapper.CODE}/code"


def _has_names(workload: Workload) -> bool:
    """Whether a task can be asked for by name: then the attempt has a Service."""
    return len(workload.tasks) > 1 or any(task.ports for task in workload.tasks)


def image_of(workload: Workload, config: KubernetesConfig) -> str:
    """The reference that the kubelet is given."""
    return workload.image.location if workload.image.kind is ImageKind.REGISTRY else config.default_image


def refuse(workload: Workload, config: KubernetesConfig) -> tuple[str, str] | None:
    """Why this engine can never run the workload, or None if it can."""
    kind = workload.image.kind
    if kind is ImageKind.PYTHON:
        return (
            "workload_invalid",
            "This cluster runs container images; a Python environment is a directory of the platform's host.",
        )
    if not image_of(workload, config):
        return (
            "workload_invalid",
            "The job names no container image, and the cluster has no default image for the host's programs.",
        )
    if not names.is_dns_label(names.tenant_namespace(config.namespace_prefix, workload.isolation_key)):
        return "workload_invalid", f"No namespace can be named for the tenant {workload.isolation_key!r}."
    direct = config.is_direct(image_of(workload, config))
    if direct and (workload.code is not None or workload.checkpoint is not None or (config.pod_addresses and workload.files)):
        return "workload_invalid", "Code, checkpoint directories and files with addresses need /bin/sh in the image."
    for task in workload.tasks:
        if not task.argv:
            return "workload_invalid", f"Task {task.name} has no command."
        for name in (*task.env, *task.secret_env):
            if not _NAME.fullmatch(name):
                return "workload_invalid", f"{name!r} cannot be the name of a variable: letters, digits and _ only."
        values = [part for text in (*task.argv, *task.env.values()) for part in text if isinstance(part, str)]
        if any("\0" in value for value in (*values, *task.secret_env.values())):
            return "workload_invalid", f"Task {task.name} has a NUL byte in its command or environment."
        millis = task.resources.gpu_millis
        if millis % _WHOLE and str(millis) not in config.gpu_shares:
            return (
                "gpu_share_invalid",
                f"Task {task.name} asks for {millis / 1000:g} GPU; the cluster has no resource for that share.",
            )
        if task.rdma and not config.rdma_resource:
            return "workload_invalid", f"Task {task.name} asks for RDMA; the cluster's configuration names no resource for it."
        if task.cpu_exclusive and not config.exclusive_cores:
            return "workload_invalid", f"Task {task.name} asks for cores of its own; the cluster's nodes give none."
    for name in workload.files:
        if not _FILE_NAME.fullmatch(name):
            return "workload_invalid", f"{name!r} is not a plain file name."
    size = sum(len(part) for text in workload.files.values() for part in text if isinstance(part, str))
    if size > _OBJECT_BYTES_MAX:
        return "workload_invalid", f"The generated files have {size} bytes; an object of the cluster holds {_OBJECT_BYTES_MAX}."
    if workload.workdir.startswith("/") or ".." in workload.workdir.split("/"):
        return "workload_invalid", f"The working directory {workload.workdir!r} is not below the code."
    kept = workload.checkpoint
    if (
        kept is not None
        and kept.location
        and (kept.target.startswith("/") or ".." in kept.target.split("/") or kept.target in ("", "."))
    ):
        return "workload_invalid", f"The checkpoint's path {kept.target!r} is not below the working directory."
    return storage.refuse_storage(workload, config)


def _objects(plan: manifests.Plan, config: KubernetesConfig) -> Iterator[Json]:
    if manifests.needs_files(plan):
        yield manifests.files(plan, config)
    for hidden in (manifests.secrets(plan, config), manifests.account(plan, config)):
        if hidden is not None:
            yield hidden
    if plan.gate.hosts:
        yield manifests.service(plan, config)
    if plan.gate.together:
        yield manifests.routes(plan, config)
