"""The nodes that belong to Berth, with what other people's pods leave of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from clusters import isolation_facts
from clusters.engines.interface import Abilities, ClusterCordon, GpuDevice, ImageKind, Inventory, ObservedNode
from clusters.engines.kubernetes import choices, names
from clusters.engines.kubernetes.api import Api, Json, items
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.cordons import read_cordon
from clusters.engines.kubernetes.storage import places_of
from clusters.placement import EXCLUSIVE_CORES, GPU_CUDA, GPU_DRIVER, RDMA, RDMA_PRESENT, TAINT_LABEL
from kernel.limits import MIB
from kernel.resources import ZERO, Resources

_SUFFIX = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_SUFFIX |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(m|e[0-9]+|[KMGTP]i|[kMGTP])?")
_WHOLE = 1000


def take_inventory(api: Api, config: KubernetesConfig) -> Inventory:
    """Read nodes and the pods on them that are not ours."""
    nodes = items(api.get("/api/v1/nodes", labelSelector=config.nodes))
    unfinished = "status.phase!=Succeeded,status.phase!=Failed"
    pods = items(api.get("/api/v1/pods", fieldSelector=unfinished, labelSelector=f"{names.CLUSTER}!={config.cluster_id}"))
    found = read_inventory(nodes, pods, config, datetime.now(UTC))
    lacking = choices.lacking(api, config)
    if not lacking:
        return found
    lacks = tuple(resource.definition for resource in lacking)
    return replace(found, note=" ".join(map(choices.missing, lacking)), abilities=replace(found.abilities, lacks=lacks))


def read_inventory(nodes: Sequence[Json], pods: Sequence[Json], config: KubernetesConfig, now: datetime) -> Inventory:
    """The inventory by what the API said. Pure."""
    used: dict[str, Resources] = {}
    others: Counter[str] = Counter()
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if node:
            used[node] = used.get(node, ZERO) + requests_of(pod, config)
            others[node] += 1
    kinds = {ImageKind.REGISTRY} | ({ImageKind.HOST} if config.default_image else set())
    return Inventory(
        nodes=tuple(_node(node, used, others, config) for node in nodes),
        read_at=now,
        abilities=Abilities(
            image_kinds=frozenset(kinds),
            places=places_of(config),
            node_ports=None,
            bare_images=tuple(config.direct_images),
        ),
        has_cordons=True,
        isolation=tuple(
            fact.en
            for fact in (isolation_facts.RESTRICTED_PODS, isolation_facts.TENANT_NAMESPACES, isolation_facts.NETWORK_POLICIES)
        ),
        note="" if nodes else no_nodes(config),
    )


def no_nodes(config: KubernetesConfig) -> str:
    """Why nothing can start where the list of nodes is empty."""
    if not config.node_selector:
        return "The cluster has no nodes."
    labels = ", ".join(f"{name}={value}" for name, value in sorted(config.node_selector.items()))
    return f"No node has the labels of node_selector ({labels}): label nodes, or change node_selector."


def requests_of(pod: Mapping[str, Any], config: KubernetesConfig) -> Resources:
    """What the scheduler counts for a pod: its containers together, or its dearest init container, and its overhead."""
    spec = pod.get("spec") or {}
    always = [item for item in spec.get("initContainers") or [] if item.get("restartPolicy") == "Always"]
    once = [item for item in spec.get("initContainers") or [] if item.get("restartPolicy") != "Always"]
    together = _sum(
        _amounts((item.get("resources") or {}).get("requests"), config) for item in [*(spec.get("containers") or []), *always]
    )
    before = [_amounts((item.get("resources") or {}).get("requests"), config) for item in once]
    overhead = _amounts(spec.get("overhead"), config)
    return overhead + Resources(
        **{name: max([value, *(getattr(item, name) for item in before)]) for name, value in together.as_dict().items()}
    )


def quantity_millis(text: object) -> int:
    """A quantity of the API in thousandths, rounded down; 0 for what is none."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        return 0
    number, suffix = match.groups()
    if suffix == "m":
        return int(float(number))
    factor = 10 ** int(suffix[1:3]) if suffix and suffix[0] == "e" else _SUFFIX[suffix or ""]
    return int(number) * factor * 1000 if number.isdigit() else int(float(number) * factor * 1000)


