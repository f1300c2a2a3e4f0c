"""What the account of Berth needs in a cluster: the rule for the installation, and the question whether it has it.

One list serves both, and the engine's tests run with exactly these rights. Rights on a tenant's objects are cluster-wide, since a
tenant's namespace is made when its first job starts; an account cannot be given rights in a namespace that is not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from clusters.engines.kubernetes import choices
from clusters.engines.kubernetes.api import Api, Json
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.gang import LOCAL_QUEUE

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@dataclass(frozen=True, slots=True)
class Permission:
    """Verbs on a kind of object, and what they are for."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    purpose: str
    namespace: str = ""  # The only one in which it is needed; "": in all of them, or the object is in none.


_ALWAYS = (
    Permission("", "nodes", ("list",), "the inventory"),
    Permission("", "namespaces", ("get", "create", "patch"), "a namespace for each tenant"),
    Permission("", "serviceaccounts", ("create", "patch"), "the tasks' account, which has no token"),
    Permission("networking.k8s.io", "networkpolicies", ("get", "create", "patch", "delete"), "keeping attempts apart"),
    Permission("", "pods", ("get", "list", "watch", "create", "patch", "delete"), "tasks, and what other people's pods use"),
    Permission("", "events", ("list",), "what tasks wait for before they begin: images, volumes"),
    Permission("", "pods/log", ("get",), "output"),
    Permission("", "pods/exec", ("get", "create"), "programs beside tasks, stops, outputs, large code"),
    Permission(
        "", "configmaps", ("get", "list", "watch", "create", "update", "deletecollection"), "gates, and files of attempts"
    ),
    Permission("", "secrets", ("get", "create", "deletecollection"), "secrets of attempts, accounts at registries"),
)
_MEASURED = (
    Permission("metrics.k8s.io", "pods", ("list",), "what tasks use"),
    Permission("metrics.k8s.io", "nodes", ("list",), "and nodes"),
)
_SUMMARY = Permission("", "nodes/proxy", ("get",), "what tasks and nodes use, from the kubelets")
_CORDONS = Permission("", "nodes", ("get", "patch"), "cordons")
_EXPORTER = Permission("", "pods/proxy", ("get",), "what GPUs do, from their exporter")
_QUOTA = Permission("", "resourcequotas", ("create", "patch"), "a bound for each tenant")
_NAMES = Permission("", "services", ("get", "create", "delete"), "names of tasks")
_OF_ATTEMPTS = {
    LOCAL_QUEUE: Permission(LOCAL_QUEUE.group, LOCAL_QUEUE.plural, ("create", "patch"), "a queue of Kueue for each tenant"),
}
_CLAIMS = Permission("", "persistentvolumeclaims", ("get", "create"), "volumes, and directories that outlive attempts")
_VOLUMES = Permission("", "persistentvolumes", ("get", "create"), "shared paths of the nodes, and NFS")
_PRIORITY = Permission("scheduling.k8s.io", "priorityclasses", ("get",), "whether the priority class is there")
_STORAGE = Permission("storage.k8s.io", "storageclasses", ("get",), "whether the storage class is there")


def needed(config: KubernetesConfig) -> Iterator[Permission]:
    """All that this configuration needs, and nothing more."""
    yield from _ALWAYS
    for item in choices.definitions(config):
        yield _OF_ATTEMPTS.get(item) or Permission(item.group, item.plural, ("get", "create", "delete"), "attempts")
    yield from (_SUMMARY,) if config.kubelet_summary else _MEASURED
    if config.cordon_nodes:
        yield _CORDONS
    if config.gpu_exporter:
        yield replace(_EXPORTER, namespace=config.exporter_place[0])
    if config.tenant_quota:
        yield _QUOTA
    if not config.pod_addresses:
        yield _NAMES
    if config.shared_paths or config.nfs_servers or config.storage_class:
        yield _CLAIMS
    if config.shared_paths or config.nfs_servers:
        yield _VOLUMES
    if config.storage_class:
        yield _STORAGE
    if config.priority_class:
        yield _PRIORITY


def cluster_role(name: str, config: KubernetesConfig) -> Json:
    """The ClusterRole to bind to the account."""
    rules = [{"apiGroups": [item.group], "resources": [item.resource], "verbs": list(item.verbs)} for item in needed(config)]
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}


def missing(api: Api, config: KubernetesConfig) -> list[str]:
    """In words, what the account lacks. Raises EngineUnreachable and ApiRefused."""
    found = []
    for item in needed(config):
        resource, _, part = item.resource.partition("/")
        lacking = []
        for verb in item.verbs:
            attributes = {
                "namespace": item.namespace,
                "group": item.group,
                "resource": resource,
                "subresource": part,
                "verb": verb,
            }
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
            answer = api.create(_REVIEWS, {**review, "spec": {"resourceAttributes": attributes}})
            if not (answer.get("status") or {}).get("allowed"):
                lacking.append(verb)
        if lacking:
            kind = f"{item.resource}.{item.group}" if item.group else item.resource
            found.append(f"{', '.join(lacking)} on {kind} ({item.purpose})")
    return found
