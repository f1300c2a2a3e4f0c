"""Names and labels of everything that Berth writes into a cluster. All of them follow from ids, so a repeated call finds its
work."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping
from typing import Any

from clusters.engines.interface import TaskName

MANAGED_BY, BERTH = "app.kubernetes.io/managed-by", "berth"
CLUSTER = "berth.dev/cluster"  # The id of the Cluster row: several installations can share one Kubernetes.
KIND = "berth.dev/kind"
ATTEMPT = "berth.dev/attempt"
JOB = "berth.dev/job"
NUMBER = "berth.dev/number"
TENANT = "berth.dev/tenant"
ROLE, INDEX = "berth.dev/role", "berth.dev/index"  # Annotations: a role's name may have letters that a label refuses.
NETWORK = "berth.dev/network"  # "open": the task may reach beyond its attempt.
FORGOTTEN_ON = "berth.dev/forgotten-on"  # The day on which an attempt was forgotten; with it, a gate is a tombstone.
STARTED = "berth.dev/started-at"  # An annotation: its change makes the kubelet look at once whether the start object is there.

CORDONED_BY, CORDON_REASON = "berth.dev/cordoned-by", "berth.dev/cordon-reason"  # Annotations of nodes: the Cluster row's id.

FINALIZER = "berth.dev/observed"
SCHEDULING_GATE = "berth.dev/released"
CONTAINER, KEEPER, CARRIER = "task", "outputs", "code"

GATE, TASK, FILES, START, SECRETS = "gate", "task", "files", "start", "secrets"
ACCOUNT, ROUTES, NAMES = "account", "routes", "names"
PARENT, GROUP = "parent", "group"

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
HOST_LENGTH = 40
LABEL_LENGTH, SUBDOMAIN_LENGTH = 63, 253


def local_queue(cluster_queue: str) -> str:
    """The LocalQueue in a tenant's namespace that points to this ClusterQueue, which Kueue never lets it change."""
    name = f"berth-{cluster_queue}"
    return name if len(name) <= LABEL_LENGTH else f"berth-{hashlib.sha256(cluster_queue.encode()).hexdigest()[:16]}"


def is_subdomain(text: str) -> bool:
    """Whether the text can be the name of most objects."""
    return len(text) <= SUBDOMAIN_LENGTH and all(is_dns_label(part) for part in text.split("."))


def is_dns_label(text: str) -> bool:
    """Whether the text can be the name of a namespace or a host."""
    return _LABEL.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    """Whether the text can be the value of a label."""
    return _LABEL_VALUE.fullmatch(text) is not None


def is_qualified(text: str) -> bool:
    """Whether the text can be the name of a label or of a resource: `cpu`, `nvidia.com/gpu`."""
    domain, slash, name = text.rpartition("/")
    return _QUALIFIED.fullmatch(name) is not None and (not slash or is_subdomain(domain))


def control_namespace(prefix: str) -> str:
    """The namespace of gates. A gate is found by the attempt's id alone: a stop does not say whose attempt it is."""
    return f"{prefix}-control"


def tenant_namespace(prefix: str, isolation_key: str) -> str:
    """The namespace of one tenant's tasks."""
    return f"{prefix}-t-{isolation_key}"


def gate_name(attempt_id: uuid.UUID) -> str:
    """The gate of an attempt."""
    return f"attempt-{attempt_id}"


def pod_name(attempt_id: uuid.UUID, ordinal: int) -> str:
    """The pod of the attempt's task at this place."""
    return f"b-{attempt_id}-{ordinal}"


def is_pod_name(name: str, attempt_id: uuid.UUID) -> bool:
    """Whether it is one that `pod_name` gives: a pod of the attempt with another was made by a controller."""
    start, _, place = name.rpartition("-")
    return start == f"b-{attempt_id}" and place.isdecimal()


def object_name(attempt_id: uuid.UUID, kind: str) -> str:
    """The one object of this kind that an attempt has in its tenant's namespace."""
    return f"b-{attempt_id}-{kind}"


def service_name(attempt_id: uuid.UUID) -> str:
    """The headless Service of an attempt; a Service's name begins with a letter."""
    return f"b-{attempt_id}"


def gpu_identifier(node: str, number: int) -> str:
    """What a device of a node is called: the device plugin tells how many there are, and no names."""
    return f"{node}/{number}"


def task_subject(pod: Mapping[str, Any]) -> str:
    """The subject of what is measured of a task's pod."""
    labels, notes = pod["metadata"]["labels"], pod["metadata"].get("annotations") or {}
    return f"task:{labels[ATTEMPT]}:{notes.get(ROLE, '')}:{notes.get(INDEX, '0')}"


def host_name(task: TaskName, ordinal: int) -> str:
    """The host name of a task: role and index where these make one, else its place."""
    name = f"{task.role}-{task.index}".lower().replace("_", "-")
    return name if is_dns_label(name) and len(name) <= HOST_LENGTH else f"task-{ordinal}"


def selector(cluster_id: str, kind: str = "", *more: str) -> str:
    """A label selector for the objects of one cluster's engine."""
    words = [f"{CLUSTER}={cluster_id}", *([f"{KIND}={kind}"] if kind else []), *more]
    return ",".join(words)