def _node(node: Json, used: Mapping[str, Resources], others: Mapping[str, int], config: KubernetesConfig) -> ObservedNode:
    metadata, spec, status = node.get("metadata") or {}, node.get("spec") or {}, node.get("status") or {}
    name, labels = str(metadata.get("name", "")), metadata.get("labels") or {}
    allocatable = _amounts(status.get("allocatable"), config)
    left = allocatable - used.get(name, ZERO)
    pods = (status.get("allocatable") or {}).get("pods")
    cordon = read_cordon(node, config.cluster_id)
    ready, reason = _readiness(status, cordon)
    model = str(labels.get(config.gpu_model_label, ""))
    return ObservedNode(
        name=name,
        capacity=Resources(*(max(0, value) for value in left.as_dict().values())),
        gpus=_gpus(name, allocatable, model, labels, config),
        gpu_model=model,
        ready=ready,
        reason=reason,
        offers=allocatable,
        tasks_max=None if pods is None else max(0, quantity_millis(pods) // _WHOLE - others.get(name, 0)),
        cordon=cordon,
        labels=_labels(labels, spec, status, config),
    )


def _readiness(status: Mapping[str, Any], cordon: ClusterCordon | None) -> tuple[bool, str]:
    found: Sequence[Mapping[str, Any]] = status.get("conditions") or []
    condition: Mapping[str, Any] = next((item for item in found if item.get("type") == "Ready"), {})
    if condition.get("status") != "True":
        return False, f"{condition.get('reason', 'NotReady')}: {condition.get('message', '')}".strip(": ")[:300]
    if cordon is not None and cordon.holds and not cordon.is_ours:  # Berth knows of its own.
        return False, "Cordoned in the cluster."
    return True, ""


def _gpus(
    node: str, amounts: Resources, model: str, labels: Mapping[str, str], config: KubernetesConfig
) -> tuple[GpuDevice, ...]:
    """The device plugin tells how many there are, and labels of which kind; which of them a pod has it does not tell."""
    memory = labels.get(config.gpu_memory_label, "")
    size = int(memory) * MIB if memory.isdigit() else 0
    count = amounts.gpu_millis // _WHOLE
    return tuple(
        GpuDevice(names.gpu_identifier(node, number), model, size, simulated=config.gpus_simulated) for number in range(count)
    )


def _labels(
    labels: Mapping[str, str], spec: Mapping[str, Any], status: Mapping[str, Any], config: KubernetesConfig
) -> dict[str, str]:
    info = status.get("nodeInfo") or {}
    found = {str(name): str(value) for name, value in labels.items()}
    found |= {
        "kernel": str(info.get("kernelVersion", "")),
        "os": str(info.get("osImage", "")),
        "architecture": str(info.get("architecture", "")),
        "kubelet": str(info.get("kubeletVersion", "")),
        "gpus_simulated": "yes" if config.gpus_simulated else "no",
    }
    found |= {name: version for name, version in ((GPU_DRIVER, _driver(labels)), (GPU_CUDA, _cuda(labels))) if version}
    amounts = status.get("allocatable") or {}
    if config.rdma_resource:
        found[RDMA] = RDMA_PRESENT if quantity_millis(amounts.get(config.rdma_resource, "0")) else "no"
    if config.exclusive_cores:
        found[EXCLUSIVE_CORES] = str(quantity_millis(amounts.get("cpu", "0")) // _WHOLE)
    for taint in spec.get("taints") or []:
        if not _tolerated(taint, config.tolerations) and not str(taint.get("key", "")).startswith("node.kubernetes.io/"):
            found[f"{TAINT_LABEL}{taint.get('key')}"] = str(taint.get("effect", ""))
    return found


def _driver(labels: Mapping[str, str]) -> str:
    """As NVIDIA's GPU feature discovery labels it: whole since release 0.16 of the device plugin, in parts before."""
    return _version(labels, "nvidia.com/cuda.driver-version.full", "nvidia.com/cuda.driver", ("major", "minor", "rev"))


def _cuda(labels: Mapping[str, str]) -> str:
    """The newest CUDA that the driver supports, which the labels call the runtime."""
    return _version(labels, "nvidia.com/cuda.runtime-version.full", "nvidia.com/cuda.runtime", ("major", "minor"))


def _version(labels: Mapping[str, str], whole: str, start: str, parts: Sequence[str]) -> str:
    found = [str(labels.get(f"{start}.{part}", "")) for part in parts]
    return str(labels.get(whole, "")) or ".".join(found[: found.index("")] if "" in found else found)


def _tolerated(taint: Mapping[str, Any], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    for toleration in tolerations:
        key, effect = toleration.get("key"), toleration.get("effect")
        if (not key or key == taint.get("key")) and (not effect or effect == taint.get("effect")):
            exists = toleration.get("operator") == "Exists"
            if exists or toleration.get("value", "") == taint.get("value", ""):
                return True
    return False


def _amounts(document: Mapping[str, Any] | None, config: KubernetesConfig) -> Resources:
    found = document or {}
    shares = sum(int(share) * (quantity_millis(found.get(name, "0")) // _WHOLE) for share, name in config.gpu_shares.items())
    return Resources(
        cpu_millis=quantity_millis(found.get("cpu", "0")),
        memory_bytes=quantity_millis(found.get("memory", "0")) // _WHOLE,
        gpu_millis=quantity_millis(found.get(config.gpu_resource, "0")) + shares,
    )


def _sum(amounts: Iterable[Resources]) -> Resources:
    total = ZERO
    for item in amounts:
        total = total + item
    return total
