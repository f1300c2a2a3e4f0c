"""A workload as documents of the API, field by field. Pure: the same input gives the same documents.

The kubelet expands `$(NAME)` in a container's arguments and environment and makes `$` of `$$`. It is told nothing by a user's
text: every `$` of it is doubled. Addresses of a gang without DNS are the one thing that is expanded: they are values of the
start object.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusters.engines.interface import AddressOf, CheckpointDir, FileOf, PortOf, TaskName, TaskWorkload, Text, Workload
from clusters.engines.kubernetes import names, wrapper
from clusters.engines.kubernetes.api import Json
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.record import Gate
from clusters.engines.users import user_name

_WHOLE = 1000
_TASK_MARKER = "BERTH_TASK_KEY"
_ACCOUNT_KEYS = {"docker.io": "https://index.docker.io/v1/"}  # Kubernetes and Docker name this one by an old address.
_STATUS_FIELD = {"fieldRef": {"fieldPath": "status.podIP"}}


@dataclass(frozen=True, slots=True)
class Volume:
    """Something mounted beyond the task's own directories: a claim, or a part of one."""

    name: str
    claim: str
    target: str
    sub_path: str = ""
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A workload with what the engine decided for it."""

    workload: Workload
    gate: Gate
    image: str
    volumes: tuple[Volume, ...] = ()
    groups: tuple[int, ...] = ()
    code: bytes | None = None  # A small archive, carried in the files object.
    code_path: str = ""  # Where the task sees the archive.


def needs_files(plan: Plan) -> bool:
    """Whether the attempt has generated files, or code, in an object."""
    return has_known_files(plan) or plan.code is not None


def has_known_files(plan: Plan) -> bool:
    return len(late_files(plan)) < len(plan.workload.files)


def late_files(plan: Plan) -> frozenset[str]:
    """Files with addresses that are known only once the pods run: the wrapper writes these from its environment."""
    if plan.gate.hosts:
        return frozenset()
    return frozenset(name for name, text in plan.workload.files.items() if any(isinstance(part, AddressOf) for part in text))


def files(plan: Plan, config: KubernetesConfig) -> Json:
    """The generated files that are known now, and a small code archive."""
    document = _object(plan, config, "v1", "ConfigMap", names.FILES)
    places = _Places(plan)
    known = ((name, text) for name, text in plan.workload.files.items() if name not in places.late)
    document["data"] = {name: places.plain(text) for name, text in known}
    if plan.code is not None:
        document["binaryData"] = {"code": base64.b64encode(plan.code).decode()}
    return {**document, "immutable": True}


def secrets(plan: Plan, config: KubernetesConfig) -> Json | None:
    """All tasks' secret variables, by the task's place and their name."""
    data = {
        f"{place}.{name}": base64.b64encode(value.encode()).decode()
        for place, task in enumerate(plan.workload.tasks)
        for name, value in task.secret_env.items()
    }
    if not data:
        return None
    return {**_object(plan, config, "v1", "Secret", names.SECRETS), "type": "Opaque", "immutable": True, "data": data}


def account(plan: Plan, config: KubernetesConfig) -> Json | None:
    """The tenant's account at the registry of its image, as the kubelet reads it. It goes with the attempt, so that none is left
    in the cluster once it was removed from Berth."""
    found = plan.workload.image.pull
    if found is None:
        return None
    word = base64.b64encode(f"{found.username}:{found.password}".encode()).decode()
    entry = {"username": found.username, "password": found.password, "auth": word}
    content = json.dumps({"auths": {_ACCOUNT_KEYS.get(found.host, found.host): entry}}, sort_keys=True)
    return {
        **_object(plan, config, "v1", "Secret", names.ACCOUNT),
        "type": "kubernetes.io/dockerconfigjson",
        "immutable": True,
        "data": {".dockerconfigjson": base64.b64encode(content.encode()).decode()},
    }


def start(gate: Gate, addresses: Sequence[str], config: KubernetesConfig) -> Json:
    """What the containers of a gang wait for: made once every task has an address."""
    document = _bare("v1", "ConfigMap", names.object_name(gate.attempt_id, names.START), gate.namespace)
    document["metadata"]["labels"] = labels(gate, config, names.START)
    document["data"] = {"go": "1", **{f"address-{place}": address for place, address in enumerate(addresses)}}
    return {**document, "immutable": True}


def service(plan: Plan, config: KubernetesConfig) -> Json:
    """Names for the tasks, from the moment that they have addresses."""
    attempt = plan.workload.attempt_id
    document = _object(plan, config, "v1", "Service", names.NAMES)
    document["metadata"]["name"] = names.service_name(attempt)
    selected = {names.ATTEMPT: str(attempt), names.KIND: names.TASK}
    return {**document, "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selected}}


def routes(plan: Plan, config: KubernetesConfig) -> Json:
    """Traffic among the tasks of the attempt; the tenant's namespace refuses all other."""
    peers = [{"podSelector": {"matchLabels": {names.ATTEMPT: str(plan.workload.attempt_id)}}}]
    document = _object(plan, config, "networking.k8s.io/v1", "NetworkPolicy", names.ROUTES)
    return {
        **document,
        "spec": {
            "podSelector": peers[0]["podSelector"],
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": peers}],
            "egress": [{"to": peers}],
        },
    }


