"""The namespaces: one for the gates, one for each tenant, made when first needed and repaired when they were changed.

A tenant's namespace enforces restricted Pod Security and refuses all traffic but what is allowed here; its tasks run as a
service account without a token. Everything is written by server-side apply: additions of others stay, changes of others to
our fields are undone. A namespace that is there and was not made for this cluster is never taken over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from clusters.engines.kubernetes import names
from clusters.engines.kubernetes.api import Api, ApiRefused, Conflict, Json, NotFound
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.gang import KUEUE, LOCAL_QUEUE

REPAIR_SECONDS = 300.0
ACCOUNT = "berth-task"
_LEVEL = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}


class NamespaceForeign(Exception):
    """The namespace was not made for this cluster."""


class NamespaceNotReady(Exception):
    """It is being deleted, or is too new."""


class Tenancy:
    """What was seen to and when. Threads share it."""

    def __init__(self, api: Api, config: KubernetesConfig) -> None:
        self._api, self._config = api, config
        self._seen_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def control(self) -> str:
        """See to the namespace of gates and give its name."""
        name = names.control_namespace(self._config.namespace_prefix)
        self._see_to(name, lambda: [namespace(name, "", self._config)])
        return name

    def tenant(self, isolation_key: str) -> str:
        """See to a tenant's namespace and give its name. Raises NamespaceForeign and NamespaceNotReady."""
        name = names.tenant_namespace(self._config.namespace_prefix, isolation_key)
        self._see_to(name, lambda: tenant_documents(name, isolation_key, self._config))
        return name

    def forget(self, name: str) -> None:
        """See to it again next time: something of it was missing."""
        with self._lock:
            self._seen_at.pop(name, None)

    def _see_to(self, name: str, documents: Callable[[], Sequence[Json]]) -> None:
        with self._lock:
            seen_at = self._seen_at.get(name)
        if seen_at is not None and time.monotonic() - seen_at < REPAIR_SECONDS:
            return
        self._check(name)
        for document in documents():
            try:
                self._api.apply(path_of(document), document)
            except (NotFound, Conflict) as error:
                raise NamespaceNotReady(f"Namespace {name}: {error.message}") from error
            except ApiRefused as error:
                if error.status == 403 and "being terminated" in error.message:
                    raise NamespaceNotReady(f"Namespace {name} is being deleted.") from error
                raise
        with self._lock:
            self._seen_at[name] = time.monotonic()

    def _check(self, name: str) -> None:
        try:
            found = self._api.get(f"/api/v1/namespaces/{name}")
        except NotFound:
            return
        metadata = found.get("metadata") or {}
        owner = (metadata.get("labels") or {}).get(names.CLUSTER)
        if owner != self._config.cluster_id:
            raise NamespaceForeign(f"Namespace {name} is there and was not made by this cluster's engine: delete or rename it.")
        if metadata.get("deletionTimestamp"):
            raise NamespaceNotReady(f"Namespace {name} is being deleted.")


def namespace(name: str, isolation_key: str, config: KubernetesConfig) -> Json:
    """A namespace with restricted Pod Security."""
    labels = {names.MANAGED_BY: names.BERTH, names.CLUSTER: config.cluster_id, **_LEVEL}
    if names.is_label_value(isolation_key) and isolation_key:
        labels[names.TENANT] = isolation_key
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def tenant_documents(name: str, isolation_key: str, config: KubernetesConfig) -> list[Json]:
    """All that a tenant's namespace has from us."""
    account = _owned("v1", "ServiceAccount", ACCOUNT, name, config)
    queue = {
        **_owned(LOCAL_QUEUE.api_version, LOCAL_QUEUE.kind, names.local_queue(config.scheduler_queue), name, config),
        "spec": {"clusterQueue": config.scheduler_queue},
    }
    quota = {**_owned("v1", "ResourceQuota", "berth-quota", name, config), "spec": {"hard": dict(config.tenant_quota)}}
    return [
        namespace(name, isolation_key, config),
        {**account, "automountServiceAccountToken": False},
        *([quota] if config.tenant_quota else []),
        *([queue] if config.gang_scheduler == KUEUE else []),
        *network_policies(name, config),
    ]


def network_policies(name: str, config: KubernetesConfig) -> list[Json]:
    """Nothing comes in and nothing goes out, but questions to the cluster's DNS and, where the job may, connections to the
    allowed addresses. Traffic among the tasks of an attempt is allowed by the attempt's own policy."""
    dns: Json = {
        "podSelector": {},
        "policyTypes": ["Egress"],
        "egress": [
            {
                "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}],
                "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
            }
        ],
    }
    blocks = [_block(network, config) for network in config.egress]
    outside: Json = {
        "podSelector": {"matchLabels": {names.NETWORK: "open"}},
        "policyTypes": ["Egress"],
        "egress": [{"to": blocks}] if blocks else [],
    }
    specs: Mapping[str, Json] = {
        "berth-deny": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
        "berth-dns": dns,
        "berth-outside": outside,
    }
    return [
        {**_owned("networking.k8s.io/v1", "NetworkPolicy", policy, name, config), "spec": spec} for policy, spec in specs.items()
    ]


def path_of(document: Json) -> str:
    """Where the API has an object of this kind and name."""
    version, metadata = document["apiVersion"], document["metadata"]
    root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    place = f"/namespaces/{metadata['namespace']}" if metadata.get("namespace") else ""
    return f"{root}{place}/{_PLURALS[document['kind']]}/{metadata['name']}"


def collection_of(document: Json) -> str:
    """Where the API makes an object of this kind."""
    return path_of(document).rpartition("/")[0]


_PLURALS = {
    "Namespace": "namespaces",
    "ServiceAccount": "serviceaccounts",
    "ResourceQuota": "resourcequotas",
    "NetworkPolicy": "networkpolicies",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "Service": "services",
    "Pod": "pods",
    "PersistentVolume": "persistentvolumes",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    LOCAL_QUEUE.kind: LOCAL_QUEUE.plural,
}


def _block(network: str, config: KubernetesConfig) -> Json:
    """A network without those parts that are excepted; of the other family none can be."""
    excepted = [part for part in config.egress_except if (":" in part) == (":" in network)]
    return {"ipBlock": {"cidr": network, **({"except": excepted} if excepted else {})}}


def _owned(version: str, kind: str, name: str, place: str, config: KubernetesConfig) -> Json:
    labels = {names.MANAGED_BY: names.BERTH, names.CLUSTER: config.cluster_id}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": place, "labels": labels}}