def pod(plan: Plan, place: int, config: KubernetesConfig) -> Json:
    """The pod of one task."""
    workload, task = plan.workload, plan.workload.tasks[place]
    document = _bare("v1", "Pod", names.pod_name(workload.attempt_id, place), plan.gate.namespace)
    labels_of = labels(plan.gate, config, names.TASK)
    labels_of[names.NETWORK] = "open" if workload.network else "none"
    document["metadata"] |= {
        "labels": labels_of,
        "annotations": {names.ROLE: task.name.role, names.INDEX: str(task.name.index)},
        "finalizers": [names.FINALIZER],
    }
    uid, group = config.uid_base + workload.isolation_number, config.gid_base
    spec: Json = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "serviceAccountName": "berth-task",
        "hostname": names.host_name(task.name, place),
        "schedulingGates": [{"name": names.SCHEDULING_GATE}],
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": uid,
            "runAsGroup": uid,
            "fsGroup": uid,
            "fsGroupChangePolicy": "OnRootMismatch",
            "supplementalGroups": [group + number for number in plan.groups],
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": _tolerations(config),
        "containers": [_container(plan, place, config), *_keeper(plan, task, config)],
        "volumes": _volumes(plan, task),
    }
    if plan.gate.code:
        spec["initContainers"] = [_beside(plan, names.CARRIER, wrapper.AWAIT_CODE_SCRIPT, task)]
    if plan.gate.hosts:
        spec["subdomain"] = names.service_name(workload.attempt_id)
    if config.node_selector:
        spec["nodeSelector"] = dict(config.node_selector)
    if task.node:
        field = {"key": "metadata.name", "operator": "In", "values": [task.node]}
        required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    if config.priority_class:
        spec["priorityClassName"] = config.priority_class
    own = [names.object_name(workload.attempt_id, names.ACCOUNT)] if workload.image.pull is not None else []
    if config.image_pull_secrets or own:
        spec["imagePullSecrets"] = [{"name": name} for name in (*config.image_pull_secrets, *own)]
    if workload.image.unchecked:  # A node may have it for another tenant: the registry is asked with this one's account.
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            container["imagePullPolicy"] = "Always"
    return {**document, "spec": spec}


def labels(gate: Gate, config: KubernetesConfig, kind: str) -> dict[str, str]:
    """Whose an object is. It is adopted only by these."""
    found = {
        names.MANAGED_BY: names.BERTH,
        names.CLUSTER: config.cluster_id,
        names.KIND: kind,
        names.ATTEMPT: str(gate.attempt_id),
        names.JOB: str(gate.job_id),
        names.NUMBER: str(gate.number),
    }
    if names.is_label_value(gate.isolation_key):
        found[names.TENANT] = gate.isolation_key
    return found


def limits(task: TaskWorkload, config: KubernetesConfig) -> dict[str, str]:
    """What the task may use. Requests are the same, so that nothing is promised twice, but for processors where the operator
    wants them shared."""
    amounts = task.resources
    millis = -(-amounts.cpu_millis // _WHOLE) * _WHOLE if task.cpu_exclusive else amounts.cpu_millis
    found = {"cpu": f"{max(1, millis)}m", "memory": str(amounts.memory_bytes)}
    if not amounts.memory_bytes:
        del found["memory"]
    if amounts.gpu_millis and amounts.gpu_millis % _WHOLE == 0:
        found[config.gpu_resource] = str(amounts.gpu_millis // _WHOLE)
    elif amounts.gpu_millis:
        found[config.gpu_shares[str(amounts.gpu_millis)]] = "1"
    if task.rdma:
        found[config.rdma_resource] = "1"
    return found


def _container(plan: Plan, place: int, config: KubernetesConfig) -> Json:
    task, places = plan.workload.tasks[place], _Places(plan)
    argv = [places.text(part) for part in task.argv]
    amounts = limits(task, config)
    requests = dict(amounts)
    if not task.cpu_exclusive and config.cpu_request_percent < 100:
        requests["cpu"] = f"{max(1, task.resources.cpu_millis * config.cpu_request_percent // 100)}m"
    container: Json = {
        "name": names.CONTAINER,
        "image": plan.image,
        "env": _environment(plan, place, config, places),
        "resources": {"requests": requests, "limits": amounts},
        "securityContext": _closed(),
        "volumeMounts": _mounts(plan, task),
        "terminationMessagePolicy": "File",
    }
    if plan.gate.framed:
        kept = places.plain(task.env["BERTH_CHECKPOINT_DIR"]) if _has_checkpoint(plan, task) else ""
        words = [wrapper.SCRIPT, "berth", wrapper.TASK_SCRIPT, str(plan.gate.log_quota_bytes)]
        words += [plan.code_path, plan.workload.workdir, kept, _checkpoint_link(plan.workload)]
        container["command"] = ["/bin/sh", "-c", *(literal(word) for word in words), *argv]
    else:
        container["command"] = argv
    return container


def _closed() -> Json:
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _keeper(plan: Plan, task: TaskWorkload, config: KubernetesConfig) -> list[Json]:
    """What keeps the task's files after its end."""
    patience = str(math.ceil(config.outputs_patience_seconds))
    return [_beside(plan, names.KEEPER, wrapper.KEEPER_SCRIPT, task, patience)] if plan.gate.keeps_outputs else []


def _beside(plan: Plan, name: str, script: str, task: TaskWorkload, *words: str) -> Json:
    """A container of ours before or beside the task's. It asks for nothing, so that nodes take as many tasks as without it; where
    cores are a task's own, all containers have to ask for what they may use."""
    bound, own = {"cpu": "500m", "memory": "128Mi"}, {"cpu": "10m", "memory": "64Mi"}
    resources = (
        {"requests": own, "limits": own} if task.cpu_exclusive else {"requests": dict.fromkeys(bound, "0"), "limits": bound}
    )
    return {
        "name": name,
        "image": plan.image,
        "command": ["/bin/sh", "-c", literal(script), "berth", *words],
        "resources": resources,
        "securityContext": _closed(),
        "volumeMounts": [{"name": "own", "mountPath": wrapper.ROOT}],
    }


def _environment(plan: Plan, place: int, config: KubernetesConfig, places: _Places) -> list[Json]:
    """Names that others refer to come first: the kubelet expands only what stands before."""
    workload, task = plan.workload, plan.workload.tasks[place]
    found = places.addresses(place)
    if plan.gate.together:
        found.append({"name": "BERTH_STARTED", "valueFrom": {"configMapKeyRef": {"name": _start_name(plan), "key": "go"}}})
    user = user_name(workload.isolation_key)
    values = {
        "HOME": wrapper.HOME if plan.gate.framed else wrapper.ROOT,
        "USER": user,
        "LOGNAME": user,
        "TMPDIR": wrapper.TEMPORARY if plan.gate.framed else wrapper.ROOT,
    }
    values |= {name: places.text(text) for name, text in task.env.items()}
    values |= {
        "BERTH_WORKDIR": wrapper.WORK,
        "BERTH_FILES": places.files if workload.files else "",
        _TASK_MARKER: f"{workload.attempt_id}.{task.name}",
    }
    if config.gpus_simulated and task.resources.gpu_millis:
        values["BERTH_GPUS_SIMULATED"] = "1"
    for number, name in enumerate(sorted(places.late)):
        values |= {f"BERTH_FILE_NAME_{number}": literal(name), f"BERTH_FILE_TEXT_{number}": places.text(workload.files[name])}
    found += [{"name": name, "value": value} for name, value in values.items() if name not in task.secret_env]
    secret = names.object_name(workload.attempt_id, names.SECRETS)
    for name in task.secret_env:
        found.append({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": f"{place}.{name}"}}})
    return found


def literal(text: str) -> str:
    """A text that the kubelet leaves as it is."""
    return text.replace("$", "$$")


class _Places:
    """What parts of a text stand for, as a task sees them."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._hosts = plan, plan.gate.hosts
        self._order = {task.name: place for place, task in enumerate(plan.workload.tasks)}
        self._ports = {task.name: task.ports for task in plan.gate.tasks}
        self.late = late_files(plan)
        self.files = wrapper.LATE_FILES if self.late else wrapper.FILES

    def text(self, text: Text) -> str:
        """The text for the kubelet."""
        return "".join(
            f"$(BERTH_ADDRESS_{self._place(part)})"
            if isinstance(part, AddressOf) and not self._hosts
            else literal(self._part(part))
            for part in text
        )

    def plain(self, text: Text) -> str:
        """A text without late addresses, as the task reads it."""
        return "".join(self._part(part) for part in text)

    def addresses(self, place: int) -> list[Json]:
        """The variables that late addresses are expanded from."""
        workload = self._plan.workload
        texts = [*workload.tasks[place].argv, *workload.tasks[place].env.values(), *workload.files.values()]
        wanted = sorted({self._place(part) for text in texts for part in text if isinstance(part, AddressOf)})
        if self._hosts or not wanted:
            return []
        if not self._plan.gate.together:
            return [{"name": f"BERTH_ADDRESS_{number}", "valueFrom": _STATUS_FIELD} for number in wanted]
        start_of = _start_name(self._plan)
        return [
            {"name": f"BERTH_ADDRESS_{number}", "valueFrom": {"configMapKeyRef": {"name": start_of, "key": f"address-{number}"}}}
            for number in wanted
        ]

    def _place(self, part: AddressOf) -> int:
        return self._order[TaskName(part.role, part.index)]

    def _part(self, part: object) -> str:
        if isinstance(part, AddressOf):
            return self._hosts[self._place(part)]
        if isinstance(part, PortOf):
            return str(self._ports[TaskName(part.role, part.index)][part.name])
        if isinstance(part, FileOf):
            return f"{wrapper.LATE_FILES if part.name in self.late else wrapper.FILES}/{part.name}"
        if isinstance(part, CheckpointDir):
            return checkpoint_path(self._plan.workload)
        return str(part)


def checkpoint_path(workload: Workload) -> str:
    """Where tasks see the checkpoint's directory."""
    kept = workload.checkpoint
    if kept is None:
        return ""
    return wrapper.CHECKPOINT if kept.location else kept.target


def _checkpoint_link(workload: Workload) -> str:
    """Where below the working directory the platform's directory is seen."""
    kept = workload.checkpoint
    return kept.target if kept is not None and kept.location else ""


def _has_checkpoint(plan: Plan, task: TaskWorkload) -> bool:
    return plan.workload.checkpoint is not None and "BERTH_CHECKPOINT_DIR" in task.env


def _volumes(plan: Plan, task: TaskWorkload) -> list[Json]:
    found: list[Json] = [{"name": "own", "emptyDir": {}}]
    if needs_files(plan):
        found.append({"name": "files", "configMap": {"name": names.object_name(plan.workload.attempt_id, names.FILES)}})
    if task.shm_bytes:
        found.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(task.shm_bytes)}})
    claims = dict.fromkeys((volume.name, volume.claim) for volume in plan.volumes)
    return [*found, *({"name": name, "persistentVolumeClaim": _claim(name, claim, plan)} for name, claim in claims)]


def _claim(name: str, claim: str, plan: Plan) -> Json:
    """A claim that is only read says so itself: the kubelet then leaves the owners of its files as they are (`fsGroup`)."""
    is_only_read = all(volume.read_only and not volume.sub_path for volume in plan.volumes if volume.name == name)
    return {"claimName": claim, **({"readOnly": True} if is_only_read else {})}


def _mounts(plan: Plan, task: TaskWorkload) -> list[Json]:
    found: list[Json] = [{"name": "own", "mountPath": wrapper.ROOT}]
    if has_known_files(plan):
        found.append({"name": "files", "mountPath": wrapper.FILES, "readOnly": True})
    if plan.code is not None:
        found.append({"name": "files", "mountPath": wrapper.CODE, "readOnly": True})
    if task.shm_bytes:
        found.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108 - the container's own
    for volume in plan.volumes:
        mount: Json = {"name": volume.name, "mountPath": volume.target}
        if volume.sub_path:
            mount["subPath"] = volume.sub_path
        if volume.read_only:
            mount["readOnly"] = True
        found.append(mount)
    return found


def _tolerations(config: KubernetesConfig) -> list[Mapping[str, Any]]:
    """A silent node is no end: its pods stay until it is back or removed. Then come the operator's own."""
    kept = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"} for key in ("not-ready", "unreachable")
    ]
    return [*kept, *config.tolerations]


def _start_name(plan: Plan) -> str:
    return names.object_name(plan.workload.attempt_id, names.START)


def _object(plan: Plan, config: KubernetesConfig, version: str, kind: str, suffix: str) -> Json:
    document = _bare(version, kind, names.object_name(plan.workload.attempt_id, suffix), plan.gate.namespace)
    document["metadata"]["labels"] = labels(plan.gate, config, suffix)
    return document


def _bare(version: str, kind: str, name: str, namespace: str) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}}
